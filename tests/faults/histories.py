"""Runs histories: work arrives while requests, processes, nodes and rights have faults; then all faults end, all work
has to be done, and the checks read what happened."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tests.faults import checks
from tests.faults.cluster import GPU_MEMORY, Cluster
from tests.faults.proxy import Trigger
from tests.faults.replicas import Replica
from tests.faults.revisions import Change
from tests.faults.schedule import QUOTA, Schedule, Step, StepKind, Target

SETTLE: Final = 45.0
"""Seconds within which all work has to be done after the faults have ended."""
MEMORY: Final = 256.0
"""MiB that a process may use."""
IN_COMMIT: Final = {"scheduler": Target.BINDING, "controllers": Target.NEW_POD}


@dataclass
class Result:
    """What a history showed."""

    seed: int
    findings: list[str] = field(default_factory=list)
    injected: Counter[str] = field(default_factory=Counter)
    failovers: list[float] = field(default_factory=list)
    """Seconds from the kill of a leader until another process holds the lease."""
    killed: int = 0
    """Leaders that were killed."""
    frozen: int = 0
    """Leaders that were stopped with SIGSTOP and continued later."""
    replaced: int = 0
    """Those of them that another process had replaced by then."""
    settled: float = 0.0
    """Seconds from the end of the faults until all work was done."""
    changes: int = 0
    memory: float = 0.0
    """MiB of the largest process."""

    def __str__(self) -> str:
        faults = ", ".join(f"{what} ×{number}" for what, number in sorted(self.injected.items())) or "no faults"
        taken = "".join(f", lease taken after {seconds:.1f} s" for seconds in self.failovers)
        verdict = "clean" if not self.findings else f"{len(self.findings)} findings"
        done = f"all done {self.settled:.1f} s later, {self.changes} changes, {self.memory:.0f} MiB"
        return f"seed {self.seed}: {faults}{taken}; {done}: {verdict}"


class _Run:
    """One history that is under way."""

    def __init__(self, cluster: Cluster, schedule: Schedule) -> None:
        self._cluster = cluster
        self._schedule = schedule
        self._name = f"h{schedule.seed}-{time.monotonic_ns() % 100_000}"
        self._due: list[tuple[float, Callable[[], None]]] = []
        """What is still to be done, and when: seconds from the first work."""
        self._deleted: set[str] = set()
        """Pods that were deleted with their node."""
        self._disturbed: set[str] = set()
        """Jobs whose Pods were."""
        self.result = Result(schedule.seed)

    def run(self) -> Result:
        cluster, replicas = self._cluster, self._cluster.replicas
        replicas.kills.clear()
        replicas.freezes.clear()
        cluster.prepare(self._name)
        since = cluster.etcd.revision()
        nodes = cluster.nodes()
        self._plan()
        cluster.proxy.begin(self._schedule.seed, self._schedule.windows)
        self._play()
        self.result.injected.update(cluster.proxy.injected)
        cluster.proxy.calm()
        began = time.monotonic()
        self._until_empty("not done", lambda: cluster.unfinished(self._name, self._schedule.work, self._deleted))
        self.result.settled = time.monotonic() - began
        self._check(nodes + cluster.etcd.changes(since))
        cluster.remove(self._name)
        self._until_empty("left behind", lambda: cluster.left(self._name))
        cluster.forget(self._name)
        replicas.read_logs()
        self.result.findings += replicas.problems
        replicas.problems.clear()
        return self.result

    def _play(self) -> None:
        """Does what is due until the end of the schedule."""
        began, end = time.monotonic(), self._schedule.end
        while True:
            self._cluster.replicas.supervise()
            now = time.monotonic() - began
            self._due.sort(key=lambda each: each[0])
            if self._due and self._due[0][0] <= now:
                self._due.pop(0)[1]()
            elif not self._due and now >= end and not self._cluster.replicas.frozen:
                return
            else:
                time.sleep(0.02)

    def _until_empty(self, what: str, remaining: Callable[[], list[str]]) -> None:
        """Waits until nothing remains; otherwise adds a finding."""
        deadline = time.monotonic() + SETTLE
        while found := remaining():
            self._cluster.replicas.supervise()
            if time.monotonic() > deadline:
                self.result.findings.append(f"{what} {SETTLE:.0f} s after the faults ended: {'; '.join(found)}")
                return
            time.sleep(0.1)

    # --- steps --------------------------------------------------------------------------------------------------------
    def _plan(self) -> None:
        for work in self._schedule.work:
            self._due.append((work.at, partial(self._cluster.submit, self._name, work)))
        for step in self._schedule.steps:
            self._plan_step(step)

    def _plan_step(self, step: Step) -> None:
        cluster, at = self._cluster, step.at
        end = at + step.seconds
        match step.kind:
            case StepKind.KILL | StepKind.FREEZE:
                self._due.append((at, partial(self._strike, step, None)))
            case StepKind.KILL_IN_COMMIT | StepKind.FREEZE_IN_COMMIT:
                trigger = Trigger(step.role, IN_COMMIT[step.role], step.number, partial(self._strike_named, step))
                self._due.append((at, partial(cluster.proxy.add_trigger, trigger)))
            case StepKind.RESTART_API_SERVER:
                self._counted(at, step, cluster.plane.restart_apiserver)
            case StepKind.RESTART_ETCD:
                self._counted(at, step, cluster.plane.restart_etcd)
            case StepKind.WITHDRAW_RIGHTS:
                self._counted(at, step, partial(cluster.withdraw_rights, step.role))
                self._due.append((end, partial(cluster.restore_rights, step.role)))
            case StepKind.DELETE_NODE:
                self._counted(at, step, partial(self._delete_node, step.number))
                self._due.append((end, partial(self._restore_node, step.number)))
            case StepKind.SILENCE_WATCHES:
                self._counted(at, step, partial(cluster.proxy.silence, step.role, step.seconds))

    def _counted(self, at: float, step: Step, act: Callable[[], None]) -> None:
        """Schedules a step, which is counted when it happens."""

        def count_and_act() -> None:
            self.result.injected[str(step.kind)] += 1
            act()

        self._due.append((at, count_and_act))

    def _strike_named(self, step: Step, client: str) -> None:
        replica = self._cluster.replicas.by_name(client)
        if replica is not None:
            self._strike(step, replica)

    def _strike(self, step: Step, replica: Replica | None) -> None:
        """Kills or freezes a process; None: the leader, if there is one."""
        replicas = self._cluster.replicas
        replica = replica or replicas.leader(step.role)
        if replica is None:
            return
        self.result.injected[str(step.kind)] += 1
        if step.kind in (StepKind.KILL, StepKind.KILL_IN_COMMIT):
            replicas.kill(replica)
        else:
            replicas.freeze(replica, step.seconds)

    def _delete_node(self, number: int) -> None:
        self._cluster.delete_node(number)
        self._delete_pods(number)

    def _restore_node(self, number: int) -> None:
        self._delete_pods(number)  # bound before the scheduler knew
        self._cluster.create_node(number)

    def _delete_pods(self, number: int) -> None:
        for pod in self._cluster.delete_pods_of(number):
            meta = pod["metadata"]
            self._deleted.add(f"{meta['namespace']}/{meta['name']}")
            job = (meta.get("labels") or {}).get(checks.JOB_LABEL)
            if job:
                self._disturbed.add(f"{meta['namespace']}/{job}")

    # --- checks -------------------------------------------------------------------------------------------------------
    def _check(self, changes: list[Change]) -> None:
        cluster, schedule, findings = self._cluster, self._schedule, self.result.findings
        self.result.changes = len(changes)
        sizes = {f"{self._name}/{work.name}": work.pods for work in schedule.work if work.pods and not work.fails}
        findings += checks.double_bindings(changes)
        findings += checks.devices_used_twice(changes, GPU_MEMORY)
        findings += checks.overcommitted_nodes(changes)
        findings += checks.exceeded_quota(changes, self._name, QUOTA)
        findings += checks.torn_gangs(changes)
        findings += checks.needless_pods(changes, sizes, frozenset(self._disturbed))
        takeovers = list(cluster.proxy.takeovers)
        findings += checks.writes_of_former_leaders(list(cluster.proxy.placements), takeovers)
        self.result.failovers = checks.failovers(cluster.replicas.kills, takeovers)
        self.result.killed = len(cluster.replicas.kills)
        self.result.frozen = len(cluster.replicas.freezes)
        self.result.replaced = len(checks.failovers(cluster.replicas.freezes, takeovers))
        self.result.memory = max(replica.memory() for replica in cluster.replicas.running)
        if self.result.memory > MEMORY:
            findings.append(f"a process uses {self.result.memory:.0f} MiB (limit {MEMORY:.0f})")


def run(cluster: Cluster, schedule: Schedule) -> Result:
    """Runs one history on a cluster that other histories have used before."""
    return _Run(cluster, schedule).run()
