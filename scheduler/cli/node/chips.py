"""``node chips``: the chips of nodes, and which Pods hold them."""

import click

from scheduler.cli.cluster_source import ClusterSource, cluster_source_options
from scheduler.cli.completion import names_of
from scheduler.cli.errors import CommandError
from scheduler.cli.node.table import node_devices, print_devices
from scheduler.cli.output import JSON, TABLE, WIDE, YAML, output_option


@click.command("chips")
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
