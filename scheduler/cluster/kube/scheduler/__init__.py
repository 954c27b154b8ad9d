"""The scheduler role: runs cycles over the watched objects and writes their decisions."""
