"""Admission over HTTPS: reviews in, answers out, and the certificates that make API servers trust them."""
