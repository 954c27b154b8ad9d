"""Jobs of several families in one cluster: each gets chips by the rules of its family, and no chip is held twice."""

from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_310, ASCEND_910, SCHEDULE_POLICY
from scheduler.plugins.ascend.families import FAMILIES
from scheduler.plugins.ascend.family import STRATEGY
from tests.builders import Raw, World, configuration, group, node, pod
from tests.examples import examples
from tests.unit.plugins.ascend.chips import refusal_of

CONFIGURATION: Final = configuration(["priority", "gang"], ["ascend", "predicates", "binpack"])
KINDS: Final = {
    "module_910_x8": ("module", 8),
    "half_910_x4": ("half", 4),
    "module_910b_x8": ("module-910b-8", 8),
    "module_910b_x16": ("module-910b-16", 16),
    "a3_x16": ("module-a3-16", 16),
}
"""Maps a family to the ``accelerator-type`` and number of chips of its nodes."""


def server(name: str, family: str) -> Raw:
    kind, chips = KINDS[family]
    return node(name, f"64c+512Gi+{ASCEND_910}={chips}", labels={ACCELERATOR_TYPE: kind})


def gang(name: str, family: str, chips: int, pods: int) -> list[Raw]:
    selector = {ACCELERATOR_TYPE: KINDS[family][0]}
    request = f"1c+1Gi+{ASCEND_910}={chips}"
    return [group(name, minimum=pods), *(pod(f"{name}-{i}", request, name, selector=selector) for i in range(pods))]


def held(world: World) -> dict[str, list[str]]:
    """Maps each node to the chips that bound Pods hold there."""
    chips: dict[str, list[str]] = {}
    for bind in world.decisions.binds:
        chips.setdefault(bind.node, []).extend(bind.annotations[ASCEND_910].split(","))
    return chips


@settings(max_examples=examples(25), deadline=None)
@given(
    servers=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=5),
    jobs=st.lists(st.tuples(st.sampled_from(sorted(KINDS)), st.integers(1, 16), st.integers(1, 3)), max_size=8),
)
def test_no_chip_is_held_twice_and_every_npu_pod_has_its_chips(
    servers: list[str], jobs: list[tuple[str, int, int]]
) -> None:
    nodes = [server(f"n{i}", family) for i, family in enumerate(servers)]
    gangs = [gang(f"j{i}", *job) for i, job in enumerate(jobs)]
    sizes = {f"j{i}-{k}": job[1] for i, job in enumerate(jobs) for k in range(job[2])}
    world = World(*nodes, *gangs).run(CONFIGURATION)
    for chips in held(world).values():
        assert len(chips) == len(set(chips))
    for bind in world.decisions.binds:
        names = bind.annotations[ASCEND_910].split(",")
        family = servers[int(bind.node[1:])]
        ids = [int(name.removeprefix("Ascend910-")) for name in names]
        assert len(ids) == sizes[bind.task.name]
        assert max(ids) < KINDS[family][1]
        chosen = next(each for each in FAMILIES if each.name == family)
        assert len(ids) in chosen.sizes
        if len(ids) <= chosen.group:
            assert len({chip // chosen.group for chip in ids}) == 1


def test_families_of_one_resource_share_its_chips() -> None:
    """The node is used by one job by its policy and by another by its selector."""
    whole = node("n", f"64c+512Gi+{ASCEND_910}=8")
    by_policy = [
        group("a", minimum=1),
        pod("a-0", f"1c+1Gi+{ASCEND_910}=3", "a", annotations={SCHEDULE_POLICY: "chip8-node8"}),
    ]
    by_default = [group("b", minimum=1), pod("b-0", f"1c+1Gi+{ASCEND_910}=4", "b")]
    world = World(whole, by_policy, by_default).run(CONFIGURATION)
    assert held(world) == {"n": [*(f"Ascend910-{i}" for i in range(3)), *(f"Ascend910-{i}" for i in range(4, 8))]}


def test_the_order_of_the_chips_is_that_of_the_family() -> None:
    inference = node("n", f"64c+512Gi+{ASCEND_310}=12", labels={"accelerator": "huawei-Ascend310"})
    running = {ASCEND_310: ",".join(f"Ascend310-{i}" for i in (0, 4, 6, 7, 10, 11))}
    holder = pod("held", f"1c+1Gi+{ASCEND_310}=6", on="n", annotations=running)
    asking = pod("j-0", f"1c+1Gi+{ASCEND_310}=5", "j", labels={STRATEGY: "chip"})
    world = World(inference, holder, group("j", minimum=1), asking).run(CONFIGURATION)
    (bind,) = world.decisions.binds
    assert bind.annotations[ASCEND_310] == ",".join(f"Ascend310-{i}" for i in (5, 8, 9, 1, 2))
    assert bind.record is not None
    assert bind.record.chips[ASCEND_310] == bind.annotations[ASCEND_310]


# --- rules on whole jobs ---
def a3(chips: int, pods: int, *more: Raw) -> str:
    return refusal_of("j", server("n", "a3_x16"), *gang("j", "a3_x16", chips, pods), *more)


def test_one_die_of_a_card_is_for_jobs_of_one_pod() -> None:
    assert a3(1, 1) == ""
    assert "only a job of one Pod may ask for one die" in a3(1, 2)
    assert "may ask for 1, 2, 4, 6" in a3(3, 1)
    assert a3(4, 3) == ""


def test_only_the_scheduler_of_a_framework_may_ask_for_no_dies() -> None:
    launcher = pod("j-launcher", "1c+1Gi", "j")
    assert "1 Pods of the job ask for no huawei.com/Ascend910" in a3(4, 2, launcher)
    scheduler = pod("j-scheduler", "1c+1Gi", "j", annotations={"volcano.sh/task-spec": "scheduler"})
    assert a3(4, 2, scheduler) == ""


def test_a_distributed_job_on_duo_cards_has_one_pod() -> None:
    duo = node("n", "64c+512Gi+huawei.com/Ascend310P=8", labels={"infer-card-type": "card-300i-duo"})
    for labels in ({}, {STRATEGY: "card"}):
        pods = [
            pod(
                f"j-{i}", "1c+1Gi+huawei.com/Ascend310P=1", "j", labels={"duo": "true", "distributed": "true", **labels}
            )
            for i in range(2)
        ]
        assert "one Pod asks for all chips" in refusal_of("j", duo, group("j", minimum=2), *pods)


def test_the_jobs_of_a_plugin_that_owns_a_resource_are_left_to_it() -> None:
    sharing = {"deviceshare": {"deviceshare.AscendHAMiVNPUEnable": True}}
    inference = node("n", "64c+512Gi+huawei.com/Ascend310P=4")
    asking = pod("j-0", "1c+1Gi+huawei.com/Ascend310P=65", "j")
    world = World(inference, group("j", minimum=1), asking)
    assert "may ask for 1 to 64" in refusal_of("j", inference, group("j", minimum=1), asking)
    session = world.session(configuration(["priority", "gang"], ["ascend", "deviceshare"], arguments=sharing))
    assert session.job_valid(session.jobs["default/j"]) is None
