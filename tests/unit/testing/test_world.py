"""The functions of scheduler.testing for tests of plugins."""

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from scheduler.api.kinds import POD
from scheduler.api.task import TaskClass
from scheduler.framework import registry
from scheduler.framework.cache_requirements import CacheRequirements
from scheduler.framework.columns import Filter
from scheduler.framework.failures import PluginError
from scheduler.testing import World, configuration, gang, group, node, pod
from tests.unit.framework.fake_plugin import fake_plugin

PREEMPTING = "enqueue, allocate, preempt"
OBJECTS = (node("n", "1c+8Gi"), gang("train", 2, "1c"))


@pytest.mark.parametrize("method", ["run", "session"])
def test_a_plugin_that_is_not_registered_is_an_error(method: str) -> None:
    with pytest.raises(LookupError, match="no plugin 'team' is registered: is its module imported"):
        getattr(World(*OBJECTS), method)(configuration(["gang", "team"]))
    with pytest.raises(LookupError, match="no plugin 'team' is registered"):
        World(*OBJECTS).changes("train", configuration(["team"]))


def test_an_action_that_is_not_registered_is_an_error() -> None:
    with pytest.raises(LookupError, match="no action 'drain' is registered"):
        World(*OBJECTS).run(configuration(["gang"], actions="allocate, drain"))


def test_problems_are_invalid_and_unknown_arguments() -> None:
    arguments = {"binpack": {"binpack.weight": "much", "binpack.wait": 3}}
    problems = World(*OBJECTS).run(configuration(["gang", "binpack"], arguments=arguments)).problems
    assert problems == [
        "plugin binpack: argument binpack.weight: 'much' is not an integer; using 1",
        "plugin binpack: argument binpack.wait is not known; it is ignored; known: binpack.cpu, binpack.memory, "
        "binpack.resources, binpack.weight",
    ]


def test_an_unknown_argument_of_an_action_is_a_problem() -> None:
    plan = replace(configuration(["gang"]), action_arguments={"allocate": {"predicateErrorCache": False}})
    assert World(*OBJECTS).run(plan).problems == [
        "action allocate: argument predicateErrorCache is not known; it is ignored; known: predicateErrorCacheEnable"
    ]


def test_changes_are_what_explain_finds() -> None:
    plan = configuration(["priority", "gang", "predicates", "nodeorder"])
    assert "1 node like n more" in World(*OBJECTS).changes("train", plan)


# --- Pods that are evicted or terminating ---
def test_an_evicted_pod_is_terminating_in_the_next_cycle_and_gone_after_it() -> None:
    plan = configuration({"priority": {}, "gang": {"enablePreemptable": False}}, ["predicates"], actions=PREEMPTING)
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    low = group("low"), pod("low-0", "1c", "low", on="n", annotations={"volcano.sh/preemptable": "true"})
    waiting = group("high", priority_class="high"), pod("high-0", "1c", "high", priority=9)
    world = World(high, node("n", "1c+8Gi"), low, waiting).run(plan)
    assert world.evicted == {"low-0"} and world.bound == {}
    assert world.get("Pod", "low-0")["metadata"]["deletionTimestamp"]
    assert world.run(plan).bound == {}
    assert world.cluster.get("v1", "Pod", "default", "low-0") is None
    assert world.run(plan).bound == {"high-0": "n"}


def test_an_evicted_pod_can_stay_terminating() -> None:
    world = World(node("n", "1c+8Gi"), group("g"), pod("p", "1c", "g", on="n"), gang("new", 1, "1c"))
    world.cluster.server.delete(POD, "default", "p")
    assert world.run(configuration(["gang", "predicates"]), cycles=4, exits=False).bound == {}
    assert world.get("Pod", "p")["metadata"]["deletionTimestamp"]


def test_a_pod_that_is_terminating_from_the_start_stays() -> None:
    world = World(node("n", "1c+8Gi"), group("g"), pod("p", "1c", "g", on="n", deleting=True), gang("new", 1, "1c"))
    assert world.run(configuration(["gang", "predicates"]), cycles=4).bound == {}
    assert world.get("Pod", "p")["metadata"]["deletionTimestamp"]


# --- labels and annotations that the cache does not keep ---
def windowed(field: str) -> World:
    """A Pod with the label or annotation ``window``."""
    night = {"window": "night"}
    return World(node("n"), group("g"), pod("p", "1c", "g", **{field: night}))  # type: ignore[arg-type]


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize(
    "ask", [lambda texts, key: texts.get(key), lambda texts, key: texts[key], lambda texts, key: key in texts]
)
def test_a_plugin_that_reads_what_it_does_not_require_is_an_error(
    field: str, ask: Callable[[dict[str, str], str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def filters(cls: TaskClass) -> list[Filter]:
        ask(getattr(cls, field), "window")
        return []

    plan = fake_plugin(lambda session: session.add_filter(filters), monkeypatch)
    problem = f"Pods of this class have window, but no plugin names it in pod_{field} of its cache_requirements"
    with pytest.raises(PluginError, match=re.escape(f"(about Pod default/p, job default/g): LookupError: {problem}")):
        windowed(field).run(plan)


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_a_plugin_reads_what_it_requires_and_what_pods_do_not_have(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def filters(cls: TaskClass) -> list[Filter]:
        texts = getattr(cls, field)
        read.append((texts.get("window"), texts["window"], texts.get("other"), "other" in texts))
        return []

    plan = fake_plugin(lambda session: session.add_filter(filters), monkeypatch)
    window = frozenset({"window"})
    required = CacheRequirements(pod_labels=window) if field == "labels" else CacheRequirements(pod_annotations=window)
    monkeypatch.setattr(registry._plugins["fake"], "cache_requirements", lambda *_: required, raising=False)
    windowed(field).run(plan)
    assert read == [("night", "night", None, False)]
