"""Evictions: no Pod with higher priority or protection is evicted, no eviction is unnecessary, and Pods are not evicted
back and forth."""

import copy
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.actions.eviction.feasibility import FreedAmounts, Shortfall, Shortfalls
from scheduler.actions.eviction.solver import serve_starving_jobs
from scheduler.actions.eviction_actions import PREEMPT, RECLAIM
from scheduler.api.decisions import Decisions
from scheduler.api.job import Job
from scheduler.api.names import EVENT_PREEMPTED, EVENT_RECLAIMED, PREEMPTABLE
from scheduler.api.node import Column, Mask
from scheduler.api.resource import Vector
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.cluster.memory import simulate
from scheduler.framework.class_view.view import ClassView
from scheduler.framework.configuration import Configuration
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.session import Session
from scheduler.plugins.conformance import critical
from tests.builders import NAME, Raw, World, group, manifests, node, pod, queue

TIERS = {
    "chart": "[{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]",
    "gang": "[{name: priority}, {name: gang}, {name: conformance}]",
    "drf below": "[{name: priority}, {name: gang}, {name: conformance}]\n- plugins: [{name: drf}]",
    "elastic": "[{name: priority}, {name: gang, enableJobStarving: false}, {name: conformance}]",
}
NO_BOUNDS = property(lambda self: {}, lambda self, bounds: None)
"""Replaces ``Session.bounds``: the session keeps no bound of any victim function."""
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v}
    for n, v in (("low", 10), ("mid", 500), ("high", 1000))
]


@cache
def conf(
    tiers: str, actions: str = "enqueue, allocate, preempt, reclaim, backfill", *, plain: bool = False
) -> Configuration:
    rest = "" if plain else "- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]\n"
    return parse_configuration(f"actions: {actions}\ntiers:\n- plugins: {TIERS[tiers]}\n{rest}")


def messages(decisions: Decisions) -> list[tuple[str, str]]:
    return [(task.name, update.message) for update in decisions.pods for task in update.tasks]


def full_cluster(random: Random) -> list[Raw]:
    """Generates up to three nodes full of running Pods of some jobs, and other jobs of any priority that wait, in up to
    three queues."""
    queues = [f"q{i}" for i in range(random.randint(1, 3))]
    objects: list[Raw] = [
        *CLASSES,
        *(queue(q, random.randint(1, 3), random.choice(["", "", "", "4c"])) for q in queues),
    ]
    jobs = [f"g{i}" for i in range(random.randint(2, 4))]
    sizes: Counter[str] = Counter()
    for n in range(random.randint(1, 3)):
        room = random.choice([2, 3, 4])
        places = random.choice([110, 110, 3])
        objects.append(node(f"n{n}", f"{room}c+{2 * room}Gi+{places}p"))
        while room > 0 and places > 0 and random.random() < 0.95:
            job, cpu = random.choice(jobs), random.randint(0, min(room, 3))
            objects.append(member(random, job, sizes, cpu, f"n{n}"))
            room, places = room - cpu, places - 1
    for job in [f"w{i}" for i in range(random.randint(1, 4))]:
        jobs.append(job)
        objects += [member(random, job, sizes, random.randint(0, 3), "") for _ in range(random.randint(1, 4))]
    objects += [member(random, job, sizes, 1, "") for job in jobs if random.random() < 0.2]
    for job in jobs:
        minimum = random.choice([0, 1, 1, sizes[job], max(sizes[job] - 1, 0)])
        importance = random.choice(["", "low", "high"] if job[0] == "g" else ["low", "high", "high"])
        objects.append(group(job, random.choice(queues), minimum, priority_class=importance))
    return objects


def member(random: Random, job: str, sizes: Counter[str], cpu: int, on: str) -> Raw:
    """Generates one Pod of a job: some Pods are not preemptable, some are system-critical, some have a higher priority
    than the other Pods."""
    sizes[job] += 1
    asks = "" if not cpu else random.choice([f"{cpu}c", f"{cpu}c+1Gi"])
    critical_class: Raw = {"priorityClassName": "system-node-critical"} if random.random() < 0.1 else {}
    return pod(
        f"{job}-w-{sizes[job]}",
        asks,
        job,
        on=on,
        priority=random.choice([None, None, 7]),
        annotations={PREEMPTABLE: "false"} if random.random() < 0.1 else {},
        **critical_class,
    )


# A seeded generator: drawing every choice by Hypothesis costs as much as the sessions.
FULL_CLUSTERS = st.randoms(use_true_random=True).map(full_cluster)


def preemptions(world: World) -> Iterator[tuple[Job, Task, Job, Task, str]]:
    """The (victim's job, victim, preemptor's job, preemptor, word of the Event) of each eviction, read from the Events
    of the last session."""
    assert world.outcome is not None
    jobs = world.outcome.session.jobs
    tasks = {task.key: (job, task) for job in jobs.values() for task in job.tasks()}
    for event in world.decisions.events:
        if event.reason in (EVENT_PREEMPTED, EVENT_RECLAIMED):
            found = re.fullmatch(r"Makes room on node \S+ for Pod (\S+) of PodGroup .*", event.message)
            assert found is not None
            yield *tasks[f"{event.about.namespace}/{event.about.name}"], *tasks[found[1]], event.reason


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(TIERS)))
def test_no_pod_is_evicted_for_a_lower_priority_and_no_protected_pod_is_evicted(objects: list[Raw], tiers: str) -> None:
    world = World(objects).run(conf(tiers))
    for loser, victim, winner, preemptor, reason in preemptions(world):
        assert victim.preemptable and not critical(victim)
        if reason == EVENT_PREEMPTED:
            assert loser.queue == winner.queue and loser.priority <= winner.priority
            assert loser is not winner or victim.priority <= preemptor.priority
        else:
            assert loser.queue != winner.queue


@SETTINGS
@given(FULL_CLUSTERS)
def test_no_gang_is_broken_where_no_lower_tier_decides(objects: list[Raw]) -> None:
    """The tier has two victim functions; with three, Volcano's rule starts from all candidates again at the last
    one."""
    text = "actions: 'enqueue, allocate, preempt'\ntiers:\n- plugins: [{name: priority}, {name: gang}]\n"
    world = World(objects).run(parse_configuration(text))
    assert world.outcome is not None
    for eviction in world.decisions.evictions:
        job = world.outcome.session.jobs[eviction.task.job]
        assert job.ready_count >= job.min_member


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(TIERS)))
def test_every_eviction_has_a_placement_on_the_same_node(objects: list[Raw], tiers: str) -> None:
    world = World(objects).run(conf(tiers))
    assert world.outcome is not None
    preempted = list(preemptions(world))
    assert len(preempted) == len(world.decisions.evictions)
    for _, victim, winner, preemptor, _ in preempted:
        assert preemptor.uid in winner.of(TaskStatus.PIPELINED) and preemptor.uid in winner.nominated
        assert world.outcome.session.nodes.names[winner.placed[preemptor.uid]] == victim.node


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(["chart", "gang", "elastic"]))
def test_less_is_left_on_a_node_than_the_last_victim_held(objects: list[Raw], tiers: str) -> None:
    """Asserts that each eviction was necessary, without quotas and filters, which evict Pods for other reasons than
    amounts."""
    world = World(objects).run(conf(tiers, "enqueue, allocate, preempt", plain=True))
    assert world.outcome is not None
    nodes = world.outcome.session.nodes
    last = {eviction.task.node: eviction.task for eviction in world.decisions.evictions}
    for name, task in last.items():
        left = nodes.future_idle_of(nodes.index[name])
        assert (left >= 0).all()
        assert (left < task.cls.request).any(), task.name


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(TIERS)))
def test_a_rollback_leaves_no_trace(objects: list[Raw], tiers: str) -> None:
    session = World(objects).session(conf(tiers))
    for job in session.jobs.values():
        job.phase = "Inqueue"
    _ = session.eviction_candidates
    before = trace(session)
    with patch.object(session, "job_pipelined", lambda job: False):
        serve_starving_jobs(session, PREEMPT)
        serve_starving_jobs(session, RECLAIM)
    assert trace(session) == before
    assert not session.decisions.evictions and not session.decisions.events


def trace(session: Session) -> list[object]:
    nodes = session.nodes
    columns = [getattr(nodes, n).tobytes() for n in ("idle", "used", "releasing", "pipelined", "nonzero")]
    (proportion,) = [plugin for plugin in session.plugins if plugin.name == "proportion"]
    books = {name: book.allocated.tobytes() for name, book in proportion._books.items()}  # type: ignore[attr-defined]
    jobs = {
        key: (
            {status.name: sorted(tasks) for status, tasks in job.by_status.items()},
            dict(job.placed), sorted(job.nominated), list(job.refusals), list(job.fit_errors),
            job.allocated.tobytes(), job.pipelined.tobytes(), job.pending.tobytes(),
        )
        for key, job in session.jobs.items()
    }  # fmt: skip
    return [columns, books, jobs, session.eviction_candidates.present.tobytes()]


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(TIERS)))
def test_columns_exclude_no_node_on_which_evictions_could_make_room(objects: list[Raw], tiers: str) -> None:
    fast = World(objects).run(conf(tiers)).decisions
    with patch.object(Session, "bounds", NO_BOUNDS, create=True):
        slow = World(objects).run(conf(tiers)).decisions
    assert [e.task.name for e in fast.evictions] == [e.task.name for e in slow.evictions]
    assert [(e.about.name, e.message) for e in fast.events] == [(e.about.name, e.message) for e in slow.events]


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(TIERS)))
def test_freed_amounts_updated_between_preemptors_equal_those_computed_from_scratch(
    objects: list[Raw], tiers: str
) -> None:
    original = FreedAmounts.of

    def checked(self: FreedAmounts, evicted: Mask) -> Column:
        amounts, candidates = original(self, evicted), self._candidates
        for column, requests in zip(amounts, candidates.requests, strict=True):
            expected = np.bincount(candidates.rows[evicted], weights=requests[evicted], minlength=len(column))
            assert column.tolist() == expected.tolist()
        return amounts

    with patch.object(FreedAmounts, "of", checked):
        World(objects).run(conf(tiers))


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(TIERS)))
def test_shortfalls_that_follow_the_session_equal_those_computed_from_scratch(objects: list[Raw], tiers: str) -> None:
    original = Shortfalls.of

    def checked(self: Shortfalls, request: Vector) -> Shortfall:
        kept, computed = original(self, request), Shortfall(self._session, request)
        assert kept.none().tolist() == computed.none().tolist()
        freed = self._session.nodes.used
        assert kept.covered_by(freed).tolist() == computed.covered_by(freed).tolist()
        return kept

    with patch.object(Shortfalls, "of", checked):
        World(objects).run(conf(tiers))


@SETTINGS
@given(FULL_CLUSTERS, st.sampled_from(list(TIERS)))
def test_classes_that_share_a_view_are_placed_as_with_views_of_their_own(objects: list[Raw], tiers: str) -> None:
    for i, raw in enumerate(objects):
        if raw["kind"] == "Pod":
            raw["spec"]["containers"][0]["image"] = f"image-{i}"
    original = Session._shared_view

    def alone(self: Session, cls: TaskClass, *answers: Any) -> ClassView:
        self._views_by_identity.clear()
        return original(self, cls, *answers)

    together = World(objects).run(conf(tiers)).decisions
    with patch.object(Session, "_shared_view", alone):
        apart = World(objects).run(conf(tiers)).decisions
    assert [(b.task.name, b.node) for b in together.binds] == [(b.task.name, b.node) for b in apart.binds]
    assert [e.task.name for e in together.evictions] == [e.task.name for e in apart.evictions]
    assert messages(together) == messages(apart)


@settings(SETTINGS, max_examples=25)
@given(FULL_CLUSTERS, st.sampled_from(list(TIERS)))
def test_the_same_input_gives_the_same_evictions(objects: list[Raw], tiers: str) -> None:
    first, second = (
        json.dumps(simulate(manifests(*copy.deepcopy(objects)), conf(tiers), [NAME]).cluster.objects())
        for _ in range(2)
    )
    assert first == second


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(FULL_CLUSTERS, st.sampled_from(["chart", "gang", "elastic"]))
def test_queues_do_not_reclaim_back_and_forth(objects: list[Raw], tiers: str) -> None:
    # A Pod without requests needs only a place among the Pods of a node. As in Volcano, allocate may give that place to
    # another Pod before backfill considers the first one, which then reclaims again.
    for raw in objects:
        if raw["kind"] == "Pod":
            for container in raw["spec"]["containers"]:
                container.setdefault("resources", {}).setdefault("requests", {"memory": "1Mi"})
    evicted = evictions_until_rest(objects, conf(tiers, "enqueue, allocate, reclaim, backfill"))
    assert all(cycle < 30 for cycle, _ in evicted), evicted


def evictions_until_rest(objects: list[Raw], configuration: Configuration) -> list[tuple[int, str]]:
    """Cycle and Pod of every eviction. An evicted Pod is created again, as its controller would create it. Stops after
    50 cycles, or when nothing has been decided for three cycles (after an eviction, for the ten cycles in which its Pod
    terminates): sessions depend only on the objects and, for some messages, on the seconds that have passed."""
    world = World(objects)
    evicted: list[tuple[int, str]] = []
    idle = 0
    for cycle in range(50):
        world.run(configuration, kubelet=True)
        for eviction in world.decisions.evictions:
            evicted.append((cycle, eviction.task.name))
            create_again(world, eviction.task, f"{eviction.task.name}x")
        idle = 0 if world.decisions else idle + 1
        if idle == (10 if evicted else 3):
            break
    return evicted


def create_again(world: World, task: Task, name: str) -> None:
    """A Pod like the evicted one, pending."""
    old = copy.deepcopy(world.get("Pod", task.name))
    meta: dict[str, Any] = {k: old["metadata"][k] for k in ("namespace", "labels", "annotations")}
    spec = {k: v for k, v in old["spec"].items() if k != "nodeName"}
    fresh = {**old, "metadata": {**meta, "name": name}, "spec": spec, "status": {"phase": "Pending"}}
    world.cluster.load(manifests(fresh))
