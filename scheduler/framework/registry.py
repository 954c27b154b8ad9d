"""Actions and plugins by name, and what each must look like. To add one: write a class, register its name."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from scheduler.framework.arguments import Arguments

if TYPE_CHECKING:
    from scheduler.framework.session import Session


class Plugin(Protocol):
    """Answers the questions of a session. Made anew for each session, so it may keep its state in ``self``.

    It may have class methods besides: ``intake(arguments, config_maps)`` (see ``intake``), and ``refusal(arguments)``,
    why a configuration with these arguments is not to be used, or "".
    """

    name: ClassVar[str]

    def __init__(self, arguments: Arguments) -> None:
        """Reads all its arguments here or in ``open``: others are told of as unknown."""

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
    """Class decorator: make a plugin known by its ``name``. Raises ValueError if the name is another's."""
    _claim(factory, _plugins.get(factory.name), "plugin")
    _plugins[factory.name] = factory
    return factory


def register_action(factory: type[Action]) -> type[Action]:
    """Class decorator: make an action known by its ``name``. Raises ValueError if the name is another's."""
    _claim(factory, _actions.get(factory.name), "action")
    _actions[factory.name] = factory
    return factory


def _claim(factory: type[Plugin] | type[Action], known: object, what: str) -> None:
    if known is not None and known is not factory:
        raise ValueError(f"there is a {what} called {factory.name!r} already")


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


def refusal(name: str, arguments: Mapping[str, Any]) -> str:
    """Why a plugin refuses its arguments, or ""."""
    factory: Any = plugin(name)
    return str(factory.refusal(Arguments(arguments))) if hasattr(factory, "refusal") else ""


def action(name: str) -> ActionFactory | None:
    return _actions.get(name)


def action_names() -> list[str]:
    return sorted(_actions)
