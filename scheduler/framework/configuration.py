"""The configuration of a session: actions, tiers of plugins with flags and arguments."""

from typing import Any

import msgspec

from scheduler.framework.extension import ENABLE_HIERARCHY
from scheduler.framework.usage_source import UsageSource


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
