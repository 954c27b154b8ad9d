"""``create`` and ``delete`` of JobFlows and JobTemplates, by manifests; ``delete`` by name too."""

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.flow.kinds import FlowKind
from scheduler.cli.manifests import file_option, for_each
from scheduler.cli.output import key_in
from scheduler.cli.target import connection_options, name_argument
from scheduler.cli.text import echo


def create_command(flow: FlowKind) -> click.Command:
    @click.command("create", help=f"Create the {flow.plural} of manifests.")
    @file_option
    @connection_options(namespaced=True)
    def command(connection: Connection, files: tuple[str, ...]) -> None:
        if not files:
            raise CommandError("a file must be specified with -f")

        async def work(cluster: Cluster) -> None:
            async def create(namespace: str, item: dict[str, object]) -> str:
                return key_in(await cluster.create(flow.kind, namespace, item))[1]

            await for_each(files, flow.kind, cluster, connection, create, "Created")

        connection.run(work)

    return command


def delete_command(flow: FlowKind) -> click.Command:
    @click.command("delete", help=f"Delete {flow.plural}.")
    @name_argument(flow.constant, "-N", "--name", missing=None, multiple=True)
    @file_option
    @connection_options(namespaced=True)
    def command(connection: Connection, names: tuple[str, ...], files: tuple[str, ...]) -> None:
        if not names and not files:
            raise CommandError(f"{flow.display_name} name must be specified")

        async def work(cluster: Cluster) -> None:
            async def delete(namespace: str, item: dict[str, object]) -> str:
                name = key_in(item)[1]
                await cluster.delete(flow.kind, namespace, name)
                return name

            for name in names:
                await cluster.delete(flow.kind, cluster.namespace, name)
                echo(f"Deleted {flow.kind.name}: {cluster.namespace}/{name}")
            if files:
                await for_each(files, flow.kind, cluster, connection, delete, "Deleted")

        connection.run(work)

    return command
