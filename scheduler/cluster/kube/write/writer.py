"""Carries out what sessions decide: bindings first, then evictions and admissions, then status, then Events.

Nothing here decides. A write that fails for a while is tried again; one that cannot come about is told to the cache,
and the next session decides anew. How each is made is told in ``placements`` and ``statuses``.
"""

from collections.abc import Sequence
from functools import partial

from scheduler.api.decisions import Bind, Decisions
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.fence import Fence
from scheduler.cluster.kube.write.events import Recorder
from scheduler.cluster.kube.write.lanes import URGENT, Lanes, Urgency
from scheduler.cluster.kube.write.placements import Binding, Cache, Eviction, Means, not_prepared
from scheduler.cluster.kube.write.preparer import Preparer
from scheduler.cluster.kube.write.signing_key import SharedKey
from scheduler.cluster.kube.write.statuses import Statuses
from scheduler.cluster.kube.write.underway import Underway
from scheduler.observability.metrics import Metrics

BACKLOG = 10_000
"""Bindings and evictions not yet done above which no new session should be held."""


class Writer:
    """For one event loop. ``submit`` returns at once."""

    def __init__(
        self,
        client: ApiClient,
        cache: Cache,
        lanes: Lanes,
        recorder: Recorder,
        metrics: Metrics,
        fence: Fence,
        scheduler_name: str,
        signing: SharedKey,
    ) -> None:
        self._lanes = lanes
        self._recorder = recorder
        self._statuses = Statuses(client, lanes, metrics, fence, signing)
        self._preparer = Preparer(client, fence, cache, lanes.limit(Urgency.BINDING))
        self._means = Means(
            client, fence, cache, self._preparer, self._statuses, recorder, metrics, scheduler_name, signing
        )

    def submit(self, decisions: Decisions) -> None:
        """Queue everything. To be called before the cache assumes the same decisions: what a Pod's condition said until
        now is read from its task."""
        together: dict[int, list[Bind]] = {}
        for bind in decisions.binds:
            if bind.together:
                together.setdefault(bind.together, []).append(bind)
            else:
                self._bind(bind)
        for binds in together.values():
            self._preparer.begin(binds, self._bind, partial(not_prepared, self._means))
        for eviction in decisions.evictions:
            self._lanes.submit(Urgency.EVICTION, ("evict", eviction.task.uid), Eviction(self._means, eviction))
        for ungate in decisions.ungates:
            self._statuses.ungate(ungate)
        for group in decisions.pod_groups:
            self._statuses.group(group)
        for pod in decisions.pods:
            self._statuses.pod(pod)
        for queue in decisions.queues:
            self._statuses.queue(queue)
        for event in decisions.events:
            self._recorder.post(event)

    def _bind(self, bind: Bind, underway: Sequence[Underway] = ()) -> None:
        self._statuses.drop_pod(bind.task)  # why it waited: it does no longer
        self._lanes.submit(Urgency.BINDING, ("bind", bind.task.uid), Binding(self._means, bind, underway))

    @property
    def overloaded(self) -> bool:
        """So much is still to be done that deciding more would not help."""
        return self._lanes.backlog(Urgency.BINDING) + self._lanes.backlog(Urgency.EVICTION) > BACKLOG

    async def close(self) -> None:
        """Give up what still waits for other objects."""
        await self._preparer.close()

    async def flush(self, timeout: float) -> bool:
        """Wait for bindings, evictions and status to be done; whether that came about within ``timeout`` seconds."""
        return await self._lanes.drain((*URGENT, Urgency.STATUS), timeout)
