"""Evictions for gangs: no Pod with higher priority or protection is evicted, no eviction is unnecessary, and Pods are
not evicted back and forth."""

import copy
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from random import Random
from unittest.mock import patch

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from scheduler.actions.eviction.gang_room import Slots
from scheduler.api.job import Job
from scheduler.api.names import EVENT_PREEMPTED, EVENT_RECLAIMED, GROUP_NAME, PREEMPTABLE
from scheduler.api.task import Task, TaskStatus
from scheduler.cluster.memory import simulate
from scheduler.framework.configuration import Configuration
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.session import Session
from scheduler.plugins.conformance import critical
from tests.builders import NAME, Raw, World, group, manifests, node, queue
from tests.property.test_evictions import CLASSES, NO_BOUNDS, evictions_until_rest, member

QUEUES = {
    "proportion": "- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]\n",
    "capacity": "- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]\n",
    "none": "- plugins: [{name: predicates}]\n",
}
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@cache
def conf(queues: str, actions: str = "enqueue, allocate, gangpreempt, gangreclaim, backfill") -> Configuration:
    tier = "[{name: priority}, {name: gang}, {name: conformance}]"
    return parse_configuration(f"actions: {actions}\ntiers:\n- plugins: {tier}\n{QUEUES[queues]}")


def full_cluster(random: Random) -> list[Raw]:
    """Generates up to five nodes full of running Pods of some gangs, and other gangs that wait, in up to three
    queues."""
    queues = [f"q{i}" for i in range(random.randint(1, 3))]
    objects: list[Raw] = [*CLASSES]
    for name in queues:
        deserved = f"{random.randint(0, 6)}c+{random.randint(1, 9)}Gi"
        objects.append(queue(name, random.randint(1, 3), random.choice(["", "", "", "4c"]), deserved=deserved))
    jobs = [f"g{i}" for i in range(random.randint(2, 5))]
    sizes: Counter[str] = Counter()
    for n in range(random.randint(2, 5)):
        room = random.choice([2, 3, 4])
        objects.append(node(f"n{n}", f"{room}c+{2 * room}Gi+{random.choice([110, 110, 3])}p"))
        while room > 0 and random.random() < 0.95:
            cpu = random.randint(1, min(room, 3))
            objects.append(member(random, random.choice(jobs), sizes, cpu, f"n{n}"))
            room -= cpu
    for job in [f"w{i}" for i in range(random.randint(1, 4))]:
        jobs.append(job)
        asks = [random.randint(1, 3), random.randint(0, 2)]
        objects += [member(random, job, sizes, random.choice(asks), "") for _ in range(random.randint(1, 5))]
    for job in jobs:
        minimum = random.choice([0, 1, sizes[job], sizes[job], max(sizes[job] - 1, 0)])
        importance = random.choice(["", "low", "mid"] if job[0] == "g" else ["low", "mid", "high", "high"])
        gives = {PREEMPTABLE: random.choice(["true", "false"])} if random.random() < 0.1 else {}
        objects.append(group(job, random.choice(queues), minimum, priority_class=importance, annotations=gives))
    return objects


FULL_CLUSTERS = st.randoms(use_true_random=True).map(full_cluster)


def preemptions(world: World) -> Iterator[tuple[Job, Task, Job, str]]:
    """The (victim's job, victim, preemptor, reason of the Event) of each eviction, read from the Events of the last
    session."""
    assert world.outcome is not None
    jobs = world.outcome.session.jobs
    tasks = {task.key: (job, task) for job in jobs.values() for task in job.tasks()}
    for event in world.decisions.events:
        if event.reason in (EVENT_PREEMPTED, EVENT_RECLAIMED):
            found = re.search(r"PodGroup (\S+) \(priority", event.message)
            assert found is not None
            yield *tasks[f"{event.about.namespace}/{event.about.name}"], jobs[found[1]], event.reason


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(QUEUES)))
def test_no_pod_is_evicted_for_a_lower_priority_and_no_protected_pod_is_evicted(
    objects: list[Raw], queues: str
) -> None:
    world = World(objects).run(conf(queues))
    preempted = list(preemptions(world))
    assert len(preempted) == len(world.decisions.evictions)
    for loser, victim, winner, reason in preempted:
        assert victim.preemptable and not critical(victim) and loser is not winner
        assert loser.annotations.get(PREEMPTABLE) != "false"
        if reason == EVENT_PREEMPTED:
            assert loser.queue == winner.queue and loser.priority < winner.priority
        else:
            assert loser.queue != winner.queue and victim.status is TaskStatus.RUNNING


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(QUEUES)))
def test_evictions_for_a_gang_give_it_all_that_it_requests(objects: list[Raw], queues: str) -> None:
    world = World(objects).run(conf(queues))
    for _, _, winner, _ in preemptions(world):
        pipelined = winner.of(TaskStatus.PIPELINED)
        assert pipelined and pipelined.keys() == {*winner.nominated}
        assert not [t for t in winner.of(TaskStatus.PENDING).values() if not t.gated and not t.cls.best_effort]


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(QUEUES)))
def test_a_gang_keeps_its_minimum_or_no_pod_that_may_be_evicted(objects: list[Raw], queues: str) -> None:
    world = World(objects).run(conf(queues, "enqueue, allocate, gangpreempt"))
    assert world.outcome is not None
    before = {job.key: job.ready_count for job in World(objects).session(conf(queues)).jobs.values()}
    for key in {eviction.task.job for eviction in world.decisions.evictions}:
        job = world.outcome.session.jobs[key]
        left = [t for t in job.of(TaskStatus.RUNNING).values() if t.preemptable and not critical(t)]
        assert job.ready_count >= job.min_member or not left or before[key] < job.min_member


@SETTINGS
@given(FULL_CLUSTERS)
def test_a_single_victim_held_a_resource_that_its_node_is_short_of(objects: list[Raw]) -> None:
    """Without a queue plugin, a node can only be short of amounts: if the node has enough with a Pod, the Pod need not
    be evicted. A second gang may break a gang that satisfies this for the first."""
    world = World(objects).run(conf("none", "enqueue, allocate, gangpreempt"))
    assert world.outcome is not None
    session = world.outcome.session
    preempted = list(preemptions(world))
    for loser, victim, winner, _ in preempted:
        if loser.ready_count >= loser.min_member:
            row = session.nodes.index[victim.node]
            assert row in winner.placed.values()
            alone = all(other is winner for *_, other, _ in preempted)
            assert not alone or (session.nodes.future_idle_of(row) < victim.cls.request).any(), victim.name


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(QUEUES)))
def test_no_node_is_reserved_twice(objects: list[Raw], queues: str) -> None:
    world = World(objects).run(conf(queues))
    assert world.outcome is not None
    nodes = world.outcome.session.nodes
    for row in {row for *_, winner, _ in preemptions(world) for row in winner.placed.values()}:
        assert (nodes.future_idle_of(row) >= 0).all()


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(QUEUES)))
def test_a_failed_attempt_leaves_no_trace(objects: list[Raw], queues: str) -> None:
    bare = conf(queues, "enqueue, allocate")
    with_evictions = conf(queues, "enqueue, allocate, gangpreempt, gangreclaim")
    with patch.object(Session, "job_pipelined", lambda self, job: False):
        first, second = World(objects).run(bare), World(objects).run(with_evictions)
    assert first.decisions.pods == second.decisions.pods or len(first.decisions.pods) == len(second.decisions.pods)
    assert trace(first) == trace(second)
    assert not second.decisions.evictions


def trace(world: World) -> list[object]:
    assert world.outcome is not None
    session = world.outcome.session
    nodes = session.nodes
    jobs = {
        key: (
            {status.name: sorted(t.name for t in tasks.values()) for status, tasks in job.by_status.items()},
            [refusal.message for refusal in job.refusals],
            sorted(place for _, place in job.transaction.values()),
            job.allocated.tobytes(), job.pipelined.tobytes(), job.pending.tobytes(),
        )
        for key, job in session.jobs.items()
    }  # fmt: skip
    return [[getattr(nodes, n).tobytes() for n in ("idle", "used", "releasing", "pipelined", "nonzero")], jobs]


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(QUEUES)))
@example(full_cluster(Random(35256)), "proportion")
def test_checking_columns_first_changes_no_decision(objects: list[Raw], queues: str) -> None:
    fast = World(objects).run(conf(queues)).decisions
    with (
        patch.object(Slots, "enough_on", lambda self, rows: True),
        patch.object(Session, "bounds", NO_BOUNDS, create=True),
    ):
        slow = World(objects).run(conf(queues)).decisions
    assert [e.task.name for e in fast.evictions] == [e.task.name for e in slow.evictions]
    assert [(e.about.name, e.message) for e in fast.events] == [(e.about.name, e.message) for e in slow.events]


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(QUEUES)))
def test_an_attempt_that_failed_for_a_gang_fails_for_equal_gangs(objects: list[Raw], queues: str) -> None:
    copies = copy.deepcopy([o for o in objects if o["kind"] in ("Pod", "PodGroup") and o["metadata"]["name"][0] == "w"])
    for copied in copies:
        copied["metadata"]["name"] += "-copy"
        if copied["kind"] == "Pod":
            copied["metadata"]["annotations"][GROUP_NAME] += "-copy"
    fast = World(objects, copies).run(conf(queues)).decisions
    with patch("scheduler.actions.eviction.gang_search._demand", lambda preemptor: preemptor.job.key):
        slow = World(objects, copies).run(conf(queues)).decisions
    assert [e.task.name for e in fast.evictions] == [e.task.name for e in slow.evictions]


@settings(SETTINGS, max_examples=25)
@given(FULL_CLUSTERS, st.sampled_from(list(QUEUES)))
def test_the_same_input_gives_the_same_evictions(objects: list[Raw], queues: str) -> None:
    first, second = (
        json.dumps(simulate(manifests(*copy.deepcopy(objects)), conf(queues), [NAME]).cluster.objects())
        for _ in range(2)
    )
    assert first == second


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FULL_CLUSTERS, st.sampled_from(["proportion", "capacity"]))
def test_gangs_do_not_evict_each_other_back_and_forth(objects: list[Raw], queues: str) -> None:
    evicted = evictions_until_rest(objects, conf(queues))
    assert all(cycle < 30 for cycle, _ in evicted), evicted
