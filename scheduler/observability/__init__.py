"""What an operator sees of a running role: metrics, logs, and the HTTP endpoints for both health and metrics."""
