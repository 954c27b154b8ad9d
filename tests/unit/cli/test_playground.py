"""The command ``playground``: its commands that cause and end faults of simulated nodes."""

import msgspec
import pytest
from click.testing import CliRunner

from scheduler.cli.main import main
from scheduler.playground.families import FAMILIES
from scheduler.playground.faults import ChipFault, FaultOf, Faults, Kubelet, NodeHealth, read_faults
from scheduler.playground.node import Machine, node_manifest
from scheduler.playground.objects import FAULTS
from tests.unit.cli.cluster import Cluster, Raw

NODE = "/api/v1/nodes/n"


def simulated(cluster: Cluster, faults: str = "", family: str = "910b-8") -> Raw:
    node = node_manifest(Machine("n", FAMILIES[family], 0), {})
    node["metadata"]["resourceVersion"] = "5"
    if faults:
        node["metadata"]["annotations"][FAULTS] = faults
    cluster.api.answer("GET", NODE, node)
    cluster.api.answer("PATCH", NODE, node)
    return node


def written(cluster: Cluster) -> Faults:
    """The faults that a command wrote; the version of the Node protects the faults that other programs write."""
    body = cluster.api.to("PATCH", NODE)[-1].body
    assert body["metadata"]["resourceVersion"] == "5"
    return read_faults(body["metadata"]["annotations"][FAULTS])


def test_chips_are_broken_beside_those_that_are_already(cluster: Cluster) -> None:
    simulated(cluster, '{"chips":{"1":{"fault":"Network"}}}')
    cluster.prints("playground", "fail", "n", "--chip", "3", "--level", "PreSeparateNPU")
    found = written(cluster)
    assert found.chips[1] == ChipFault(fault=FaultOf.NETWORK)
    assert (found.chips[3].level, found.chips[3].since > 0) == ("PreSeparateNPU", True)


@pytest.mark.parametrize(
    ("flags", "faults"),
    [
        ([], Faults(node=NodeHealth.UNHEALTHY)),
        (["--health", "PreSeparate"], Faults(node=NodeHealth.PRE_SEPARATE)),
        (["--switch", "--health", "SubHealthy"], Faults(switch=NodeHealth.SUB_HEALTHY)),
        (["--kubelet"], Faults(kubelet=Kubelet.STOPPED)),
    ],
)
def test_a_node_can_fail_in_several_ways(cluster: Cluster, flags: list[str], faults: Faults) -> None:
    simulated(cluster, family="a3-16-super-pod")
    cluster.prints("playground", "fail", "n", *flags)
    assert written(cluster) == faults


def test_a_node_recovers_from_malformed_faults(cluster: Cluster) -> None:
    simulated(cluster, "{")
    assert cluster.prints("playground", "recover", "n") == "faults of n: none\n"
    assert cluster.api.to("PATCH", NODE)[-1].body["metadata"]["annotations"] == {FAULTS: None}


@pytest.mark.parametrize(
    ("family", "flags", "problem"),
    [
        ("910b-8", ["--switch"], "Node n has no switch: it is in no super pod"),
        ("310p-8", ["--chip", "1", "--network"], "Node n: chips of the family 310p-8 have no network"),
    ],
)
def test_what_a_node_does_not_have_does_not_fail(cluster: Cluster, family: str, flags: list[str], problem: str) -> None:
    simulated(cluster, family=family)
    assert problem in cluster.refuses("playground", "fail", "n", *flags)
    assert cluster.api.to("PATCH", NODE) == []


def test_a_chip_or_all_of_a_node_recovers(cluster: Cluster) -> None:
    simulated(cluster, '{"chips":{"1":{},"2":{}},"node":"UnHealthy"}')
    cluster.prints("playground", "recover", "n", "--chip", "1")
    assert written(cluster) == Faults(chips={2: ChipFault()}, node=NodeHealth.UNHEALTHY)
    assert cluster.prints("playground", "recover", "n") == "faults of n: none\n"
    assert written(cluster) == Faults()


def test_refusals_name_the_node_and_the_chip(cluster: Cluster) -> None:
    simulated(cluster)
    assert "Node n has no chip 8: its chips are 0 to 7" in cluster.refuses("playground", "fail", "n", "--chip", "8")
    node = simulated(cluster, "{")
    assert "playground.volcano-py/faults" in cluster.refuses("playground", "fail", "n")
    node["metadata"]["labels"] = {}
    cluster.api.answer("GET", NODE, node)
    assert "Node n is not simulated" in cluster.refuses("playground", "recover", "n")


def test_flags_that_make_no_sense_together_are_usage_errors(cluster: Cluster) -> None:
    for flags in (
        ["--network"],
        ["--chip", "1", "--network", "--recovering"],
        ["--switch", "--health", "PreSeparate"],
        ["--health", "SubHealthy"],
    ):
        assert cluster.run("playground", "fail", "n", *flags).exit_code == 2
    for flags, problem in (
        (["--vnpu", "2c"], "cannot be divided into 2c"),
        (["--family", "920"], "'920' is not one of"),
    ):
        result = CliRunner().invoke(main, ["playground", *flags])
        assert (result.exit_code, problem in result.stderr) == (2, True)


def test_families_are_listed_with_their_resource() -> None:
    lines = CliRunner().invoke(main, ["playground", "families"]).stdout.splitlines()
    assert len(lines) == len(FAMILIES) + 1
    assert any(line.split()[:3] == ["910b-8", "8", "huawei.com/Ascend910"] for line in lines)


def test_the_decoder_of_faults_ignores_what_it_does_not_know() -> None:
    assert read_faults(msgspec.json.encode({"later": 1}).decode()) == Faults()


def test_more_nodes_than_have_addresses_are_refused() -> None:
    families = [f"--family={name}" for name in FAMILIES]
    result = CliRunner().invoke(main, ["playground", "nodes", "--nodes", "5000", *families])
    assert (result.exit_code, "more than 16384 nodes cannot be simulated" in result.stderr) == (1, True)
