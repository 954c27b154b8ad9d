"""A cluster in memory that follows an API server, so that questions about it need not read the cluster again.

The copy is as the API server has the cluster: no controller and no session runs on it. Answers run on copies of it.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from scheduler.api.kinds import ACJOB, CONFIG_MAP, KINDS, VCJOB, Kind
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import Malformed
from scheduler.cli.errors import CommandError
from scheduler.cli.explain_live import parts_of, required_kinds
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.sources import WatchSource, sources
from scheduler.cluster.kube.watch.informer import Informer
from scheduler.cluster.kube.watch.informer_set import InformerSet, fulfilled, long_lived_objects, reached
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory import Simulation
from scheduler.cluster.memory.server import Key, key_of
from scheduler.framework.cache_requirements import cache_requirements_of
from scheduler.framework.configuration import Configuration
from scheduler.framework.external_calls import NO_EXTERNAL_CALLS, ExternalCalls
from scheduler.observability.role_metrics import RoleMetrics

MAX_WAITING: Final = 10_000
"""Changes that wait to be taken in together. Several changes of one object are one."""
QUIET: Final = 1.0
"""Seconds without a change after which those that wait are taken in."""
MAX_DELETED: Final = 100_000
"""Deleted objects after which a new copy is due: what is known of deleted objects is not freed."""
SETTLING: Final = 0.05
"""Seconds in which changes arrive that were made before a question."""
_PATIENCE: Final = 5.0
"""Seconds for which a failing watch is retried before an error is reported."""
_POLL: Final = 0.02
Raw = dict[str, Any]


class WatchedCluster:
    """Belongs to one event loop. Call ``start``, then ``close``; it is the sink of informers."""

    def __init__(
        self,
        client: ApiClient,
        configuration: Configuration,
        scheduler_names: Sequence[str],
        external_calls: ExternalCalls = NO_EXTERNAL_CALLS,
    ) -> None:
        """``external_calls``: of the copy, see ``Simulation``."""
        self.deleted = 0
        """Objects that were deleted since the start."""
        self._configuration = configuration
        self._names = scheduler_names
        self._external_calls = external_calls
        self._changed: dict[tuple[Kind, str, str], msgspec.Raw | None] = {}
        """The changes that the copy does not have; None: deleted."""
        self._changed_at = 0.0
        self._simulation: Simulation | None = None
        self._following: asyncio.Task[None] | None = None
        metrics = RoleMetrics()
        self._informers = [
            Informer(client, source, self, _ignore, metrics, originals=self, struct=KubeObject)
            for source in _sources(configuration)
        ]
        self._set = InformerSet(self._informers)

    def start(self) -> None:
        self._set.start()
        self._following = asyncio.create_task(self._follow())

    async def close(self) -> None:
        if self._following is not None:
            await cancel(self._following)
        await self._set.close()

    async def _follow(self) -> None:
        """Takes changes in while there is no question, so that the next answer need not."""
        while True:
            await asyncio.sleep(QUIET)
            quiet = time.monotonic() - self._changed_at > QUIET or len(self._changed) > MAX_WAITING
            if self._simulation is not None and self._changed and quiet:
                self._take_in()

    async def simulation(self) -> Simulation:
        """The copy, with all changes until now; it is the same object at each call. Raises CommandError if the cluster
        cannot be read."""
        await self._ready()
        await asyncio.sleep(SETTLING)
        self._take_in()
        assert self._simulation is not None
        self._simulation.snapshot()  # each answer would compute it again
        return self._simulation

    async def await_version(self, kind: Kind, namespace: str, name: str, version: str) -> None:
        """Waits for a version of an object that the API server has shown, for a short time."""
        informers = [each for each in self._informers if each.source.kind is kind and not each.source.namespace]
        await fulfilled(lambda: any(reached(each.versions.get((namespace, name), ""), version) for each in informers))

    @property
    def kinds(self) -> set[Kind]:
        """The kinds of which the copy has all objects."""
        return {each.source.kind for each in self._informers if not each.source.namespace}

    # --- reading ------------------------------------------------------------------------------------------------------
    async def _ready(self) -> None:
        """Waits until all first lists are complete. Raises CommandError."""
        while waiting := [each for each in self._informers if not each.synced.is_set()]:
            if all(each.problem and each.source.kind not in required_kinds() for each in waiting):
                break
            await self._check()
            await asyncio.sleep(_POLL)
        await self._check()

    async def _check(self) -> None:
        """Raises CommandError if a watch fails again and again without which the copy would be wrong."""

        def failing() -> list[Informer]:
            needed = (each for each in self._informers if each.versions or each.source.kind in required_kinds())
            return [each for each in needed if each.problem]

        if not await fulfilled(lambda: not failing(), _PATIENCE):
            for each in failing():
                raise CommandError(f"watch {each.source}: {each.problem}")

    # --- the sink of informers ----------------------------------------------------------------------------------------
    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        """The original follows."""

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        self.deleted += 1
        self._change((kind, namespace, name), None)

    def wants_original(self, kind: Kind) -> bool:
        return True

    def keep_original(self, kind: Kind, namespace: str, name: str, original: object) -> None:
        assert isinstance(original, msgspec.Raw)
        self._change((kind, namespace, name), original)

    def _change(self, key: tuple[Kind, str, str], original: msgspec.Raw | None) -> None:
        self._changed[key] = original
        self._changed_at = time.monotonic()

    # --- the copy -----------------------------------------------------------------------------------------------------
    def _take_in(self) -> None:
        """Brings the copy up to date."""
        changed, self._changed = self._changed, {}
        if self._simulation is None:
            with long_lived_objects():
                self._simulation = self._loaded(changed)
        else:
            manifests = _manifests((key, raw) for key, raw in changed.items() if raw is not None)
            self._simulation.cluster.follow(manifests, _keys(key for key, raw in changed.items() if raw is None))
        self._simulation.cluster.undecodable.clear()

    def _loaded(self, objects: dict[tuple[Kind, str, str], msgspec.Raw | None]) -> Simulation:
        made = Simulation(
            _manifests((key, raw) for key, raw in objects.items() if raw is not None),
            self._configuration,
            self._names,
            start=datetime.now(UTC),
            lenient=True,
            more=True,
            external_calls=self._external_calls,
        )
        made.checks_external_plugins = False  # as in the scheduler, whose decisions are shown
        return made


def _sources(configuration: Configuration) -> list[WatchSource]:
    """What the scheduler watches with a configuration, and the jobs from which Pods are created."""
    wanted = cache_requirements_of(configuration, {})
    named = sorted(wanted.config_maps | wanted.optional_config_maps)
    return [
        *sources(),
        WatchSource(VCJOB),
        WatchSource(ACJOB, optional=True),
        *(WatchSource(CONFIG_MAP, namespace, name=name, optional=True) for namespace, name in named),
        *(
            WatchSource(CONFIG_MAP, namespace, labels=labels, optional=True)
            for namespace, labels in sorted(wanted.labelled_config_maps)
        ),
    ]


_DECODERS: Final = {kind: msgspec.json.Decoder(parts_of(kind)) for kind in KINDS}


def _manifests(objects: Iterable[tuple[tuple[Kind, str, str], msgspec.Raw]]) -> list[Manifest]:
    """The manifests of objects. Lists leave out the kind of each."""
    return [
        Manifest(
            f"{kind.name} {name}",
            kind,
            {"apiVersion": kind.api_version, "kind": kind.name, **_DECODERS[kind].decode(original)},
        )
        for (kind, _, name), original in objects
    ]


def _keys(objects: Iterable[tuple[Kind, str, str]]) -> list[Key]:
    return [key_of(*each) for each in objects]


def _ignore(malformed: Malformed, _: object) -> None:
    """The scheduler reports objects that cannot be decoded."""
