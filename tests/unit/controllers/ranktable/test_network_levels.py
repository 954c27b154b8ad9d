"""Rank tables of version 2.0: ranks with their connections on each level of the network."""

import json
from typing import Any

import msgspec
import pytest

from scheduler.controllers.ranktable.servers import NetLevel, RankedChip, RankedServer, TableError
from scheduler.controllers.ranktable.table import completed, initializing
from scheduler.controllers.ranktable.workloads import Layout

Raw = dict[str, Any]


def element(layer: int, address: str = "") -> Raw:
    item = {"addr_type": "EID", "addr": address, "ports": ["0/1"], "plane_id": "plane0"}
    addresses = [item] if address else []
    return {
        "net_layer": layer,
        "net_instance_id": "net-7",
        "net_type": "CLOS" if layer else "TOPO_FILE_DESC",
        "net_attr": "",
        "rank_addr_list": addresses,
    }


UB = [{"level": 0, "info": {"UB": element(0, "e0")}}, {"level": 1, "info": {"UB": element(1, "e1")}}]
ROCE = {"level": 3, "info": {"ROCE": element(3, "10.0.0.1")}}
UBOE = {"level": 2, "info": {"UBOE": element(2, "10.0.0.2"), "UBG": element(2, "e2")}}
UBG = {"level": 2, "info": {"UBG": element(2, "e2")}}


def server(rank: int, *levels: Raw, ids: tuple[str, ...] = ("0", "4")) -> RankedServer:
    found = msgspec.convert(list(levels), list[NetLevel])
    chips = tuple(RankedChip(number, "", "", found) for number in ids)
    return RankedServer(f"p-{rank}", f"uid-{rank}", rank, "192.168.1.1", "10.9.0.1", chips, "")


def table(*servers: RankedServer, scale_out: str = "") -> Raw:
    document: Raw = json.loads(completed(servers, Layout("2.0", scale_out=scale_out), own_nodes=True))
    return document


def test_the_ranks_have_numbers_and_the_levels_that_the_device_plugin_reported() -> None:
    document = table(server(1, *UB, ROCE), server(0, *UB, ROCE))
    assert {key: document[key] for key in document if key != "rank_list"} == {
        "status": "completed",
        "version": "2.0",
        "rank_count": 4,
    }
    assert [(r["rank_id"], r["local_id"], r["device_id"]) for r in document["rank_list"]] == [
        (0, 0, 0),
        (1, 4, 4),
        (2, 0, 0),
        (3, 4, 4),
    ]
    assert document["rank_list"][3]["level_list"] == [element(0, "e0"), element(1, "e1"), element(3, "10.0.0.1")]


def test_while_pods_are_missing_it_has_a_status_and_a_version_only() -> None:
    assert json.loads(initializing(Layout("2.0"))) == {"status": "initializing", "version": "2.0"}


@pytest.mark.parametrize(
    ("levels", "scale_out", "expected"),
    [
        ([UBOE, ROCE], "", element(3, "10.0.0.1")),
        ([UBOE], "", element(2, "10.0.0.2")),
        ([UBG], "", element(2, "e2")),
        ([UBOE, ROCE], "UBOE", element(2, "10.0.0.2")),
        ([UBG, ROCE], "UBOE", element(2, "e2")),
        ([UBOE, ROCE], "ROCE", element(3, "10.0.0.1")),
    ],
)
def test_between_super_pods_the_job_decides_and_otherwise_roce_comes_first(
    levels: list[Raw], scale_out: str, expected: Raw
) -> None:
    assert table(server(0, *levels), scale_out=scale_out)["rank_list"][0]["level_list"] == [expected]


def test_of_several_connections_within_a_super_pod_the_first_by_name_is_written() -> None:
    both = {"level": 1, "info": {"UBC": element(1, "second"), "UB": element(1, "first")}}
    assert table(server(0, both))["rank_list"][0]["level_list"] == [element(1, "first")]


def test_a_chip_without_the_network_of_the_others_has_an_empty_connection() -> None:
    document = table(server(0, ROCE), server(1))
    empty = {
        "net_layer": 3,
        "net_instance_id": "CLUSTER1",
        "net_type": "CLOS",
        "net_attr": "",
        "rank_addr_list": [],
    }
    assert document["rank_list"][2]["level_list"] == [empty]


def test_without_any_network_there_is_no_list_of_levels() -> None:
    assert table(server(0))["rank_list"][0] == {"rank_id": 0, "local_id": 0, "device_id": 0}


@pytest.mark.parametrize(
    ("bad", "scale_out", "problem"),
    [
        (server(0, ids=("Ascend910-0",)), "", "Pod p-0: device_id 'Ascend910-0' is no number"),
        (server(0), "IB", "label scaleout-type is 'IB', not ROCE or UBOE"),
    ],
)
def test_what_cannot_be_written_is_refused(bad: RankedServer, scale_out: str, problem: str) -> None:
    with pytest.raises(TableError, match=problem):
        table(bad, scale_out=scale_out)
