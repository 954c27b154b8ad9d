"""``node chips``: the chips of nodes, and which Pods hold them."""

from contextlib import closing

import click

from scheduler.cli.completion import names_of
from scheduler.cli.connection import Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.explain import cluster_in_memory
from scheduler.cli.node.table import node_devices, print_devices
from scheduler.cli.output import JSON, TABLE, WIDE, YAML, output_option
from scheduler.cli.plugins import with_plugins
from scheduler.cli.process import keep
from scheduler.cli.simulation import without_garbage_collection
from scheduler.cli.target import connection_options


@click.command("chips")
@click.argument("node", required=False, default="", shell_complete=names_of("NODE"))
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    metavar="FILE",
    type=click.Path(),
    help="File, directory or - with manifests, instead of the cluster. Repeatable.",
)
@click.option(
    "--scheduler-conf",
    "conf",
    metavar="FILE",
    type=click.Path(),
    help="Scheduler configuration; by default that of the scheduler in the cluster, else built in.",
)
@click.option("--scheduler-name", "names", multiple=True, help="schedulerName of Pods to schedule (repeatable).")
@with_plugins
@output_option(TABLE, WIDE, JSON, YAML)
@connection_options()
def chips_command(
    connection: Connection, node: str, paths: tuple[str, ...], conf: str | None, names: tuple[str, ...], output: str
) -> None:
    """Show the chips of all nodes as a grid, or of one node in detail, and the Pods that hold them.

    The next session is run in memory: chips that it would assign to Pods are shown as Binding or Pipelined.

    \b
    volcano-py node chips
    volcano-py node chips node-1 -o json
    """
    from scheduler.cluster.external_calls import HttpCalls

    with without_garbage_collection(), closing(HttpCalls()) as external_calls:
        try:
            _, simulation = cluster_in_memory(connection, paths, conf, names, external_calls)
            keep(simulation)
            simulation.cycle(stop_when=lambda _: True)
        except RecursionError:
            raise CommandError("an object of the cluster is nested too deeply to be simulated") from None
        if node and node not in simulation.cluster.cache.node_names():
            raise CommandError(f"node {node} not found")
        found = node_devices(simulation.last)
    print_devices([device for device in found if node in ("", device.node)], output, detail=bool(node))
