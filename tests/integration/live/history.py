"""Records the behaviour of a real cluster with many cases beside each other: their situations, and the effect of each
change."""

import time
from collections.abc import Sequence
from typing import Any, Final

from controlplane.client import ApiError, Client
from scheduler.api.kinds import DEPLOYMENT, NAMESPACE, NODE, POD, POD_GROUP, QUEUE, VCJOB, find_kind, object_path
from scheduler.api.names import DEFAULT_SCHEDULER_NAME
from scheduler.api.objects import ENDED_PHASES
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory import Simulation
from scheduler.explain import explain
from scheduler.framework.configuration import Configuration
from tests.integration.live.case import POOL, Case
from tests.integration.live.documents import apply
from tests.integration.live.dump import State, dumps, state

Raw = dict[str, Any]
_LOST: Final = {
    "phase": "Failed",
    "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}],
}
"""The status of a Pod whose node no longer exists."""


class History:
    """The history of all cases, by their names."""

    def __init__(
        self,
        api: Client,
        cases: Sequence[Case],
        configuration: Configuration,
        *,
        nodes: Sequence[Raw] = (),
        quiet: float = 2.5,
    ) -> None:
        """``nodes``: nodes that belong to no case and are in all dumps. ``quiet``: seconds without a change after which
        the cluster has settled."""
        self._nodes = nodes
        self._quiet = quiet
        self._api = api
        self._cases = sorted(cases, key=lambda case: case.lasts)  # as little time as possible passes for the last ones
        self._configuration = configuration
        self.dumps: dict[str, list[Raw]] = {}
        """The objects in the situation."""
        self.afterwards: dict[str, State] = {}
        """The states when the terminating Pods are deleted."""
        self.changes: dict[str, Sequence[Raw]] = {}
        self.changed: dict[str, State] = {}
        """The states after the changes."""

    def run(self) -> None:
        """Makes the cases, and changes them, in steps that all take together. The last step of all is the same, so that
        little time passes between a step and the dump."""
        self._make(self._nodes)
        for case in self._cases:
            self._api.create(NAMESPACE.path, {"metadata": {"name": case.name}})
        for left in range(max(len(case.steps) for case in self._cases), 0, -1):
            for case in self._cases:
                self._make(case.steps[-left] if left <= len(case.steps) else ())
            settled = self._settled(ending=False)
        self.dumps = self._unchanging(settled)
        self.afterwards = self._settled(ending=True)
        for case in self._cases:
            self.changes[case.name] = self._advised(case) if case.advised else case.changes
        for case in self._cases:
            self._make(self.changes[case.name])
        self.changed = self._settled(ending=True)

    def remove(self) -> None:
        """Removes the cases and their nodes and queues."""
        for name in self.dumps:
            for kind in (VCJOB, DEPLOYMENT, POD_GROUP, POD):
                self._api.delete(f"{kind.path_in(name)}?propagationPolicy=Background&gracePeriodSeconds=0")
            self._api.delete(f"{NODE.path}?labelSelector={POOL}%3D{name}")
            self._api.delete(object_path(QUEUE, "", name))

    def simulation(self, case: Case) -> Simulation:
        """The dump of a case, in memory."""
        return Simulation(manifests(self.dumps[case.name]), self._configuration, [DEFAULT_SCHEDULER_NAME])

    def _advised(self, case: Case) -> Sequence[Raw]:
        """The first change that ``explain`` suggests."""
        kind, name = case.waiting
        found = explain(self.simulation(case), kind, case.name, name)
        return found.changes[0].documents if found.changes else ()

    def _make(self, documents: Sequence[Raw]) -> None:
        for document in documents:
            apply(self._api, document)

    def _dumps(self) -> dict[str, list[Raw]]:
        return dumps(self._api, [case.name for case in self._cases], [node["metadata"]["name"] for node in self._nodes])

    def _unchanging(self, settled: dict[str, State]) -> dict[str, list[Raw]]:
        """The objects of all cases, read while no state changes: they are read kind by kind."""
        while True:
            found = self._dumps()
            if _states(found) == settled == _states(self._dumps()):
                return found
            settled = self._settled(ending=False)

    def _settled(self, *, ending: bool, timeout: float = 90.0) -> dict[str, State]:
        """Returns the states of all cases when none changes any more. ``ending``: meanwhile the terminating Pods end,
        the Pods of deleted nodes are lost, and due times come."""
        begin = since = time.monotonic()
        lasts = max(case.lasts for case in self._cases) if ending else 0
        deadline = begin + lasts + timeout
        last: dict[str, State] = {}
        while True:
            found = self._dumps()
            states = _states(found)
            if ending:
                self._end_pods(found)
            if states != last:
                since, last = time.monotonic(), states
            elif time.monotonic() - max(since, begin + lasts) > self._quiet:
                return states
            if time.monotonic() > deadline:
                raise AssertionError(f"the cluster does not settle: {last}")
            time.sleep(0.2)

    def _end_pods(self, found: dict[str, list[Raw]]) -> None:
        """Simulates kubelets for Pods whose containers have ended, since KWOK lets such a Pod run until it is deleted,
        and the garbage collector of Pods, which acts 40 s after the deletion of a node."""
        every = [raw for objects in found.values() for raw in objects]
        nodes = {raw["metadata"]["name"]: is_ready(raw) for raw in every if raw["kind"] == NODE.name}
        for raw in (raw for raw in every if raw["kind"] == POD.name and raw["spec"].get("nodeName")):
            meta = raw["metadata"]
            ready = nodes.get(raw["spec"]["nodeName"])
            if ready is not None and not (ready and meta.get("deletionTimestamp")):
                continue
            path = object_path(POD, meta["namespace"], meta["name"])
            try:
                if ready is None and raw["status"]["phase"] not in ENDED_PHASES:
                    self._api.patch(f"{path}/status", {"status": _LOST}, "strategic")
                elif meta.get("finalizers") and raw["status"]["phase"] == "Running":
                    self._api.patch(f"{path}/status", {"status": {"phase": "Failed"}}, "merge")
                if meta.get("deletionGracePeriodSeconds") != 0:
                    self._api.delete(f"{path}?gracePeriodSeconds=0")
            except ApiError as error:
                assert error.status == 404


def _states(found: dict[str, list[Raw]]) -> dict[str, State]:
    return {name: state(objects) for name, objects in found.items()}


def is_ready(node: Raw) -> bool:
    """Whether the kubelet of a Node answers."""
    return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions") or ())


def manifests(objects: Sequence[Raw]) -> list[Manifest]:
    """The objects, as if they were read from a file."""
    found = []
    for raw in objects:
        where = f"{raw['kind']} {raw['metadata']['name']}"
        found.append(Manifest(where, find_kind(raw["apiVersion"], raw["kind"]), raw))
    return found
