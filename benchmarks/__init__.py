"""What the performance figures of the README come from, and what to profile."""
