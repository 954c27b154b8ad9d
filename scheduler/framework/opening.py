"""Opens the plugins of a configuration over a session: tier by tier, each with its arguments and flags."""

from collections.abc import Callable

from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.failures import PluginError, words_of
from scheduler.framework.session import Session


def open_plugins(session: Session, stopwatch: Callable[[], float] = lambda: 0.0) -> None:
    """Have all configured plugins register with a session; names that no plugin has are passed over.

    ``stopwatch``: seconds since any moment, for ``open_seconds`` alone. Raises PluginError if one of them raises.
    """
    for number, tier in enumerate(session.configuration.tiers):
        for option in tier:
            factory = registry.plugin(option.name)
            if factory is None:
                continue
            begun = stopwatch()
            arguments = Arguments(option.arguments)
            with session.registering(option, number):
                try:
                    plugin = factory(arguments)
                    session.plugins.append(plugin)
                    plugin.open(session)
                except PluginError:
                    raise
                except Exception as error:  # the code of others may raise anything
                    raise PluginError(f"plugin {option.name}", "open", words_of(error)) from error
            unknown = [f"argument {key} is not known; it is ignored" for key in arguments.unknown]
            session.problems += [f"plugin {option.name}: {problem}" for problem in arguments.problems + unknown]
            session.open_seconds[option.name] = stopwatch() - begun


def open_session(session: Session) -> Session:
    """The session with its plugins opened."""
    open_plugins(session)
    return session
