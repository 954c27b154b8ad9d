"""The disruption controller of a simulation: computes the status of PodDisruptionBudgets.

A status in a manifest is recomputed too, since the Pods of a simulation are evicted and created again.
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
from scheduler.cluster.memory.raw_objects import Json, controller_of
from scheduler.cluster.memory.server import MemoryServer

_SCALED: Final = (DEPLOYMENT, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET)
_DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
"""Annotation of a ReplicaSet with the replicas of its Deployment, since ``explain`` does not read Deployments."""
_PERCENTAGE: Final = re.compile(r"([0-9]{1,9})%", re.ASCII)


class DisruptionBudgets:
    """The disruption controller. Processes only namespaces with changes."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._changed: dict[str, None] = {}
        server.watch(self._observe)

    def run(self) -> bool:
        """Updates the status of the budgets. Returns whether any changed."""
        namespaces, self._changed = self._changed, {}
        budgets = [
            budget for budget in self._server.structs(DISRUPTION_BUDGET) if budget.metadata.namespace in namespaces
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
        if kind is POD and old is not None and new is not None and _relevant_fields(old) == _relevant_fields(new):
            return
        self._changed[obj.metadata.namespace] = None

    def _sync(self, budget: PodDisruptionBudget, namespace_pods: Sequence[Json]) -> bool:
        """Updates the status of a budget. ``namespace_pods``: the Pods of its namespace."""
        namespace, name = budget.metadata.namespace, budget.metadata.name
        raw = self._server.find(DISRUPTION_BUDGET, namespace, name)
        assert raw is not None
        before, selector = raw.get("status") or {}, budget.spec.selector
        pods = [pod for pod in namespace_pods if matches(selector, pod["metadata"].get("labels") or {})]
        disrupted = before.get("disruptedPods") or {}
        healthy = sum(pod["metadata"]["name"] not in disrupted and _healthy(pod) for pod in pods)
        counts = self._expected_and_desired(raw.get("spec") or {}, pods, before)
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

    def _expected_and_desired(self, spec: Json, pods: Sequence[Json], before: Json) -> tuple[int, int] | None:
        """The number of Pods that should exist and how many of them must be healthy.

        None if it is unknown; then no disruption is allowed.
        """
        unavailable, available = spec.get("maxUnavailable"), spec.get("minAvailable")
        if unavailable is None and isinstance(available, int):
            return len(pods), available
        expected = self._expected(pods, before)
        number = None if expected is None else _number(available if unavailable is None else unavailable, expected)
        if expected is None or number is None:
            return None
        return expected, number if unavailable is None else max(expected - number, 0)

    def _expected(self, pods: Sequence[Json], before: Json) -> int | None:
        """The sum of the replicas of the Pods' controllers; the number in the status if a controller is unknown.

        Pods without a controller do not count.
        """
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
            scales.setdefault(str(owner.get("uid")), 0)  # counted with its owner
        return sum(scales.values())

    def _scale(self, namespace: str, owner: Json) -> tuple[str, int] | None:
        """The uid of the object that sets the number of replicas, and the number."""
        kind = find_kind(str(owner.get("apiVersion", "")), str(owner.get("kind", "")))
        if kind is None or kind not in _SCALED:
            return None
        raw = self._server.find(kind, namespace, str(owner.get("name", "")))
        if raw is None or raw["metadata"]["uid"] != owner.get("uid"):
            return None
        parent = controller_of(raw)
        if parent is not None and parent.get("kind") == DEPLOYMENT.name:
            deployment = self._scale(namespace, parent)
            desired = (raw["metadata"].get("annotations") or {}).get(_DESIRED, "")
            if deployment is not None or desired.isdecimal():
                return deployment or (str(parent.get("uid")), int(desired))
        replicas = (raw.get("spec") or {}).get("replicas", 1)
        return str(owner.get("uid")), replicas if isinstance(replicas, int) else 1


def _number(value: object, total: int) -> int | None:
    """A number, or a percentage of ``total`` rounded up; None for anything else."""
    if isinstance(value, int):
        return value
    match = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    return -(-int(match[1]) * total // 100) if match else None


def _healthy(pod: Json) -> bool:
    """Whether a Pod is ready. A simulated Pod is ready as soon as it runs."""
    if pod["status"].get("phase") != "Running" or pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (c for c in pod["status"].get("conditions") or () if isinstance(c, dict))
    return all(c.get("status") == "True" for c in conditions if c.get("type") == "Ready")


def _relevant_fields(pod: KubeObject) -> tuple[object, ...]:
    """The fields of a Pod that affect a budget."""
    assert isinstance(pod, Pod)
    return (pod.status.phase, pod.metadata.deletion_timestamp, pod.metadata.labels)
