"""Structured logs on stderr: one JSON object per line for machines, key=value for people.

Every module logs through ``structlog.get_logger``; what libraries log through the standard library comes out alike.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Final

import structlog
from structlog.tracebacks import ExceptionDictTransformer

SECRET: Final = ("authorization", "password", "secret", "token", "client_key")
LEVELS: Final = (logging.WARNING, logging.INFO, logging.INFO, logging.INFO)
"""Level by verbosity; above the last one, everything."""


def level_of(verbosity: int) -> int:
    """0: warnings and errors; 1 to 3: what happens; 4 and above: everything."""
    return LEVELS[max(0, verbosity)] if verbosity < len(LEVELS) else logging.DEBUG


def configure(verbosity: int = 2, log_format: str = "auto") -> None:
    """Set logging up for the process. ``log_format``: json, console, or auto (console on a terminal)."""
    as_json = log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())
    level = level_of(verbosity)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        without_secrets,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.add_logger_name,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    last: list[structlog.typing.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    # Not structlog's own choice, which shows the variables of every frame: keys and tokens are among them.
    if as_json:
        tracebacks = structlog.processors.ExceptionRenderer(ExceptionDictTransformer(show_locals=False))
        last += [tracebacks, structlog.processors.JSONRenderer()]
    else:
        plain = structlog.dev.plain_traceback
        last += [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for chatty in ("asyncio", "aiohttp", "urllib3", "kubernetes"):
        logging.getLogger(chatty).setLevel(max(level, logging.WARNING))


def without_secrets(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Blank out values whose key says that they are secret."""
    for key in event:
        if any(word in key.lower() for word in SECRET):
            event[key] = "***"
    return event
