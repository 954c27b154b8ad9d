"""The scheduler's configuration file, read again while the scheduler runs.

The file is looked at before every cycle, by content: an edit, a replaced file and the swapped symlinks of a mounted
ConfigMap are all the same. A file that cannot be used leaves the last good configuration in force. What the text means
is told in ``scheduler.framework.configuration``.
"""

from pathlib import Path

import structlog

from scheduler.framework.configuration import (
    DEFAULT_CONFIGURATION,
    Configuration,
    ConfigurationError,
    parse_configuration,
)
from scheduler.observability.metrics import Metrics

LARGEST = 1_000_000
"""Bytes of a configuration file; what is larger is none."""
log = structlog.get_logger(__name__)


class ConfigurationFile:
    """One file, or the built-in configuration if no path is given."""

    def __init__(self, path: str = "") -> None:
        """Raises ConfigurationError, naming file, line and reason, when the file cannot be used."""
        self._path = Path(path) if path else None
        self._text = DEFAULT_CONFIGURATION if self._path is None else self._read(self._path)
        self._problem = ""
        self.current = parse_configuration(self._text, path or "the built-in configuration")
        """The last good configuration."""

    def poll(self, metrics: Metrics) -> bool:
        """Read the file if it has changed; whether a new configuration is in force."""
        if self._path is None:
            return False
        try:
            text = self._read(self._path)
            if text == self._text:
                self._problem = ""
                return False
            self.current = self._parse(text, str(self._path))
        except ConfigurationError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                metrics.config_reloads.labels("error").inc()
                log.error("the configuration file is not used, the last good one stays", error=self._problem)
            return False
        self._text, self._problem = text, ""
        metrics.config_reloads.labels("success").inc()
        log.info("configuration reloaded", file=str(self._path), actions=", ".join(self.current.actions))
        return True

    @staticmethod
    def _read(path: Path) -> str:
        try:
            data = path.read_bytes()
            if len(data) > LARGEST:
                raise ConfigurationError(f"{path}: larger than {LARGEST} bytes")
            return data.decode()
        except OSError as error:
            raise ConfigurationError(f"{path}: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"{path}: not UTF-8 (byte {error.start})") from None

    @staticmethod
    def _parse(text: str, source: str) -> Configuration:
        configuration = parse_configuration(text, source)
        for warning in configuration.warnings:
            log.warning(warning)
        return configuration
