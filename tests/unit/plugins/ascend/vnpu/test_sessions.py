"""Virtual NPUs in complete sessions: which Pod gets which part of which chip, and the reasons of refusals."""

import pytest
from msgspec.structs import replace

from scheduler.api.names import ASCEND_310P, DISTRIBUTED_JOB, NPU_CORE, PREDICATE_TIME
from scheduler.framework.configuration import Configuration
from scheduler.framework.extension import Vote
from tests.builders import Raw, World, configuration, group, node, pod
from tests.unit.plugins.ascend.chips import CONFIGURATION, plugin_of, refusal_of
from tests.unit.plugins.ascend.vnpu.parts import core_info, core_job, core_node, core_pod, cores_of, running

OWNER = {"deviceshare": {"deviceshare.AscendMindClusterVNPUEnable": True}}
BOTH = configuration(["priority", "gang"], ["ascend", "deviceshare"], arguments=OWNER)


def run(*objects: Raw | list[Raw], config: Configuration = CONFIGURATION) -> World:
    return World(*objects).run(config)


def test_a_pod_gets_a_part_of_a_chip_with_its_binding() -> None:
    world = run(core_node("n"), core_info("n", [0, 1]), core_job("j", 4))
    assert cores_of(world) == {"j-0": "n:0-vir04_3c"}
    annotations = world.decisions.binds[0].annotations
    assert annotations[PREDICATE_TIME].isdecimal()
    assert annotations[DISTRIBUTED_JOB] == "false"


def test_equal_pods_of_a_job_share_a_chip() -> None:
    world = run(core_node("n"), core_info("n", [0, 1]), core_job("j", 4, 3))
    assert cores_of(world) == {"j-0": "n:0-vir04_3c", "j-1": "n:0-vir04_3c", "j-2": "n:1-vir04_3c"}


def test_a_chip_is_divided_again_once_its_virtual_npu_is_confirmed() -> None:
    old = running("x", 4, "0-vir04_3c", "Ascend310P-4c.3cpu-100-0_0")
    assert cores_of(run(core_node("n"), core_info("n", [0, 1]), old, core_job("j", 2))) == {"j-0": "n:0-vir02_1c"}


def test_a_chip_whose_virtual_npu_is_not_confirmed_is_left_alone() -> None:
    """The recorded case: four cores, four cores and two cores in three sessions on two chips."""
    one, two = running("x", 4, "0-vir04_3c"), running("y", 4, "1-vir04_3c")
    assert cores_of(run(core_node("n"), core_info("n", [0, 1]), one, core_job("j", 4))) == {"j-0": "n:1-vir04_3c"}
    world = run(core_node("n"), core_info("n", [0, 1]), one, two, core_job("j", 2))
    assert world.bound == {}
    assert "2 AI cores free only on chips where another virtual NPU is being created" in world.message_of("j-0")


def test_the_fuller_node_is_chosen() -> None:
    old = running("x", 4, "0-vir04_3c", "Ascend310P-4c.3cpu-100-0_0", on="b")
    world = run(core_node("a"), core_node("b"), old, core_job("j", 2))
    assert cores_of(world) == {"j-0": "b:0-vir02_1c"}


def test_a_node_on_which_the_preferred_template_fits_comes_first() -> None:
    old = running("x", 4, "0-vir04", "Ascend310P-4c-100-0_0", on="b")
    world = run(core_node("a", 1), core_node("b", 1), old, core_job("j", 4, labels={"vnpu-level": "high"}))
    assert cores_of(world) == {"j-0": "a:0-vir04"}


def test_an_unhealthy_chip_is_not_divided() -> None:
    world = run(core_node("n"), core_info("n", [1], unhealthy=[0]), core_job("j", 4))
    assert cores_of(world) == {"j-0": "n:1-vir04_3c"}


def test_the_refusal_of_a_node_names_the_cores() -> None:
    old = running("x", 4, "0-vir04_3c", "Ascend310P-4c.3cpu-100-0_0")
    world = run(core_node("n", 1), core_info("n", [0]), old, running("y", 2, "0-vir02_1c", "r"), core_job("j", 4))
    assert "Insufficient huawei.com/npu-core" in world.message_of("j-0")
    two = running("z", 4, "1-vir04_3c", "Ascend310P-4c.3cpu-101-1_0")
    world = run(core_node("n", 2), core_info("n", [0, 1]), old, two, core_job("j", 8))
    assert "node(s) had 0 of 2 chips free, 1 are needed" in world.message_of("j-0")


def test_a_pod_without_npus_passes_no_filter_of_the_plugin() -> None:
    world = World(core_node("n"), core_job("j", 4), group("p"), pod("plain", "1c", "p"))
    session = world.session(CONFIGURATION)
    cls = next(t.cls for j in session.jobs.values() for t in j.tasks() if t.name == "plain")
    assert plugin_of(session).filters.of(cls, None) == []
    assert plugin_of(session)._scores(cls, None) == []


# --- requests ---
@pytest.mark.parametrize("cores", [1, 2, 4, 8, 10, 16, 40])
def test_a_number_of_cores_of_310p_is_accepted(cores: int) -> None:
    assert refusal_of("j", core_node("n", 8), core_job("j", cores)) == ""


@pytest.mark.parametrize("cores", [3, 5, 6, 7, 12])
def test_another_number_of_cores_is_refused_with_the_valid_ones(cores: int) -> None:
    assert refusal_of("j", core_node("n", 8), core_job("j", cores)) == (
        f"Pod default/j-0 asks for {cores} huawei.com/npu-core; "
        "it may ask for 1, 2, 4 or a multiple of 8 or 10 (Ascend310P)"
    )


def test_the_image_processor_of_one_or_two_cores_is_refused() -> None:
    found = refusal_of("j", core_node("n"), core_job("j", 2, labels={"vnpu-dvpp": "yes"}))
    assert "asks for 2 huawei.com/npu-core with vnpu-level=low and vnpu-dvpp=yes; " in found
    assert "vnpu-dvpp may be set for 4 cores" in found


def test_a_label_with_an_unknown_value_is_refused() -> None:
    found = refusal_of("j", core_node("n"), core_job("j", 2, labels={"vnpu-dvpp": "haha"}))
    assert found == "Pod default/j-0 has the label vnpu-dvpp=haha; it may be yes, no or null"


def test_four_cores_with_an_unknown_image_processor_find_no_node() -> None:
    world = World(core_node("n"), core_job("j", 4, labels={"vnpu-dvpp": "haha"})).run(CONFIGURATION)
    assert refusal_of("j", core_node("n"), core_job("j", 4, labels={"vnpu-dvpp": "haha"})) == ""
    assert "j-0" not in world.bound


@pytest.mark.parametrize(
    ("cores", "labels", "valid"),
    [
        (5, {}, True),
        (10, {"vnpu-dvpp": "yes"}, True),
        (10, {"vnpu-level": "high"}, True),
        (5, {"vnpu-level": "high"}, False),
        (6, {"vnpu-dvpp": "no"}, False),
        (3, {}, False),
        (25, {}, True),
        (25, {"vnpu-level": "high"}, False),
    ],
)
def test_requests_for_910b(cores: int, labels: dict[str, str], valid: bool) -> None:
    kind = {"ring-controller.atlas": "ascend-910b", **labels}
    nodes = [b_node("910B1", 25), b_node("910B4", 20)]
    assert (refusal_of("j", *nodes, core_job("j", cores, labels=kind)) == "") is valid


def test_only_the_models_of_the_cluster_count() -> None:
    high = {"ring-controller.atlas": "ascend-910b", "vnpu-level": "high"}
    assert refusal_of("j", b_node("910B4", 20), core_job("j", 10, labels=high)) == ""
    found = refusal_of("j", b_node("910B3", 20), core_job("j", 10, labels=high))
    assert "asks for 10 huawei.com/npu-core with vnpu-level=high" in found
    found = refusal_of("j", core_node("n"), core_job("j", 10, labels=high))
    assert found.endswith("no node has huawei.com/Ascend910 chips that can be divided")


def b_node(model: str, size: int) -> Raw:
    kind = {"accelerator": "huawei-Ascend910", "servertype": f"Ascend910B-{size}"}
    return core_node(f"n{model}", 8, labels={**kind, "node.kubernetes.io/npu.chip.name": model})


@pytest.mark.parametrize("kind", ["ascend-310", "", "whatever"])
def test_a_job_without_a_kind_of_chips_is_refused(kind: str) -> None:
    found = refusal_of("j", core_node("n"), core_job("j", 4, labels={"ring-controller.atlas": kind}))
    assert found.startswith("huawei.com/npu-core with ring-controller.atlas=")
    assert "ascend-310P" in found


def test_jobs_that_divide_chips_on_demand_are_refused_if_these_are_divided_beforehand() -> None:
    config = replace(CONFIGURATION, action_arguments={"init-params": {"presetVirtualDevice": "true"}})
    world = run(core_node("n"), core_job("j", 4), config=config)
    assert world.bound == {}
    assert "presetVirtualDevice is true" in world.message_of("j-0")


def test_cores_and_chips_in_one_job_are_refused() -> None:
    both = core_pod("j-0", 4, "j")
    both["spec"]["containers"][0]["resources"]["requests"][ASCEND_310P] = "1"
    assert "it may ask for one of them only" in refusal_of("j", core_node("n", whole=2), group("j", minimum=1), both)


# --- nodes ---
def test_a_node_of_another_kind_gets_no_parts() -> None:
    labels = {
        "accelerator": "huawei-Ascend910",
        "servertype": "Ascend910B-20",
        "node.kubernetes.io/npu.chip.name": "910B3",
    }
    world = run(core_node("n", labels=labels), core_job("j", 4))
    assert world.bound == {}
    assert "node(s) had no Ascend310P chips with huawei.com/npu-core" in world.message_of("j-0")


@pytest.mark.parametrize(
    ("labels", "field"),
    [
        ({"accelerator": "huawei-Ascend910", "node.kubernetes.io/npu.chip.name": "910A"}, "npu.chip.name"),
        ({"servertype": "Ascend310P-9"}, "servertype"),
        ({"servertype": "Ascend910A3-21"}, "servertype"),
    ],
)
def test_a_node_whose_labels_do_not_say_what_its_chips_are_gets_a_warning(labels: dict[str, str], field: str) -> None:
    world = run(core_node("n", labels=labels), core_job("j", 1))
    assert world.bound == {}
    assert any(m.startswith("Node n metadata.labels[") and field in m for m in world.malformed)


def test_a_malformed_list_of_chips_is_set_aside_with_a_warning() -> None:
    world = run(core_node("n"), core_info("n", "Ascend310P-0, Ascend310P-1"), core_job("j", 4))
    assert world.bound == {}
    assert any(m.startswith("ConfigMap mindx-dl-deviceinfo-n data[DeviceInfoCfg]") for m in world.malformed)


def test_the_queue_plugins_alone_decide_whether_a_job_with_ai_cores_is_admitted() -> None:
    session = World(core_node("n"), core_info("n", [0, 1]), core_job("j", 16, 2)).session(CONFIGURATION)
    assert plugin_of(session)._enqueueable(session.jobs["default/j"]) is Vote.ABSTAIN


# --- who decides ---
def test_with_deviceshare_one_plugin_alone_decides_about_ai_cores() -> None:
    """The list of owned resources names deviceshare's: ascend neither filters nor books them."""
    world = World(core_node("n"), core_info("n", [0, 1]), core_job("j", 4, 2))
    session = world.session(BOTH)
    ledger = plugin_of(session).ledgers.parts
    assert ledger is not None
    cls = next(t.cls for t in session.jobs["default/j"].tasks())
    assert not ledger.concerns(cls)
    assert plugin_of(session).filters.of(cls, None) == []
    bound = {
        b.task.name: b.annotations[NPU_CORE]
        for b in World(core_node("n"), core_info("n", [0, 1]), core_job("j", 4, 2)).run(BOTH).decisions.binds
    }
    assert bound == {"j-0": "0-vir04_3c", "j-1": "0-vir04_3c"}


def test_what_one_plugin_assigned_whole_the_other_does_not_divide() -> None:
    nodes = [core_node("n", whole=2), core_info("n", [0, 1])]
    whole = [group("w", minimum=1), pod("w-0", f"1c+1Gi+{ASCEND_310P}=1", "w")]
    world = World(nodes, whole, core_job("x", 4)).run(BOTH)
    assert set(world.bound) == {"w-0"}
    assert "just got Pods with whole chips" in world.message_of("x-0")
    world.run(BOTH)
    assert cores_of(world) == {"x-0": "n:1-vir04_3c"}


def test_with_two_plugins_a_pod_does_not_get_whole_chips_and_ai_cores() -> None:
    raw = core_pod("x-0", 4, "x")
    raw["spec"]["containers"][0]["resources"]["requests"][ASCEND_310P] = "1"
    world = World(core_node("n", whole=2), core_info("n", [0, 1]), group("x", minimum=1), raw).run(BOTH)
    assert world.bound == {}
    assert "a Pod that asks for whole chips and AI cores fits no node" in world.message_of("x-0")


def test_with_two_plugins_the_pods_of_a_node_have_different_times() -> None:
    nodes = [core_node("n", whole=2), core_info("n", [0, 1])]
    whole = [group("w", minimum=1), pod("w-0", f"1c+1Gi+{ASCEND_310P}=1", "w")]
    world = World(nodes, whole, core_job("x", 4), core_node("m", whole=1), core_info("m", [0])).run(BOTH)
    times = [bind.annotations[PREDICATE_TIME] for bind in world.decisions.binds]
    assert len(set(times)) == len(times) == 2


def test_what_deviceshare_decides_about_is_reported_by_it_alone() -> None:
    world = run(core_node("n", labels={"servertype": "Ascend310P-9"}), core_job("j", 1), config=BOTH)
    assert not any("servertype" in m for m in world.malformed)


def test_nodes_without_ai_cores_are_not_read() -> None:
    world = World(node("cpu", "4c"), core_node("n"), core_job("j", 4))
    session = world.session(CONFIGURATION)
    ledger = plugin_of(session).ledgers.parts
    assert ledger is not None
    assert len(ledger.columns.by_row) == 1


def test_every_pod_of_a_job_with_ai_cores_asks_for_some() -> None:
    nodes = core_node("n"), core_info("n", [0, 1])
    assert "Pod default/j-0 asks for 0 huawei.com/npu-core" in refusal_of("j", *nodes, core_job("j", 0))
    launcher = pod("l", "1c+1Gi", "j")
    assert "Pod default/l asks for no huawei.com/npu-core" in refusal_of("j", *nodes, core_job("j", 4), launcher)


def test_a_job_that_asks_for_no_ai_cores_says_so_on_its_group() -> None:
    world = run(core_node("n"), core_info("n", [0, 1]), core_job("j", 0))
    assert world.bound == {}
    (condition,) = [c for c in world.get("PodGroup", "j")["status"]["conditions"] if c["reason"] == "JobValidateFailed"]
    assert "asks for 0 huawei.com/npu-core" in condition["message"]
