"""``list``, ``get`` and ``describe`` of JobFlows and JobTemplates: a table, one row, or whole objects."""

from typing import Any

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.flow.kinds import FlowKind
from scheduler.cli.listing import ListFlags, list_flags, show_list
from scheduler.cli.output import JSON, TABLE, WIDE, YAML, nothing_found, output_option, print_list, print_object
from scheduler.cli.target import connection_options, name_argument
from scheduler.cli.view import View, print_rows, read_one


def list_command(flow: FlowKind) -> click.Command:
    @click.command("list", help=f"List {flow.plural}.")
    @list_flags()
    def command(connection: Connection, flags: ListFlags) -> None:
        show_list(connection, flags, lambda cluster: flow_view(flow, cluster.scope, flags.labels))

    return command


def flow_view(flow: FlowKind, namespace: str, labels: str = "") -> View[Any]:
    """The table of all objects of the kind."""
    from scheduler.cluster.kube.transport.sources import WatchSource

    kind = flow.kind
    return View((WatchSource(kind, namespace, labels=labels),), lambda objects: objects[kind], flow.columns)


def get_command(flow: FlowKind) -> click.Command:
    @click.command("get", help=f"Show one row of the list of {flow.plural}.")
    @name_argument(
        flow.constant, "-N", "--name", missing=f"name is mandatory to get the particular {flow.display_name} details"
    )
    @output_option()
    @connection_options(namespaced=True)
    def command(connection: Connection, name: str, output: str) -> None:
        async def work(cluster: Cluster) -> None:
            raw = await cluster.get(flow.kind, cluster.namespace, name)
            if output not in (TABLE, WIDE):
                print_object(raw, output, flow.kind)
                return
            print_rows(flow_view(flow, cluster.namespace), [read_one(flow.kind, raw)], output)

        connection.run(work)

    return command


def describe_command(flow: FlowKind) -> click.Command:
    @click.command("describe", help=f"Print one or all {flow.plural} as YAML or JSON.")
    @name_argument(flow.constant, "-N", "--name", missing=None)
    @output_option(YAML, JSON, default=YAML)
    @connection_options(namespaced=True)
    def command(connection: Connection, name: str, output: str) -> None:
        from scheduler.cluster.kube.transport.sources import WatchSource

        async def work(cluster: Cluster) -> None:
            if name:
                print_object(await cluster.get(flow.kind, cluster.namespace, name), output)
                return
            found = await cluster.fetch(WatchSource(flow.kind, cluster.namespace))
            if found:
                print_list(found, output, flow.kind)
            else:
                nothing_found()

        connection.run(work)

    return command
