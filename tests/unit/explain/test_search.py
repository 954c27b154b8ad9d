"""The search makes few trials: it starts with the estimates and skips changes that cannot help."""

from typing import Any

import pytest

from scheduler.cluster.memory import Simulation
from scheduler.explain import Change, explain
from scheduler.explain.trials import TrialRunner
from scheduler.framework.configuration import Configuration
from scheduler.framework.remedies.adjustments import Step
from tests.builders import NAME, Raw, configuration, group, manifests, node, pod, pods, queue
from tests.unit.explain.small_clusters import DEFAULT, PLAIN


def searched(monkeypatch: pytest.MonkeyPatch, *objects: Any, conf: Configuration) -> tuple[list[Change], list[str]]:
    """The changes that were found, and the distinct changes that were tried."""
    tried: dict[str, None] = {}
    after = TrialRunner.after

    def recorded(self: TrialRunner, steps: list[Step]) -> Simulation | None:
        tried["; ".join(step.text for step in steps)] = None
        return after(self, steps)

    monkeypatch.setattr(TrialRunner, "after", recorded)
    found = explain(Simulation(manifests(*objects), conf, [NAME]), "podgroup", "default", "g")
    return found.changes, list(tried)


def full(number: int, queue_name: str = "default") -> list[Raw]:
    """Nodes with one free core each; a job uses the other cores."""
    return [
        raw
        for i in range(number)
        for raw in (
            node(f"n{i}", "8c+8Gi"),
            group(f"r{i}", queue_name),
            pod(f"r{i}-0", "7c", f"r{i}", on=f"n{i}"),
        )
    ]


def test_changes_to_other_jobs_are_not_tried_for_a_pod_larger_than_any_node(monkeypatch: pytest.MonkeyPatch) -> None:
    found, tried = searched(monkeypatch, *full(6), group("g"), pod("p", "500c", "g"), conf=DEFAULT)
    assert [change.text for change in found] == ["let Pod default/p ask for 1 cpu instead of 500"]
    assert tried == [f"let Pod default/p ask for {cpu} cpu instead of 500" for cpu in ("1", "1001m")]


def test_deleting_a_job_and_reducing_the_request_are_combined_when_both_are_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    objects = [node("n1", "8c+8Gi"), group("r"), pod("r-0", "8c", "r", on="n1")]
    found, _ = searched(monkeypatch, *objects, group("g"), pod("p", "500c", "g"), conf=PLAIN)
    assert [set(change.kinds) for change in found] == [{"delete", "request of the job"}]


def test_a_job_with_missing_pods_does_not_count_as_too_large_for_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = [node("n1", "8c+8Gi"), group("g", minimum=2), pod("p", "500c", "g")]
    found, _ = searched(monkeypatch, *objects, conf=PLAIN)
    assert found


def test_plans_that_fail_together_are_not_tried_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = configuration(["priority", "gang", "predicates", "proportion"])
    objects = [queue("q", capability="2c"), node("free", "8c+8Gi"), *full(6), group("g", "q"), pod("p", "4c", "g")]
    found, tried = searched(monkeypatch, *objects, conf=conf)
    assert found[0].text == "raise queue q's capability cpu from 2 to 4"
    assert not any(text.startswith("delete") for text in tried)


def test_plans_that_contain_a_found_change_are_not_tried_together_first(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = configuration(["priority", "gang", "predicates", "nodeorder"])
    waiting = [raw for i in range(4) for raw in (group(f"h{i}"), pod(f"h{i}", "7c", f"h{i}"))]
    found, tried = searched(monkeypatch, *full(4), *waiting, group("g"), pod("p", "7c", "g"), conf=conf)
    assert found[0].text == "5 nodes like n0 more"
    assert ["priority", "nodes"] in [list(change.kinds) for change in found]
    assert not any(text.count("delete") > 1 and "raise the priority" in text for text in tried), tried


def test_no_change_is_reported_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    conf = configuration(
        ["priority", "gang", "predicates", "drf", "nodeorder"], actions="enqueue, allocate, preempt, backfill"
    )
    waiting = [raw for i in range(6) for raw in (group(f"h{i}", minimum=2), *pods(f"h{i}", 2, "7c", f"h{i}"))]
    found, _ = searched(monkeypatch, *full(4), *waiting, group("g", minimum=2), pods("p", 2, "7c", "g"), conf=conf)
    texts = [change.text for change in found]
    assert texts and len(set(texts)) == len(texts)
    assert len({change.kinds for change in found}) == len(found)


def test_with_jobs_ahead_the_estimate_for_all_jobs_is_tried_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = [raw for i in range(20) for raw in (group(f"h{i:02}", minimum=2), *pods(f"h{i:02}", 2, "4c", f"h{i:02}"))]
    objects = [*full(2), *waiting, group("g", minimum=2), *pods("p", 2, "4c", "g")]
    found, tried = searched(monkeypatch, *objects, conf=DEFAULT)
    assert found[0].text == "21 nodes like n0 more"
    assert [text for text in tried if text.endswith("like n0 more") and ";" not in text] == [
        "21 nodes like n0 more",
        "20 nodes like n0 more",
    ]
