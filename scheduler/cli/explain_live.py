"""Reads the objects that the scheduler watches once from the API server, with the configuration of the scheduler."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypedDict

from scheduler.cli.connection import Cluster, Connection, Raw
from scheduler.cli.errors import FORBIDDEN, NOT_FOUND, CommandError
from scheduler.cli.input_warnings import WarningLog
from scheduler.cli.output import key_in, mapping_in
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.api.kinds import Kind
    from scheduler.cli.cluster_source import NamedObject
    from scheduler.cluster.kube.transport.sources import WatchSource
    from scheduler.cluster.manifests import Manifest

_LABELS: Final = "app.kubernetes.io/part-of=volcano-py,app.kubernetes.io/component=scheduler"
"""The labels by which the chart marks objects of the scheduler."""
_FILE: Final = "volcano-scheduler.conf"
_FLAG: Final = "--scheduler-name="
_PAGE: Final = 30_000
"""Objects per page. The API server reads the first page from its cache and the others from etcd, which takes longer."""
_TIMEOUT: Final = 300.0
"""Seconds for a page, which may have some 150 MB."""


class _Metadata(TypedDict, total=False):
    name: Any
    generateName: Any
    namespace: Any
    selfLink: Any
    uid: Any
    resourceVersion: Any
    generation: Any
    creationTimestamp: Any
    deletionTimestamp: Any
    deletionGracePeriodSeconds: Any
    labels: Any
    annotations: Any
    ownerReferences: Any
    finalizers: Any


class _Object(TypedDict, total=False):
    """An object without ``metadata.managedFields``, which are half of a Pod."""

    metadata: _Metadata
    spec: Any
    status: Any


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """The objects of a cluster, and the settings of its scheduler."""

    namespace: str
    """The namespace of the flags or the context."""
    manifests: "list[Manifest]"
    """All objects except Pods."""
    text: str
    """The configuration file."""
    source: str
    """The origin of ``text``, for messages."""
    scheduler_names: tuple[str, ...]
    """The names of the scheduler; none if they could not be read."""
    now: datetime


def read_cluster(
    connection: Connection,
    build: "Callable[[LiveCluster], Callable[[list[Manifest]], object]]",
    *,
    with_configuration: bool,
    with_names: bool,
    load: Callable[[], None],
    log: WarningLog,
    about: "Sequence[NamedObject]" = (),
) -> None:
    """Reads the cluster.

    ``build``: is called when all objects except Pods are read. It returns the function that gets the Pods, some at a
    time as they arrive: the API server takes as long to send them as ``explain`` to load them. ``with_configuration``,
    ``with_names``: whether to read the configuration, the names of the scheduler. ``load``: loads all plugins and the
    rest of the program. It runs in a thread while the API server answers, which takes as long. ``log``: prints which
    kinds cannot be listed. ``about``: objects that are read besides what the scheduler watches. Raises CommandError,
    and what ``build`` and its function raise.
    """

    async def work(cluster: Cluster) -> None:
        from scheduler.api.kinds import ACJOB, CONFIG_MAP, NODE, POD, VCJOB
        from scheduler.cluster.kube.transport.sources import WatchSource, sources

        arrived: asyncio.Queue[list[Manifest] | None] = asyncio.Queue()  # Pods; None: there are no more
        found = [*sources(), WatchSource(VCJOB), WatchSource(ACJOB, optional=True)]
        watched = {source.kind for source in found}
        for each in about:
            found += more_sources(watched, each.namespace or cluster.namespace, each.kind, each.name)
        found = list(dict.fromkeys(found))

        async def reports() -> "list[Manifest]":
            await asyncio.to_thread(load)
            from scheduler.framework.cache_requirements import cache_requirements_of
            from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration

            wanted = cache_requirements_of(parse_configuration(DEFAULT_CONFIGURATION), {}).labelled_config_maps
            return await _lists(
                cluster,
                [
                    WatchSource(CONFIG_MAP, namespace, labels=labels, optional=True)
                    for namespace, labels in sorted(wanted)
                ],
                log,
            )

        async def pods() -> None:
            await asyncio.gather(
                *(_list(cluster, source, arrived.put_nowait, log) for source in found if source.kind is POD)
            )
            arrived.put_nowait(None)

        async def others() -> None:
            objects, more, (text, source), names = await asyncio.gather(
                _lists(cluster, [source for source in found if source.kind is not POD], log),
                reports(),
                _configuration(cluster, with_configuration),
                _scheduler_names(cluster, with_names),
            )
            live = LiveCluster(cluster.namespace, [*objects, *more], text, source, names, datetime.now(UTC))
            take = build(live)
            while (some := await arrived.get()) is not None:
                take(some)

        await cluster.fetch(WatchSource(NODE), at_most=1)  # without this right, nothing else is read
        await asyncio.gather(pods(), others())

    connection.run(work, timeout=_TIMEOUT)


def required_kinds() -> "tuple[Kind, ...]":
    """The kinds without which a cluster cannot be simulated."""
    from scheduler.api.kinds import NODE, POD, POD_GROUP, QUEUE

    return (NODE, POD, POD_GROUP, QUEUE)


def parts_of(kind: "Kind") -> Any:
    """The parts of the objects of a kind that are kept, for a decoder."""
    from scheduler.api.kinds import NODE, POD, POD_GROUP

    return _Object if kind in (NODE, POD, POD_GROUP) else Raw


def more_sources(known: "set[Kind]", namespace: str, kind: str, name: str) -> "list[WatchSource]":
    """What has to be read of an object to explain besides what the scheduler watches.

    Of most kinds that is the object alone, and none where the right lacks: what it owns refers to it. A JobFlow needs
    its JobTemplates. Of other owners of Pods, the Jobs of Kubernetes that some of them create.
    """
    from scheduler.api import kinds
    from scheduler.api.explained_kinds import EXPLAINED
    from scheduler.cluster.kube.transport.sources import WatchSource

    if kind not in EXPLAINED:
        return [WatchSource(kinds.BATCH_JOB, namespace, optional=True)]
    wanted: list[Kind] = [getattr(kinds, constant) for constant in EXPLAINED[kind].constants]
    found = [WatchSource(each, namespace, name=name, optional=True) for each in wanted if each not in known]
    return [*found, WatchSource(kinds.JOB_TEMPLATE, namespace)] if kinds.JOB_FLOW in wanted else found


async def _lists(cluster: Cluster, found: "Sequence[WatchSource]", log: WarningLog) -> "list[Manifest]":
    """Returns the objects of several sources."""
    lists: list[list[Manifest]] = [[] for _ in found]
    pairs = zip(found, lists, strict=True)
    await asyncio.gather(*(_list(cluster, source, items.extend, log) for source, items in pairs))
    return [manifest for several in lists for manifest in several]


async def _list(
    cluster: Cluster, source: "WatchSource", take: "Callable[[list[Manifest]], object]", log: WarningLog
) -> None:
    """Passes the objects of a source to ``take``; none, with a warning, if an optional kind cannot be listed."""
    from scheduler.cluster.manifests import Manifest

    kind = source.kind

    def take_named(items: list[Raw]) -> None:
        by_name = [(key_in(raw)[1], raw) for raw in items]
        prefix = source.name_prefix
        take([Manifest(f"{kind.name} {name}", kind, raw) for name, raw in by_name if name.startswith(prefix)])

    try:
        await cluster.receive(source, take_named, page=_PAGE, parts=parts_of(kind))
    except CommandError as failed:
        if kind in required_kinds() or failed.status not in (NOT_FOUND, FORBIDDEN):
            raise
        if not source.optional and (failed.status != NOT_FOUND or not kind.optional):
            log.warn(f"{failed.message}; explained without")


async def _configuration(cluster: Cluster, wanted: bool) -> tuple[str, str]:
    """Returns the scheduler's configuration file and its origin; the built-in one if it is not wanted or not found."""
    from scheduler.api.kinds import CONFIG_MAP
    from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION

    for raw in await _scheduler_objects(cluster, CONFIG_MAP) if wanted else ():
        text = mapping_in(raw, "data").get(_FILE)
        if isinstance(text, str):
            return text, f"ConfigMap {'/'.join(key_in(raw))}"
    if wanted:
        echo(
            "note: no scheduler's configuration can be read here, the built-in one is taken (--scheduler-conf FILE)",
            err=True,
        )
    return DEFAULT_CONFIGURATION, "built-in configuration"


async def _scheduler_names(cluster: Cluster, wanted: bool) -> tuple[str, ...]:
    """Returns the names in the arguments of the scheduler's Deployments; none if they are not wanted."""
    from scheduler.api.kinds import DEPLOYMENT

    names: dict[str, None] = {}
    for raw in await _scheduler_objects(cluster, DEPLOYMENT) if wanted else ():
        pod = mapping_in(mapping_in(mapping_in(raw, "spec"), "template"), "spec")
        containers = pod.get("containers")
        for container in containers if isinstance(containers, list) else ():
            arguments = container.get("args") if isinstance(container, dict) else None
            for argument in arguments if isinstance(arguments, list) else ():
                if str(argument).startswith(_FLAG):
                    names[str(argument).removeprefix(_FLAG)] = None
    return tuple(names)


async def _scheduler_objects(cluster: Cluster, kind: Any) -> list[Raw]:
    """Returns the objects with the labels of the chart: of all namespaces, else of the system's, as RBAC allows."""
    from scheduler.api.names import SYSTEM_NAMESPACE
    from scheduler.cluster.kube.transport.sources import WatchSource

    for namespace in ("", SYSTEM_NAMESPACE):
        try:
            found = await cluster.fetch(WatchSource(kind, namespace, labels=_LABELS))
        except CommandError as failed:
            if failed.status not in (NOT_FOUND, FORBIDDEN):
                raise
            continue
        return found
    return []
