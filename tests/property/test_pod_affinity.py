"""Affinity, anti-affinity and topology spread in any combination: a run of equal Pods gets the nodes that it would get
if each Pod were placed alone, with every node checked, also when other Pods are placed in between."""

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
KEYS = st.sampled_from(["kubernetes.io/hostname", ZONE, "rack"])
LABELS = st.sampled_from([{"app": "a"}, {"app": "b"}, {"app": "a", "tier": "x"}])
SELECTORS = st.sampled_from(
    [
        {"matchLabels": {"app": "a"}},
        {"matchLabels": {"tier": "x"}},
        {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        {},
    ]
)


@st.composite
def terms(draw: st.DrawFn) -> Raw:
    return {"topologyKey": draw(KEYS), "labelSelector": draw(SELECTORS)}


@st.composite
def companies(draw: st.DrawFn) -> dict[str, Any]:
    """Labels, affinity and spread constraints of a Pod; most Pods have little of it."""
    required = st.lists(terms(), max_size=1)
    preferred = st.lists(
        st.builds(lambda term, weight: {"podAffinityTerm": term, "weight": weight}, terms(), st.integers(1, 100)),
        max_size=2,
    )
    spread = st.builds(
        lambda key, selector, skew, when: {
            "topologyKey": key,
            "labelSelector": selector,
            "maxSkew": skew,
            "whenUnsatisfiable": when,
        },
        KEYS,
        SELECTORS,
        st.integers(1, 2),
        st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    )

    def side() -> Raw:
        return {
            "requiredDuringSchedulingIgnoredDuringExecution": draw(required),
            "preferredDuringSchedulingIgnoredDuringExecution": draw(preferred),
        }

    affinity = {"podAffinity": side(), "podAntiAffinity": side()}
    if draw(st.booleans()):
        zones = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2)
        affinity["nodeAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": weight,
                    "preference": {"matchExpressions": [{"key": ZONE, "operator": "In", "values": draw(zones)}]},
                }
                for weight in draw(st.lists(st.integers(1, 9), max_size=2))
            ]
        }
    return {
        "labels": draw(LABELS),
        "affinity": affinity,
        "topologySpreadConstraints": draw(st.lists(spread, max_size=2)),
    }


@st.composite
def worlds(draw: st.DrawFn) -> list[Raw]:
    """Nodes with and without zones and racks, running Pods, at most one Service, and two gangs that wait."""
    sizes = st.sampled_from(["2c+4Gi", "4c+8Gi+3p", "8c+8Gi"])
    objects: list[Raw] = []
    for i in range(draw(st.integers(1, 7))):
        labels = {key: value for key in (ZONE, "rack") if (value := draw(st.sampled_from(["a", "b", "c", ""])))}
        objects.append(node(f"n{i}", draw(sizes), labels))
    names = [o["metadata"]["name"] for o in objects]
    if draw(st.booleans()):
        meta = {"name": "s", "namespace": "default"}
        objects.append({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": {"app": "a"}}})
    for i, company in enumerate(draw(st.lists(companies(), max_size=4))):
        objects.append(pod(f"r{i}", "100m", on=draw(st.sampled_from(names)), **company))
    for name in ("g", "h"):
        size, company = draw(st.integers(1, 9)), draw(companies())
        objects.append(group(name, minimum=1))
        objects += [pod(f"{name}-{i}", "0.5c+1Gi", name, **company) for i in range(size)]
    return objects


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


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(), st.lists(st.tuples(st.sampled_from("gh"), st.integers(1, 5)), min_size=1, max_size=6))
def test_runs_are_placed_as_their_pods_one_by_one(objects: list[Raw], turns: list[tuple[str, int]]) -> None:
    fast, slow = World(*objects).session(CONF), World(*objects).session(CONF)
    for name, count in turns:
        expected = one_by_one(slow, slow.jobs[f"default/{name}"], count)
        assert in_runs(fast, fast.jobs[f"default/{name}"], count) == expected


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds(), st.lists(st.tuples(st.sampled_from("gh"), st.booleans()), min_size=1, max_size=12))
def test_pods_that_arrive_one_by_one_are_placed_as_in_a_new_view(
    objects: list[Raw], turns: list[tuple[str, bool]]
) -> None:
    """Some placements are rolled back at once, like those of a gang that cannot start."""
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
