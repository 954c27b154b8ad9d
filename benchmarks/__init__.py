"""Where the performance figures of the README come from."""
