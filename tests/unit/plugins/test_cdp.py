"""cdp: recently scheduled Pods are no victims."""

from typing import Any

import pytest

from scheduler.api.times import format_timestamp
from scheduler.framework.extension import PREEMPTABLE, RECLAIMABLE
from scheduler.framework.session import Session
from tests.builders import Raw, World, configuration, group, node, pod

KEY = "volcano.sh/cooldown-time"


def scheduled(raw: Raw, seconds_ago: float) -> Raw:
    moment = format_timestamp(World().cluster.now - seconds_ago)
    raw["status"]["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}]
    return raw


def session(*pods: Raw) -> Session:
    return World(node("n1"), group("a", phase="Running"), *pods).session(configuration(["cdp"]))


def victims(opened: Session, point: Any = PREEMPTABLE) -> set[str]:
    tasks = list(opened.jobs["default/a"].tasks())
    return {task.name for task in opened.ask(point, tasks[0], tasks)}


def a(name: str, **rest: Any) -> Raw:
    return pod(name, "1c", "a", on="n1", **rest)


@pytest.mark.parametrize("point", [PREEMPTABLE, RECLAIMABLE])
def test_a_pod_is_protected_until_its_cooldown_is_over(point: Any) -> None:
    opened = session(
        scheduled(a("fresh", annotations={KEY: "10m"}), 60),
        scheduled(a("cool", annotations={KEY: "10m"}), 900),
        scheduled(a("plain"), 60),
    )
    assert victims(opened, point) == {"cool", "plain"}


def test_the_label_takes_precedence_over_the_annotation() -> None:
    opened = session(
        scheduled(a("kept", labels={KEY: "1h"}, annotations={KEY: "1s"}), 60),
        scheduled(a("gone", labels={KEY: "1s"}, annotations={KEY: "1h"}), 60),
    )
    assert victims(opened) == {"gone"}


def test_a_pod_that_is_not_running_is_not_protected() -> None:
    assert victims(session(scheduled(a("bound", phase="Pending", annotations={KEY: "1h"}), 60))) == {"bound"}


def test_an_invalid_cooldown_time_protects_no_pod_and_is_reported() -> None:
    opened = session(scheduled(a("odd", annotations={KEY: "long"}), 60))
    assert victims(opened) == {"odd"}
    assert [m.field for m in opened.malformed] == [f"metadata.annotations[{KEY}]"]


def test_the_bound_agrees_with_the_victims() -> None:
    opened = session(scheduled(a("fresh", annotations={KEY: "10m"}), 60), scheduled(a("plain"), 60))
    (function,) = opened.functions(PREEMPTABLE)[0]
    bound = opened.bounds.get(function)
    assert bound is not None
    mask = bound(opened.eviction_candidates.tasks[0], opened.eviction_candidates)
    assert {task.name for task, kept in zip(opened.eviction_candidates.tasks, mask, strict=True) if kept} == {"plain"}
