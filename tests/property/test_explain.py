"""A change that ``explain`` proposes lets the job run, and the change reduced by one unit does not, in random
clusters."""

import copy
import json
from collections.abc import Iterator
from functools import cache
from itertools import islice
from random import Random
from typing import Any

import pytest

from scheduler.api.kinds import find_kind
from scheduler.api.names import CARD_QUOTA, GROUP_NAME, NODEGROUP_RESOURCE_LIMITS, WHAT_IF
from scheduler.api.quantity import format_milli, parse_quantity
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory import Simulation
from scheduler.explain import Change, Explanation, Outlook, explain, with_arguments
from scheduler.framework.configuration import Configuration
from tests.builders import NAME, Raw, manifests
from tests.property import card_clusters
from tests.property.clusters import CONFIGURATIONS, cluster


# --- the changes, applied and reduced ------------------------------------------------------------------------
def settled(objects: list[Raw], configuration: Configuration) -> Simulation:
    simulation = Simulation(manifests(*copy.deepcopy(objects)), configuration, [NAME])
    simulation.run()
    return simulation


def placed(simulation: Simulation, name: str) -> int:
    """The Pods of a gang that have a node."""
    return sum(
        1
        for raw in simulation.cluster.objects()
        if raw["kind"] == "Pod"
        and raw["metadata"].get("annotations", {}).get(GROUP_NAME) == name
        and raw["spec"].get("nodeName")
        and not raw["metadata"].get("deletionTimestamp")
    )


def runs_after(
    objects: list[Raw], configuration: Configuration, name: str, documents: list[Raw], arguments: Any
) -> bool:
    """Whether the gang has its minimum, and more Pods on nodes than before, after the change is made to a settled
    cluster."""
    simulation = settled(objects, configuration)
    before = placed(simulation, name)
    simulation.configuration = with_arguments(configuration, arguments)
    simulation.change([Manifest("a change", find_kind(d["apiVersion"], d["kind"]), d) for d in documents])
    simulation.run()
    found = simulation.cluster.get("scheduling.volcano.sh/v1beta1", "PodGroup", "default", name)
    assert found is not None
    enough = placed(simulation, name) >= max(found["spec"]["minMember"], 1)
    return enough and (placed(simulation, name) > before or found["spec"]["minMember"] <= before)


def less(
    change: Change, objects: list[Raw], configuration: Configuration
) -> Iterator[tuple[list[Raw], dict[str, dict[str, Any]]]]:
    """The change reduced by one unit, once for each amount that it changes."""
    documents = list(change.documents)
    there = {(raw["kind"], raw["metadata"]["name"]): raw for raw in objects}
    for document in documents:
        if _node_of(document, documents) or _asks(document):
            continue  # it is changed together with its node, or with the other Pods
        others = [other for other in documents if other is not document and _node_of(other, [document]) is None]
        smaller = list(_smaller(document, there.get((document["kind"], document["metadata"]["name"]), {})))
        for version in smaller or [None]:
            yield others + ([version] if version else []), change.arguments
    yield from ((others, change.arguments) for others in _less_important(documents, objects))
    yield from ((others, change.arguments) for others in _asking_more(documents, there))
    before = {option.name: option.arguments for tier in configuration.tiers for option in tier}
    for plugin, given in change.arguments.items():
        for key, value in given.items():
            fewer = _less_of(value, before[plugin].get(key, ""))
            yield documents, {**change.arguments, plugin: {**given, key: fewer}}


def _node_of(document: Raw, documents: list[Raw]) -> str | None:
    """The new node among the documents that a CSINode or a ResourceSlice belongs to."""
    names = {raw["metadata"]["name"] for raw in documents if raw["kind"] == "Node" and raw is not document}
    own = document["metadata"]["name"] if document["kind"] == "CSINode" else document.get("spec", {}).get("nodeName")
    return own if own in names else None


def _asks(document: Raw) -> bool:
    """Whether a document contains requests of Pods or minResources."""
    containers = document["kind"] == "Pod" and "containers" in document.get("spec", {})
    return containers or (document["kind"] == "PodGroup" and "minResources" in document.get("spec", {}))


def _asking_more(documents: list[Raw], there: dict[tuple[str, str], Raw]) -> Iterator[list[Raw]]:
    """Yields the changes, in which Pods request one unit more of one of the resources whose requests the change
    reduces."""
    asking = [raw for raw in documents if raw["kind"] == "Pod" and _asks(raw)]
    for resource in sorted({r for raw in asking for r in _requests(raw)}):
        more = [
            _with_one_more(raw, there["Pod", raw["metadata"]["name"]], resource) for raw in documents if raw in asking
        ]
        if any(new != old for new, old in zip(more, asking, strict=True)):
            yield [*(raw for raw in documents if raw not in asking), *more]


def _with_one_more(document: Raw, before: Raw, resource: str) -> Raw:
    result = copy.deepcopy(document)
    asked, old = _requests(result), _requests(before).get(resource, "0")
    if resource not in asked or parse_quantity(asked[resource], 1000) == parse_quantity(old, 1000):
        return document
    asked[resource] = _one_less(resource, asked[resource], -1)
    return result


def _requests(pod: Raw) -> Raw:
    requests: Raw = pod["spec"]["containers"][0]["resources"]["requests"]
    return requests


def _smaller(document: Raw, before: Raw) -> Iterator[Raw | None]:
    """A document with one of its amounts reduced by a unit, or None if that equals the original. Yields nothing for
    documents without amounts."""
    if document["kind"] == "PersistentVolume" and "claimRef" not in document["spec"]:
        size = document["spec"]["capacity"]["storage"]
        yield _with(document, ("spec", "capacity"), "storage", _one_less("memory", size), "0")
    if document["metadata"].get("annotations", {}).get(WHAT_IF) != "merge":
        return
    for path in (("spec", "capability"), ("spec", "deserved"), ("spec", "hard"), ("status", "allocatable")):
        amounts = document.get(path[0], {}).get(path[1], {})
        for resource, text in amounts.items():
            old = before.get(path[0], {}).get(path[1], {}).get(resource, "0")
            yield _with(document, path, resource, _one_less(resource, str(text)), str(old))
    for key, step in (("weight", -1), ("minMember", 1)):
        if key in document.get("spec", {}):
            old = before.get("spec", {}).get(key, 1)
            yield _with(document, ("spec",), key, document["spec"][key] + step, old)
    if document["kind"] == "CSIStorageCapacity":
        yield _with(document, (), "capacity", _one_less("memory", document["capacity"]), before["capacity"])
    if document["kind"] == "CSINode":
        (driver,) = document["spec"]["drivers"]
        fewer = [{**driver, "allocatable": {"count": driver["allocatable"]["count"] - 1}}]
        yield _with(document, ("spec",), "drivers", fewer, before["spec"]["drivers"])
    if document["kind"] == "ResourceSlice":
        yield _with(document, ("spec",), "devices", document["spec"]["devices"][:-1], before["spec"]["devices"])
    annotations = document["metadata"]["annotations"]
    if CARD_QUOTA in annotations:
        cards = {card: number - 1 for card, number in json.loads(annotations[CARD_QUOTA]).items()}
        yield _with(document, ("metadata", "annotations"), CARD_QUOTA, json.dumps(cards), annotations[CARD_QUOTA])
    if NODEGROUP_RESOURCE_LIMITS in annotations:
        old = before["metadata"]["annotations"][NODEGROUP_RESOURCE_LIMITS]
        limits = json.loads(annotations[NODEGROUP_RESOURCE_LIMITS])
        lower = {
            group: {
                r: _one_less(r, text) if text != json.loads(old)[group].get(r) else text for r, text in those.items()
            }
            for group, those in limits.items()
        }
        yield _with(document, ("metadata", "annotations"), NODEGROUP_RESOURCE_LIMITS, json.dumps(lower), old)


def _less_important(documents: list[Raw], objects: list[Raw]) -> Iterator[list[Raw]]:
    """Yields the changes, each with one priority reduced by one."""
    values = {raw["metadata"]["name"]: raw["value"] for raw in [*objects, *documents] if raw["kind"] == "PriorityClass"}
    for i, document in enumerate(documents):
        name = document.get("spec", {}).get("priorityClassName")
        if name is not None:
            lower = {**document, "spec": {**document["spec"], "priorityClassName": "lower"}}
            made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "lower"}}
            yield [*documents[:i], lower, *documents[i + 1 :], {**made, "value": values[name] - 1}]


def _less_of(value: Any, before: str) -> Any:
    """An argument changed by one unit less: a hundredth, or a minute of the day."""
    if not isinstance(value, str):
        return round(value - 0.01, 2)
    if not before:
        return ""
    start, end = map(_minutes, value.split("-"))
    later = start == _minutes(before.partition("-")[0])
    start, end = (start, end - 1) if later else (start + 1, end)
    return "-".join(f"{minute // 60 % 24:02}:{minute % 60:02}" for minute in (start, end))


def _minutes(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


def _one_less(resource: str, text: str, units: int = 1) -> str:
    if resource == "cpu":
        return format_milli(parse_quantity(text, 1000) - units)
    return str(parse_quantity(text) - units * (2**20 if resource == "memory" else 1))


def _with(document: Raw, path: tuple[str, ...], key: str, value: Any, before: Any) -> Raw | None:
    result = copy.deepcopy(document)
    at = result
    for part in path:
        at = at[part]
    at[key] = value
    amount = isinstance(value, str) and not value.startswith("{")
    same = str(value) == str(before) or (amount and parse_quantity(value) == parse_quantity(before))
    return None if same else result


# --- found changes help -----------------------------------------------------------------------------------------------
SEEDS = range(100)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_smallest_change_lets_the_job_run_and_one_unit_less_does_not(seed: int) -> None:
    conf, objects, name, explanation = first_that_waits(seed)
    if explanation is None:
        return
    configuration = CONFIGURATIONS[conf]
    assert explanation.gates, f"{name} waits without an explanation"
    for change in explanation.changes:
        proposed = f"{conf}: {name}: {change.text}"
        assert runs_after(objects, configuration, name, list(change.documents), change.arguments), proposed
        for documents, arguments in less(change, objects, configuration):
            assert not runs_after(objects, configuration, name, documents, arguments), (
                f"{proposed}: one unit less is enough: {documents}"
            )


@cache
def first_that_waits(seed: int) -> tuple[str, list[Raw], str, Explanation | None]:
    """The name of a configuration, a cluster, the first gang in it that waits, and its explanation; shared by two
    tests."""
    random = Random(seed)
    conf = random.choice(list(CONFIGURATIONS))
    objects = cluster(random, conf)
    return conf, objects, *next(all_that_wait(objects, CONFIGURATIONS[conf], gangs_of(objects)), ("", None))


@pytest.mark.parametrize("seed", range(16))
def test_a_job_blocked_by_card_quotas_gets_a_change_if_any_remedy_helps(seed: int) -> None:
    random = Random(seed)
    configuration = card_clusters.CONFIGURATIONS[random.choice(list(card_clusters.CONFIGURATIONS))]
    objects = card_clusters.card_cluster(random)
    gangs = gangs_of(objects)
    for name, explanation in islice(all_that_wait(objects, configuration, random.sample(gangs, len(gangs))), 2):
        if not explanation.changes:
            for documents in card_clusters.remedies(objects, name):
                helps = runs_after(objects, configuration, name, documents, {})
                assert not helps, f"{name}: no change was found, but this helps: {documents}"
        for change in explanation.changes:
            proposed = f"{name}: {change.text}"
            assert runs_after(objects, configuration, name, list(change.documents), change.arguments), proposed


def gangs_of(objects: list[Raw]) -> list[str]:
    return [raw["metadata"]["name"] for raw in objects if raw["kind"] == "PodGroup"]


def all_that_wait(
    objects: list[Raw], configuration: Configuration, gangs: list[str]
) -> Iterator[tuple[str, Explanation]]:
    for name in gangs:
        simulation = Simulation(manifests(*copy.deepcopy(objects)), configuration, [NAME])
        found = explain(simulation, "podgroup", "default", name)
        if found.outlook is Outlook.WAITS:
            yield name, found


def test_nearly_every_waiting_job_gets_a_proposed_change() -> None:
    waiting = helped = 0
    kinds: set[str] = set()
    for seed in SEEDS:
        *_, explanation = first_that_waits(seed)
        if explanation is not None:
            waiting += 1
            helped += bool(explanation.changes)
            kinds.update(kind for change in explanation.changes for kind in change.kinds)
    assert waiting > 20
    assert helped > 0.9 * waiting
    assert kinds >= {"volumes", "devices", "priority", "revocable zone", "node group"}
