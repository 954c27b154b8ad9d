"""Counts of Pods per domain: counts that a session keeps current equal counts of its final state."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.task import TaskClass
from scheduler.plugins.support.pod_counts import PodCounts
from tests.builders import World, configuration, group, node, pod, pods
from tests.examples import examples

CONF = configuration(["predicates"])


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=4),
    st.lists(st.integers(0, 3), max_size=4),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans()), max_size=8),
    st.integers(0, 8),
)
def test_updated_counts_equal_new_counts(
    zones: list[str], there: list[int], moves: list[tuple[int, int, bool]], asked_after: int
) -> None:
    nodes = [node(f"n{i}", labels={"zone": zone} if zone else {}) for i, zone in enumerate(zones)]
    standing = [pod(f"r{i}", on=f"n{n % len(zones)}") for i, n in enumerate(there)]
    session = World(nodes, standing, group("g"), pods("p", 6, "1c", "g")).session(CONF)
    tasks = sorted(session.jobs["default/g"].tasks(), key=lambda task: task.name)
    counts = session.plugin_session.once(PodCounts)
    kept = None
    rows = np.bincount([n % len(zones) for n in there], minlength=len(zones)).astype(float)

    for step, (which, place, back) in enumerate(moves):
        if step == asked_after:
            kept = counts.count("zone", lambda cls: 1.0)
        row = place % len(zones)
        if back and rows[row]:
            session.notify_deallocate(session.jobs["default/g"], (tasks[which],), (row,))
            rows[row] -= 1
        else:
            session.notify_allocate(session.jobs["default/g"], (tasks[which],), (row,), False)
            rows[row] += 1
    kept = kept or counts.count("zone", lambda cls: 1.0)

    expected = [sum(rows[i] for i, z in enumerate(zones) if z == zone) if zone else 0 for zone in zones]
    assert kept.at_nodes(np.arange(len(zones))).tolist() == expected
    assert counts.count_per_node(lambda cls: 1.0).at_nodes(np.arange(len(zones))).tolist() == rows.tolist()


def test_terminating_pods_count_unless_they_are_excluded() -> None:
    world = World(
        node("n1"),
        group("g", minimum=2),
        pod("stays", "1c", "g", on="n1"),
        pod("goes", "1c", "g", on="n1", deleting=True),
    )
    counts = world.session(CONF).plugin_session.once(PodCounts)
    row = np.array([0])

    assert counts.count_per_node(lambda cls: 1.0).at_nodes(row) == [2.0]
    assert counts.count_per_node(lambda cls: 1.0, exclude_terminating=True).at_nodes(row) == [1.0]


def test_a_class_subset_avoids_computing_weights_and_changes_no_count() -> None:
    """Pods of two applications; some are placed before the session, others before and after counting began."""
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default"}}
    service["spec"] = {"selector": {"app": "x"}}
    apps = [pod(f"p-{i}", "1c", "g", labels={"app": "xy"[i % 2]}) for i in range(4)]
    there = [pod("r1", on="n0", labels={"app": "x"}), pod("r2", on="n1", labels={"app": "y"})]
    nodes = [node("n0", labels={"zone": "a"}), node("n1", labels={"zone": "b"})]
    session = World(service, nodes, there, group("g"), apps).session(CONF)
    job = session.jobs["default/g"]
    tasks = sorted(job.tasks(), key=lambda task: task.name)
    counts = session.plugin_session.once(PodCounts)
    mine = tasks[0].cls
    asked: list[TaskClass] = []

    def weight(cls: TaskClass) -> float:
        asked.append(cls)
        return float(cls.labels == {"app": "x"})

    session.notify_allocate(job, (tasks[0],), (1,), False)
    session.notify_allocate(job, (tasks[1],), (1,), False)
    plain = counts.count("zone", weight)
    all_classes = len(asked)
    by_label = counts.count("zone", weight, only=("app", "x"))
    by_id = counts.count("zone", weight, only={mine.id})
    assert len(asked) < 3 * all_classes
    session.notify_allocate(job, (tasks[2],), (0,), False)
    session.notify_allocate(job, (tasks[3],), (0,), False)

    rows = np.array([0, 1])
    assert plain.at_nodes(rows).tolist() == by_label.at_nodes(rows).tolist() == [2.0, 1.0]
    placed = by_id.at_nodes(rows).tolist()
    assert placed == [1.0, 1.0], "the Pod that was placed before has no requests and so another class"
