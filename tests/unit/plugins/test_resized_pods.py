"""The amounts that a Pod holds during a resize count in every quota and share, not the amounts of its spec."""

import json
from typing import Any

import pytest

from scheduler.api.names import CARD_QUOTA
from tests.builders import Raw, World, configuration, group, node, pod, queue


def resized(name: str, group: str, spec: str, held: str, reason: str = "", **rest: Any) -> Raw:
    """A Pod on the node whose spec requests ``spec`` cores, and for which the kubelet has reserved ``held``."""
    raw = pod(name, f"{spec}c", group, on="n", **rest)
    amounts = {"cpu": held}
    raw["status"]["containerStatuses"] = [
        {"name": "main", "allocatedResources": amounts, "resources": {"requests": amounts}}
    ]
    condition = {"type": "PodResizePending" if reason else "PodResizeInProgress", "status": "True", "reason": reason}
    raw["status"]["conditions"] = [condition]
    return raw


def cluster(of_queue: Raw, held_by: Raw, room: str = "100c+100Gi") -> World:
    running = [group("old", "q", 1, phase="Running"), held_by]
    return World(node("n", room), of_queue, *running, group("new", "q", 1), pod("new-0", "4c", "new"))


def quota(cores: int) -> Raw:
    raw = queue("q", capability=f"{cores}c")
    raw["metadata"]["annotations"] = {CARD_QUOTA: json.dumps({"cpu": cores, "memory": "100Gi"})}
    return raw


@pytest.mark.parametrize(("plugin", "numbers"), [("capacity", "6"), ("proportion", "6"), ("capacity-card", "<10000>")])
def test_a_queue_has_used_what_a_shrinking_pod_still_holds(plugin: str, numbers: str) -> None:
    plan = configuration(["gang"], ["predicates", plugin])
    world = cluster(quota(8), resized("old-0", "old", "1", "6")).run(plan)
    assert "new-0" not in world.bound
    assert numbers in " ".join([*world.refusals("new"), world.waiting.get("new-0", "")])


@pytest.mark.parametrize("plugin", ["capacity", "proportion", "capacity-card"])
def test_a_queue_has_not_used_what_an_infeasible_resize_asks_for(plugin: str) -> None:
    plan = configuration(["gang"], ["predicates", plugin])
    assert "new-0" in cluster(quota(8), resized("old-0", "old", "7", "1", "Infeasible")).run(plan).bound


@pytest.mark.parametrize(
    ("spec", "held", "reason", "bound"),
    [("1", "6", "", False), ("6", "1", "", False), ("7", "1", "Deferred", False), ("7", "1", "Infeasible", True)],
)
def test_a_node_has_left_what_its_pods_do_not_hold(spec: str, held: str, reason: str, bound: bool) -> None:
    world = cluster(queue("q"), resized("old-0", "old", spec, held, reason), room="8c+8Gi")
    assert ("new-0" in world.run(configuration(["gang"], ["predicates"])).bound) == bound


def test_the_job_with_the_smaller_share_is_placed_first_by_what_pods_hold() -> None:
    plan = configuration(["gang", "drf"], ["predicates"])
    world = World(
        node("n", "12c+8Gi"),
        queue("q"),
        *[group("shrinking", "q", 1, phase="Running"), resized("shrinking-0", "shrinking", "1", "6")],
        *[group("growing", "q", 1, phase="Running"), resized("growing-0", "growing", "2", "2")],
        *[pod("shrinking-1", "4c", "shrinking"), pod("growing-1", "4c", "growing")],
    )
    bound = world.run(plan).bound
    assert "growing-1" in bound and "shrinking-1" not in bound
