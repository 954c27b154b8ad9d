"""Admission for a cluster in memory: the functions the webhooks serve, over the objects of the simulation."""

from collections.abc import Iterable
from typing import cast

from scheduler.api.kinds import NAMESPACE, POD, POD_GROUP, QUEUE
from scheduler.api.names import DEFAULT_QUEUE, GROUP_NAME
from scheduler.api.objects import Namespace, Pod, PodGroup, Queue
from scheduler.cluster.memory.server import MemoryServer

_ENDED = frozenset({"Succeeded", "Failed"})


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
            and pod.status.phase not in _ENDED
            and (pod.metadata.namespace, (pod.metadata.annotations or {}).get(GROUP_NAME, "")) in groups
        )
