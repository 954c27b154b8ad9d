"""The observability of a running role: metrics, logs, and the HTTP endpoints for health and metrics."""

import sys


def _import_structlog() -> None:
    """Imports structlog without rich, with which it would draw tracebacks. ``logs`` prints them plainly, and rich takes
    a seventh of the time until the first request of a program."""
    if not {"structlog", "rich"}.isdisjoint(sys.modules):
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # an import of it fails
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]


_import_structlog()
