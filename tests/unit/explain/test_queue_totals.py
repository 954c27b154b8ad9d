"""The totals of queues from the sums of settled jobs equal the totals from all single jobs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.kinds import POD, POD_GROUP
from scheduler.api.queue import ancestors
from scheduler.api.task import TaskStatus
from scheduler.explain.queues import queue_totals, used_in_queue, waiting_in_order
from scheduler.framework.session import Session
from tests.builders import Raw, World, configuration, group, node, pods, queue
from tests.examples import examples

RECLAIM = configuration(
    ["gang", "priority"], ["predicates", "proportion", "nodeorder"], actions="enqueue, allocate, reclaim, preempt"
)


def jobs(name: str, queue: str, number: int, minimum: int) -> list[Raw]:
    return [group(name, queue, minimum), *pods(name, number, "1c", name)]


def check(session: Session) -> None:
    """Compares the totals with the sums over single jobs."""
    totals = queue_totals(session)
    for name in session.queues:
        own = [
            job
            for job in session.jobs.values()
            if job.queue in session.queues and name in (job.queue, *ancestors(session.queues, job.queue))
        ]
        used = sum((job.allocated for job in own), start=session.dimensions.zeros())
        assert used_in_queue(session, name).tolist() == used.tolist()
        running = sum(job.ready_count >= max(job.min_member, 1) for job in own)
        assert (totals[name].running, totals[name].waiting) == (running, len(own) - running)
    waiting = {
        job.key
        for job in session.jobs.values()
        if job.queue in session.queues
        and (job.waiting_for_queue or job.count(TaskStatus.PENDING, TaskStatus.PIPELINED))
    }
    assert {job.key for found in waiting_in_order(session).values() for job in found} == waiting


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2), st.sampled_from("ab")), min_size=1, max_size=5))
def test_the_totals_are_those_of_all_jobs(asked: list[tuple[int, int, str]]) -> None:
    objects = [jobs(f"j{i}", where, number, min(minimum, number)) for i, (number, minimum, where) in enumerate(asked)]
    world = World(node("n", "6c+8Gi"), queue("a"), queue("b"), *objects)
    for _ in range(4):
        world.run(RECLAIM, kubelet=True)
        assert world.outcome is not None
        check(world.outcome.session)


def test_a_settled_job_that_loses_pods_to_another_queue_is_counted_once() -> None:
    world = World(node("n", "4c+8Gi"), queue("a"), queue("b"), jobs("first", "a", 4, 1))
    world.run(RECLAIM, 3, kubelet=True)
    assert world.outcome is not None and world.outcome.session.settled_jobs["a"].number == 1
    check(world.outcome.session)
    for kind, raw in zip((POD_GROUP, POD, POD), jobs("second", "b", 2, 1), strict=True):
        assert world.cluster.server.create(kind, raw)
    for _ in range(5):
        world.run(RECLAIM)
        if world.evicted:
            break
    assert world.evicted
    assert len(world.outcome.session.touched) == 1
    check(world.outcome.session)
