"""Pods whose schedulerName is likely a misspelt name of this scheduler: nothing schedules them or says so.

The names of other schedulers are not known. But a scheduler binds Pods, or writes the condition ``PodScheduled`` of
those that it cannot bind. So a name that resembles one of ours, and with which no Pod is on a node or has this
condition, causes a Warning. A workload of thousands of Pods causes one.
"""

from collections import Counter
from collections.abc import Collection
from typing import Final, NamedTuple, TypeVar

from scheduler.api.names import KUBE_SCHEDULER, POD_SCHEDULED, REASON_SCHEDULING_GATED
from scheduler.api.objects import ENDED_PHASES, Pod, controller_of
from scheduler.api.reasons import MAX_FIELDS, Malformed
from scheduler.api.suggestions import closest, other_scheduler

MAX_WAITING: Final = 10_000
"""Pods that are noted at a time."""
MAX_REPORTED: Final = 10_000
"""Workloads with a Warning that are remembered, and names that are served."""
_CONSEQUENCE: Final = "no scheduler has placed a Pod with this name, so the Pod waits"
T = TypeVar("T")
Key = tuple[str, str]
"""Namespace and name of a Pod."""


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
        self._new: dict[Key, _Waiting] = {}
        """Pods since the last ``take``: their scheduler may not have seen them yet."""
        self._due: dict[Key, _Waiting] = {}
        """Pods that have waited since before it."""
        self._reported: dict[tuple[str, str, str], None] = {}
        """Namespace, uid of the controller or Pod, and schedulerName of the Warnings, the oldest first."""

    def observe(self, pod: Pod) -> None:
        """Notes a Pod that was added or changed."""
        name = pod.spec.scheduler_name
        if name in self._known or name in self._served or not closest(name, self._schedulers):
            return
        meta = pod.metadata
        key = (meta.namespace, meta.name)
        if _is_served(pod):
            _add(self._served, name)
        elif meta.deletion_timestamp is None and pod.status.phase not in ENDED_PHASES:
            owner = controller_of(pod)
            waiting = _Waiting(meta.uid, name, meta.uid, "")
            if owner is not None:
                waiting = waiting._replace(owner=owner.uid, owner_name=f"{owner.kind} {owner.name}")
            if self._due.get(key) != waiting and len(self._new) + len(self._due) < MAX_WAITING:
                self._new[key] = waiting

    def delete(self, namespace: str, name: str) -> None:
        """Forgets a Pod that was deleted."""
        if self._new or self._due:
            self._new.pop((namespace, name), None)
            self._due.pop((namespace, name), None)

    def take(self) -> list[Malformed]:
        """Returns the Warnings about Pods that have waited since before the last call: one for each workload, ten at
        most for each namespace. The next call returns the others."""
        due, self._due, self._new = self._due, self._new, {}
        pods = Counter(map(_cause, due.items()))
        in_namespace: Counter[str] = Counter()
        found = []
        for key, waiting in due.items():
            cause = _cause((key, waiting))
            if waiting.scheduler in self._served or cause in self._reported:
                continue
            if in_namespace[key[0]] == MAX_FIELDS:
                self._due.setdefault(key, waiting)
                continue
            in_namespace[key[0]] += 1
            _add(self._reported, cause)
            found.append(self._warning(key, waiting, pods[cause]))
        return found

    def _warning(self, key: Key, waiting: _Waiting, pods: int) -> Malformed:
        """``pods``: number of Pods of its workload that wait for the same name."""
        problem = other_scheduler(waiting.scheduler, self._schedulers)
        figures = f"{pods} Pods of {waiting.owner_name}" if pods > 1 else ""
        return Malformed("Pod", *key, "spec.schedulerName", problem, _CONSEQUENCE, figures=figures, uid=waiting.uid)


def _cause(item: tuple[Key, _Waiting]) -> tuple[str, str, str]:
    (namespace, _), waiting = item
    return namespace, waiting.owner, waiting.scheduler


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
