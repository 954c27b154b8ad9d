"""``jobflow create`` and ``jobtemplate create``."""

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.failure import Failed
from scheduler.cli.flow.kinds import FlowKind
from scheduler.cli.manifests import each, file_option
from scheduler.cli.output import key_in
from scheduler.cli.target import connected


def create_command(flow: FlowKind) -> click.Command:
    @click.command("create", help=f"Create the {flow.plural} of manifests.")
    @file_option
    @connected(namespaced=True)
    def command(connection: Connection, files: tuple[str, ...]) -> None:
        if not files:
            raise Failed("a file must be specified with -f")

        async def work(cluster: Cluster) -> None:
            async def create(namespace: str, item: dict[str, object]) -> str:
                return key_in(await cluster.create(flow.kind, namespace, item))[1]

            await each(files, flow.kind, cluster, connection, create, "Created")

        connection.run(work)

    return command
