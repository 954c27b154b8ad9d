"""Types of flag values in the syntax of Go programs, so that a command line written for Volcano works unchanged.

``--feature-gates`` has Volcano's form, too: ``A=true,B=false``, repeatable; the last value of a gate counts. One gate
has an effect. Others are accepted, and a line on stderr says that they have no effect.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from scheduler.api.names import SCHEDULING_GATES_QUEUE_ADMISSION
from scheduler.cli.text import echo

Decorator = Callable[[Callable[..., None]], Callable[..., None]]
"""Adds options to a command."""


class Duration(click.ParamType[float]):
    """A duration in seconds: ``1s``, ``500ms``, ``1m30s``, or a number of seconds. It cannot be negative."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        from scheduler.api.times import DurationError, parse_duration

        text = str(value).strip()
        try:
            seconds = float(text)
        except ValueError:
            try:
                seconds = parse_duration(text)
            except DurationError:
                self.fail(f"{value!r} is not a duration like 1s, 500ms or 1m30s", param, ctx)
        if not 0 <= seconds < 1e9:
            self.fail(f"{value!r} is out of range", param, ctx)
        return seconds


class KeyValue(click.ParamType[tuple[str, str]]):
    """A pair, written ``key:value``."""

    name = "key:value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return str(value[0]), str(value[1])
        key, colon, rest = str(value).partition(":")
        if not colon or not key:
            self.fail(f"{value!r} is not key:value", param, ctx)
        return key.strip(), rest.strip()


class ListenAddress(click.ParamType[str]):
    """An address to listen on: ``host:port``, or ``:port`` for all addresses of the machine."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from scheduler.observability.addresses import AddressError, parse_address

        try:
            parse_address(str(value))
        except AddressError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class Verbosity(click.ParamType[int]):
    """A log level: ``-v=3`` or ``-v 3``."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).removeprefix("=")
        if not text.isdecimal():
            self.fail(f"{value!r} is not a number", param, ctx)
        return int(text)


class Quantity(click.ParamType[int]):
    """A positive quantity: ``1Gi``, ``500M`` or a number."""

    name = "quantity"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from scheduler.api.quantity import QuantityError, parse_quantity

        try:
            number = parse_quantity(value)
        except QuantityError as error:
            self.fail(str(error), param, ctx)
        if number <= 0:
            self.fail(f"{value!r} is not above zero", param, ctx)
        return number


DURATION = Duration()
QUANTITY = Quantity()
KEY_VALUE = KeyValue()
ADDRESS = ListenAddress()
VERBOSITY = Verbosity()


def options_as(parameter: str, dataclass: type[Any], *options: Decorator) -> Decorator:
    """Adds options to a command, whose function takes their values in one parameter, an instance of a dataclass."""
    names: tuple[str, ...] = tuple(dataclass.__dataclass_fields__)

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def called(**given: Any) -> None:
            values = {name: given.pop(name) for name in names if name in given}
            function(**{parameter: dataclass(**values)}, **given)

        command: Callable[..., None] = called
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def boolean(name: str, *, default: bool, help: str) -> Callable[[Any], Any]:
    """A boolean option: ``--flag``, ``--flag=true`` or ``--flag=false``."""
    return click.option(
        name, type=click.BOOL, is_flag=False, flag_value="true", default=default, metavar="[true|false]", help=help
    )


def without_effect(*names: str) -> Callable[[Any], Any]:
    """Adds options of Volcano's programs that have no effect here, so that a command line written for Volcano works.

    A line on stderr says that a given option has no effect. The help does not list them.
    """

    def warn(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None:
            echo(f"{ctx.command_path}: {param.opts[0]} has no effect here", err=True)

    def decorate(function: Any) -> Any:
        for name in names:
            function = click.option(
                name, is_flag=False, flag_value="true", default=None, hidden=True, expose_value=False, callback=warn
            )(function)
        return function

    return decorate


class ResourceList(click.ParamType[dict[str, str]]):
    """Resources with quantities in Kubernetes' notation: ``cpu=1000m,memory=100Mi``."""

    name = "resource=quantity,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        from scheduler.api.quantity import QuantityError, parse_quantity

        amounts = {}
        for part in str(value).split(",") if value else ():
            resource, equals, quantity = part.partition("=")
            if not resource or not equals or "=" in quantity:
                self.fail(f"invalid argument syntax {part}, expected <resource>=<value>", param, ctx)
            try:
                parse_quantity(quantity)
            except QuantityError as error:
                self.fail(f"{resource}: {error}", param, ctx)
            amounts[resource] = quantity.strip()
        return amounts


RESOURCE_LIST = ResourceList()


KNOWN: Final = (SCHEDULING_GATES_QUEUE_ADMISSION,)
_ALL_ALPHA: Final = "AllAlpha"
_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


class FeatureGates(click.ParamType[dict[str, bool]]):
    """A mapping from gates to whether they are on."""

    name = "gates"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, bool]:
        if isinstance(value, Mapping):
            return dict(value)
        found = {}
        for part in filter(None, map(str.strip, str(value).split(","))):
            gate, equals, text = part.partition("=")
            if not equals or text.strip() not in _BOOLEANS:
                self.fail(f"{part!r} is not like {KNOWN[0]}=true", param, ctx)
            found[gate.strip()] = _BOOLEANS[text.strip()]
        return found


def feature_gates(command: Callable[..., None]) -> Callable[..., None]:
    """Adds ``--feature-gates`` to a command, whose function takes ``features``: the gates that are on."""

    def gates_on(ctx: click.Context, param: click.Parameter, given: tuple[dict[str, bool], ...]) -> frozenset[str]:
        values = {gate: on for gates in given for gate, on in gates.items()}
        for gate in values.keys() - {*KNOWN, _ALL_ALPHA}:
            echo(f"{ctx.command_path}: feature gate {gate} has no effect here", err=True)
        return frozenset(gate for gate in KNOWN if values.get(gate, values.get(_ALL_ALPHA, False)))

    return click.option(
        "--feature-gates",
        "features",
        type=FeatureGates(),
        multiple=True,
        callback=gates_on,
        show_default="all off",
        metavar="GATE=true",
        help=f"Comma-separated: {', '.join(KNOWN)}.",
    )(command)
