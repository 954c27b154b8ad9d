"""``jobflow get`` and ``jobtemplate get``: one object, as ``list`` shows it."""

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.flow.kinds import FlowKind
from scheduler.cli.flow.list import flow_view
from scheduler.cli.output import TABLE, WIDE, output_option, print_object
from scheduler.cli.target import connected, named
from scheduler.cli.view import print_rows, read_one


def get_command(flow: FlowKind) -> click.Command:
    @click.command("get", help=f"Show one of the {flow.plural}.")
    @named(flow.constant, "-N", "--name", missing=f"name is mandatory to get the particular {flow.spoken} details")
    @output_option()
    @connected(namespaced=True)
    def command(connection: Connection, name: str, output: str) -> None:
        async def work(cluster: Cluster) -> None:
            raw = await cluster.get(flow.kind, cluster.namespace, name)
            if output not in (TABLE, WIDE):
                print_object(raw, output, flow.kind)
                return
            print_rows(flow_view(flow, cluster.namespace), [read_one(flow.kind, raw)], output)

        connection.run(work)

    return command
