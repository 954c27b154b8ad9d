"""Recording and replay: the inputs of the cache and the decisions of each session, recorded so that they can be
replayed."""
