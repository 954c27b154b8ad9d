"""Virtual NPUs of MindCluster's device plugin in complete sessions."""

import pytest

from scheduler.api.names import ASCEND_REAL, NPU_CORE
from tests.builders import Raw, World
from tests.unit.plugins.deviceshare.devices import (
    MINDCLUSTER,
    chip_list,
    chip_node,
    config_map,
    cores,
    jobs,
    limited,
    sharing,
)


def npu_pod(name: str, number: int, level: str = "", dvpp: str = "", **rest: object) -> Raw:
    labels = {"ring-controller.atlas": "ascend-310P"}
    if level:
        labels["vnpu-level"] = level
    if dvpp:
        labels["vnpu-dvpp"] = dvpp
    return limited(name, {NPU_CORE: number}, labels=labels, **rest)  # type: ignore[arg-type]


def holder(number: int, given: str, real: str = "", name: str = "old") -> Raw:
    annotations = {NPU_CORE: given, **({ASCEND_REAL: real} if real else {})}
    return npu_pod(name, number, on="n", annotations=annotations)


def cluster(number: int = 2) -> list[Raw]:
    return [chip_node("n", number), chip_list("n", range(number))]


@pytest.mark.parametrize(
    ("number", "level", "dvpp", "template"),
    [
        (1, "", "", "vir01"),
        (2, "", "", "vir02_1c"),
        (2, "other", "", "vir02_1c"),
        (2, "high", "", "vir02"),
        (4, "", "", "vir04_3c"),
        (4, "high", "null", "vir04"),
        (4, "", "yes", "vir04_4c_dvpp"),
        (4, "high", "no", "vir04_3c_ndvpp"),
    ],
)
def test_cores_and_labels_choose_the_template(number: int, level: str, dvpp: str, template: str) -> None:
    world = World(cluster(1), jobs(npu_pod("p", number, level, dvpp))).run(MINDCLUSTER)
    assert cores(world) == {"p": f"0-{template}"}


def test_each_pod_gets_a_unique_time_with_its_template() -> None:
    world = World(cluster(1), jobs(npu_pod("p", 1), npu_pod("q", 1))).run(MINDCLUSTER)
    first, second = world.decisions.binds
    assert set(first.annotations) == {NPU_CORE, "predicate-time"}
    assert int(first.annotations["predicate-time"]) < int(second.annotations["predicate-time"])


def test_the_time_is_later_than_those_of_the_pods_on_the_node_although_the_clock_was_set_back() -> None:
    held = holder(1, "0-vir01", "Ascend310P-1c-100-0_0")
    later = int((World().cluster.now + 60) * 1e9)
    held["metadata"]["annotations"]["predicate-time"] = str(later)
    (bind,) = World(cluster(1), held, jobs(npu_pod("p", 1))).run(MINDCLUSTER).decisions.binds
    assert int(bind.annotations["predicate-time"]) > later


def test_a_multiple_of_a_chips_cores_means_whole_chips() -> None:
    world = World(cluster(3), jobs(npu_pod("p", 16), npu_pod("q", 8), npu_pod("r", 8))).run(MINDCLUSTER)
    assert cores(world) == {"p": "0,1", "q": "2"}


def test_whole_chips_of_other_pods_do_not_block_the_node() -> None:
    assert cores(World(cluster(), holder(8, "0", "Ascend310P-0"), jobs(npu_pod("p", 8))).run(MINDCLUSTER)) == {"p": "1"}


def test_the_template_goes_to_the_chip_with_the_least_free_cores() -> None:
    held = holder(2, "1-vir02_1c", "Ascend310P-2c.1cpu-100-1_0")
    assert cores(World(cluster(), held, jobs(npu_pod("p", 2))).run(MINDCLUSTER)) == {"p": "1-vir02_1c"}


def test_while_a_virtual_npu_is_created_its_chip_and_other_templates_are_not_used() -> None:
    held = holder(2, "1-vir02_1c")
    assert cores(World(cluster(), held, jobs(npu_pod("p", 2))).run(MINDCLUSTER)) == {"p": "0-vir02_1c"}
    world = World(cluster(), held, jobs(npu_pod("p", 4))).run(MINDCLUSTER)
    assert cores(world) == {}
    assert "1 node(s) had no Ascend310P chips with 4 AI cores free for template vir04_3c" in world.message_of("p")


def test_after_a_virtual_npu_is_created_other_templates_may_be_used() -> None:
    held = holder(4, "0-vir04_3c", "Ascend310P-4c.3cpu-100-0_0")
    assert cores(World(cluster(), held, jobs(npu_pod("p", 2))).run(MINDCLUSTER)) == {"p": "0-vir02_1c"}


def test_with_too_few_cpus_the_fallback_template_is_used() -> None:
    held = holder(4, "0-vir04", "Ascend310P-4c-100-0_0")
    assert cores(World(cluster(1), held, jobs(npu_pod("p", 4, "high"))).run(MINDCLUSTER)) == {"p": "0-vir04_3c"}


def test_the_image_processor_of_a_chip_is_allocated_once() -> None:
    held = holder(4, "0-vir04_4c_dvpp", "Ascend310P-4c.4cpu.dvpp-100-0_0")
    for dvpp, given in (("yes", {}), ("null", {}), ("no", {"p": "0-vir04_3c_ndvpp"})):
        world = World(cluster(1), held, jobs(npu_pod("p", 4, dvpp=dvpp))).run(MINDCLUSTER)
        assert cores(world) == given


def test_a_chip_with_three_groups_takes_small_templates_only() -> None:
    held = [holder(1, "0-vir01", f"Ascend310P-1c-10{i}-0_{i}", f"old-{i}") for i in range(3)]
    assert cores(World(cluster(1), held, jobs(npu_pod("p", 4))).run(MINDCLUSTER)) == {}
    assert cores(World(cluster(1), held, jobs(npu_pod("p", 2))).run(MINDCLUSTER)) == {"p": "0-vir02_1c"}
    held.append(holder(1, "0-vir01", "Ascend310P-1c-103-0_3", "old-3"))
    assert cores(World(cluster(1), held, jobs(npu_pod("p", 2))).run(MINDCLUSTER)) == {}
    assert cores(World(cluster(1), held, jobs(npu_pod("p", 1))).run(MINDCLUSTER)) == {"p": "0-vir01"}


def test_only_listed_healthy_chips_are_allocated() -> None:
    nodes = [chip_node("n", 3), chip_list("n", [1, 2], unhealthy=[2])]
    world = World(nodes, jobs(*(npu_pod(f"p-{i}", 8) for i in range(2)))).run(MINDCLUSTER)
    assert cores(world) == {"p-0": "1"}


def test_without_a_config_map_the_annotations_of_the_node_list_the_chips() -> None:
    raw = chip_node("n", 1)
    raw["metadata"]["annotations"] = {"huawei.com/Ascend310P": "Ascend310P-0"}
    assert cores(World(raw, jobs(npu_pod("p", 8))).run(MINDCLUSTER)) == {"p": "0"}


def test_the_node_with_the_least_idle_cores_scores_best() -> None:
    held = holder(2, "1-vir02_1c", "Ascend310P-2c.1cpu-100-1_0")
    nodes = [chip_node("a"), chip_list("a", range(2)), *cluster()]
    world = World(nodes, held, jobs(npu_pod("p", 2))).run(sharing(AscendMindClusterVNPUEnable=True, ScheduleWeight=10))
    assert world.bound == {"p": "n"}


def test_a_node_that_needs_no_fallback_template_scores_better() -> None:
    held = holder(4, "0-vir04", "Ascend310P-4c-100-0_0")
    nodes = [*cluster(1), chip_node("z", 1), chip_list("z", range(1))]
    settings = sharing(AscendMindClusterVNPUEnable=True, ScheduleWeight=10)
    assert World(nodes, held, jobs(npu_pod("p", 4, "high"))).run(settings).bound == {"p": "z"}


@pytest.mark.parametrize(
    ("raw", "description"),
    [
        (npu_pod("p", 3), "1 node(s) had no Ascend310P chips with 3 AI cores free"),
        (npu_pod("p", 2, dvpp="maybe"), "a label vnpu-dvpp that is not yes, no or null: 'maybe'"),
    ],
)
def test_a_request_without_a_template_is_refused_with_the_reason(raw: Raw, description: str) -> None:
    assert description in World(cluster(), jobs(raw)).run(MINDCLUSTER).message_of("p")


def test_pods_without_the_npu_label_are_counted_by_amounts_only() -> None:
    world = World(cluster(), jobs(limited("p", {NPU_CORE: 2}))).run(MINDCLUSTER)
    assert world.bound == {"p": "n"} and cores(world) == {}


@pytest.mark.parametrize(
    "raw", [chip_list("n", "Ascend910-0"), chip_list("n", "Ascend310P-,x"), chip_list("n", 7),
            config_map("mindx-dl-deviceinfo-n", {"DeviceInfoCfg": "["}), config_map("mindx-dl-deviceinfo-n", {})],
)  # fmt: skip
def test_a_malformed_list_of_chips_is_reported_and_ignored(raw: Raw) -> None:
    good = [chip_node("z", 1), chip_list("z", range(1))]
    world = World(chip_node("n"), raw, good, jobs(npu_pod("p", 8))).run(MINDCLUSTER)
    assert world.bound == {"p": "z"} and len(world.malformed) == 1


@pytest.mark.parametrize("given", ["x", "0-vir99", "-vir01", "0,x", "1" * 50])
def test_malformed_device_annotations_are_reported_and_ignored(given: str) -> None:
    world = World(cluster(1), holder(2, given), jobs(npu_pod("p", 2))).run(MINDCLUSTER)
    assert cores(world) == {"p": "0-vir02_1c"}
    (problem,) = world.malformed
    assert problem.startswith(f"Pod old metadata.annotations[{NPU_CORE}]: ")
