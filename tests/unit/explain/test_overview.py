"""The overview of the web page has the numbers of `queue top`, the positions of `job list`, and the reasons that the
scheduler writes."""

from typing import Any

import pytest

from scheduler.api.kinds import POD_GROUP
from scheduler.api.names import ASCEND_910
from scheduler.api.written_amounts import readable_text
from scheduler.cluster.memory import Simulation
from scheduler.explain.overview import REASON, overview
from scheduler.explain.queues import every_queue, queue_quotas
from scheduler.observability.cluster_figures import CardDevices
from scheduler.observability.overview import Amount, NodeRow, Overview
from tests.builders import NAME, Raw, World, configuration, group, manifests, node, pod, pods, queue
from tests.overviews import PLUGINS, in_namespace, of
from tests.unit.explain.small_clusters import DEFAULT
from tests.unit.plugins.ascend.chips import device_info, names, npu_node, npu_pod
from tests.unit.plugins.capacity_card.cards import GPU, gpu_node

CLUSTER: list[Raw | list[Raw]] = [
    node("n1", "8c+16Gi"),
    queue("research", capability="6c+8Gi"),
    queue("training", parent="research", deserved="2c", capability="4c"),
    queue("other", weight=2),
    in_namespace("red", group("runs", "training", phase="Inqueue"), pod("runs-0", "3c+2Gi", "runs")),
    in_namespace("red", group("waits", "training", 2, phase="Inqueue"), pods("waits", 2, "2c", "waits")),
    in_namespace("blue", group("later", "training", phase="Inqueue"), pods("later", 1, "2c", "later")),
    in_namespace("blue", group("large", "other", asks="100c")),
]


def simulated() -> tuple[Simulation, Overview]:
    simulation = Simulation(manifests(*CLUSTER), DEFAULT, [NAME])
    simulation.cycle()
    assert simulation.last is not None
    return simulation, overview(simulation.last.session, CardDevices())


def numbers(amount: dict[str, Any]) -> tuple[str, ...]:
    resource = amount["resource"]
    figures = ("used", "deserved", "capability")
    return (resource, *(readable_text(resource, amount[key]) if key in amount else "" for key in figures))


def test_queues_have_the_numbers_of_queue_top() -> None:
    items = {each["queue"]: each for each in every_queue(Simulation(manifests(*CLUSTER), DEFAULT, [NAME]))}
    _, found = simulated()

    assert [row.name for row in found.queues] == sorted(items)
    for row in found.queues:
        item = items[row.name]
        assert (row.parent, row.state, row.weight) == (item["parent"], item["state"], item["weight"])
        assert {"running": row.running, "waiting": row.waiting} == item["jobs"]
        own = [numbers(each) for each in item["amounts"] if each["queue"] == row.name]
        assert [(a.resource, a.used, a.deserved, a.capability) for a in row.amounts] == own


def test_a_queue_counts_what_the_queues_below_it_have() -> None:
    _, found = simulated()

    research = next(row for row in found.queues if row.name == "research")
    assert (research.running, research.waiting) == (1, 2)
    assert research.amounts[0] == Amount("cpu", "3", "", "6", 0.5)


@pytest.mark.parametrize(
    "capability, deserved, used, expected",
    [
        ("4c", "2c", "3c", (0.75, 0.5, "deserved")),
        ("4c", "", "3c", (0.75, -1.0, "")),
        ("", "2c", "3c", (1.5, -1.0, "deserved")),
        ("2c", "2c", "3c", (1.5, 1.0, "capability")),
        ("", "", "3c", (-1.0, -1.0, "")),
    ],
)
def test_a_bar_shows_the_part_of_the_capability_or_else_of_the_deserved_amount(
    capability: str, deserved: str, used: str, expected: tuple[float, float, str]
) -> None:
    limited = queue("q", capability=capability, deserved=deserved or "0c")
    world = World(node("n", "8c"), limited, group("g", "q"), pod("g-0", used, "g", on="n"))
    row = next(row for row in of(world, configuration(["gang", "predicates"])).queues if row.name == "q")

    assert (row.amounts[0].use, row.amounts[0].mark, row.amounts[0].over) == expected


def test_waiting_gangs_have_the_positions_of_the_quotas_and_the_reasons_of_their_conditions() -> None:
    simulation, found = simulated()
    listed = queue_quotas(Simulation(manifests(*CLUSTER), DEFAULT, [NAME]))
    conditions = {
        f"{raw['metadata']['namespace']}/{raw['metadata']['name']}": condition["message"]
        for raw in simulation.cluster.server.of(POD_GROUP)
        for condition in (raw.get("status") or {}).get("conditions") or ()
        if condition["type"] == "Unschedulable"
    }

    rows = {(row.namespace, row.group): (row.queue, row.waits, row.position, row.of) for row in found.waiting}
    assert rows == {
        (namespace, each["podGroup"]): (each["queue"], each["for"], each["position"], each["of"])
        for namespace, answer in listed.items()
        for each in answer["waiting"]
    }
    reasons = {f"{row.namespace}/{row.group}": row.reason for row in found.waiting}
    assert reasons.keys() == {"red/waits", "blue/later", "blue/large"}
    assert "cpu" in reasons["red/waits"] and "cpu" in reasons["blue/large"]
    assert {key: reasons[key] for key in conditions if key in reasons} == {
        key: message for key, message in conditions.items() if key in reasons
    }


def test_the_queues_of_a_namespace_are_those_of_its_jobs() -> None:
    assert simulated()[1].queues_of == {"red": ("training",), "blue": ("other", "training")}


def test_a_vcjob_is_named_and_not_its_pod_group() -> None:
    owned = group("train-uid7", "default", phase="Inqueue")
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "uid7", "controller": True}
    ]
    found = of(World(node("n", "1c"), queue("default"), owned, pod("train-0", "2c", "train-uid7")))

    assert [(row.group, row.job) for row in found.waiting] == [("train-uid7", "train")]


def test_a_long_reason_is_cut() -> None:
    selector = {"disk": "x" * 60, "zone": "y" * 60}
    many = [node(f"n{i}", "8c", labels={"a": f"{i}"}) for i in range(3)]
    made = pod("p-0", "1c", "p", selector=selector)
    found = of(World(*many, queue("default"), group("p", phase="Inqueue"), made))

    (row,) = found.waiting
    assert 0 < len(row.reason) <= REASON


# --- chips ------------------------------------------------------------------------------------------------------------
def test_each_chip_has_the_letter_of_its_state_at_its_number() -> None:
    info = device_info("n", [1, 2, 3, 4], Unhealthy=[5], Recovering=[6], NetworkUnhealthy=[4])
    held = npu_pod("held", 1, on="n", annotations={ASCEND_910: names([0])})
    world = World(npu_node("n"), npu_node("m"), info, held, queue("default"))
    found = {row.node: row for row in of(world, configuration(["gang", "ascend", "predicates"])).nodes}

    assert found["n"].counts == (3, 1, 1, 2, 1)
    assert found["n"].chips == "afffduun" and found["n"].numbered
    assert found["m"] == NodeRow("m", ASCEND_910, "f" * 8, (8, 0, 0, 0, 0), True)


def test_nodes_with_unusable_chips_come_first() -> None:
    world = World(npu_node("a"), npu_node("z"), device_info("z", [0, 1], Unhealthy=[2]), gpu_node("m"), node("plain"))
    found = of(world, PLUGINS).nodes

    assert [(row.node, row.chips) for row in found] == [("z", "ffunnnnn"), ("a", "f" * 8), ("m", "f" * 8)]


def test_cards_are_counted_by_state() -> None:
    world = World(
        gpu_node("g", cards=4), queue("default"), group("r", phase="Running"), pod("r-0", f"1c+{GPU}=3", "r", on="g")
    )
    assert of(world).nodes == (NodeRow("g", GPU, "faaa", (1, 0, 3, 0, 0)),)


def test_a_node_with_many_cards_has_numbers_only() -> None:
    assert of(World(gpu_node("g", cards=400))).nodes == (NodeRow("g", GPU, "", (400, 0, 0, 0, 0)),)


def test_a_cluster_without_anything_has_an_overview() -> None:
    found = of(World())

    assert [row.name for row in found.queues] == ["default", "root"]
    assert (found.waiting, found.nodes, found.queues_of) == ((), (), {})


def test_running_gangs_have_their_pods_and_what_they_use_the_newest_first() -> None:
    _, found = simulated()

    (row,) = found.running
    assert (row.namespace, row.group, row.queue, row.pods, row.uses) == ("red", "runs", "training", (1, 1, 1), "3 cpu")


def test_of_what_a_gang_uses_extended_resources_come_first_and_memory_is_left_out() -> None:
    world = World(npu_node("n1"), group("g"), npu_pod("g-0", 4, "g"))
    of(world)

    assert [row.uses for row in of(world).running] == [f"4 {ASCEND_910}, 1 cpu"]


def test_waiting_gangs_have_the_number_of_their_pods() -> None:
    _, found = simulated()

    pods = {row.group: row.pods for row in found.waiting}
    assert pods == {"waits": (0, 2, 2), "later": (0, 1, 1), "large": (0, 1, 0)}


def test_conditions_of_nodes_are_shown_counted_and_come_first() -> None:
    not_ready = node("b", "4c")
    not_ready["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    maintained, preferred = npu_node("e"), npu_node("f")
    maintained["spec"]["taints"] = [{"key": "example.com/Maintenance", "effect": "NoExecute"}]
    preferred["spec"]["taints"] = [{"key": "example.com/maintenance", "effect": "PreferNoSchedule"}]
    unused = [node("c", "4c", unschedulable=True), node("d", "4c")]
    world = World([npu_node("a"), not_ready, *unused, maintained, preferred])
    found = of(world)

    assert [(row.node, row.conditions, row.resource) for row in found.nodes] == [
        ("b", ("not ready",), ""),
        ("c", ("cordoned",), ""),
        ("e", ("maintenance",), ASCEND_910),
        ("a", (), ASCEND_910),
        ("f", (), ASCEND_910),
    ]
    assert found.node_counts == {"": 6, "cordoned": 1, "not ready": 1, "maintenance": 1}
    assert found.devices == ((ASCEND_910, (24, 0, 0, 0, 0)),)
