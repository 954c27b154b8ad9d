"""The registry of actions and plugins by name. To add one, write a class and register it."""

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Protocol, TypeVar

from scheduler.framework.arguments import Arguments
from scheduler.framework.configuration import Configuration
from scheduler.framework.failures import words_of
from scheduler.framework.plugin_session import Plugin
from scheduler.framework.session import Session


class Action(Protocol):
    """One step of a session. ``__init__`` receives the ``Arguments``; without one, the action takes none."""

    name: ClassVar[str]

    def execute(self, session: Session) -> None:
        """Makes decisions through statements of the session."""


T = TypeVar("T")
_BASES: Final = (object, Plugin, Action)
PluginFactory = Callable[..., Plugin]
ActionFactory = Callable[..., Action]
_plugins: dict[str, PluginFactory] = {}
_actions: dict[str, ActionFactory] = {}
_prefixes: dict[str, str] = {}


def register_plugin(factory: type[Plugin]) -> type[Plugin]:
    """Class decorator: registers a plugin under its ``name``. Raises ValueError if another class has the name, or a
    session could not create or open the plugin."""
    _claim(factory, _plugins, "plugin")
    _plugins[factory.name] = factory
    return factory


def register_action(factory: type[Action]) -> type[Action]:
    """Class decorator: registers an action under its ``name``. Raises ValueError as ``register_plugin`` does."""
    _claim(factory, _actions, "action")
    _actions[factory.name] = factory
    return factory


def _claim(factory: type[Plugin] | type[Action], known: Mapping[str, object], what: str) -> None:
    name: object = getattr(factory, "name", None)
    if not isinstance(name, str) or not name:
        raise ValueError(f"{factory.__qualname__}.name is {name!r:.66}, not the name of a {what}")
    other = known.get(name, factory)
    if other is not factory:
        where = getattr(sys.modules.get(other.__module__), "__file__", other.__module__)
        known_as = getattr(other, "__qualname__", repr(other))
        raise ValueError(f"there is a {what} called {name!r} already: {known_as} in {where}")
    method = "open" if what == "plugin" else "execute"
    if not callable(getattr(factory, method, None)):
        raise ValueError(f"{factory.__qualname__} has no method {method}(session)")
    for function, takes, call in (
        (factory, () if _takes_none(factory) else ("arguments",), "(arguments)"),
        (getattr(factory, method), ("self", "session"), f".{method}(session)"),
    ):
        try:
            inspect.signature(function).bind(*takes)
        except TypeError as error:
            raise ValueError(f"{factory.__qualname__}{call} cannot be called: {error}") from None


def create(factory: Callable[..., T], arguments: Arguments) -> T:
    """Creates a plugin or an action. A class without ``__init__`` takes no arguments."""
    created: T = factory() if _takes_none(factory) else factory(arguments)
    return created


def _takes_none(factory: Callable[..., object]) -> bool:
    """Returns whether this is a class without ``__init__``."""
    bases = [base for base in getattr(factory, "__mro__", ()) if base not in _BASES]
    return bool(bases) and not any("__init__" in vars(base) for base in bases)


def register_prefix(prefix: str, name: str) -> None:
    """Registers a prefix: configured plugin names that begin with it mean the plugin ``name`` (versioned names of other
    builds)."""
    _prefixes[prefix] = name


def resolve_plugin(name: str) -> str:
    """Returns the name under which a configured plugin is registered, or the given name if it is unknown."""
    if name not in _plugins:
        for prefix, target in _prefixes.items():
            if name.startswith(prefix):
                return target
    return name


def plugin(name: str) -> PluginFactory | None:
    return _plugins.get(resolve_plugin(name))


def refusal(name: str, arguments: Mapping[str, Any]) -> str:
    """Returns why a plugin refuses its arguments, or ""."""
    factory: Any = plugin(name)
    if not hasattr(factory, "refusal"):
        return ""
    try:
        return str(factory.refusal(Arguments(arguments)))
    except Exception as error:  # the code of others may raise anything
        return f"its refusal() raised {words_of(error)}"


def remarks(name: str, others: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields the name of another plugin of a configuration, and the warning of a plugin about running beside it (its
    class attribute ``beside``)."""
    beside: Mapping[str, str] = getattr(plugin(name), "beside", {})
    for other in others:
        if other in beside:
            yield other, beside[other]


def action(name: str) -> ActionFactory | None:
    return _actions.get(name)


def any_external(configuration: Configuration) -> bool:
    """Returns whether a configuration has a plugin or an action that is not built in."""
    plugins = [plugin(option.name) for tier in configuration.tiers for option in tier]
    factories = [*plugins, *map(action, configuration.actions)]
    return any(not factory.__module__.startswith("scheduler.") for factory in factories if factory is not None)


def action_names() -> list[str]:
    return sorted(_actions)


def entry_names() -> list[str]:
    """Returns the names that entries of ``configurations`` may have: the actions, and the names in the class attribute
    ``configurations`` of plugins."""
    return sorted(
        {*_actions, *(name for factory in _plugins.values() for name in getattr(factory, "configurations", ()))}
    )
