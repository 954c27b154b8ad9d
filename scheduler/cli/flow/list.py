"""``jobflow list`` and ``jobtemplate list``."""

from typing import Any

import click

from scheduler.cli.connection import Connection
from scheduler.cli.flow.kinds import FlowKind
from scheduler.cli.listing import ListFlags, list_flags, show_list
from scheduler.cli.view import View


def list_command(flow: FlowKind) -> click.Command:
    @click.command("list", help=f"List {flow.plural}.")
    @list_flags()
    def command(connection: Connection, flags: ListFlags) -> None:
        show_list(connection, flags, lambda cluster: flow_view(flow, cluster.scope, flags.labels))

    return command


def flow_view(flow: FlowKind, namespace: str, labels: str = "") -> View[Any]:
    """All objects of the kind."""
    from scheduler.cluster.kube.transport.sources import Source

    kind = flow.kind
    return View((Source(kind, namespace, labels=labels),), lambda objects: objects[kind.name], flow.columns)
