"""Recording and replay: what the cache was told and what was decided, written down so that it can be decided again."""
