"""The cluster that ``explain`` and ``node chips`` examine in memory: manifests, or what an API server has now."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from scheduler.api.names import DEFAULT_NAMESPACE, DEFAULT_SCHEDULER_NAME, EVENT_DEVICES_DISAGREE
from scheduler.cli.connection import Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.flags import Decorator, options_as
from scheduler.cli.input_warnings import FieldWarning, WarningLog, field_warnings
from scheduler.cli.plugins import plugins_option
from scheduler.cli.process import keep, without_garbage_collection
from scheduler.cli.target import connection_options

if TYPE_CHECKING:
    from scheduler.api.kinds import Kind
    from scheduler.api.usage import NodeUsage
    from scheduler.cluster.manifests import Manifest
    from scheduler.cluster.memory import Simulation
    from scheduler.framework.configuration import UsageSource
    from scheduler.framework.external_calls import ExternalCalls


_NODE_OBJECTS: Final = frozenset({"Node", "ConfigMap"})


class NamedObject(NamedTuple):
    """An object that a command is about."""

    kind: str
    """A key of ``EXPLAINED``, or the kind of another owner of Pods."""
    name: str
    namespace: str = ""
    """"": the namespace of the flags or the context."""


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """Where a command reads a cluster from, as its flags say."""

    connection: Connection
    paths: tuple[str, ...]
    """Files with manifests; empty: the API server."""
    conf: str | None
    """The configuration file; None: that of the scheduler in the cluster, else the built-in one."""
    names: tuple[str, ...]
    """The names of the scheduler; empty: those of the scheduler in the cluster, else the default."""
    load: Callable[[], None]
    """Loads all plugins."""
    log: WarningLog = field(default_factory=WarningLog)
    """Prints the warnings, and keeps them for documents."""

    @property
    def is_default(self) -> bool:
        """Whether it is the cluster as its scheduler sees it: no flag names files, a configuration or a scheduler."""
        return not (self.paths or self.conf or self.names)

    @contextmanager
    def simulated(
        self, program: str, about: "Sequence[NamedObject]" = (), *, checked: bool = True
    ) -> "Iterator[tuple[str, Simulation]]":
        """Yields the namespace that the flags or the context name, and the cluster in memory.

        ``program``: the module that the command needs next; it is imported while the API server answers. ``about``:
        objects that are read although the scheduler does not watch their kinds. ``checked``: whether to name likely
        mistakes in manifests. Raises CommandError.
        """

        from scheduler.cluster.external_calls import HttpCalls

        def load() -> None:
            self.load()
            import_module(program)

        with without_garbage_collection(), closing(HttpCalls()) as external_calls:
            try:
                namespace, simulation = self._simulation(load, external_calls, about, checked=checked)
                keep(simulation)
                yield namespace, simulation
            except RecursionError:
                raise CommandError("an object of the cluster is nested too deeply to be simulated") from None

    def field_warnings(
        self, simulation: "Simulation", own: "Iterable[tuple[Kind, str, str]]" = ()
    ) -> list[FieldWarning]:
        """The fields that were set aside while the cluster ran. Of a live cluster: those of nodes and of reports about
        their devices, and those of the objects ``own``: kinds, namespaces and names."""
        keys = {(kind.name, f"{namespace}/{name}" if namespace else name) for kind, namespace, name in own}
        return [
            each
            for each in field_warnings(simulation.cluster.events())
            if self.paths
            or each.kind in _NODE_OBJECTS
            or each.reason == EVENT_DEVICES_DISAGREE
            or (each.kind, each.key) in keys
        ]

    def _simulation(
        self,
        load: Callable[[], None],
        external_calls: "ExternalCalls",
        about: "Sequence[NamedObject]",
        *,
        checked: bool,
    ) -> "tuple[str, Simulation]":
        """Raises CommandError."""
        if self.paths:
            namespace, simulation = self._read_files(load, external_calls, checked=checked)
        else:
            namespace, simulation = self._read_live(load, external_calls, about)
        for refusal in simulation.cluster.undecodable:
            self.log.warn(f"{refusal}; left out")
        usages = query_usage(simulation.configuration.metrics, simulation.cluster.cache.node_names(), self.log)
        simulation.take_usage(usages)
        return namespace, simulation

    def _read_files(
        self, load: Callable[[], None], external_calls: "ExternalCalls", *, checked: bool
    ) -> "tuple[str, Simulation]":
        """Raises CommandError."""
        load()
        from scheduler.cluster.memory import ManifestError, read_manifests
        from scheduler.cluster.mistakes import manifest_warnings
        from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION

        try:
            manifests = read_manifests(self.paths)
            names = self.names or (DEFAULT_SCHEDULER_NAME,)
            for warning in manifest_warnings(manifests, names) if checked else ():
                self.log.warn(warning)
        except ManifestError as error:
            raise CommandError(str(error)) from None
        simulation = self._build(
            manifests, DEFAULT_CONFIGURATION, "built-in configuration", self.names, external_calls=external_calls
        )
        return self.connection.namespace or DEFAULT_NAMESPACE, simulation

    def _read_live(
        self, load: Callable[[], None], external_calls: "ExternalCalls", about: "Sequence[NamedObject]"
    ) -> "tuple[str, Simulation]":
        """Raises CommandError."""
        from scheduler.cli.explain_live import LiveCluster, read_cluster

        built: list[tuple[str, Simulation]] = []

        def build(live: LiveCluster) -> "Callable[[list[Manifest]], object]":
            settings: dict[str, Any] = {"start": live.now, "lenient": True, "more": True}
            names = self.names or live.scheduler_names
            simulation = self._build(
                live.manifests, live.text, live.source, names, external_calls=external_calls, **settings
            )
            built.append((live.namespace, simulation))
            return partial(simulation.cluster.load, lenient=True, more=True)

        read_cluster(
            self.connection,
            build,
            with_configuration=self.conf is None,
            with_names=not self.names,
            load=load,
            about=about,
            log=self.log,
        )
        namespace, simulation = built[0]
        simulation.cluster.load((), lenient=True)
        return namespace, simulation

    def _build(
        self, manifests: "list[Manifest]", text: str, source: str, names: tuple[str, ...], **settings: Any
    ) -> "Simulation":
        """Loads a cluster. ``text``, ``source``: the configuration, and its origin, unless a flag names a file;
        ``settings``: further arguments of ``Simulation``. Raises CommandError."""
        from scheduler.cluster.memory import ManifestError, Simulation
        from scheduler.framework.configuration_file import ConfigurationError, parse_configuration, read_configuration

        try:
            if self.conf is not None:
                text, source = read_configuration(Path(self.conf)), self.conf
            configuration = parse_configuration(text, source)
            for warning in configuration.warnings:
                self.log.warn(warning)
            return Simulation(manifests, configuration, names or (DEFAULT_SCHEDULER_NAME,), **settings)
        except (ManifestError, ConfigurationError) as error:
            raise CommandError(str(error)) from None


def query_usage(settings: "UsageSource | None", nodes: Sequence[str], log: WarningLog) -> "Mapping[str, NodeUsage]":
    """Reads the usage of nodes once from the monitoring system that the configuration names.

    Returns the usage by node, with moments in seconds from now (0 or less). Without an answer it prints a warning and
    returns an empty mapping.
    """
    if settings is None or not nodes:
        return {}
    import asyncio

    from scheduler.cluster.usage import SourceError

    try:
        return asyncio.run(measured(settings, nodes))
    except SourceError as error:
        log.warn(f"the load of nodes is not known: {error}")
        return {}


async def measured(settings: "UsageSource", nodes: Sequence[str]) -> "Mapping[str, NodeUsage]":
    """The usage of nodes by name, with moments in seconds from now (0 or less). Raises SourceError."""
    from msgspec.structs import replace

    from scheduler.cluster.usage import measure_once

    usages = await measure_once(settings, nodes)
    now = time.time()
    return {name: replace(usage, moment=min(usage.moment - now, 0.0)) for name, usage in usages.items()}


def cluster_source_options(*manifests: str, namespaced: bool = False) -> Decorator:
    """Adds the flags that name a cluster to a command, whose function takes the parameter ``source``.

    ``manifests``: the flag that names files with manifests, ``-f`` by default; ``namespaced``: adds ``-n``.
    """
    return options_as(
        "source",
        ClusterSource,
        click.option(
            *(manifests or ("-f", "--filename")),
            "paths",
            multiple=True,
            metavar="FILE",
            type=click.Path(),
            help="File, directory or - with manifests, instead of the cluster. Repeatable.",
        ),
        click.option(
            "--scheduler-conf",
            "conf",
            metavar="FILE",
            type=click.Path(),
            help="Scheduler configuration; by default that of the scheduler in the cluster, else built in.",
        ),
        click.option(
            "--scheduler-name", "names", multiple=True, help="schedulerName of Pods to schedule (repeatable)."
        ),
        plugins_option,
        connection_options(namespaced=namespaced),
    )
