"""pdb: limits evictions to what PodDisruptionBudgets allow."""

from typing import Any

import pytest

from scheduler.framework.extension import PREEMPTABLE, RECLAIMABLE
from scheduler.framework.session import Session
from tests.builders import Raw, World, configuration, group, node, pod
from tests.unit.plugins.tdm.hours import NEVER

WEB = {"app": "web"}


def budget(name: str, allowed: int, selector: Any = None, **status: Any) -> Raw:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": WEB} if selector is None else selector},
        "status": {"disruptionsAllowed": allowed, **status},
    }


def session(*objects: Raw) -> Session:
    return World(node("n1", "99c+99Gi"), group("a", phase="Running"), *objects).session(configuration(["pdb"]))


def web(*names: str, **rest: Any) -> list[Raw]:
    return [pod(name, "1c", "a", on="n1", labels=WEB, **rest) for name in names]


def victims(opened: Session, point: Any = PREEMPTABLE) -> list[str]:
    tasks = sorted(opened.jobs["default/a"].tasks(), key=lambda task: task.name)
    return [task.name for task in opened.ask(point, tasks[0], tasks)]


@pytest.mark.parametrize("point", [PREEMPTABLE, RECLAIMABLE])
def test_at_most_as_many_pods_are_victims_as_the_budget_allows(point: Any) -> None:
    assert victims(session(budget("b", 2), *web("p1", "p2", "p3")), point) == ["p1", "p2"]


def test_each_budget_of_a_pod_must_allow_its_eviction() -> None:
    assert victims(session(budget("wide", 9), budget("tight", 1), *web("p1", "p2"))) == ["p1"]


def test_pods_without_a_budget_are_victims_if_they_have_a_label() -> None:
    other = pod("other", "1c", "a", on="n1", labels={"app": "db"})
    bare = pod("bare", "1c", "a", on="n1")
    assert victims(session(budget("b", 0), other, bare, *web("p1"))) == ["other"]


def test_a_budget_without_a_selector_selects_no_pods() -> None:
    assert victims(session(budget("b", 0, selector={}), *web("p1"))) == ["p1"]


def test_a_pod_whose_disruption_was_granted_does_not_count_again() -> None:
    opened = session(budget("b", 0, disruptedPods={"p1": "2030-01-01T00:00:00Z"}), *web("p1", "p2"))
    assert victims(opened) == ["p1"]


def test_earlier_evictions_in_the_session_count() -> None:
    opened = session(budget("b", 1), *web("p1", "p2"))
    job = opened.jobs["default/a"]
    first = next(task for task in job.tasks() if task.name == "p1")
    statement = opened.statement()
    statement.evict(job, first, "test")
    assert victims(opened) == []
    statement.discard()
    assert victims(opened) == ["p1"]


def test_shuffle_evicts_at_most_what_the_budget_allows_and_no_pod_because_of_a_budget() -> None:
    conf = configuration(["tdm", "pdb"], actions="shuffle", arguments={"tdm": {"tdm.revocable-zone.z": NEVER}})
    zone = node("n2", "9c+9Gi", {"volcano.sh/revocable-zone": "z"})
    world = World(
        *(node("n1", "9c+9Gi"), zone, group("a", phase="Running", annotations={"volcano.sh/jdb-min-available": "0"})),
        *(budget("b", 2), *web("p1", "p2", "p3")),
        *(pod(name, "1c", "a", on="n2", labels=WEB) for name in ("z1", "z2", "z3")),
    ).run(conf)
    assert len(world.evicted) == 2
    assert world.evicted < {"z1", "z2", "z3"}


def test_an_invalid_selector_is_set_aside_and_reported() -> None:
    opened = session(budget("b", 0, {"matchExpressions": [{"key": "app", "operator": "Near"}]}), *web("p1"))
    assert victims(opened) == ["p1"]
    assert [(m.kind, m.name, m.field) for m in opened.malformed] == [("PodDisruptionBudget", "b", "spec.selector: app")]
