"""``node chips``: the chips of nodes, and which Pods hold them, as a grid, a list or a document. ``simulate --chips``
prints them, too."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from scheduler.api.device_states import Device
from scheduler.cli.chip_grid import grid_lines
from scheduler.cli.cluster_source import ClusterSource, cluster_source_options
from scheduler.cli.completion import names_of
from scheduler.cli.errors import CommandError
from scheduler.cli.input_warnings import FieldWarning, WarningLog, print_section
from scheduler.cli.output import (
    JSON,
    TABLE,
    WIDE,
    YAML,
    Column,
    RowTable,
    nothing_found,
    output_option,
    print_object,
    terminal_width,
)
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.framework.cycle import Outcome


Row = tuple[Device, list[str]]
"""The first of several chips with one state, and the numbers of all of them."""
_COLUMNS: tuple[Column[Row], ...] = (
    Column("Node", lambda row: row[0].node),
    Column("Resource", lambda row: row[0].resource),
    Column("Chips", lambda row: ",".join(row[1])),
    Column("Number", lambda row: len(row[1])),
    Column("State", lambda row: row[0].state.value, phase=True),
    Column("Pods", lambda row: ", ".join(row[0].pods), elastic=True),
)


@click.group("node")
def node_group() -> None:
    """Show what the scheduler knows about nodes."""


@node_group.command("chips")
@click.argument("node", required=False, default="", shell_complete=names_of("NODE"))
@output_option(TABLE, WIDE, JSON, YAML)
@cluster_source_options()
def chips_command(source: ClusterSource, node: str, output: str) -> None:
    """Show the chips of all nodes as a grid, or of one node in detail, and the Pods that hold them.

    The next session is run in memory: chips that it would assign to Pods are shown as Binding or Pipelined.

    \b
    volcano-py node chips
    volcano-py node chips node-1 -o json
    """
    with source.simulated("scheduler.cluster.memory") as (_, simulation):
        simulation.cycle(stop_when=lambda _: True)
        if node and node not in simulation.cluster.cache.node_names():
            raise CommandError(f"node {node} not found")
        found = node_devices(simulation.last)
    shown = [device for device in found if node in ("", device.node)]
    print_devices(shown, output, source.log, source.field_warnings(simulation), detail=bool(node))


def node_devices(outcome: "Outcome | None") -> list[Device]:
    """Returns the devices of nodes after a session; their notes begin with the conditions of the node."""
    from scheduler.api.node import node_conditions
    from scheduler.framework.extension import NODE_DEVICES

    if outcome is None:
        return []
    conditions = node_conditions(outcome.session.nodes.facts)

    def note(device: Device) -> str:
        found = [*conditions.get(device.node, ())]
        if device.note and device.note not in found:
            found.append(device.note)
        return ", ".join(found)

    return [device._replace(note=note(device)) for part in outcome.session.ask(NODE_DEVICES) for device in part]


def print_devices(
    devices: Sequence[Device],
    output: str,
    log: WarningLog,
    warnings: Sequence[FieldWarning],
    *,
    detail: bool = False,
) -> None:
    """Prints the chips: as a grid; with ``-o wide`` a line for each chip; then the warnings. ``log``: what was printed
    before. ``detail``: below the grid, a line for the chips of a node with one state and the same Pods."""
    if output in (JSON, YAML):
        print_object({**_document(devices), **log.document(warnings)}, output)
        return
    _print_table(devices, output, detail=detail)
    print_section(log.unnamed(warnings))


def _print_table(devices: Sequence[Device], output: str, *, detail: bool) -> None:
    if not devices:
        nothing_found()
        return
    lines = grid_lines(devices, time.time(), terminal_width()) if output == TABLE else []
    if detail and lines:
        lines.append("")
    if detail or output == WIDE:
        lines += RowTable(_COLUMNS).lines(_rows(devices, together=output != WIDE))
    for line in lines:
        echo(line)


def _rows(devices: Sequence[Device], *, together: bool) -> list[Row]:
    rows: dict[tuple[Any, ...], Row] = {}
    for device in devices:
        key = (device.node, device.resource, device.state, device.pods, "" if together else device.name)
        rows.setdefault(key, (device, []))[1].append(device.name.rpartition("-")[2])
    return list(rows.values())


def _document(devices: Sequence[Device]) -> dict[str, Any]:
    nodes: dict[tuple[str, str], dict[str, Any]] = {}
    for device in devices:
        key = device.node, device.resource
        if key not in nodes:
            nodes[key] = {"node": device.node, "resource": device.resource, "chips": []}
            nodes[key] |= {"note": device.note} if device.note else {}
        chip = {"name": device.name, "state": device.state.value, "pods": list(device.pods)}
        nodes[key]["chips"].append(chip)
    return {"nodes": list(nodes.values())}
