"""Decisions out: bindings, evictions, statuses and Events, in order of importance."""
