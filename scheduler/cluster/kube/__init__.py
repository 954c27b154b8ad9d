"""A real API server: informers that feed the cache, a writer that carries decisions out, and the daemon around them."""
