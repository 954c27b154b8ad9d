"""Affinity, anti-affinity and topology spread in any combination: a run of equal Pods gets the nodes that it would get
if each Pod were placed alone, with every node checked, also when other Pods are placed in between."""

from random import Random
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.api.job import Job
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.columns import GRAIN, Scope
from scheduler.framework.session import Session
from tests.builders import Raw, World, configuration, group, node, pod

CONF = configuration(["gang", "predicates", "nodeorder", "binpack"])
ZONE = "topology.kubernetes.io/zone"
KEYS = ("kubernetes.io/hostname", ZONE, "rack")
LABELS = ({"app": "a"}, {"app": "b"}, {"app": "a", "tier": "x"})
SELECTORS: tuple[Raw, ...] = (
    {"matchLabels": {"app": "a"}},
    {"matchLabels": {"tier": "x"}},
    {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
    {},
)


def term(random: Random) -> Raw:
    return {"topologyKey": random.choice(KEYS), "labelSelector": random.choice(SELECTORS)}


def pod_rules(random: Random) -> dict[str, Any]:
    """Generates labels, affinity and spread constraints of a Pod; most Pods have few of them."""

    def terms() -> Raw:
        preferred = [{"podAffinityTerm": term(random), "weight": random.randint(1, 100)} for _ in few(random)]
        return {
            "requiredDuringSchedulingIgnoredDuringExecution": [term(random)] if random.random() < 0.4 else [],
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }

    affinity = {"podAffinity": terms(), "podAntiAffinity": terms()}
    if random.random() < 0.5:
        zones = random.choice([["a"], ["b"], ["a", "b"]])
        preference = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": zones}]}
        affinity["nodeAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": random.randint(1, 9), "preference": preference} for _ in few(random)
            ]
        }
    spread = [
        {**term(random), "maxSkew": random.randint(1, 2), "whenUnsatisfiable": when}
        for when in ("DoNotSchedule", "ScheduleAnyway")
        if random.random() < 0.4
    ]
    return {"labels": random.choice(LABELS), "affinity": affinity, "topologySpreadConstraints": spread}


def few(random: Random) -> range:
    """The range of a loop with up to two iterations, mostly none."""
    return range(random.choice([0, 0, 0, 1, 2]))


def cluster(random: Random) -> list[Raw]:
    """Generates nodes with and without zones and racks, running Pods, at most one Service, and two gangs that wait."""
    objects: list[Raw] = []
    for i in range(random.randint(1, 7)):
        labels = {key: value for key in (ZONE, "rack") if (value := random.choice(["a", "b", "c", ""]))}
        objects.append(node(f"n{i}", random.choice(["2c+4Gi", "4c+8Gi+3p", "8c+8Gi"]), labels))
    names = [o["metadata"]["name"] for o in objects]
    if random.random() < 0.5:
        meta = {"name": "s", "namespace": "default"}
        objects.append({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": {"app": "a"}}})
    objects += [pod(f"r{i}", "100m", on=random.choice(names), **pod_rules(random)) for i in range(random.randint(0, 4))]
    for name in ("g", "h"):
        rules = pod_rules(random)
        objects.append(group(name, minimum=1))
        objects += [pod(f"{name}-{i}", "0.5c+1Gi", name, **rules) for i in range(random.randint(1, 9))]
    return objects


# A seeded generator: drawing every choice by Hypothesis takes half the time of these tests.
CLUSTERS = st.randoms(use_true_random=True).map(cluster)


def waiting(job: Job) -> list[Task]:
    return sorted(job.of(TaskStatus.PENDING).values(), key=lambda task: task.name)


def best_alone(session: Session, job: Job, task: Task) -> int | None:
    """The reference: the feasible node with the highest score, the first by name among equals."""
    nodes, cls = session.nodes, task.cls
    filters, scores = session.filters(cls, job), session.scores(cls, job)
    dims = np.flatnonzero(cls.request)
    passing = [
        row
        for row in range(len(nodes))
        if (nodes.idle[dims, row] >= cls.request[dims]).all() and all(f.room(np.array([row]))[0] > 0 for f in filters)
    ]
    if not passing:
        return None
    rows = np.array(passing)
    own, wide = np.zeros(len(rows)), np.zeros(len(rows))
    for score in scores:
        if score.scope is Scope.CLUSTER:
            wide += score.values(rows, None)
        else:
            own += score.values(rows, None)
    return passing[int(np.argmax(np.rint(own / GRAIN) * GRAIN + wide))]


def one_by_one(session: Session, job: Job, count: int) -> list[int]:
    rows: list[int] = []
    for task in waiting(job)[:count]:
        row = best_alone(session, job, task)
        if row is None:
            break
        session.statement().allocate(job, (task,), (row,))
        rows.append(row)
    return rows


def in_runs(session: Session, job: Job, count: int) -> list[int]:
    rows: list[int] = []
    while len(rows) < count and (tasks := waiting(job)[: count - len(rows)]):
        found = session.view(tasks[0].cls, job).choose(len(tasks))
        if not found:
            break
        session.statement().allocate(job, tasks[: len(found)], found)
        rows += found
    return rows


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CLUSTERS, st.lists(st.tuples(st.sampled_from("gh"), st.integers(1, 5)), min_size=1, max_size=6))
def test_runs_are_placed_as_their_pods_one_by_one(objects: list[Raw], turns: list[tuple[str, int]]) -> None:
    fast, slow = World(*objects).session(CONF), World(*objects).session(CONF)
    for name, count in turns:
        expected = one_by_one(slow, slow.jobs[f"default/{name}"], count)
        assert in_runs(fast, fast.jobs[f"default/{name}"], count) == expected


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CLUSTERS, st.lists(st.tuples(st.sampled_from("gh"), st.booleans()), min_size=1, max_size=12))
def test_pods_that_arrive_one_by_one_are_placed_as_in_a_new_view(
    objects: list[Raw], turns: list[tuple[str, bool]]
) -> None:
    """Some placements are rolled back at once, like the placements of a gang that cannot start."""
    fast, slow = World(*objects).session(CONF), World(*objects).session(CONF)
    for name, stays in turns:
        outcomes = []
        for session, row_of in ((fast, in_view), (slow, best_alone)):
            job = session.jobs[f"default/{name}"]
            task = next(iter(waiting(job)), None)
            row = row_of(session, job, task) if task is not None else None
            if task is not None and row is not None:
                statement = session.statement()
                statement.allocate(job, (task,), (row,))
                if not stays:
                    statement.discard()
            outcomes.append(row)
        assert outcomes[0] == outcomes[1]


def in_view(session: Session, job: Job, task: Task) -> int | None:
    return next(iter(session.view(task.cls, job).choose(1)), None)
