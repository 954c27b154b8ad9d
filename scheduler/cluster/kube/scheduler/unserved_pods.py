"""Pods whose schedulerName is likely a misspelt name of this scheduler: nothing schedules them or says so.

The names of other schedulers are not known. But a scheduler binds Pods, or writes the condition ``PodScheduled`` of
Pods that it cannot bind. So a name that resembles one of ours, and with which no Pod is on a node or has this
condition, causes a Warning. A workload of thousands of Pods causes one.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple, TypeVar

from scheduler.api.kinds import POD
from scheduler.api.messages import closest, other_scheduler
from scheduler.api.names import KUBE_SCHEDULER, POD_SCHEDULED, REASON_SCHEDULING_GATED
from scheduler.api.objects import ENDED_PHASES, Pod, controller_of
from scheduler.api.reasons import MAX_FIELDS, Malformed

MAX_WAITING: Final = 10_000
"""Pods of a namespace that are noted at a time."""
MAX_REPORTED: Final = 10_000
"""Workloads with a Warning that are remembered, and names that are served."""
_CONSEQUENCE: Final = "no scheduler has placed a Pod with this name, so the Pod waits"
T = TypeVar("T")


class _Waiting(NamedTuple):
    """A Pod that waits."""

    uid: str
    scheduler: str
    owner: str
    """The uid of its controller, or its own."""
    owner_name: str
    """Kind and name of its controller; "": it has none."""


class UnservedPods:
    """Belongs to one thread."""

    def __init__(self, schedulers: Collection[str]) -> None:
        """``schedulers``: the names of this scheduler."""
        self._schedulers = tuple(schedulers)
        self._known = frozenset((*schedulers, "", KUBE_SCHEDULER))
        self._served: dict[str, None] = {}
        """Similar names with which other schedulers place Pods."""
        self._new: dict[str, dict[str, _Waiting]] = {}
        """Namespace -> name -> Pod since the last ``take``: its scheduler may not have seen it yet."""
        self._due: dict[str, dict[str, _Waiting]] = {}
        """The Pods that have waited since before it."""
        self._reported: dict[tuple[str, str, str], None] = {}
        """Namespace, uid of the controller or Pod, and schedulerName of the Warnings, the oldest first."""

    def observe(self, pod: Pod) -> None:
        """Notes a Pod that was added or changed."""
        name = pod.spec.scheduler_name
        if name in self._known or name in self._served or not closest(name, self._schedulers):
            return
        meta = pod.metadata
        if _is_served(pod):
            _add(self._served, name)
        elif meta.deletion_timestamp is None and pod.status.phase not in ENDED_PHASES:
            owner = controller_of(pod)
            waiting = _Waiting(meta.uid, name, meta.uid, "")
            if owner is not None:
                waiting = waiting._replace(owner=owner.uid, owner_name=f"{owner.kind} {owner.name}")
            new, due = self._new.setdefault(meta.namespace, {}), self._due.get(meta.namespace, {})
            if due.get(meta.name) != waiting and len(new) + len(due) < MAX_WAITING:
                new[meta.name] = waiting

    def delete(self, namespace: str, name: str) -> None:
        """Forgets a Pod that was deleted."""
        for pods in (self._new, self._due):
            if namespace in pods:
                pods[namespace].pop(name, None)

    def take(self) -> list[Malformed]:
        """Returns the Warnings about Pods that have waited since before the last call: one for each workload, ten at
        most for each namespace. The next call returns the others."""
        due, self._due, self._new = self._due, self._new, {}
        return [malformed for namespace, pods in due.items() for malformed in self._warnings(namespace, pods)]

    def _warnings(self, namespace: str, pods: dict[str, _Waiting]) -> Iterator[Malformed]:
        number = Counter((waiting.owner, waiting.scheduler) for waiting in pods.values())
        left = MAX_FIELDS
        for name, waiting in pods.items():
            workload = (namespace, waiting.owner, waiting.scheduler)
            if waiting.scheduler in self._served or workload in self._reported:
                continue
            if not left:
                self._due.setdefault(namespace, {}).setdefault(name, waiting)
                continue
            left -= 1
            _add(self._reported, workload)
            problem, together = other_scheduler(waiting.scheduler, self._schedulers), number[workload[1:]]
            figures = f"{together} Pods of {waiting.owner_name}" if together > 1 else ""
            yield Malformed(
                POD.name, namespace, name, "spec.schedulerName", problem, _CONSEQUENCE, figures=figures, uid=waiting.uid
            )


def _is_served(pod: Pod) -> bool:
    """Whether a scheduler has considered a Pod. The API server itself writes the condition of Pods with gates."""
    if pod.spec.node_name:
        return True
    conditions = pod.status.conditions or ()
    return any(c.type == POD_SCHEDULED and c.reason != REASON_SCHEDULING_GATED for c in conditions)


def _add(remembered: dict[T, None], key: T) -> None:
    """Adds a key, without the oldest one of too many."""
    remembered[key] = None
    if len(remembered) > MAX_REPORTED:
        del remembered[next(iter(remembered))]
