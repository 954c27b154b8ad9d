"""Sums and views of settled jobs, kept from snapshot to snapshot, equal those computed from scratch, and sessions over
them decide the same."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from scheduler.api.job import Job
from scheduler.api.kinds import POD, POD_GROUP, QUEUE, Kind
from scheduler.api.names import CARD_NAME
from scheduler.api.reasons import Refusal
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import TaskStatus
from scheduler.cache import ClusterCache
from scheduler.cluster.memory.fork import branch, fork
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import open_session, run_cycle
from scheduler.framework.kept_values import job_values
from scheduler.framework.session import Session
from scheduler.framework.status import close_session
from scheduler.observability.session_figures import SessionFigures
from scheduler.plugins.support.queue_accounting import amounts_of_jobs, queue_amounts
from scheduler.record.frames import RecordedDecisions, recorded_decisions
from tests.builders import NAME, Raw, configuration, feed, group, node, pod, queue
from tests.examples import examples
from tests.unit.plugins.capacity_card.cards import GPU, H200, H800, labels, quota_queue

PLANS = [
    configuration(["priority", "gang"], ["drf", "predicates", "proportion", "nodeorder"]),
    configuration(
        ["priority", "gang"],
        ["overcommit", "drf", "predicates", "capacity"],
        actions="enqueue, allocate, preempt, reclaim, backfill",
    ),
    configuration(
        ["priority", "gang"], ["predicates", "capacity-card"], actions="enqueue, allocate, preempt, reclaim, backfill"
    ),
]
QUOTAS = ({H200: 2, H800: 1}, {H200: 4}, None)
NODES = ("n0", "n1", "n2")
PREEMPTABLE = {"volcano.sh/preemptable": "true"}
READY = {"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled"}
FAILED = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources"}


@contextmanager
def nothing_settled() -> Iterator[None]:
    """Within the block, sessions look at all jobs, and use nothing of other sessions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Job, "is_settled", False)
        yield


class Cluster:
    """Two caches with the same objects. One keeps views and sums, the other computes all of them for each snapshot."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.keeping, self.computing = ClusterCache([NAME]), ClusterCache([NAME])
        self.computing._jobs.lend()
        self.now = 0.0
        self.resources = 0
        self.put(quota_queue("q", QUOTAS[0]), quota_queue("r", QUOTAS[1], deserved="2c"))
        self.put(*(self.node(name, H200) for name in NODES))

    def put(self, *objects: Raw) -> None:
        for cache in (self.keeping, self.computing):
            feed(cache, *objects)

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        for cache in (self.keeping, self.computing):
            cache.delete(kind, namespace, name)

    def node(self, name: str, card: str) -> Raw:
        return node(name, f"4c+8Gi+{GPU}=2", labels(card, 2))

    def put_group(self, name: str) -> None:
        choice = self.random.choice
        made = group(
            name,
            choice("qrs"),
            choice([0, 1, 1, 2]),
            asks=choice([None, "1c", "3c"]),
            phase=choice(["", "Inqueue", "Running", "Running", "Running"]),
            priority_class=choice(["", "high"]),
        )
        counts, conditions = choice([0, 1, 1, 2]), choice([[], [READY], [READY], [READY, FAILED]])
        made.setdefault("status", {}).update(running=counts, conditions=conditions)
        self.put(made)

    def put_pod(self, name: str) -> None:
        choice = self.random.choice
        on = choice(["", *NODES])
        phase = choice(["Running", "Running", "Running", "Succeeded", "Failed"]) if on else "Pending"
        more = f"+example.com/r{self.resources}=1" if self.random.random() < 0.03 else ""
        self.resources += bool(more)  # now and then vectors grow
        asks = choice(["500m", "1", "1", "2"])
        asks = {"500m": "0.5c", "1": "1c", "2": "2c+1Gi"}[asks] + more
        cards: dict[str, str] = {}
        if self.random.random() < 0.3:
            asks, cards = f"{asks}+{GPU}=1", {CARD_NAME: choice([H200, f"{H200}|{H800}"])}
        made = pod(name, asks, choice("abcd"), on=on, phase=phase, labels=PREEMPTABLE, annotations=cards)
        if self.random.random() < 0.3:
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}
            made["metadata"]["ownerReferences"] = [owner]
        if self.random.random() < 0.1:
            made["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        self.put(made)

    def change(self) -> None:
        match self.random.randrange(13):
            case 0:
                cards = self.random.choice(["", f"+{GPU}=1"])
                self.put(*settled_job(self.random.choice("abcd"), self.random.choice("qr"), cards))
            case 1 | 2:
                self.put_group(self.random.choice("abcd"))
            case 3 | 4 | 5 | 6:
                self.put_pod(f"p{self.random.randrange(8)}")
            case 7:
                self.delete(POD, "default", f"p{self.random.randrange(8)}")
            case 8:
                self.delete(POD_GROUP, "default", self.random.choice("abcd"))
            case 9:
                self.put(queue("s")) if self.random.random() < 0.5 else self.delete(QUEUE, "", "s")
            case 10:
                high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
                self.put(high | {"value": self.random.randrange(5)})
            case 11:
                changed = self.node(self.random.choice(NODES), self.random.choice([H200, H800]))
                self.put(changed, quota_queue("q", self.random.choice(QUOTAS)))
            case _:
                self.keeping, self.computing = fork(self.keeping), fork(self.computing)

    def run(self, plan: int) -> None:
        """Runs a session over each cache. Both decide the same, and their decisions are assumed, or not."""
        self.now += 20
        outcomes = [run_cycle(self.keeping.snapshot(self.now), PLANS[plan])]
        with nothing_settled():
            self.computing.memory.clear()
            outcomes.append(run_cycle(self.computing.snapshot(self.now), PLANS[plan]))
        results = [recorded_decisions(outcome.decisions) for outcome in outcomes]
        assert results[0] == results[1]
        shown = [figures_of(outcome.session) for outcome in outcomes]
        assert shown[0] == shown[1]
        if self.random.random() < 0.7:
            for cache, outcome in zip((self.keeping, self.computing), outcomes, strict=True):
                cache.assume(outcome.decisions)

    def evict_in_vain(self) -> None:
        """A session evicts running tasks and refuses jobs, and its decisions are not carried out."""
        session = open_session(Session(self.keeping.snapshot(self.now), PLANS[0]))
        for job in session.jobs.values():
            if self.random.random() < 0.3:
                session.refuse(job, Refusal("Test", "no"))
            for task in list(job.of(TaskStatus.RUNNING).values()):
                if task.node in session.nodes.index and self.random.random() < 0.5:
                    statement = session.statement()
                    statement.evict(job, task, "test")
                    if self.random.random() < 0.5:
                        statement.discard()

    def check(self) -> None:
        kept, computed = self.keeping.snapshot(self.now), self.computing.snapshot(self.now)
        assert_equal(kept, computed)
        assert job_values(kept, "test", running) == {
            key: value for key, job in computed.jobs.items() if (value := running(job))
        }
        session = open_session(Session(kept, PLANS[0])).plugin_session
        jobs = [job for job in session.jobs.values() if job.queue in session.queues]
        of_jobs = amounts_of_jobs(session, jobs)
        for name, held in queue_amounts(session).items():
            of_queue = [job.queue == name for job in jobs]
            for amount, column in zip(held, of_jobs, strict=True):
                assert np.array_equal(amount, column[of_queue].sum(axis=0))


def running(job: Job) -> tuple[str, int] | None:
    """The queue and the number of running Pods of a job that has any."""
    number = job.count(TaskStatus.RUNNING)
    return (job.queue, number) if number else None


def figures_of(session: Session) -> tuple[list[list[float]], dict[object, float]]:
    """The amounts that online and other jobs hold, and the values of the gauges."""
    figures = SessionFigures()
    held = figures.update(
        session.jobs,
        session.queues,
        session.dimensions,
        {},
        active=session.active_jobs,
        settled=session.settled_jobs,
        touched=session.touched,
    )
    samples = (sample for family in figures.collect() for sample in family.samples)
    values: dict[object, float] = {(sample.name, *sorted(sample.labels.items())): sample.value for sample in samples}
    return [vector.tolist() for vector in held], values


def assert_equal(kept: Snapshot, computed: Snapshot) -> None:
    assert kept.jobs.keys() == computed.jobs.keys() and kept.active_jobs.keys() == computed.active_jobs.keys()
    for key, job in kept.jobs.items():
        other = computed.jobs[key]
        assert (job.queue, job.phase, job.priority, job.conditions) == (
            other.queue,
            other.phase,
            other.priority,
            other.conditions,
        )
        assert {s: list(tasks) for s, tasks in job.by_status.items()} == {
            s: list(tasks) for s, tasks in other.by_status.items()
        }
        assert np.array_equal(job.allocated, other.allocated)
        assert not (job.refusals or job.fit_errors or job.new_conditions or job.transaction or job.changed)
        assert (key in kept.active_jobs) == (not job.is_settled or job.queue not in kept.queues)
    assert kept.settled_jobs.keys() == computed.settled_jobs.keys()
    for name, sums in kept.settled_jobs.items():
        number, *vectors = computed.settled_jobs[name]
        settled = [job for key, job in kept.jobs.items() if job.queue == name and key not in kept.active_jobs]
        assert sums.number == number == len(settled)
        assert all(map(np.array_equal, sums[1:], vectors))
    assert {task.key for task in kept.tasks_without_job} == {task.key for task in computed.tasks_without_job}


@pytest.mark.parametrize("seed", range(examples(40)))
def test_sums_and_views_after_any_history_are_those_computed_from_scratch(seed: int) -> None:
    cluster = Cluster(seed)
    held: list[tuple[dict[str, Job], dict[str, Job]]] = []
    for _ in range(40):
        if cluster.random.random() < 0.3:
            jobs = cluster.keeping.snapshot(cluster.now).jobs
            held = [*held[-3:], (jobs, jobs.copy())]
        for _ in range(cluster.random.randrange(6)):
            cluster.change()
        match cluster.random.randrange(4):
            case 0 | 1:
                cluster.run(seed % len(PLANS))
            case 2:
                cluster.evict_in_vain()
        cluster.check()
        assert all(jobs == copy for jobs, copy in held)  # a snapshot has the same jobs as long as it is in use


def settled_job(name: str, of_queue: str, more: str = "") -> tuple[Raw, Raw]:
    made = group(name, of_queue, phase="Running")
    made["status"].update(running=1, conditions=[READY])
    return made, pod(f"{name}-0", f"1c{more}", name, on="n0")


def settled_world() -> ClusterCache:
    cache = ClusterCache([NAME])
    feed(cache, queue("q"), node("n0"), *settled_job("a", "q"))
    assert cache.snapshot(0).settled_jobs["q"].number == 1
    return cache


def test_a_session_of_a_branch_leaves_the_jobs_of_other_branches_and_of_the_original_as_they_were() -> None:
    original = settled_world()
    branches = [branch(original), branch(original)]
    for cache in branches:
        snapshot = cache.snapshot(0)
        assert snapshot.settled_jobs["q"].number == 1 and not snapshot.active_jobs
        session = open_session(Session(snapshot, PLANS[0]))
        (job,) = session.jobs.values()
        session.statement().evict(job, next(job.tasks()), "test")
    (job,) = original.snapshot(0).jobs.values()
    assert job.count(TaskStatus.RUNNING) == 1 and float(job.allocated[0]) == 1000


def test_a_settled_job_that_a_session_evicts_from_is_closed_like_any_other() -> None:
    cache = settled_world()
    session = open_session(Session(cache.snapshot(0), PLANS[0]))
    (job,) = session.jobs.values()
    statement = session.statement()
    statement.evict(job, next(job.tasks()), "test")
    statement.commit()
    assert list(session.active_jobs) == ["default/a"] and list(session.touched) == [job]
    cache.assume(session.decisions)
    assert not cache.snapshot(0).settled_jobs


def test_a_value_of_a_job_is_computed_again_only_when_the_job_has_changed() -> None:
    cache, read = settled_world(), list[str]()

    def name_of(job: Job) -> str:
        read.append(job.name)
        return job.name

    feed(cache, *(settled_job(f"b{i}", "q") for i in range(40)))
    first = job_values(cache.snapshot(0), "names", name_of)
    assert len(read) == len(first) == 41
    assert job_values(cache.snapshot(1), "names", name_of) is first and len(read) == 41
    feed(cache, group("c", "q"))
    cache.delete(POD, "default", "a-0")
    assert len(job_values(cache.snapshot(2), "names", name_of)) == 42 and sorted(read[41:]) == ["a", "c"]


def test_the_jobs_of_a_released_snapshot_are_not_copied() -> None:
    cache = settled_world()
    feed(cache, *(settled_job(f"b{i}", "q") for i in range(40)))
    snapshot = cache.snapshot(0)
    jobs = id(snapshot.jobs)
    feed(cache, group("c", "q"))
    other = cache.snapshot(1)
    assert id(other.jobs) != jobs and "default/c" not in snapshot.jobs
    jobs = id(other.jobs)
    del other
    feed(cache, group("d", "q"))
    assert id(cache.snapshot(2).jobs) == jobs


@pytest.mark.parametrize("plan", PLANS)
def test_an_eviction_from_a_settled_job_counts_in_the_status_of_its_queue(plan: Configuration) -> None:
    def decided() -> RecordedDecisions:
        cache = ClusterCache([NAME])
        feed(cache, quota_queue("q", {H200: 4}), node("n0", f"4c+8Gi+{GPU}=4", labels(H200, 4)))
        feed(cache, *(settled_job(name, "q", f"+{GPU}=1") for name in "ab"))
        session = open_session(Session(cache.snapshot(0), plan))
        job = session.jobs["default/a"]
        statement = session.statement()
        statement.evict(job, next(job.tasks()), "test")
        statement.commit()
        close_session(session)
        return recorded_decisions(session.decisions)

    found = decided()
    with nothing_settled():
        assert found == decided()
    assert found.queues["q"]["cpu"] == "1" and found.queue_groups == {"q": {"running": 2}}


def test_a_settled_job_whose_queue_is_deleted_is_refused() -> None:
    cache = settled_world()
    cache.delete(QUEUE, "", "q")
    outcome = run_cycle(cache.snapshot(100), PLANS[0])
    assert [event.message for event in outcome.decisions.events] == ["queue q does not exist"]
    feed(cache, queue("q"))
    assert cache.snapshot(0).settled_jobs["q"].number == 1
