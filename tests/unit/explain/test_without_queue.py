"""Pods that count in no queue: in ``queue top``, in the answers to tenants, and on the web page."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from scheduler.api.names import NO_QUEUE
from scheduler.cli.queue.tree import blocks_of
from scheduler.cluster.memory import Simulation
from scheduler.explain.overview import overview
from scheduler.explain.queues import all_owners, every_queue, queue_quotas
from scheduler.observability.cluster_figures import CardDevices
from scheduler.observability.overview import QueueRow, Rights, view
from tests.builders import NAME, Raw, World, manifests
from tests.unit.plugins.capacity_card.cards import CONFIGURATION, GPU, H200, gang, gpu_node, quota_queue
from tests.unit.plugins.capacity_card.test_charged_namespaces import namespace, old_pod

CLUSTER: list[Raw | list[Raw]] = [
    gpu_node("a", H200, 8),
    quota_queue("q", {H200: 3}),
    namespace("charged", "q"),
    gang("g", "q", 1),
    [old_pod(f"w-{i}", of="old", kind="Job", owner="train") for i in range(2)],
    old_pod("x", of="other", asks="0.5c"),
    old_pod("y", of="charged", kind=""),
]


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    yield Simulation(manifests(*CLUSTER), CONFIGURATION, [NAME])


def amounts(items: list[Any], name: str) -> dict[str, str]:
    """Resource or card -> the used amount of an item."""
    found = [item for item in items if item["queue"] == name]
    return {one["resource"]: one["used"] for item in found for one in item["amounts"] if one["queue"] == name}


def test_queue_top_has_a_last_row_and_the_owners(simulation: Simulation) -> None:
    items = every_queue(simulation)
    assert items[-1]["queue"] == NO_QUEUE
    assert amounts(items, NO_QUEUE) == {"cpu": "4500m", "memory": str(2**31), GPU: "2", H200: "2"}
    assert amounts(items, "q")[H200] == "2" and amounts(items, "q")["cpu"] == "3"
    owners = all_owners(simulation)
    assert [(row["namespace"], row["owner"], row["used"], row["queue"], row["workload"]) for row in owners] == [
        ("old", "Job/train", "2", NO_QUEUE, "offline"),
        ("charged", "", "1", "q", "offline"),
    ]
    document = json.loads(json.dumps({"items": items, "owners": owners}))
    lines = [line.rstrip() for line in chain.from_iterable(blocks_of(document))]
    names = [line.split()[0] for line in lines if line and line[0] not in " │└├"]
    assert names.index("(no") == names.index("root") + 1
    assert [line.split() for line in lines if "Job/train" in line] == [
        ["old", "Job/train", H200, "2", "offline", "(no", "queue)"]
    ]


def test_tenants_see_what_their_own_pods_hold(simulation: Simulation) -> None:
    found = queue_quotas(simulation)
    assert amounts(found["old"]["items"], NO_QUEUE) == {"cpu": "4", "memory": str(2**31), GPU: "2", H200: "2"}
    assert amounts(found["other"]["items"], NO_QUEUE) == {"cpu": "500m"}
    assert "charged" not in found, "its Pods count in queue q"
    assert [item["queue"] for item in found["default"]["items"]] == ["q"]
    assert found["old"]["items"][0]["metadata"] == {"name": NO_QUEUE, "namespace": "old"}


def rows_of(of: str, rights: Rights) -> dict[str, QueueRow]:
    found = World(*CLUSTER).run(CONFIGURATION)
    assert found.outcome is not None
    seen = view(overview(found.outcome.session, CardDevices()), of, rights)
    assert seen.summary.queues == sum(name != NO_QUEUE for name in seen.queues or ())
    return dict(seen.queues or {})


def test_the_page_has_a_row_that_is_no_queue() -> None:
    row = rows_of("", Rights(queues=True))[NO_QUEUE]
    assert {its.resource: its.used for its in row.amounts} == {"cpu": "4500m", "memory": "2Gi", GPU: "2", H200: "2"}
    assert row.note and not row.parent


def test_on_the_page_the_viewer_of_a_namespace_sees_what_its_pods_hold() -> None:
    rows = rows_of("old", Rights())
    assert {its.resource: its.used for its in rows[NO_QUEUE].amounts} == {
        "cpu": "4",
        "memory": "2Gi",
        GPU: "2",
        H200: "2",
    }
    assert rows.keys() == {NO_QUEUE}
    assert NO_QUEUE not in rows_of("default", Rights())
