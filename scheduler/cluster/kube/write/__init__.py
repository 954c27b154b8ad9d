"""Writes decisions to the API server: bindings, evictions, statuses and Events, in order of importance."""
