"""Serving over TLS: certificates that the replicas of a role share, renewed while they are in use."""
