"""``create`` and ``delete`` of JobFlows and JobTemplates: by name, or what manifests name."""

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.failure import Failed
from scheduler.cli.flow.kinds import FlowKind
from scheduler.cli.manifests import each, file_option
from scheduler.cli.output import key_in
from scheduler.cli.target import connected, named
from scheduler.cli.text import echo


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


def delete_command(flow: FlowKind) -> click.Command:
    @click.command("delete", help=f"Delete {flow.plural}.")
    @named(flow.constant, "-N", "--name", missing=None, many=True)
    @file_option
    @connected(namespaced=True)
    def command(connection: Connection, names: tuple[str, ...], files: tuple[str, ...]) -> None:
        if not names and not files:
            raise Failed(f"{flow.spoken} name must be specified")

        async def work(cluster: Cluster) -> None:
            async def delete(namespace: str, item: dict[str, object]) -> str:
                name = key_in(item)[1]
                await cluster.delete(flow.kind, namespace, name)
                return name

            for name in names:
                await cluster.delete(flow.kind, cluster.namespace, name)
                echo(f"Deleted {flow.kind.name}: {cluster.namespace}/{name}")
            if files:
                await each(files, flow.kind, cluster, connection, delete, "Deleted")

        connection.run(work)

    return command
