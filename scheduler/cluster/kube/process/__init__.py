"""What every role is: a process with a stop signal, health, metrics, and leader election where it writes."""
