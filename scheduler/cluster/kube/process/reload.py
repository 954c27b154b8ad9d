"""Configuration files that are reloaded while the program runs.

Contents are compared, so an edit, a replaced file and the swapped symlinks of a mounted ConfigMap are all noticed. A
file that cannot be used leaves the last good configuration in force. A parser interprets the text.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import structlog
from msgspec.structs import replace

from scheduler.framework.configuration import Configuration
from scheduler.framework.configuration_file import (
    DEFAULT_CONFIGURATION,
    ConfigurationError,
    parse_configuration,
    read_configuration,
)
from scheduler.observability.role_metrics import RoleMetrics

log = structlog.get_logger(__name__)
T = TypeVar("T")


class ReloadedFile(Generic[T]):
    """One file, or a built-in text if no path is given."""

    def __init__(self, path: str, parse: Callable[[str, str], T], built_in: str = "") -> None:
        """``parse`` receives text and source. Raises ConfigurationError, naming file, line and reason, when the file
        cannot be used."""
        self._path = Path(path) if path else None
        self._parse = parse
        self._text = built_in if self._path is None else read_configuration(self._path)
        self._refused = ""
        """The text that was refused when it was last read."""
        self._problem = ""
        self.current = parse(self._text, path or "the built-in configuration")
        """The last good configuration."""

    def poll(self, metrics: RoleMetrics) -> bool:
        """Reads the file if it has changed. Returns whether a new configuration is in force."""
        if self._path is None:
            return False
        try:
            text = read_configuration(self._path)
            if text == self._text:
                self._problem = self._refused = ""
                return False
            if self._refused and text == self._refused:
                return False
            self._refused = text
            self.current = self._parse(text, str(self._path))
        except ConfigurationError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                metrics.config_reloads.labels("error").inc()
                log.error("the configuration file is not used, the last good one stays", error=self._problem)
            return False
        self._text, self._problem, self._refused = text, "", ""
        metrics.config_reloads.labels("success").inc()
        log.info("configuration reloaded", file=str(self._path))
        return True


class ConfigurationFile(ReloadedFile[Configuration]):
    """The configuration file of the scheduler."""

    def __init__(self, path: str = "", features: frozenset[str] = frozenset()) -> None:
        """``features``: feature gates that are on. Raises ConfigurationError."""

        def parse(text: str, source: str) -> Configuration:
            return replace(parse_configuration(text, source), features=features)

        super().__init__(path, parse, DEFAULT_CONFIGURATION)

    def poll(self, metrics: RoleMetrics) -> bool:
        if not super().poll(metrics):
            return False
        for warning in self.current.warnings:
            log.warning(warning)
        return True
