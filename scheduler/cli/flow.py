"""``volcano-py jobflow`` and ``volcano-py jobtemplate``: the same verbs for two kinds."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.listing import ListFlags, list_flags, show_list
from scheduler.cli.operations import file_option, for_each
from scheduler.cli.output import (
    JSON,
    TABLE,
    WIDE,
    YAML,
    Column,
    key_in,
    nothing_found,
    output_option,
    print_list,
    print_object,
)
from scheduler.cli.target import connection_options, name_argument
from scheduler.cli.text import age, echo
from scheduler.cli.view import View, print_rows, read_one

if TYPE_CHECKING:
    from scheduler.api.kinds import Kind


_GAP = 4


@dataclass(frozen=True)
class FlowKind:
    """What the commands use of JobFlows, or of JobTemplates."""

    constant: str
    """The name of its constant in ``scheduler.api.kinds``."""
    command: str
    plural: str
    display_name: str
    """Its name in vcctl's messages."""
    columns: tuple[Column[Any], ...]

    @property
    def kind(self) -> "Kind":
        from scheduler.api import kinds

        kind: Kind = getattr(kinds, self.constant)
        return kind


def _state(field: str) -> Callable[[Any], str]:
    """The cell with a field of a JobFlow's ``status.state``."""

    def cell(flow: Any) -> str:
        state = flow.status.get("state")
        return str(state.get(field, "")) if isinstance(state, dict) else ""

    return cell


def _jobs(field: str) -> Column[Any]:
    """The number of jobs in the list ``<field>Jobs`` of a JobFlow's status."""

    def cell(flow: Any) -> int:
        jobs = flow.status.get(f"{field}Jobs")
        return len(jobs) if isinstance(jobs, list) else 0

    return Column(field.capitalize(), cell, wide=True)


_NAMES: tuple[Column[Any], ...] = (
    Column("Name", lambda item: item.metadata.name, gap=_GAP),
    Column("Namespace", lambda item: item.metadata.namespace, gap=_GAP),
)
_AGE: Column[Any] = Column("Age", lambda item: age(item.metadata.creation_timestamp, time.time()), gap=_GAP)

JOB_FLOW = FlowKind(
    "JOB_FLOW",
    "jobflow",
    "JobFlows",
    "jobflow",
    (
        *_NAMES,
        Column("Phase", _state("phase"), gap=_GAP, phase=True),
        _AGE,
        *(_jobs(field) for field in ("pending", "running", "completed", "failed", "terminated")),
        Column("Message", _state("message"), wide=True),
    ),
)
JOB_TEMPLATE = FlowKind("JOB_TEMPLATE", "jobtemplate", "JobTemplates", "job template", _NAMES)


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


def flow_group(kind: FlowKind, builders: Iterable[Callable[[FlowKind], click.Command]]) -> click.Group:
    """The group of commands of a kind. ``builders``: make its commands."""
    group = click.Group(kind.command, help=f"Create, show and delete {kind.plural}.")
    for build in builders:
        group.add_command(build(kind))
    return group


_BUILDERS = (create_command, delete_command, describe_command, get_command, list_command)
jobflow_group = flow_group(JOB_FLOW, _BUILDERS)
jobtemplate_group = flow_group(JOB_TEMPLATE, _BUILDERS)
