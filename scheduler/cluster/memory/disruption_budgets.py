"""What kube-controller-manager makes of PodDisruptionBudgets, for a simulation: how many of its Pods each lets go.

A status that was read is brought up to date like any other: the Pods of a simulation are evicted and come back.
"""

import re
from collections.abc import Sequence
from typing import Final

from scheduler.api.kinds import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    POD,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Kind,
    find_kind,
)
from scheduler.api.objects import KubeObject, Pod, PodDisruptionBudget
from scheduler.api.selectors import matches
from scheduler.cluster.memory.server import Json, MemoryServer, controller_of

_SCALED: Final = (DEPLOYMENT, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET)
_DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
"""What a ReplicaSet says of its Deployment, which ``explain`` does not read."""
_PERCENTAGE: Final = re.compile(r"([0-9]{1,9})%", re.ASCII)


class DisruptionBudgets:
    """The disruption controller; only namespaces in which something changed are looked at."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._changed: dict[str, None] = {}
        server.watch(self._observe)

    def run(self) -> bool:
        """Bring the status of all budgets up to date; whether any changed."""
        namespaces, self._changed = self._changed, {}
        budgets = [
            budget
            for budget in self._server.structs(DISRUPTION_BUDGET)
            if isinstance(budget, PodDisruptionBudget) and budget.metadata.namespace in namespaces
        ]
        pods: dict[str, list[Json]] = {budget.metadata.namespace: [] for budget in budgets}
        for pod in self._server.of(POD) if budgets else ():
            if pod["metadata"]["namespace"] in pods:
                pods[pod["metadata"]["namespace"]].append(pod)
        changed = False
        for budget in budgets:
            changed |= self._sync(budget, pods[budget.metadata.namespace])
        return changed

    def _observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        obj = new or old
        if obj is None or (kind is not POD and kind is not DISRUPTION_BUDGET and kind not in _SCALED):
            return
        if kind is POD and old is not None and new is not None and _seen(old) == _seen(new):
            return
        self._changed[obj.metadata.namespace] = None

    def _sync(self, budget: PodDisruptionBudget, neighbours: Sequence[Json]) -> bool:
        """``neighbours``: the Pods of its namespace."""
        namespace, name = budget.metadata.namespace, budget.metadata.name
        raw = self._server.find(DISRUPTION_BUDGET, namespace, name)
        assert raw is not None
        before, selector = raw.get("status") or {}, budget.spec.selector
        pods = [pod for pod in neighbours if matches(selector, pod["metadata"].get("labels") or {})]
        disrupted = before.get("disruptedPods") or {}
        healthy = sum(pod["metadata"]["name"] not in disrupted and _healthy(pod) for pod in pods)
        counts = self._wanted(raw.get("spec") or {}, pods, before)
        if counts is None:
            status = {**before, "disruptionsAllowed": 0}
        else:
            expected, desired = counts
            allowed = max(healthy - desired, 0) if expected > 0 else 0
            status = {
                **before,
                "currentHealthy": healthy,
                "desiredHealthy": desired,
                "disruptionsAllowed": allowed,
                "expectedPods": expected,
            }
        if status == before:
            return False
        self._server.update(DISRUPTION_BUDGET, namespace, name, {**raw, "status": status})
        return True

    def _wanted(self, spec: Json, pods: Sequence[Json], before: Json) -> tuple[int, int] | None:
        """How many Pods there should be and how many of these healthy; None: that cannot be known, and no Pod may
        go."""
        unavailable, available = spec.get("maxUnavailable"), spec.get("minAvailable")
        if unavailable is None and isinstance(available, int):
            return len(pods), available
        expected = self._expected(pods, before)
        number = None if expected is None else _number(available if unavailable is None else unavailable, expected)
        if expected is None or number is None:
            return None
        return expected, number if unavailable is None else max(expected - number, 0)

    def _expected(self, pods: Sequence[Json], before: Json) -> int | None:
        """How many Pods their controllers are to have; of controllers that cannot be known here, what the status says.
        Pods without a controller do not count."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is None or owner.get("uid") in scales:
                continue
            scale = self._scale(pod["metadata"]["namespace"], owner)
            if scale is None:
                known = before.get("expectedPods")
                return known if isinstance(known, int) and known > 0 else None
            scales[scale[0]] = scale[1]
            scales.setdefault(str(owner.get("uid")), 0)  # counted with what it belongs to
        return sum(scales.values())

    def _scale(self, namespace: str, owner: Json) -> tuple[str, int] | None:
        """The uid of the object with the replicas, and their number."""
        kind = find_kind(str(owner.get("apiVersion", "")), str(owner.get("kind", "")))
        if kind is None or kind not in _SCALED:
            return None
        raw = self._server.find(kind, namespace, str(owner.get("name", "")))
        if raw is None or raw["metadata"]["uid"] != owner.get("uid"):
            return None
        above = controller_of(raw)
        if above is not None and above.get("kind") == DEPLOYMENT.name:
            deployment = self._scale(namespace, above)
            desired = (raw["metadata"].get("annotations") or {}).get(_DESIRED, "")
            if deployment is not None or desired.isdecimal():
                return deployment or (str(above.get("uid")), int(desired))
        replicas = (raw.get("spec") or {}).get("replicas", 1)
        return str(owner.get("uid")), replicas if isinstance(replicas, int) else 1


def _number(value: object, total: int) -> int | None:
    """A number, or a percentage rounded up; None of anything else."""
    if isinstance(value, int):
        return value
    match = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    return -(-int(match[1]) * total // 100) if match else None


def _healthy(pod: Json) -> bool:
    """Whether a Pod is ready; one of a simulation is as soon as it runs."""
    if pod["status"].get("phase") != "Running" or pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (c for c in pod["status"].get("conditions") or () if isinstance(c, dict))
    return all(c.get("status") == "True" for c in conditions if c.get("type") == "Ready")


def _seen(pod: KubeObject) -> tuple[object, ...]:
    """What a budget sees of a Pod."""
    assert isinstance(pod, Pod)
    return (pod.status.phase, pod.metadata.deletion_timestamp, pod.metadata.labels)
