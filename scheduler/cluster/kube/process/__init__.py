"""Code that all roles share: stop signal, health, metrics, and leader election for roles that write."""
