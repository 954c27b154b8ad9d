"""Which nodes are simulated: the flags that say it, ``playground nodes``, which prints their manifests, and
``playground families``, which lists the kinds of nodes."""

from collections.abc import Callable, Sequence
from typing import Final

import click

from scheduler.cli.errors import CommandError
from scheduler.cli.output import JSON, TABLE, WIDE, YAML, Column, RowTable, output_option, print_object
from scheduler.cli.text import echo
from scheduler.playground.families import FAMILIES, NodeFamily, division_problem

division_option = click.option(
    "--vnpu", "division", default="", metavar="DIVISION",
    help="Divide chips: dynamic when Pods start, or beforehand into one kind of virtual NPU, such as 2c.",
)  # fmt: skip
"""The flag ``--vnpu``, with the parameter ``division``."""
_OPTIONS: Final = (
    click.option("--nodes", type=click.IntRange(0, 5000), default=8, show_default=True, help="Nodes of each family."),
    click.option(
        "--family", "families", type=click.Choice(list(FAMILIES)), multiple=True, default=("910b-8",),
        show_default=True, metavar="FAMILY", help="Kind of the nodes, see playground families. Repeatable.",
    ),
    click.option("--prefix", default="npu", show_default=True, help="Beginning of the names of the Nodes."),
    division_option,
    click.option(
        "--super-pod-size", type=click.IntRange(1), default=4, show_default=True,
        help="Nodes of a super pod, for a3-*-super-pod.",
    ),
)  # fmt: skip


def node_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the flags, with the parameters ``nodes``, ``families``, ``prefix``, ``division`` and ``super_pod_size``."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def chosen_families(names: Sequence[str], division: str) -> list[NodeFamily]:
    """The families with the names. Raises UsageError if the chips of one cannot be divided so."""
    chosen = [FAMILIES[name] for name in dict.fromkeys(names)]
    for family in chosen:
        check_division(family, division)
    return chosen


def check_division(family: NodeFamily, division: str) -> None:
    """Raises UsageError if the chips of a family cannot be divided so."""
    if problem := division_problem(family, division):
        raise click.UsageError(f"--vnpu: {problem}")


@click.command("nodes")
@node_options
@output_option(YAML, JSON, default=YAML)
def nodes_command(
    nodes: int, families: Sequence[str], prefix: str, division: str, super_pod_size: int, output: str
) -> None:
    """Print the manifests of simulated nodes, for simulate.

    \b
    volcano-py playground nodes --nodes 2 > nodes.yaml
    volcano-py simulate -f nodes.yaml -f train.yaml
    """
    from scheduler.api.kinds import NODE
    from scheduler.playground.kubelet import ready_conditions
    from scheduler.playground.node import new_machines, node_manifest

    chosen = chosen_families(families, division)
    try:
        machines = new_machines(chosen, nodes, prefix, division, super_pod_size, {})
    except ValueError as error:
        raise CommandError(str(error)) from None
    items = [node_manifest(machine, ready_conditions(0)) for machine in machines]
    print_object({"apiVersion": "v1", "kind": "List", "items": items}, output, NODE)


@click.command("families")
@output_option(TABLE, WIDE)
def families_command(output: str) -> None:
    """List the kinds of nodes that can be simulated."""
    columns: list[Column[NodeFamily]] = [
        Column("Family", lambda family: family.name),
        Column("Chips", lambda family: family.chips),
        Column("Resource", lambda family: family.resource),
        Column("accelerator-type", lambda family: family.labels.get("accelerator-type", "")),
        Column("Virtual NPUs", lambda family: ", ".join(template.suffix for template in family.templates), wide=True),
        Column("Hardware", lambda family: family.hardware),
    ]
    for line in RowTable(columns, output).lines(list(FAMILIES.values())):
        echo(line)
