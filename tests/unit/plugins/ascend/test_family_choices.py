"""If a job does not choose the family of the cluster's nodes, its reason names the field that would choose the
family."""

import pytest
import yaml
from click.testing import CliRunner

from scheduler.api.names import ACCELERATOR_TYPE, SCHEDULE_POLICY, SERVER_TYPE
from scheduler.cli.main import main
from scheduler.explain.explanation import Outlook
from scheduler.playground.families import FAMILIES
from tests.builders import Raw, World, group, node, pod
from tests.unit.explain.small_clusters import DEFAULT, changes, explained
from tests.unit.plugins.ascend.chips import CONFIGURATION, job, npu_node, refusal_of

B8 = {ACCELERATOR_TYPE: "module-910b-8"}
B8_NODES = [npu_node(f"n{i}", labels=B8) for i in range(4)]
SELECTOR = "nodeSelector accelerator-type: module-910b-8"


def waits(*objects: Raw | list[Raw]) -> str:
    """The reason why the first Pod of job ``train`` waits."""
    return World(*objects).run(CONFIGURATION).message_of("train-0")


def advised(*objects: Raw | list[Raw]) -> list[str]:
    """The suggestions of explain for PodGroup ``train``; a trial verifies each suggestion."""
    return changes("train", *objects, conf=DEFAULT)


def test_the_reason_names_the_node_selector_of_the_nodes() -> None:
    text = f"4 node(s) were not of the family Ascend910 module x8, but of Ascend910B module x8 ({SELECTOR})"
    assert text in waits(B8_NODES, job("train", 8))


def test_the_advice_is_verified() -> None:
    first = advised(B8_NODES, job("train", 8))[0]
    assert first == f"give its Pods the {SELECTOR}, which chooses Ascend910B module x8"


@pytest.mark.parametrize(("chips", "number"), [(6, 1), (2, 3), (3, 2)])
def test_a_job_that_breaks_the_rules_of_the_wrong_family_is_advised(chips: int, number: int) -> None:
    gang = job("train", chips, number)
    assert refusal_of("train", B8_NODES, gang).endswith(f"; {SELECTOR} would choose 4 nodes of Ascend910B module x8")
    assert advised(B8_NODES, gang)[0].startswith(f"give its Pods the {SELECTOR}")


def test_a_job_with_the_selector_of_servers_that_there_are_not_is_advised() -> None:
    gang = job("train", 8, selector={ACCELERATOR_TYPE: "module-910b-16"})
    assert any(SELECTOR in change for change in advised(B8_NODES, gang))


def test_a_family_that_refuses_the_job_is_named_with_its_rule() -> None:
    half = [npu_node("n", 4, labels={ACCELERATOR_TYPE: "half"})]
    refusal = refusal_of("train", half, job("train", 6))
    assert "1 node of Ascend910 half x4 (nodeSelector accelerator-type: half) would refuse it too" in refusal
    assert refusal.endswith("a Pod of Ascend910 half x4 may ask for 1, 2 or 4")


def test_no_policy_for_other_hardware_is_proposed_where_labels_say_what_it_is() -> None:
    modules = [npu_node("n", labels={ACCELERATOR_TYPE: "module"})]
    gang = job("train", 2, 2)
    assert refusal_of("train", modules, gang).endswith("up to 8 must be asked for by one Pod")
    assert not any(SCHEDULE_POLICY in change for change in advised(modules, gang))


def test_where_no_label_chooses_the_family_the_policy_of_the_server_is_named() -> None:
    a3 = [npu_node("n", labels={SERVER_TYPE: "Ascend910A3-24"})]
    advice = f"annotation {SCHEDULE_POLICY}: chip2-node8 would choose 1 node of Ascend A3 x16"
    assert refusal_of("train", a3, job("train", 6)).endswith(advice)
    step = f"give its Pods the annotation {SCHEDULE_POLICY}: chip2-node8, which chooses Ascend A3 x16"
    assert advised(a3, job("train", 6))[0] == step
    assert SCHEDULE_POLICY not in refusal_of("train", npu_node("n"), job("train", 6))


def test_of_cards_that_need_a_policy_those_with_as_many_chips_are_named() -> None:
    cards = node("n", "64c+256Gi+huawei.com/npu=8")
    refusal = refusal_of("train", cards, group("train"), pod("train-0", "1c+1Gi+huawei.com/npu=8", "train"))
    assert "chip8-node8 or chip2-node8 or" in refusal
    assert refusal.endswith("or chip1-node8, according to the hardware, would choose 1 node")


def test_a_job_whose_policy_chose_the_family_is_not_told_to_select_nodes() -> None:
    """The policy takes precedence of the node selector."""
    wide = npu_node("n", 16, labels={ACCELERATOR_TYPE: "module-910b-16"})
    gang = job("train", 8, annotations={SCHEDULE_POLICY: "chip4-node4"})
    assert "nodeSelector" not in waits(wide, gang)


def test_the_family_of_a_job_that_fits_stays() -> None:
    world = World(B8_NODES, npu_node("module"), job("train", 8)).run(CONFIGURATION)
    assert world.bound == {"train-0": "module"}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_plain_pod_runs_on_every_family_of_the_playground_or_is_advised(name: str) -> None:
    printed = CliRunner().invoke(main, ["playground", "nodes", "--nodes", "1", "--family", name]).stdout
    nodes: list[Raw] = yaml.safe_load(printed)["items"]
    plain = [group("train"), pod("train-0", f"1c+1Gi+{FAMILIES[name].resource}=1", "train")]
    it = explained("podgroup", "train", *nodes, *plain, conf=DEFAULT, search=True)
    assert it.outlook is not Outlook.WAITS or it.changes[0].text.startswith("give its Pods the ")
