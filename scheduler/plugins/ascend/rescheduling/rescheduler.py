"""Rescheduling in one session: reads the recorded state and the faults, decides, and records what it decided.

A session decides when it opens and deletes when it closes (``effects``). In a session without faults and
restarts, only the policy of each job is looked up.
"""

from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from scheduler.api.decisions import ObjectWrite, group_ref
from scheduler.api.job import Job
from scheduler.api.kinds import CONFIG_MAP
from scheduler.api.names import (
    EVENT_RESCHEDULED,
    EVENT_WARNING,
    RESCHEDULING_HISTORY,
    RESCHEDULING_STATE,
    SYSTEM_NAMESPACE,
)
from scheduler.api.objects import ConfigMap
from scheduler.api.reasons import Refusal
from scheduler.api.task import ALLOCATED_STATUSES, Task
from scheduler.framework.kept_values import job_values
from scheduler.plugins.ascend.cluster_reports import NAMESPACE
from scheduler.plugins.ascend.npu_session import NpuSession
from scheduler.plugins.ascend.ranks import NO_RANKS, is_number
from scheduler.plugins.ascend.rescheduling.decision import SUB_HEALTH, Fault, matters, next_restart, remaining
from scheduler.plugins.ascend.rescheduling.effects import due_deletions, dying_words, graceful_exit
from scheduler.plugins.ascend.rescheduling.faults import (
    NodeFaults,
    exclude_failed_links,
    faults_of_chips,
    faults_of_nodes,
    faults_of_pods,
    faulty_nodes,
    nodes_of_relation_faults,
    tasks_without_chips,
)
from scheduler.plugins.ascend.rescheduling.policy import RestartPolicy, RestartStrategy, has_policy, policy_of
from scheduler.plugins.ascend.rescheduling.state import (
    KEPT_TIME,
    MAX_BYTES,
    Entry,
    FaultNode,
    Restart,
    RestartState,
    Retries,
    completed,
    history_data,
    owner_of,
    present,
    read_history,
    read_state,
    state_data,
)

CONFIG_MAPS: Final = frozenset({(SYSTEM_NAMESPACE, RESCHEDULING_STATE), (NAMESPACE, RESCHEDULING_HISTORY)})
"""(namespace, name) of the ConfigMaps with the state and the history."""
REASON_RESTART: Final = "Rescheduling"
_MAX_WARNED: Final = 100
"""Number of jobs that get an Event if the state cannot be written."""
Faults = dict[str, dict[str, Fault]]
"""Key of a job -> uid of a Pod -> its fault."""


class _Reading(NamedTuple):
    policy: RestartPolicy
    faults: dict[str, Fault]
    """uid -> fault of a Pod itself."""
    without_chips: tuple[Task, ...]
    """The Pods on nodes that request no chips."""


def _reading(job: Job) -> _Reading | None:
    """Reads a job; None: it has no policy."""
    if not has_policy(job):
        return None
    policy = policy_of(job)
    return _Reading(policy, faults_of_pods(job, policy), tasks_without_chips(job))


class Rescheduler:
    """The restarts of one session."""

    def __init__(self, npus: NpuSession) -> None:
        self._npus = npus
        self._session = npus.session
        self._policies: Mapping[str, _Reading] = {}
        """The jobs with a policy, by key."""
        self.restarts: Mapping[str, Restart] = {}
        """Key of a job -> its recorded restart."""

    def open(self) -> None:
        """Decides about restarts, and registers what follows from them with the session."""
        session = self._session
        jobs = self._policies = self._jobs()
        recorded = session.snapshot.config_maps.get(f"{SYSTEM_NAMESPACE}/{RESCHEDULING_STATE}")
        if not jobs and recorded is None:
            return
        known = session.memo(("ascend", RESCHEDULING_STATE), (recorded,), lambda _: read_state(recorded))
        for problem in known.problems:
            session.malformed_field(problem)
        kept_time = KEPT_TIME + self._npus.settings.grace_over_time
        self.restarts = present(known.restarts, session.jobs, session.now, kept_time)
        exclude_failed_links(self._npus, nodes_of_relation_faults(self.restarts.values(), session.now))
        faults, nodes = self._faults(jobs)
        new, begun = self._decided(jobs, faults, nodes, known)
        self._record(known, new, begun, recorded)
        self._complete_history()
        for key in self.restarts.keys() & jobs.keys():
            session.write(*graceful_exit(session, session.jobs[key], self.restarts[key]))
        session.add_job_valid(self.check)
        session.add_deletions(lambda: due_deletions(self._npus, self.restarts, jobs))

    def check(self, job: Job) -> Refusal | None:
        """Refuses a job that restarts as a whole while Pods from before the restart exist."""
        restart = self.restarts.get(job.key)
        if restart is None or not restart.whole or not restart.pods or job.key not in self._policies:
            return None
        left = remaining(job, restart)
        if not left:
            return None
        number, why = len(restart.pods), restart.why
        return Refusal(REASON_RESTART, f"the job restarts: {left} of {number} Pods are not deleted yet ({why})")

    def ranks(self, job: Job) -> Mapping[str, str]:
        """Returns name -> rank of the Pods of a job that its restart deletes."""
        restart = self.restarts.get(job.key)
        if restart is None or not restart.pods:
            return NO_RANKS
        return {entry.name: entry.rank for entry in restart.pods if is_number(entry.rank)}

    def previous_nodes(self, job: Job) -> Iterable[Entry]:
        """Returns the Pods of a job that its restart deletes, with their nodes."""
        restart = self.restarts.get(job.key)
        return restart.pods if restart is not None else ()

    def returns(self, task: Task, node: str) -> bool:
        """Whether a Pod replaces one of its name on the same node, while other Pods of its job kept running."""
        restart = self.restarts.get(task.job)
        if restart is None or restart.whole:
            return False
        return any(entry.name == task.name and entry.node == node for entry in restart.pods)

    # --- reading ---
    def _jobs(self) -> dict[str, _Reading]:
        """Returns the jobs with a policy, by key."""
        session = self._session
        result = {}
        for key, reading in job_values(session.snapshot, ("ascend", "policies"), _reading).items():
            for problem in reading.policy.problems:
                session.malformed_field(problem)
            if reading.policy.strategy is not RestartStrategy.OFF:
                result[key] = reading
        return result

    def _faults(self, jobs: Mapping[str, _Reading]) -> tuple[Faults, list[NodeFaults]]:
        """Returns the faults of the Pods of jobs, and all nodes with a fault."""
        snapshot = self._session.snapshot
        faults: Faults = {}
        nodes: list[NodeFaults] = []
        of_chips: list[tuple[Task, Fault]] = []
        for ledger in self._npus.ledgers.whole.values():
            found, chips = faulty_nodes(self._npus, ledger)
            nodes += found
            of_chips += faults_of_chips(snapshot, found, chips)
        without_chips = chain.from_iterable(reading.without_chips for reading in jobs.values())
        for task, fault in (*faults_of_nodes(snapshot, nodes, without_chips), *of_chips):
            if task.job in jobs and matters(fault, task, jobs[task.job].policy):
                faults.setdefault(task.job, {}).setdefault(task.uid, fault)
        for key, reading in jobs.items():
            if reading.faults:
                others = faults.get(key, {})
                worse = {uid: fault for uid, fault in others.items() if fault.kind != SUB_HEALTH}
                faults[key] = {**others, **reading.faults, **worse}
        return faults, nodes

    # --- decisions ---
    def _decided(
        self, jobs: Mapping[str, _Reading], faults: Faults, nodes: Iterable[NodeFaults], known: RestartState
    ) -> tuple[RestartState, list[str]]:
        """Returns the state to record, and the keys of the jobs whose restart begins. ``known``: the recorded state."""
        session, uses_npus = self._session, self._npus.demand.used_npus
        restarts = dict(self.restarts)
        owners = {key: owner_of(job) for key, job in session.jobs.items() if key in known.retries}
        owners |= {key: restart.uid for key, restart in restarts.items()}
        retries = {key: each for key, each in known.retries.items() if owners.get(key) == each.uuid}
        begun: list[str] = []
        for key, reading in jobs.items():
            job, last = session.jobs[key], restarts.get(key)
            if key not in retries and job.count(*ALLOCATED_STATUSES) and uses_npus(job):
                retries[key] = Retries(owner_of(job), reading.policy.retries)
            if (key not in faults and (last is None or not last.pods)) or not uses_npus(job):
                continue
            left = retries[key].times if key in retries else reading.policy.retries
            decided = next_restart(job, faults.get(key, {}), reading.policy, last, left, session.now)
            if decided.restart is not last and decided.restart is not None:
                restarts[key] = decided.restart
                if last is None or decided.restart.number > last.number:
                    begun.append(key)
            if decided.retries != left:
                retries[key] = Retries(owner_of(job), decided.retries)
        for key in restarts.keys() & session.jobs.keys() - jobs.keys():
            restarts[key] = replace(restarts[key], pods=())  # its label was removed
        return RestartState(_documents(nodes, known.fault_nodes, session.now), retries, restarts), begun

    def _record(self, known: RestartState, new: RestartState, begun: list[str], recorded: ConfigMap | None) -> None:
        """Writes the new state, if it differs from the recorded one, and the dying words of jobs that restart."""
        before = known.fault_nodes, known.retries, known.restarts
        if recorded is not None and (new.fault_nodes, new.retries, new.restarts) == before:
            return
        data = state_data(new)
        while begun and sum(map(len, data.values())) > MAX_BYTES:
            self._postpone(new, known, begun.pop())
            data = state_data(new)
        self._write(SYSTEM_NAMESPACE, RESCHEDULING_STATE, data, recorded, "the job does not restart after faults")
        for key in begun:  # as early as possible
            self._session.write(*dying_words(self._npus, self._session.jobs[key], new.restarts[key]))

    def _postpone(self, new: RestartState, known: RestartState, key: str) -> None:
        """Undoes a restart that does not fit into the ConfigMap. A later session decides it again."""
        if key in known.restarts:
            new.restarts[key] = known.restarts[key]
        else:
            del new.restarts[key]
        if key in known.retries:
            new.retries[key] = known.retries[key]
        job = self._session.jobs[key]
        text = f"the restart waits until ConfigMap {SYSTEM_NAMESPACE}/{RESCHEDULING_STATE} has room for its Pods"
        self._session.event(group_ref(job), EVENT_WARNING, EVENT_RESCHEDULED, text)

    def _complete_history(self) -> None:
        """Adds restarts that were recorded to the history."""
        session, key = self._session, ("ascend", RESCHEDULING_HISTORY)
        recorded = session.snapshot.config_maps.get(f"{NAMESPACE}/{RESCHEDULING_HISTORY}")
        histories, problems = session.memo(key, (recorded,), lambda _: read_history(recorded))
        for problem in problems:
            session.malformed_field(problem)
        complete = completed(histories, self.restarts, session.jobs)
        if complete is not histories:
            text = "the history of restarts is not complete"
            self._write(NAMESPACE, RESCHEDULING_HISTORY, history_data(complete), recorded, text)

    def _write(
        self, namespace: str, name: str, data: Mapping[str, str], recorded: ConfigMap | None, consequence: str
    ) -> None:
        """Writes a ConfigMap if its data changes. ``consequence``: what a refused write means for the jobs."""
        before = recorded.data or {} if recorded is not None else {}
        changed = {key: text for key, text in data.items() if before.get(key) != text}
        if recorded is not None and not changed:
            return
        jobs = map(self._session.jobs.get, islice(self._policies, _MAX_WARNED))
        self._session.write(
            ObjectWrite(
                CONFIG_MAP,
                namespace,
                name,
                {"data": changed},
                resource_version="" if recorded is None else recorded.metadata.resource_version,
                new=recorded is None,
                about=tuple(group_ref(job) for job in jobs if job is not None),
                consequence=consequence,
            )
        )


def _documents(nodes: Iterable[NodeFaults], before: Iterable[FaultNode], now: float) -> tuple[FaultNode, ...]:
    """Returns the nodes with a fault. One whose faults are as before keeps its time."""
    known = {node.node_name: node for node in before}
    result = []
    for node in (node for node in nodes if node.is_listed):
        old = known.get(node.name)
        kept = node.document(old.update_time) if old is not None else None
        result.append(old if old is not None and kept == old else node.document(int(now)))
    return tuple(result)
