"""Makes room by evictions: which tasks are candidates, which are evicted, and for what."""
