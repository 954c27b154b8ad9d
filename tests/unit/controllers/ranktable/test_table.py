"""The rank table of a job, from the entries of its Pods."""

import json
from typing import Any

import pytest

from scheduler.controllers.ranktable.servers import RankedChip, RankedServer, TableError
from scheduler.controllers.ranktable.table import completed, initializing, irregularities
from scheduler.controllers.ranktable.workloads import Layout, layout_of

PLAIN = Layout("1.0")
SUPER_PODS = Layout("1.2", 16)


def server(
    rank: int, chips: int = 2, *, address: str = "10.0.0.{}", super_pod: str = "", pod: str = ""
) -> RankedServer:
    devices = tuple(RankedChip(str(c), address.format(c), str(100 + c)) for c in range(chips))
    return RankedServer(
        pod or f"p-{rank}", f"uid-{rank}", rank, f"192.168.1.{rank}", f"10.9.0.{rank}", devices, super_pod
    )


def table(*servers: RankedServer, layout: Layout = PLAIN, own_nodes: bool = True) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(completed(servers, layout, own_nodes=own_nodes))
    return document


def test_version_1_0_lists_the_servers_by_rank_and_the_chips_in_the_order_of_the_annotation() -> None:
    assert table(server(1), server(0)) == {
        "status": "completed",
        "version": "1.0",
        "server_count": "2",
        "server_list": [
            {
                "server_id": "192.168.1.0",
                "host_ip": "192.168.1.0",
                "container_ip": "10.9.0.0",
                "device": [
                    {"device_id": "0", "device_ip": "10.0.0.0", "rank_id": "0"},
                    {"device_id": "1", "device_ip": "10.0.0.1", "rank_id": "1"},
                ],
            },
            {
                "server_id": "192.168.1.1",
                "host_ip": "192.168.1.1",
                "container_ip": "10.9.0.1",
                "device": [
                    {"device_id": "0", "device_ip": "10.0.0.0", "rank_id": "2"},
                    {"device_id": "1", "device_ip": "10.0.0.1", "rank_id": "3"},
                ],
            },
        ],
    }


def test_pods_that_share_a_node_are_named_by_their_uids() -> None:
    document = table(server(0), server(1), own_nodes=False)
    assert [entry["server_id"] for entry in document["server_list"]] == ["uid-0", "uid-1"]


def test_version_1_2_groups_servers_by_the_chips_of_a_block() -> None:
    document = table(*(server(rank, 8) for rank in range(4)), layout=SUPER_PODS)
    assert document["version"] == "1.2"
    assert document["server_list"][3]["device"][7] == {
        "device_id": "7",
        "device_ip": "10.0.0.7",
        "super_device_id": "107",
        "rank_id": "31",
    }
    assert document["super_pod_list"] == [
        {"super_pod_id": "0", "server_list": [{"server_id": "192.168.1.0"}, {"server_id": "192.168.1.1"}]},
        {"super_pod_id": "1", "server_list": [{"server_id": "192.168.1.2"}, {"server_id": "192.168.1.3"}]},
    ]


def test_without_a_block_all_servers_are_in_one_super_pod() -> None:
    document = table(server(0), server(1), layout=Layout("1.2"))
    assert [len(group["server_list"]) for group in document["super_pod_list"]] == [2]


def test_soft_super_pods_are_those_that_the_scheduler_wrote_onto_the_pods() -> None:
    servers = [server(0, super_pod="1"), server(1, super_pod="0"), server(2, super_pod="1")]
    document = table(*servers, layout=Layout("1.2", 4, soft=True))
    groups = {
        group["super_pod_id"]: [s["server_id"] for s in group["server_list"]] for group in document["super_pod_list"]
    }
    assert groups == {"0": ["192.168.1.1"], "1": ["192.168.1.0", "192.168.1.2"]}


def test_two_chips_of_one_rank_are_refused_with_the_pods() -> None:
    with pytest.raises(TableError, match=r"^Pods a and b both have chip rank 2$"):
        table(server(1, pod="a"), server(1, pod="b"))


def test_ranks_of_pods_with_different_numbers_of_chips_must_not_overlap() -> None:
    with pytest.raises(TableError, match="both have chip rank 4"):
        table(server(0, 8), server(1, 4))


@pytest.mark.parametrize("layout", [Layout("1.0"), Layout("1.2", 2)], ids=["1.0", "two super pods"])
def test_a_chip_without_an_address_is_refused_with_its_pod(layout: Layout) -> None:
    with pytest.raises(TableError, match=r"^chips of 1 Pods have no address: p-1$"):
        table(server(0), server(1, address="-1"), layout=layout)


def test_within_one_super_pod_chips_need_no_address() -> None:
    assert table(server(0, address="-1"), layout=Layout("1.2"))["status"] == "completed"


def test_while_pods_are_missing_the_document_has_a_status_and_a_version_only() -> None:
    assert json.loads(initializing(Layout("1.2"))) == {"status": "initializing", "version": "1.2"}


@pytest.mark.parametrize(
    ("annotations", "selectors", "version"),
    [
        ({"huawei.com/schedule_policy": "multilevel"}, [], "1.2"),
        ({}, [], "1.0"),
        ({"sp-block": "16"}, [], "1.2"),
        ({"huawei.com/schedule_policy": "chip2-node16-sp"}, [], "1.2"),
        ({"huawei.com/schedule_policy": "chip8-node8", "sp-block": "16"}, [], "1.0"),
        ({}, ["module-a3-16-super-pod"], "1.2"),
        ({}, ["module-a3-16"], "1.0"),
    ],
)
def test_the_settings_of_the_job_decide_about_the_version(
    annotations: dict[str, str], selectors: list[str], version: str
) -> None:
    assert layout_of({}, annotations, selectors, {}).version == version


def test_pods_that_request_npus_have_version_2_0_whatever_else_is_set() -> None:
    annotations = {"sp-block": "16", "huawei.com/schedule_policy": "chip2-node16-sp"}
    assert layout_of({}, annotations, ["module-a3-16-super-pod"], {"huawei.com/npu": 8}).version == "2.0"


def test_with_the_policy_multilevel_a_block_is_the_nodes_of_the_first_level() -> None:
    annotations = {"huawei.com/schedule_policy": "multilevel", "huawei.com/affinity-config": "level1=2,level2=4"}
    assert layout_of({}, annotations, [], {"huawei.com/Ascend910": 8}) == Layout("1.2", 16)


def test_a_malformed_block_counts_as_none() -> None:
    assert layout_of({}, {"sp-block": "many"}, [], {}) == Layout("1.2", 0)


def test_the_label_for_soft_affinity_is_part_of_the_layout() -> None:
    assert layout_of({"super-pod-affinity": "soft"}, {"sp-block": "32"}, [], {}) == Layout("1.2", 32, soft=True)


# --- MindIE ---
MINDIE = {"jobID": "service-1", "app": "mindie-ms-server"}


def test_the_table_of_a_mindie_job_names_the_models_of_its_servers() -> None:
    named = server(0)._replace(hardware_type="800I-A2-64G")
    layout = layout_of(MINDIE, {}, [], {})
    assert [s.get("hardware_type") for s in table(named, server(1), layout=layout)["server_list"]] == [
        "800I-A2-64G",
        None,
    ]
    assert "hardware_type" not in table(named)["server_list"][0]


def test_the_super_pods_of_a_mindie_job_are_those_of_the_nodes() -> None:
    servers = [server(rank)._replace(super_pod_id=number) for rank, number in enumerate(("7", "3", "7"))]
    layout = layout_of(MINDIE, {"sp-block": "2"}, [], {"huawei.com/Ascend910": 2})
    groups = table(*servers, layout=layout)["super_pod_list"]
    assert [(group["super_pod_id"], len(group["server_list"])) for group in groups] == [("3", 1), ("7", 2)]


# --- what is written although it is unusual ---
def test_one_name_for_two_servers_is_doubtful() -> None:
    both = [server(0), server(1)._replace(host_ip="192.168.1.0")]
    assert list(irregularities(both, True)) == ["Pods p-0 and p-1 both have the server_id 192.168.1.0"]
    assert list(irregularities(both, False)) == []


def test_ranks_with_gaps_are_doubtful() -> None:
    assert list(irregularities([server(3), server(5)], True)) == [
        "the ranks of the 2 Pods with chips are 3 to 5, not 0 to 1"
    ]
