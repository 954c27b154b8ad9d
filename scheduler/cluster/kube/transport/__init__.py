"""Requests to the API server: credentials, rate limit, fence, pauses between attempts, and the paths of objects."""

import scheduler.observability  # noqa: F401  it imports structlog, which the modules of this package use
