"""A cluster as the scheduler sees it, read once over its API, with the configuration that its scheduler runs with."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from scheduler.cli.connection import Cluster, Connection, Raw
from scheduler.cli.failure import NOT_FOUND, Failed
from scheduler.cli.text import echo

if TYPE_CHECKING:
    from scheduler.cluster.kube.transport.sources import Source
    from scheduler.cluster.manifests import Manifest

_LABELS: Final = "app.kubernetes.io/part-of=volcano-py,app.kubernetes.io/component=scheduler"
"""What the chart puts on all that is the scheduler's."""
_FILE: Final = "volcano-scheduler.conf"
_FLAG: Final = "--scheduler-name="
_FORBIDDEN: Final = 403
_PAGE: Final = 2_000
"""Objects per page: of a large cluster it takes as long to ask for pages one after the other as to read them."""


@dataclass(frozen=True, slots=True)
class Live:
    """What was read."""

    namespace: str
    """That of the flags or the context."""
    manifests: "list[Manifest]"
    text: str
    """The configuration file."""
    source: str
    """Where that came from, for messages."""
    scheduler_names: tuple[str, ...]
    """Those the scheduler answers to; none: that could not be read."""
    now: datetime


def read_cluster(connection: Connection, *, configured: bool, named: bool) -> Live:
    """``configured``, ``named``: the configuration, the scheduler's names are known already. Raises Failed."""

    async def work(cluster: Cluster) -> Live:
        from scheduler.api.kinds import VCJOB
        from scheduler.cluster.kube.transport.sources import Source, sources

        read = asyncio.gather(*(_list(cluster, source) for source in [*sources(), Source(VCJOB)]))
        (text, source), names, lists = await asyncio.gather(
            _configuration(cluster, configured), _scheduler_names(cluster, named), read
        )
        found = [manifest for several in lists for manifest in several]
        return Live(cluster.namespace, found, text, source, names, datetime.now(UTC))

    return connection.run(work, timeout=60.0)


async def _list(cluster: Cluster, source: "Source") -> "list[Manifest]":
    """The objects of a source."""
    from scheduler.api.kinds import NODE, OPTIONAL, POD, POD_GROUP, QUEUE
    from scheduler.cluster.manifests import Manifest

    kind = source.kind
    try:
        items = await cluster.fetch(source, page=_PAGE)
    except Failed as failed:
        if kind in (NODE, POD, POD_GROUP, QUEUE) or failed.status not in (NOT_FOUND, _FORBIDDEN):
            raise
        if failed.status != NOT_FOUND or kind not in OPTIONAL:
            echo(f"warning: {failed.message}; explained without", err=True)
        return []
    named = [(_name(raw), raw) for raw in items]
    return [Manifest(f"{kind.name} {name}", kind, raw) for name, raw in named if name.startswith(source.name_prefix)]


async def _configuration(cluster: Cluster, configured: bool) -> tuple[str, str]:
    """The scheduler's configuration file and where it comes from."""
    from scheduler.api.kinds import CONFIG_MAP
    from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION

    for raw in () if configured else await _of_the_scheduler(cluster, CONFIG_MAP):
        text = _dict(raw, "data").get(_FILE)
        if isinstance(text, str):
            return text, f"ConfigMap {_dict(raw, 'metadata').get('namespace', '')}/{_name(raw)}"
    if not configured:
        echo(
            "note: no scheduler's configuration can be read here, the built-in one is taken (--scheduler-conf FILE)",
            err=True,
        )
    return DEFAULT_CONFIGURATION, "built-in configuration"


async def _scheduler_names(cluster: Cluster, named: bool) -> tuple[str, ...]:
    """What the scheduler's Deployments say. ``named``: it is known already, and none is given."""
    from scheduler.api.kinds import DEPLOYMENT

    names: dict[str, None] = {}
    for raw in () if named else await _of_the_scheduler(cluster, DEPLOYMENT):
        pod = _dict(_dict(_dict(raw, "spec"), "template"), "spec")
        containers = pod.get("containers")
        for container in containers if isinstance(containers, list) else ():
            arguments = container.get("args") if isinstance(container, dict) else None
            for argument in arguments if isinstance(arguments, list) else ():
                if str(argument).startswith(_FLAG):
                    names[str(argument).removeprefix(_FLAG)] = None
    return tuple(names)


async def _of_the_scheduler(cluster: Cluster, kind: Any) -> list[Raw]:
    """Objects that the chart made for the scheduler, as far as one may see them."""
    from scheduler.api.names import SYSTEM_NAMESPACE
    from scheduler.cluster.kube.transport.sources import Source

    for namespace in ("", SYSTEM_NAMESPACE):
        try:
            found = await cluster.fetch(Source(kind, namespace, labels=_LABELS))
        except Failed as failed:
            if failed.status not in (NOT_FOUND, _FORBIDDEN):
                raise
            continue
        return found
    return []


def _name(raw: Raw) -> str:
    return str(_dict(raw, "metadata").get("name", ""))


def _dict(raw: Raw, field: str) -> Raw:
    value = raw.get(field)
    return value if isinstance(value, dict) else {}
