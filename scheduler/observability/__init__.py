"""The observability of a running role: metrics, logs, and the HTTP endpoints for health and metrics."""
