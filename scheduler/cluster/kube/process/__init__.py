"""What every role shares: stop signal, health, metrics, and leader election where it writes."""
