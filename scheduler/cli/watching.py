"""The verb ``list`` with ``--watch``, and the objects of live views, kept up to date by informers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import Malformed
from scheduler.cli.connection import Cluster
from scheduler.cli.errors import NOT_FOUND, CommandError
from scheduler.cli.output import TABLE, WIDE, RowTable, print_object
from scheduler.cli.text import echo
from scheduler.cli.view import Key, ListedObjects, View, key_of, warn
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.kube.watch.informer import Informer
from scheduler.observability.role_metrics import RoleMetrics

T = TypeVar("T")


class WatchedObjects:
    """The objects of some sources, kept up to date by informers, of which it is the ``Sink``."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self._objects: dict[Kind, dict[Key, Any]] = {}

    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        self._objects.setdefault(kind, {})[key_of(obj)] = obj
        self.changed.set()

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        self._objects.get(kind, {}).pop((namespace, name), None)
        self.changed.set()

    def objects(self, sources: Sequence[WatchSource]) -> ListedObjects:
        return {source.kind: list(self._objects.get(source.kind, {}).values()) for source in sources}


@asynccontextmanager
async def watch_objects(cluster: Cluster, sources: Sequence[WatchSource]) -> AsyncIterator[WatchedObjects]:
    """Watches sources. The objects of the first lists are there from the beginning.

    Raises CommandError when the API server refuses a list. Later failures are retried.
    """
    await asyncio.gather(*(cluster.fetch(source, at_most=1) for source in sources))
    watched = WatchedObjects()
    metrics = RoleMetrics()
    informers = [Informer(cluster.client, source, watched, _report, metrics) for source in sources]
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    try:
        await asyncio.gather(*(informer.synced.wait() for informer in informers))
        yield watched
    finally:
        await cancel(*tasks)


def _report(malformed: Malformed, _: object) -> None:
    warn(malformed.kind, malformed.namespace, malformed.name, malformed.field, malformed.problem)


async def watch(cluster: Cluster, view: View[T], output: str) -> None:
    """Prints the rows, and each again when it changes, until cancelled. Raises CommandError."""
    table = RowTable(view.columns, output)
    shown: dict[Key, T] = {}
    async with watch_objects(cluster, view.sources) as watched:
        while True:
            watched.changed.clear()
            rows = {view.key(row): row for row in view.rows(watched.objects(view.sources))}
            changed = [key for key, row in rows.items() if row != shown.get(key)]
            shown = rows
            if changed and output in (TABLE, WIDE):
                for line in table.lines([rows[key] for key in changed]):
                    echo(line)
            elif changed:
                await _print_each(cluster, view.kind, changed, output)
            await watched.changed.wait()


async def _print_each(cluster: Cluster, kind: Kind, keys: Sequence[Key], output: str) -> None:
    """Fetches and prints whole objects: informers keep only the fields that tables show."""
    for namespace, name in keys:
        try:
            print_object(await cluster.get(kind, namespace, name), output, kind)
        except CommandError as failed:
            if failed.status != NOT_FOUND:
                raise
