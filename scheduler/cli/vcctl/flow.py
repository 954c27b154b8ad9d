"""``vcctl jobflow`` and ``vcctl jobtemplate``: one group of commands for each of the two kinds."""

from collections.abc import Awaitable, Callable
from typing import Any

import click

from scheduler.api.names import DEFAULT_NAMESPACE
from scheduler.cli.connection import Cluster, Connection, Raw
from scheduler.cli.errors import CommandError
from scheduler.cli.flow import JOB_FLOW, JOB_TEMPLATE, FlowKind, flow_group, flow_view
from scheduler.cli.operations import read_files
from scheduler.cli.output import JSON, YAML, key_in, print_object
from scheduler.cli.text import echo
from scheduler.cli.vcctl.flags import connection_flags, name_flag, required
from scheduler.cli.vcctl.table import print_view, table_lines
from scheduler.cli.view import read_one

Change = Callable[[Cluster, str, Raw], Awaitable[None]]
"""Creates or deletes an object of a namespace."""
_file_flag = click.option("-f", "--file", default="", metavar="FILE", help="Manifests.")


def _create(flow: FlowKind) -> click.Command:
    @click.command("create", help=f"Create the {flow.plural} of a file.")
    @_file_flag
    @connection_flags()
    def command(connection: Connection, file: str) -> None:
        required(file, "a file must be specified with -f")
        connection.run(lambda cluster: _for_each(cluster, flow, file, _created, "create"))

    async def _created(cluster: Cluster, namespace: str, item: Raw) -> None:
        await cluster.create(flow.kind, namespace, item)

    return command


def _delete(flow: FlowKind) -> click.Command:
    @click.command("delete", help=f"Delete one of the {flow.plural}, or those of a file.")
    @name_flag(flow.constant, "-N")
    @_file_flag
    @connection_flags("-n")
    def command(connection: Connection, name: str, file: str) -> None:
        async def work(cluster: Cluster) -> None:
            await cluster.delete(flow.kind, cluster.namespace, name)
            echo(f"Deleted {flow.kind.name}: {cluster.namespace}/{name}")

        if file:
            connection.run(lambda cluster: _for_each(cluster, flow, file, _deleted, "delete"))
        else:
            required(name, f"{flow.display_name} name must be specified")
            connection.run(work)

    async def _deleted(cluster: Cluster, namespace: str, item: Raw) -> None:
        await cluster.delete(flow.kind, namespace, key_in(item)[1])

    return command


async def _for_each(cluster: Cluster, flow: FlowKind, file: str, change: Change, verb: str) -> None:
    """Changes each object of a file. A refusal is printed, and the command does not fail."""
    kind = flow.kind
    for namespace, item in read_files([file], kind, DEFAULT_NAMESPACE):
        try:
            await change(cluster, namespace, item)
            echo(f"{verb.capitalize()}d {kind.name}: {namespace}/{key_in(item)[1]}")
        except CommandError as refused:
            echo(f"Failed to {verb} {kind.name}: {refused.answer or refused.message}")


def _list(flow: FlowKind) -> click.Command:
    @click.command("list", help=f"List {flow.plural}.")
    @connection_flags("-n", all_namespaces=flow is JOB_FLOW)
    def command(connection: Connection) -> None:
        connection.run(lambda cluster: print_view(cluster, flow_view(flow, cluster.scope)))

    return command


def _get(flow: FlowKind) -> click.Command:
    @click.command("get", help=f"Show the row of one of the {flow.plural}.")
    @name_flag(flow.constant, "-N")
    @connection_flags("-n")
    def command(connection: Connection, name: str) -> None:
        required(name, f"name is mandatory to get the particular {flow.display_name} details")

        async def work(cluster: Cluster) -> None:
            found: Any = read_one(flow.kind, await cluster.get(flow.kind, cluster.namespace, name))
            for line in table_lines(flow.columns, [found]):
                echo(line)

        connection.run(work)

    return command


def _describe(flow: FlowKind) -> click.Command:
    @click.command("describe", help=f"Print one or all {flow.plural} of a namespace as YAML or JSON.")
    @name_flag(flow.constant, "-N")
    @click.option("-o", "--format", "form", default=YAML, show_default=True, help=f"{YAML} or {JSON}.")
    @connection_flags("-n")
    def command(connection: Connection, name: str, form: str) -> None:
        from scheduler.cluster.kube.transport.sources import WatchSource

        async def work(cluster: Cluster) -> None:
            if name:
                found = [await cluster.get(flow.kind, cluster.namespace, name)]
            else:
                found = await cluster.fetch(WatchSource(flow.kind, cluster.namespace))
            for number, item in enumerate(found):
                for _ in range(2 if number else 0):
                    echo()
                if form in (JSON, YAML):
                    print_object(item, form)
                else:
                    echo(f"Unsupported format: {form}")

        connection.run(work)

    return command


_BUILDERS = (_create, _delete, _describe, _get, _list)
jobflow_group = flow_group(JOB_FLOW, _BUILDERS)
jobtemplate_group = flow_group(JOB_TEMPLATE, _BUILDERS)
