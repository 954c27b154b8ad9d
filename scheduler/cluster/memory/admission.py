"""Admission for a cluster in memory: the functions the webhooks serve, over the objects of the simulation."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, cast

from scheduler.api.kinds import NAMESPACE, POD, POD_GROUP, QUEUE, Kind
from scheduler.api.names import DEFAULT_QUEUE, GROUP_NAME
from scheduler.api.objects import ENDED_PHASES, Namespace, Pod
from scheduler.api.scheduling import PodGroup, Queue
from scheduler.cluster.memory.server import Json, MemoryServer
from scheduler.controllers.job.plugins import PLUGIN_NAMES
from scheduler.webhooks.contract import Operation, Request, Settings
from scheduler.webhooks.routes import admit, routes

_MUTATING: Final = ("/jobs/mutate", "/queues/mutate", "/podgroups/mutate")
_QUEUE_GATES: Final = ("/pods/mutate",)
"""Without resource groups, which a simulation has none of, it does nothing else."""
_VALIDATING: Final = (
    "/jobs/validate",
    "/hypernodes/validate",
    "/cronjobs/validate",
    "/jobflows/validate",
)
"""Not Queues, PodGroups and Pods: those of a simulation may be a copy of what a cluster holds (a group in a queue that
is closed, a queue whose parent is gone), and what comes of that is the very question."""


class Admission:
    """Asked about every object that is read, as if it were created now; one that has a uid was admitted elsewhere."""

    def __init__(self, server: MemoryServer, scheduler_names: Sequence[str], *, queue_gates: bool) -> None:
        self._view = MemoryView(server)
        self._settings = Settings(
            scheduler_names=tuple(scheduler_names), job_plugins=PLUGIN_NAMES, queue_gates=queue_gates
        )
        self._mutating = (*_MUTATING, *_QUEUE_GATES) if queue_gates else _MUTATING
        self._completed, self._validated = _kinds(self._mutating), _kinds(_VALIDATING)

    def completed(self, kind: Kind, raw: Json) -> Json:
        """The object with what the mutating webhooks fill in; itself if they look at none of its kind."""
        if kind not in self._completed:
            return raw
        return admit(_creation(kind, raw), self._view, self._settings, self._mutating).object

    def refusal(self, kind: Kind, raw: Json) -> str:
        """Why the validating webhooks would refuse it, or "". To be asked when everything is there."""
        if kind not in self._validated:
            return ""
        return admit(_creation(kind, raw), self._view, self._settings, _VALIDATING).refusal


def _kinds(paths: Collection[str]) -> frozenset[Kind]:
    return frozenset(routes()[path].kind for path in paths)


def _creation(kind: Kind, raw: Json) -> Request:
    metadata = raw["metadata"]
    return Request(Operation.CREATE, kind, metadata.get("namespace") or "", metadata["name"], raw)


class MemoryView:
    """What admission functions ask of the cluster."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def queue(self, name: str) -> Queue | None:
        return cast("Queue | None", self._server.decoded(QUEUE, "", name))

    def queues(self) -> Iterable[Queue]:
        return cast("list[Queue]", self._server.structs(QUEUE))

    def namespace(self, name: str) -> Namespace | None:
        return cast("Namespace | None", self._server.decoded(NAMESPACE, "", name))

    def bound_pods(self, queue: str) -> int:
        groups = {
            (group.metadata.namespace, group.metadata.name)
            for group in cast("list[PodGroup]", self._server.structs(POD_GROUP))
            if (group.spec.queue or DEFAULT_QUEUE) == queue
        }
        return sum(
            1
            for pod in cast("list[Pod]", self._server.structs(POD))
            if pod.spec.node_name
            and pod.status.phase not in ENDED_PHASES
            and (pod.metadata.namespace, (pod.metadata.annotations or {}).get(GROUP_NAME, "")) in groups
        )
