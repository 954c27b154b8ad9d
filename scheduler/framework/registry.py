"""Actions and plugins by name, and what each must look like. To add one: write a class, register its name."""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Protocol

from scheduler.framework.arguments import Arguments

if TYPE_CHECKING:
    from scheduler.framework.session import Session


class Plugin(Protocol):
    """Answers the questions of a session. Made anew for each session, so it may keep its state in ``self``."""

    name: ClassVar[str]

    def __init__(self, arguments: Arguments) -> None: ...

    def open(self, session: "Session") -> None:
        """Register functions on the session. Called once, tier by tier, in the configured order."""


class Action(Protocol):
    """One step of a session."""

    name: ClassVar[str]

    def __init__(self, arguments: Arguments) -> None: ...

    def execute(self, session: "Session") -> None:
        """Decide, through statements of the session."""


PluginFactory = Callable[[Arguments], Plugin]
ActionFactory = Callable[[Arguments], Action]
_plugins: dict[str, PluginFactory] = {}
_actions: dict[str, ActionFactory] = {}
_prefixes: dict[str, str] = {}


def register_plugin(factory: type[Plugin]) -> type[Plugin]:
    """Class decorator: make a plugin known by its ``name``."""
    _plugins[factory.name] = factory
    return factory


def register_action(factory: type[Action]) -> type[Action]:
    """Class decorator: make an action known by its ``name``."""
    _actions[factory.name] = factory
    return factory


def register_prefix(prefix: str, name: str) -> None:
    """A configured plugin name that begins so means the plugin ``name`` (versioned names of other builds)."""
    _prefixes[prefix] = name


def resolve_plugin(name: str) -> str:
    """The name under which a configured plugin is registered, itself if it is unknown."""
    if name not in _plugins:
        for prefix, target in _prefixes.items():
            if name.startswith(prefix):
                return target
    return name


def plugin(name: str) -> PluginFactory | None:
    return _plugins.get(resolve_plugin(name))


def action(name: str) -> ActionFactory | None:
    return _actions.get(name)


def action_names() -> list[str]:
    return sorted(_actions)
