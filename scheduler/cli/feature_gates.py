"""``--feature-gates`` in Volcano's form: ``A=true,B=false``, repeatable; the last value of a gate counts.

One gate has an effect. Others are accepted, so that a command line written for Volcano works, and a line on stderr says
that they have no effect.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from scheduler.api.names import SCHEDULING_GATES_QUEUE_ADMISSION
from scheduler.cli.text import echo

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
