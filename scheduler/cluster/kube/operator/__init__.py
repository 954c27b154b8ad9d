"""The operator role: runs the controllers on a real cluster."""
