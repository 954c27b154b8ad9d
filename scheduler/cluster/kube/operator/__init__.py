"""The controllers on a real cluster: watches in, effects out."""
