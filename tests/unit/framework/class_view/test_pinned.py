"""Classes that differ only in the node to which their Pods are pinned share the answers of filters and scores."""

from random import Random
from typing import Any

import pytest

from scheduler.api.task import TaskClass
from scheduler.framework.columns import Filter, MaskFilter, PinUse
from scheduler.framework.plugin_session import PluginSession
from scheduler.record.frames import recorded_decisions
from tests.builders import Raw, World, configuration, group, node, pod
from tests.unit.framework.fake_plugin import fake_plugin

PLUGINS = ["priority", "gang", "predicates", "proportion", "nodeorder", "binpack"]
ACTIONS = "enqueue, allocate, backfill, preempt"


def on_node(name: str, *expressions: Raw) -> Raw:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    if expressions:
        term["matchExpressions"] = list(expressions)
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def pinned(name: str, to: str, asks: str = "1c", **rest: Any) -> list[Raw]:
    """A Pod that may run on one node only, in a job of its own."""
    return [group(name), pod(name, asks, name, affinity=on_node(to), **rest)]


def asking(monkeypatch: pytest.MonkeyPatch, pin: PinUse, passes: dict[str, bool]) -> tuple[Any, list[str]]:
    """A configuration with a plugin whose filter depends on the node of the affinity, and the nodes for which the
    filter was called."""
    asked: list[str] = []

    def opening(session: PluginSession) -> None:
        def filters(cls: TaskClass) -> list[Filter]:
            affinity = cls.spec.affinity
            required = affinity and affinity.node_affinity
            terms = required and required.required_during_scheduling_ignored_during_execution
            to = terms.node_selector_terms[0].match_fields[0].values[0] if terms else ""  # type: ignore[index]
            asked.append(to)
            return [MaskFilter(session.nodes.idle[0] > (-1 if passes.get(to, True) else 10**9), "not wanted")]

        session.add_filter(filters, pin=pin)

    fake_plugin(opening, monkeypatch)
    return configuration([*PLUGINS, "fake"]), asked


def test_a_filter_that_ignores_the_pin_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, asked = asking(monkeypatch, PinUse.IGNORED, {})
    names = [f"n{i}" for i in range(6)]
    world = World([node(name) for name in names], [pinned(f"p-{name}", name) for name in names])
    assert world.run(plan).bound == {f"p-{name}": name for name in names}
    assert asked == ["n0", ""]


def test_a_filter_that_may_read_the_pin_is_asked_about_each_class(monkeypatch: pytest.MonkeyPatch) -> None:
    plan, asked = asking(monkeypatch, PinUse.ASKED, {"n1": False})
    world = World(node("n0"), node("n1"), node("n2"), [pinned(f"p{i}", f"n{i}") for i in range(3)])
    assert world.run(plan).bound == {"p0": "n0", "p2": "n2"}
    assert sorted(asked) == ["n0", "n1", "n2"]
    assert (
        world.message_of("p1")
        == "0/3 nodes are unavailable: 1 not wanted, 2 node(s) didn't match Pod's node affinity/selector."
    )


def test_a_pin_does_not_count_if_node_affinity_is_disabled() -> None:
    plan = configuration(PLUGINS, arguments={"predicates": {"predicate.NodeAffinityEnable": False}})
    world = World(node("n0", "1c"), node("n1"), pinned("p0", "n0", "2c"))
    assert world.run(plan).bound == {"p0": "n1"}


def test_the_other_requirements_of_a_pinned_pod_hold() -> None:
    ssd = {"key": "disk", "operator": "In", "values": ["ssd"]}
    first, second = (
        pod("p0", "1c", "p0", affinity=on_node("n0", ssd)),
        pod("p1", "1c", "p1", affinity=on_node("n1", ssd)),
    )
    world = World(node("n0", labels={"disk": "ssd"}), node("n1"), group("p0"), group("p1"), first, second)
    world.run(configuration(PLUGINS))
    assert world.bound == {"p0": "n0"}
    assert world.message_of("p1") == "0/2 nodes are unavailable: 2 node(s) didn't match Pod's node affinity/selector."


def cluster(random: Random) -> list[Raw]:
    """A cluster whose Pods are mostly pinned, some to nodes that have no room, refuse them or do not exist."""
    objects: list[Raw] = []
    for i in range(6):
        raw = node(
            f"n{i}",
            f"{random.randint(1, 6)}c+8Gi+{random.choice([2, 110])}p",
            {"disk": random.choice(["ssd", "hdd"]), "rack": f"r{i % 3}"},
        )
        if random.random() < 0.2:
            raw["spec"] = {"unschedulable": True}
        elif random.random() < 0.2:
            raw["spec"] = {"taints": [{"key": "gpu", "effect": random.choice(["NoSchedule", "PreferNoSchedule"])}]}
        objects.append(raw)
    away = {"labelSelector": {"matchLabels": {"app": "lonely"}}, "topologyKey": "rack"}
    for i in range(random.randint(0, 4)):
        spec: Raw = {"deleting": random.random() < 0.4, "labels": {"app": random.choice(["lonely", "web"])}}
        if random.random() < 0.2:
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [away]}}
        objects += [
            group(f"old-{i}", phase="Running"),
            pod(f"old-{i}", "1c", f"old-{i}", on=f"n{random.randrange(6)}", **spec),
        ]
    for j in range(10):
        size = random.randint(1, 5)
        objects.append(group(f"g{j}", minimum=random.randint(1, size)))
        shape = random.randrange(6)
        for i in range(size):
            spec = {"affinity": on_node(f"n{random.randrange(7)}")} if random.random() < 0.9 else {}
            if shape == 1:
                spec["selector"] = {"disk": "ssd"}
            elif shape == 2:
                spec["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
            elif shape == 3 and "affinity" in spec:
                spec["affinity"] |= {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [away]}}
            elif shape == 4:
                expression = {"key": "disk", "operator": "NotIn", "values": ["hdd"]}
                spec["affinity"] = on_node(f"n{random.randrange(6)}", expression)
            raw = pod(f"g{j}-{i}", random.choice(["1c", "1c", "2c", ""]), f"g{j}", **spec, labels={"app": "lonely"})
            if shape == 5:
                raw["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
            objects.append(raw)
    return objects


@pytest.mark.parametrize("seed", range(30))
def test_sharing_changes_no_decision_and_no_message(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_plugin(lambda session: session.add_filter(lambda cls: []), monkeypatch)
    sharing, asked = (configuration([*PLUGINS, *more], actions=ACTIONS) for more in ((), ("fake",)))
    objects = cluster(Random(seed))
    worlds = World(objects), World(objects)
    for _ in range(3):
        found = [world.run(plan, kubelet=True).decisions for world, plan in zip(worlds, (sharing, asked), strict=True)]
        assert recorded_decisions(found[0]) == recorded_decisions(found[1])
    assert worlds[0].bound == worlds[1].bound
