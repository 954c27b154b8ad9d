"""The options of the plugin: the arguments of the entry ``init-params`` of ``configurations``, as MindCluster's
scheduler configuration has them. Their values are strings. Other options of the entry are ignored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler.framework.arguments import Arguments
from scheduler.framework.session import Session

ENTRY: Final = "init-params"


@dataclass(frozen=True, slots=True)
class Settings:
    force_enqueue: bool
    """A job for which the cluster has enough free chips is admitted to its queue whatever plugins of later tiers say
    (``forceEnqueue``)."""
    self_maintain: bool
    """The free chips of a node are those that it has and no Pod holds, not those that the device plugin lists as free
    (``self-maintain-available-card``)."""

    @classmethod
    def read(cls, arguments: Arguments) -> "Settings":
        return cls(
            force_enqueue=arguments.boolean("forceEnqueue", False),
            self_maintain=arguments.boolean("self-maintain-available-card", True),
        )


def settings_of(session: Session) -> Settings:
    """Reads the options; an option that cannot be used is reported, and its default is used."""
    values: Mapping[str, Any] = session.configuration.action_arguments.get(ENTRY, {})
    arguments = Arguments(values)
    settings = Settings.read(arguments)
    session.problems += [f"{ENTRY}: {problem}" for problem in arguments.problems]
    return settings
