"""The condition of a PodGroup says at which step the plugin refused a gang; admission counts free chips."""

from msgspec.structs import replace

from scheduler.api.names import ASCEND_910
from tests.builders import Raw, World, configuration, group, pod, queue
from tests.unit.plugins.ascend.chips import CONFIGURATION, device_info, job, names, npu_node, npu_pod


def condition(world: World, name: str = "j") -> tuple[str, str]:
    """The reason and message of the PodGroup's condition Unschedulable."""
    (update,) = [update for update in world.decisions.pod_groups if update.name == name]
    (found,) = [c for c in update.conditions if c.type == "Unschedulable"]
    return found.reason, found.message


def test_an_invalid_job() -> None:
    reason, message = condition(World(npu_node("n"), job("j", 3)).run(CONFIGURATION))
    assert reason == "JobValidateFailed"
    assert message.startswith("InvalidResourceRequest: Pod default/j-0 asks for 3 huawei.com/Ascend910")


def test_a_job_that_no_node_fits() -> None:
    world = World(npu_node("n"), device_info("n", [0, 4]), holder([1, 2, 3, 5, 6, 7]), job("j", 2))
    reason, message = condition(world.run(CONFIGURATION))
    assert (reason, message) == (
        "NodePredicateFailed",
        "0/1 nodes are unavailable: 1 node(s) had no HCCS ring with 2 free chips.",
    )


def test_the_condition_is_written_once() -> None:
    world = World(npu_node("n"), job("j", 3)).run(CONFIGURATION)
    assert world.decisions.pod_groups
    assert world.run(CONFIGURATION).decisions.pod_groups == []


def test_a_gang_without_chips_keeps_the_general_reason() -> None:
    world = World(npu_node("n"), group("j", minimum=1), pod("a", "999c", "j")).run(CONFIGURATION)
    assert condition(world)[0] == "NotEnoughResources"


def test_the_condition_of_an_invalid_job_that_is_not_admitted_says_both_and_is_written_once() -> None:
    whole, *pods = job("j", 3, 6)
    whole["spec"]["minResources"] = {ASCEND_910: "18"}
    whole["status"] = {"phase": "Pending"}
    world = World(npu_node("n"), whole, pods).run(CONFIGURATION)
    reason, message = condition(world)
    assert reason == "JobEnqueueFailed"
    assert message.startswith("InvalidResourceRequest: Pod default/j-0 asks for 3 huawei.com/Ascend910")
    assert message.endswith("; the job asks for 18 huawei.com/Ascend910, the cluster has 8 free chips")
    assert world.run(CONFIGURATION).decisions.pod_groups == []


# --- admission ---
def holder(ids: list[int]) -> Raw:
    return npu_pod("held", len(ids), on="n", annotations={ASCEND_910: names(ids)})


def waiting(chips: int) -> list[Raw]:
    amounts = {"minResources": {ASCEND_910: str(chips), f"requests.{ASCEND_910}": "99"}}
    whole, *pods = job("j", 8, chips // 8)
    whole["spec"] |= amounts
    whole["status"] = {"phase": "Pending"}
    return [whole, *pods]


def test_a_job_is_not_admitted_while_the_cluster_has_fewer_free_chips() -> None:
    world = World(npu_node("n"), npu_node("m"), holder([0, 1]), waiting(16)).run(CONFIGURATION)
    assert condition(world) == (
        "JobEnqueueFailed",
        "the job asks for 16 huawei.com/Ascend910, the cluster has 14 free chips",
    )
    assert World(npu_node("n"), npu_node("m"), waiting(16)).run(CONFIGURATION).bound == {"j-0": "m", "j-1": "n"}


def test_a_job_of_an_unknown_resource_is_admitted_and_then_refused_with_the_resource() -> None:
    unknown = "huawei.com/Ascend999"
    whole, single = group("j", minimum=1), pod("j-0", f"1c+1Gi+{unknown}=1", "j")
    whole["spec"]["minResources"] = {unknown: "1"}
    whole["status"] = {"phase": "Pending"}
    node = npu_node("n")
    node["status"]["allocatable"][unknown] = "8"
    reason, message = condition(World(node, whole, single).run(CONFIGURATION))
    assert reason == "JobValidateFailed"
    assert unknown in message


def test_by_configuration_enough_chips_admit_a_job_against_later_tiers() -> None:
    tiers = configuration(["priority", "gang", "ascend"], ["proportion"])
    forced = replace(tiers, action_arguments={"init-params": {"forceEnqueue": "true"}})
    full = queue("default", capability=f"{ASCEND_910}=4")
    for settings, phases in ((tiers, ["Pending"]), (forced, ["Inqueue"])):
        world = World(full, npu_node("n"), waiting(8)).run(settings)
        assert [update.phase for update in world.decisions.pod_groups] == phases


def test_an_option_that_cannot_be_used_is_reported() -> None:
    wrong = replace(CONFIGURATION, action_arguments={"init-params": {"forceEnqueue": "often"}})
    session = World(npu_node("n")).session(wrong)
    assert session.problems == ["init-params: argument forceEnqueue: 'often' is not true or false; using false"]
