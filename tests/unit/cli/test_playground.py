"""The command ``playground``: its commands that cause and end faults of simulated nodes."""

import sys
import tempfile
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from scheduler.cli.main import main
from scheduler.playground.families import FAMILIES
from scheduler.playground.faults import ChipFault, FaultOf, Faults, Kubelet, NodeHealth, read_faults
from scheduler.playground.node import Machine, node_manifest
from scheduler.playground.objects import FAULTS, PLUGIN_FAMILY
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


def with_kubelet(cluster: Cluster, family: str = "910b-8") -> None:
    """A Node with a real kubelet and a simulated device plugin."""
    node = simulated(cluster)
    node["metadata"]["labels"] = {PLUGIN_FAMILY: family}


def test_chips_of_a_node_with_a_real_kubelet_are_broken_but_not_its_kubelet(cluster: Cluster) -> None:
    with_kubelet(cluster, "gpu-8")
    cluster.prints("playground", "fail", "n", "--chip", "7")
    assert list(written(cluster).chips) == [7]
    refusal = cluster.refuses("playground", "fail", "n", "--kubelet")
    assert "Node n has a real kubelet: stop that instead" in refusal


def test_the_device_plugin_needs_the_directory_of_a_kubelet(cluster: Cluster, tmp_path: Path) -> None:
    command = ("playground", "device-plugin", "--node", "n", "--kubelet-dir")
    assert "there is no directory" in cluster.refuses(*command, str(tmp_path / "none"))
    long = tmp_path / ("d" * 100)
    long.mkdir()
    assert "is longer than 107 bytes" in cluster.refuses(*command, str(long))


def test_the_device_plugin_serves_only_nodes_with_a_real_kubelet(cluster: Cluster) -> None:
    with tempfile.TemporaryDirectory(prefix="k") as directory:
        command = ("playground", "device-plugin", "--node", "n", "--kubelet-dir", directory)
        cluster.holds("/api/v1/pods")
        cluster.holds("/api/v1/nodes")
        assert "Node n does not exist: the kubelet registers it" in cluster.refuses(*command)
        cluster.holds("/api/v1/nodes", simulated(cluster))
        assert "Node n is simulated: it has no kubelet" in cluster.refuses(*command)


def test_chips_without_virtual_npus_are_not_divided_for_a_kubelet(cluster: Cluster) -> None:
    result = cluster.run("playground", "device-plugin", "--node", "n", "--family", "gpu-8", "--vnpu", "2c")
    assert (result.exit_code, "chips of gpu-8 cannot be divided" in result.stderr) == (2, True)


def test_without_its_extra_the_device_plugin_names_it(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("grpc", *(name for name in sys.modules if name.endswith("playground.device_plugin.role"))):
        monkeypatch.setitem(sys.modules, module, None)
    refusal = cluster.refuses("playground", "device-plugin", "--node", "n")
    assert "pip install 'volcano-py[device-plugin]'" in refusal
