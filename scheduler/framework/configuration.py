"""The configuration of a session: actions, tiers of plugins with flags and arguments, and the source of the load of
nodes.

The source is the section ``metrics:`` of the configuration file. An invalid section is reported, and the load is
unknown; the file is still accepted. Volcano reads flat keys such as ``tls.insecureSkipVerify`` and
``elasticsearch.index``, but its documents nest them: both forms are accepted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from scheduler.api.times import DurationError, parse_duration
from scheduler.framework.extension import ENABLE_HIERARCHY

DEFAULT_INTERVAL: Final = 30.0
DEFAULT_INDEX: Final = "metricbeat-*"
DEFAULT_HOST_FIELD: Final = "host.hostname"
_MIN_INTERVAL: Final = 1.0
"""The shortest interval, in seconds: the sources do not update more often."""
_TRUE: Final = ("true", "True", "TRUE")


class SourceType(Enum):
    """The kind of program that measures the load."""

    PROMETHEUS = "prometheus"
    PROMETHEUS_ADAPTOR = "prometheus_adaptor"
    """The API server, as custom metrics."""
    ELASTICSEARCH = "elasticsearch"


@dataclass(frozen=True, slots=True)
class UsageSource:
    """A source of the load of nodes."""

    type: SourceType
    address: str = ""
    """The URL; "" for the API server."""
    interval: float = DEFAULT_INTERVAL
    """The seconds between two requests."""
    verify_tls: bool = True
    index: str = DEFAULT_INDEX
    username: str = ""
    password: str = field(default="", repr=False)
    host_field: str = DEFAULT_HOST_FIELD
    """The field of Elasticsearch's documents with the name of the node."""


def parse_usage_source(section: Mapping[str, Any], where: str) -> tuple[UsageSource | None, list[str]]:
    """Returns the source, or None if no valid one is configured, and the problems, each beginning with ``where``."""
    values = dict(_flat(section))
    if not values.get("type"):
        return None, [f"{where}: no type: the load of nodes is not asked for"] if values else []
    try:
        kind = SourceType(values["type"])
    except ValueError:
        known = ", ".join(entry.value for entry in SourceType)
        return None, [f"{where}.type: {values['type']!r:.66} is none of {known}; the load of nodes is not asked for"]
    address = values.get("address", "").rstrip("/")
    if kind is not SourceType.PROMETHEUS_ADAPTOR and (problem := _why_not_a_url(address)):
        return None, [f"{where}.address: {problem}; the load of nodes is not asked for"]
    problems: list[str] = []
    source = UsageSource(
        type=kind,
        address=address,
        interval=_interval(values.get("interval", ""), where, problems),
        verify_tls=values.get("tls.insecureSkipVerify") not in _TRUE,
        index=values.get("elasticsearch.index") or DEFAULT_INDEX,
        username=values.get("elasticsearch.username", ""),
        password=values.get("elasticsearch.password", ""),
        host_field=values.get("elasticsearch.hostnameFieldName") or DEFAULT_HOST_FIELD,
    )
    return source, problems


def _flat(section: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Returns ``a: {b: 1}`` and ``a.b: 1`` in the same form: ("a.b", "1"). Null values and lists are left out."""
    for key, value in section.items():
        if isinstance(value, Mapping) and not prefix:
            yield from _flat(value, f"{key}.")
        elif isinstance(value, bool):
            yield f"{prefix}{key}", str(value).lower()
        elif isinstance(value, str | int | float):
            yield f"{prefix}{key}", str(value)


def _why_not_a_url(address: str) -> str:
    if not address:
        return "missing"
    try:
        parts = urlsplit(address)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    return "" if sound else f"not an http or https URL: {address!r:.66}"


def _interval(text: str, where: str, problems: list[str]) -> float:
    if not text:
        return DEFAULT_INTERVAL
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        problems.append(f"{where}.interval: {error}; using {DEFAULT_INTERVAL:.0f}s")
        return DEFAULT_INTERVAL
    if seconds < _MIN_INTERVAL:
        problems.append(f"{where}.interval: {text} is shorter than {_MIN_INTERVAL:.0f}s; using {DEFAULT_INTERVAL:.0f}s")
        return DEFAULT_INTERVAL
    return seconds


class PluginOption(msgspec.Struct, frozen=True):
    """One plugin of a tier."""

    name: str
    flags: dict[str, bool] = msgspec.field(default_factory=dict)
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)

    def enabled(self, flag: str) -> bool:
        """Returns whether a flag is on: every flag is on unless it is disabled, except the hierarchy, which must be
        enabled."""
        return not flag or self.flags.get(flag, flag != ENABLE_HIERARCHY)


class Configuration(msgspec.Struct, frozen=True):
    """The content of a configuration file."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    action_arguments: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    metrics: UsageSource | None = None
    """The source of the load of nodes, or None."""
    features: frozenset[str] = frozenset()
    """Feature gates that are on. They come from the command line, not from the file."""
    warnings: tuple[str, ...] = ()

    def has_action(self, name: str) -> bool:
        return name in self.actions
