"""Faults over sessions with a scheduler that is killed in between: no job is lost, none is bound to faulty hardware,
ranks are kept, and restarts and retries are counted exactly.

``FAULTS`` in the environment sets the number of faults; there are about two per session.
"""

import os
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from scheduler.api.kinds import CONFIG_MAP, POD, POD_GROUP
from scheduler.api.names import ASCEND_910
from scheduler.framework.cycle import Outcome
from scheduler.plugins.ascend.masks import parse_chips
from tests.unit.plugins.ascend.rescheduling.faulty import Cluster, vcjob

FAULTS = int(os.environ.get("FAULTS", "60"))
KINDS = ["chip", "chip", "node", "pod", "software", "unused", "network", "repair", "repair"]
RETRIES = 100
POLICIES: list[dict[str, Any]] = [
    {"fault_scheduling": "force"},
    {"fault_scheduling": "grace"},
    {"fault_scheduling": "force", "process_recover_enable": "on", "policies": []},
]


class Faults:
    """A cluster with jobs, to which faults happen."""

    def __init__(self, random: Random, jobs: int) -> None:
        self._random = random
        self._replicas = {f"j{i:03d}": random.choice([1, 2, 2, 3]) for i in range(jobs)}
        self._chips = {job: 8 if number > 1 else random.choice([1, 2, 4]) for job, number in self._replicas.items()}
        self._nodes = [f"n{i:03d}" for i in range(sum(self._replicas.values()) + jobs // 2 + 6)]
        manifests = [
            vcjob(job, number, self._chips[job], fault_retry_times=str(RETRIES), **POLICIES[i % len(POLICIES)])
            for i, (job, number) in enumerate(self._replicas.items())
        ]
        self.cluster = Cluster(*manifests, nodes=self._nodes)
        self._broken: dict[str, set[int]] = {}
        """Maps each node to its unhealthy chips."""
        self._network: dict[str, set[int]] = {}
        self._unhealthy: set[str] = set()
        self.expected: Counter[str] = Counter()
        """Maps each job to its restarts."""
        self.failures: Counter[str] = Counter()
        """Maps each job to its restarts because of a failed Pod."""
        self._fresh: dict[str, str] = {}
        """Maps each job to the node of a fault that no session has recorded yet."""
        self.injected = 0

    # --- sessions ---
    def session(self, *, kill: bool) -> None:
        """A session whose bindings are checked. ``kill``: only some of its decisions are carried out, and a new
        scheduler takes over."""

        def check(outcome: Outcome) -> bool:
            for bind in outcome.decisions.binds:
                assert bind.node not in self._unhealthy, bind
                taken = parse_chips(bind.annotations[ASCEND_910], "Ascend910-")
                broken = sum(1 << chip for chip in self._broken.get(bind.node, ()))
                assert not taken & broken, bind
            if kill:
                decisions = outcome.decisions
                kinds: tuple[list[Any], ...] = (
                    decisions.binds,
                    decisions.evictions,
                    decisions.writes,
                    decisions.pod_groups,
                )
                for kind in kinds:
                    kind[:] = [each for each in kind if self._random.random() < 0.5]
            return False

        self.cluster.simulation.cycle(stop_when=check)
        if kill:
            self.cluster.restart()

    # --- faults ---
    def inject(self) -> None:
        """One fault that concerns settled jobs only, so that its consequences are known."""
        settled = self.settled()
        pods = [pod for pod in self._pods() if self._job(pod) in settled]
        if not pods:
            return
        pod = self._random.choice(pods)
        job, node = self._job(pod), pod["spec"]["nodeName"]
        before = self.expected.copy()
        kind = self._random.choice(KINDS)
        self.injected += kind != "repair"
        self._inject(kind, pod, job, node, settled)
        for each in self.expected - before:
            self._fresh[each] = node

    def _inject(self, kind: str, pod: dict[str, Any], job: str, node: str, settled: set[str]) -> None:
        if kind == "chip":
            self._break(node, self._random.choice(self._used(pod)))
            self.expected[job] += 1
        elif kind == "pod" and self._replicas[job] > 1:
            self.cluster.fail(pod["metadata"]["name"])
            self.expected[job] += 1
            self.failures[job] += 1
        elif kind == "software":
            self.cluster.label(pod["metadata"]["name"], fault_type="software")
            self.expected[job] += 1
        elif kind == "node":
            concerned = {self._job(each) for each in self._pods() if each["spec"].get("nodeName") == node}
            if concerned <= settled and node not in self._unhealthy:
                self._unhealthy.add(node)
                self.cluster.node_status(node, "UnHealthy")
                self.expected.update(concerned)
        elif kind == "unused":
            used = {chip for each in self._pods() if each["spec"].get("nodeName") == node for chip in self._used(each)}
            free = [chip for chip in range(8) if chip not in used | self._broken.get(node, set())]
            if free:
                self._break(node, self._random.choice(free))
        elif kind == "network":
            self._network.setdefault(node, set()).add(self._random.randrange(8))
            self._report(node)
        else:
            self.repair(self._random.choice([*self._broken, *self._network, *self._unhealthy, node]))

    def repair(self, node: str) -> None:
        if node in self._fresh.values():
            return
        self._broken.pop(node, None)
        self._network.pop(node, None)
        if node in self._unhealthy:
            self._unhealthy.discard(node)
            self.cluster.server.delete(CONFIG_MAP, "mindx-dl", f"mindx-dl-nodeinfo-{node}")
        self._report(node)

    def repair_all(self) -> None:
        for node in {*self._broken, *self._network, *self._unhealthy}:
            self.repair(node)

    def _break(self, node: str, chip: int) -> None:
        self._broken.setdefault(node, set()).add(chip)
        self._report(node)

    def _report(self, node: str) -> None:
        broken, network = sorted(self._broken.get(node, ())), sorted(self._network.get(node, ()))
        self.cluster.chips(node, Unhealthy=broken, NetworkUnhealthy=network)

    # --- what there is ---
    def _pods(self) -> Iterator[dict[str, Any]]:
        yield from self.cluster.server.of(POD)

    @staticmethod
    def _job(pod: dict[str, Any]) -> str:
        return str(pod["metadata"]["name"]).partition("-")[0]

    @staticmethod
    def _of(key: str) -> str:
        """The job of a PodGroup."""
        return key.partition("/")[2].partition("-")[0]

    @staticmethod
    def _used(pod: dict[str, Any]) -> list[int]:
        text = (pod["metadata"].get("annotations") or {}).get(ASCEND_910, "")
        return [int(name.rpartition("-")[2]) for name in text.split(",") if name]

    def settled(self) -> set[str]:
        """The jobs of which all Pods run, and of which no restart is in progress."""
        running = Counter(name.partition("-")[0] for name in self.cluster.placed())
        groups = {group["metadata"]["name"]: group for group in self.cluster.server.of(POD_GROUP)}
        ready = {
            name.partition("-")[0]
            for name, group in groups.items()
            if (group.get("status") or {}).get("phase") == "Running"
        }
        state = self.cluster.state()
        busy = {self._of(key) for key, each in state.restarts.items() if each.pods}
        numbers = {self._of(key): each.number for key, each in state.restarts.items()}
        self._fresh = {job: node for job, node in self._fresh.items() if numbers.get(job, 0) < self.expected[job]}
        busy |= self._fresh.keys()
        return {job for job, number in self._replicas.items() if running[job] == number and job in ready - busy}

    def check(self) -> None:
        """Asserts the state that must hold once all faults are repaired and all restarts have ended."""
        assert self.settled() == {*self._replicas}
        state, histories = self.cluster.state(), self.cluster.history()
        numbers = {self._of(key): each.number for key, each in state.restarts.items()}
        assert numbers == dict(self.expected)
        totals = {self._of(key): each.total_reschedule_times for key, each in histories.items()}
        assert totals == dict(self.expected)
        left = {self._of(key): each.times for key, each in state.retries.items()}
        assert left == {job: RETRIES - self.failures[job] for job in self._replicas}
        for name, rank in self.cluster.ranks().items():
            assert rank == name.rpartition("-")[2]


@pytest.mark.parametrize("seed", [1, 2])
def test_jobs_survive_faults_and_kills(seed: int) -> None:
    random = Random(seed)
    faults = Faults(random, jobs=max(8, min(FAULTS // 12, 60)))
    for _ in range(10):
        faults.session(kill=False)
    assert len(faults.settled()) == len(faults._replicas)
    while faults.injected < FAULTS:
        for _ in range(3):
            faults.inject()
        faults.session(kill=random.random() < 0.25)
    faults.repair_all()
    for _ in range(60):
        faults.session(kill=False)
    faults.check()
    assert faults.expected.total() > FAULTS // 3
    assert faults.failures.total() > FAULTS // 20
