"""Structured logs on stderr: one JSON object per line for machines, key=value for people.

Every module logs through ``structlog.get_logger``; what libraries log through the standard library comes out alike.
"""

import json
import logging
import sys
from collections.abc import MutableMapping
from io import StringIO
from typing import Any, Final, TextIO

import structlog
from structlog.tracebacks import ExceptionDictTransformer

from scheduler.api.printable import is_printable, printable, printable_lines

SECRET: Final = ("authorization", "password", "secret", "token", "client_key")
LEVELS: Final = (logging.WARNING, logging.INFO, logging.INFO, logging.INFO)
"""The level for each verbosity; with a greater verbosity, everything is logged."""


def level_of(verbosity: int) -> int:
    """The level of a verbosity. 0: warnings and errors; 1 to 3: what happens; 4 and above: everything."""
    return LEVELS[max(0, verbosity)] if verbosity < len(LEVELS) else logging.DEBUG


def configure(verbosity: int = 2, log_format: str = "auto") -> None:
    """Sets up logging for the process. ``log_format``: json, console, or auto (console on a terminal)."""
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
        last += [tracebacks, structlog.processors.JSONRenderer(_json)]
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_traceback)
        last += [_printable, renderer]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=last))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for library in ("asyncio", "aiohttp", "urllib3", "kubernetes"):
        logging.getLogger(library).setLevel(max(level, logging.WARNING))


def _printable(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """What was logged as it may go to a terminal. ``exc_info`` is not text yet: see ``_traceback``."""
    for key in list(event):
        value = event.pop(key)
        if isinstance(value, str):
            value = printable(value)
        elif key != "exc_info" and not is_printable(shown := repr(value)):
            value = printable(shown)
        event[printable(key)] = value
    return event


def _traceback(file: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    text = StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    file.write(printable_lines(text.getvalue()))


def _json(event: Any, **options: Any) -> str:
    """JSON in visible ASCII; the module ``json`` would leave DEL as it is."""
    return json.dumps(event, **options).replace("\x7f", "\\u007f")


def without_secrets(logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replaces values whose keys say that they are secret."""
    for key in event:
        if any(word in key.lower() for word in SECRET):
            event[key] = "***"
    return event
