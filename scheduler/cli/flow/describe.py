"""``jobflow describe`` and ``jobtemplate describe``: whole objects, in YAML unless told otherwise."""

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.flow.kinds import FlowKind
from scheduler.cli.output import JSON, YAML, nothing_found, output_option, print_list, print_object
from scheduler.cli.target import connected, named


def describe_command(flow: FlowKind) -> click.Command:
    @click.command("describe", help=f"Show one of the {flow.plural}, or all, as a whole.")
    @named(flow.constant, "-N", "--name", missing=None)
    @output_option(YAML, JSON, default=YAML)
    @connected(namespaced=True)
    def command(connection: Connection, name: str, output: str) -> None:
        from scheduler.cluster.kube.transport.sources import Source

        async def work(cluster: Cluster) -> None:
            if name:
                print_object(await cluster.get(flow.kind, cluster.namespace, name), output)
                return
            found = await cluster.fetch(Source(flow.kind, cluster.namespace))
            if found:
                print_list(found, output, flow.kind)
            else:
                nothing_found()

        connection.run(work)

    return command
