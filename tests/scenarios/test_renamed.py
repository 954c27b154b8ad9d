"""The scenarios with their documents in another order and with other names of nodes: the outcome equals the recorded
outcome except for these names.

Each object keeps its creation time, which decides between jobs; the order of the documents would set it otherwise.
"""

import copy
from random import Random
from typing import Any

import pytest

from scheduler.api.names import DEVICE_INFO_CONFIGMAP_PREFIX
from scheduler.api.times import format_timestamp
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory import KubeletBehaviour
from tests.scenarios import test_ascend, test_scenarios
from tests.scenarios.test_scenarios import Raw, manifests_of, settled

START = 1_767_258_000.0
"""The Unix time of the scenarios: nine in the morning, outside the hours of all zones."""
NODE_REPORTS = (DEVICE_INFO_CONFIGMAP_PREFIX, "mindx-dl-nodeinfo-")
"""The prefixes of the names of ConfigMaps about a node."""
EQUAL_NODES = {
    "27-preempt-node-choice",
    "35-reclaim-gang-reclaimer",
    "37-reclaim-many-jobs",
    "39-reclaim-many-no-drf",
    "528-reclaim-across-branches",
    "65-capacity-no-deserved-many",
}
"""The scenarios in which Pods are evicted on one of several equal nodes, the first by name. In these scenarios, the new
names keep the order."""


@pytest.mark.slow
@pytest.mark.parametrize("name", test_scenarios.NAMES)
def test_volcanos_decisions_depend_on_no_name_of_a_node_and_no_order_of_documents(name: str) -> None:
    kubelet = KubeletBehaviour.RUN if test_scenarios.meta(name).get("kubelet") else KubeletBehaviour.NONE
    differences = test_scenarios.differences_from_record(name, shuffled_outcome(name, kubelet))
    assert not differences, "\n".join(differences)


@pytest.mark.slow
@pytest.mark.parametrize("name", test_ascend.NAMES)
def test_the_npu_plugins_decisions_depend_on_no_name_of_a_node_and_no_order_of_documents(name: str) -> None:
    cluster = test_ascend.cluster_of(name)
    run = test_ascend.as_run(shuffled_outcome(f"ascend/{name}", KubeletBehaviour.NONE))
    accepted = test_ascend.recorded(name)
    assert cluster.placement(run) in [cluster.placement(each) for each in accepted]
    assert any(not cluster.ranks(run, bound=True) - cluster.ranks(each, bound=False) for each in accepted)


def shuffled_outcome(name: str, kubelet: KubeletBehaviour) -> list[Raw]:
    """The outcome of a scenario with shuffled documents and renamed nodes, with the nodes' own names again."""
    random = Random(name)
    manifests = manifests_of(name)
    nodes = [manifest.raw["metadata"]["name"] for manifest in manifests if manifest.raw["kind"] == "Node"]
    order = sorted(nodes) if name in EQUAL_NODES else random.sample(nodes, len(nodes))
    names = {node: f"renamed-{number:03d}" for number, node in enumerate(order)}
    changed = [
        Manifest(manifest.where, manifest.kind, renamed(stamped(manifest.raw, second), names))
        for second, manifest in enumerate(manifests)
    ]
    random.shuffle(changed)
    back = {new: old for old, new in names.items()}
    return [renamed(item, back) for item in settled(name, changed, kubelet, names)]


def stamped(raw: Raw, second: int) -> Raw:
    """The object, created so many seconds after the first one, if it does not say when. Queues are created together."""
    raw = copy.deepcopy(raw)
    raw["metadata"].setdefault("creationTimestamp", format_timestamp(START + (raw["kind"] != "Queue") * second))
    return raw


def renamed(value: Any, names: dict[str, str]) -> Any:
    """The value, in which every text that is the name of a node, or of its report, is replaced."""
    if isinstance(value, dict):
        return {renamed(key, names): renamed(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each, names) for each in value]
    if not isinstance(value, str):
        return value
    prefix = next((prefix for prefix in NODE_REPORTS if value.startswith(prefix)), "")
    return prefix + names.get(value.removeprefix(prefix), value.removeprefix(prefix))
