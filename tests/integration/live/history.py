"""What a real cluster does with many cases beside each other: their situations, and what follows from each change."""

import time
from collections.abc import Sequence
from typing import Any

from controlplane.client import ApiError, Client
from scheduler.api.kinds import DEPLOYMENT, NAMESPACE, NODE, POD, POD_GROUP, QUEUE, VCJOB, find_kind, object_path
from scheduler.api.names import DEFAULT_SCHEDULER_NAME
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory import Simulation
from scheduler.explain import explain
from scheduler.framework.configuration import Configuration
from tests.integration.live.case import POOL, Case
from tests.integration.live.documents import apply
from tests.integration.live.dump import State, dumps, state

Raw = dict[str, Any]


class History:
    """Of all cases, by their names."""

    def __init__(
        self,
        api: Client,
        cases: Sequence[Case],
        configuration: Configuration,
        *,
        nodes: Sequence[Raw] = (),
        quiet: float = 2.5,
    ) -> None:
        """``nodes``: nodes that are no case's, and in the dumps of all. ``quiet``: seconds without a change after which
        the cluster has settled."""
        self._nodes = nodes
        self._quiet = quiet
        self._api = api
        self._cases = cases
        self._configuration = configuration
        self.dumps: dict[str, list[Raw]] = {}
        """The objects in the situation."""
        self.afterwards: dict[str, State] = {}
        """When the Pods that terminate are gone."""
        self.changes: dict[str, Sequence[Raw]] = {}
        self.changed: dict[str, State] = {}
        """After the changes."""

    def run(self) -> None:
        """Makes the cases, and changes them, in steps that all take together."""
        self._make(self._nodes)
        for case in self._cases:
            self._api.create(NAMESPACE.path, {"metadata": {"name": case.name}})
        for number in range(max(len(case.steps) for case in self._cases)):
            for case in self._cases:
                self._make(case.steps[number] if number < len(case.steps) else ())
            self._settled(ending=False)
        self.dumps = self._dumps()
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

    def _settled(self, *, ending: bool, timeout: float = 60.0) -> dict[str, State]:
        """The states of all cases when none changes any more. ``ending``: the Pods that terminate end meanwhile."""
        deadline, since = time.monotonic() + timeout, time.monotonic()
        last: dict[str, State] = {}
        while True:
            found = self._dumps()
            states = {name: state(objects) for name, objects in found.items()}
            if ending:
                self._end_terminating(found)
            if states != last:
                since, last = time.monotonic(), states
            elif time.monotonic() - since > self._quiet:
                return states
            if time.monotonic() > deadline:
                raise AssertionError(f"the cluster does not settle: {last}")
            time.sleep(0.2)

    def _end_terminating(self, found: dict[str, list[Raw]]) -> None:
        """Does what kubelets do when the containers of a Pod have ended: KWOK lets it run until it is gone."""
        every = [raw for objects in found.values() for raw in objects]
        silent = {raw["metadata"]["name"] for raw in every if raw["kind"] == NODE.name and not is_ready(raw)}
        for raw in (raw for raw in every if raw["kind"] == POD.name):
            meta = raw["metadata"]
            if not meta.get("deletionTimestamp") or raw["spec"].get("nodeName") in silent:
                continue
            path = object_path(POD, meta["namespace"], meta["name"])
            try:
                if meta.get("finalizers") and raw["status"]["phase"] == "Running":
                    self._api.patch(f"{path}/status", {"status": {"phase": "Failed"}}, "merge")
                if meta.get("deletionGracePeriodSeconds") != 0:
                    self._api.delete(f"{path}?gracePeriodSeconds=0")
            except ApiError as error:
                assert error.status == 404


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
