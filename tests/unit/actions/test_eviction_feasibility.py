"""The nodes that evictions could open, updated incrementally between questions."""

import numpy as np
import pytest

from scheduler.actions.eviction.feasibility import (
    EvictionFeasibility,
    FreedAmounts,
    Shortfall,
    compared_resources,
    freed_amounts,
)
from scheduler.api.node import Mask
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX
from scheduler.framework.extension import PREEMPTABLE
from scheduler.framework.session import Session
from tests.builders import World, configuration, group, node, pod, pods

CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v}
    for n, v in (("high", 1000), ("low", 10))
]


@pytest.fixture
def session() -> Session:
    """Three nodes of four cpus: two are full of Pods of low priority, one of Pods of high priority."""
    full = [pods(f"v{n}", 4, "1c", "low", on=f"n{n}") for n in (1, 2)]
    return World(
        CLASSES, [node(f"n{n}", "4c+8Gi") for n in (1, 2, 3)],
        group("low", minimum=0, priority_class="low"), *full,
        group("high", minimum=0, priority_class="high"), pods("v3", 4, "1c", "high", on="n3"),
        group("preemptor", priority_class="high"), pod("p", "3c", "preemptor"),
    ).session(configuration(["priority", "conformance"], ["predicates"]))  # fmt: skip


def test_cpu_and_memory_are_compared_even_if_they_are_not_requested() -> None:
    request = np.zeros(8)
    request[[PODS_INDEX, 5]] = 1
    assert compared_resources(request).tolist() == [CPU_INDEX, MEMORY_INDEX, PODS_INDEX, 5]


def test_freed_amounts_that_are_updated_equal_those_that_are_computed(session: Session) -> None:
    candidates, random = session.eviction_candidates, np.random.default_rng(0)
    kept, dims = FreedAmounts(session), np.arange(len(candidates.requests))
    for share in (0.5, 0.5, 1.0, 0.0, 0.2):
        evicted = random.random(len(candidates.tasks)) < share
        assert kept.of(evicted).tolist() == freed_amounts(session, evicted, dims).tolist()
        for row in range(len(session.nodes)):
            held = [task.cls.request for task in candidates.at(row, evicted)]
            assert kept.of(evicted)[:, row].tolist() == np.sum([np.zeros(len(dims)), *held], axis=0).tolist()


def test_a_node_can_be_opened_while_it_runs_enough_tasks_of_lower_priority(session: Session) -> None:
    candidates, low = session.eviction_candidates, session.jobs["default/low"]
    (preemptor,) = session.jobs["default/preemptor"].tasks()
    feasibility, statement = EvictionFeasibility(session, PREEMPTABLE), session.statement()

    def opened(among: Mask = candidates.preemptable) -> list[str]:
        scope = among & candidates.present
        mask = feasibility.nodes_for(preemptor, Shortfall(session, preemptor.cls.request), scope)
        return [session.nodes.names[row] for row in np.flatnonzero(mask)]

    assert opened() == ["n1", "n2"]
    stays = [task for task in low.tasks() if task.node == "n1"][:2]
    assert opened(np.array([task not in stays for task in candidates.tasks])) == ["n2"]
    statement.evict(low, next(task for task in low.tasks() if task.node == "n2"), "test")
    assert opened() == ["n1", "n2"]  # what terminates there counts as free already
    statement.discard()
    assert opened() == ["n1", "n2"]
