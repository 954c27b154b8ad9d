"""Requests to the API server: credentials, rate limit, fence, pauses between attempts, and the paths of objects."""
