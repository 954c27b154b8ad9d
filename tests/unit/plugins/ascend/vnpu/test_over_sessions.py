"""Random clusters over several sessions: Pods come, are confirmed and end, and no chip gives more than it has."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.names import ASCEND_310P, ASCEND_REAL, NPU_CORE, PREDICATE_TIME
from scheduler.plugins.ascend.vnpu.models import MODELS
from tests.builders import Raw, World, configuration, group, pod
from tests.examples import examples
from tests.unit.plugins.ascend.chips import CONFIGURATION
from tests.unit.plugins.ascend.vnpu.parts import core_info, core_job, core_node

MODEL = MODELS["Ascend310P"]
CHIPS = 3
ALL = list(range(CHIPS))
KINDS = ("Node", "ConfigMap", "PodGroup", "Pod")
SHARING = {"deviceshare": {"deviceshare.AscendMindClusterVNPUEnable": True}}
GPUS = {"deviceshare": {"deviceshare.GPUSharingEnable": True}}
CONFIGURATIONS = {
    "ascend": CONFIGURATION,
    "deviceshare, which owns AI cores": configuration(["gang"], ["ascend", "deviceshare"], arguments=SHARING),
    "deviceshare first": configuration(["gang", "deviceshare"], ["ascend"], arguments=SHARING),
    "deviceshare for other devices": configuration(["gang"], ["deviceshare", "ascend"], arguments=GPUS),
}
LEVELS = st.sampled_from(["low", "high"])
DVPP = st.sampled_from(["yes", "no", "null"])


@st.composite
def pods(draw: st.DrawFn) -> tuple[int, dict[str, str]]:
    """The AI cores and labels of a Pod; without cores, it requests a whole chip by its own resource."""
    cores = draw(st.sampled_from([0, 1, 2, 4, 4, 8, 16]))
    labels = {"vnpu-level": draw(LEVELS)} | ({"vnpu-dvpp": draw(DVPP)} if cores == 4 else {})
    return cores, labels


def placed(world: World) -> dict[str, tuple[str, dict[str, str]]]:
    """Maps each Pod to its node and annotations."""
    objects = [each for each in world.cluster.objects() if each["kind"] == "Pod" and each["spec"].get("nodeName")]
    return {o["metadata"]["name"]: (o["spec"]["nodeName"], o["metadata"].get("annotations") or {}) for o in objects}


def check(world: World) -> None:
    whole: dict[tuple[str, int], int] = defaultdict(int)
    parts: dict[tuple[str, int], list[str]] = defaultdict(list)
    for node, annotations in placed(world).values():
        text = annotations.get(NPU_CORE, "")
        chips, _, template = text.partition("-")
        for chip in filter(None, chips.split(",")):
            if template:
                parts[node, int(chip)].append(template)
            else:
                whole[node, int(chip)] += 1
        for name in filter(None, annotations.get(ASCEND_310P, "").split(",")):
            whole[node, int(name.rpartition("-")[2])] += 1
    assert not whole.keys() & parts.keys()
    assert set(whole.values()) <= {1}
    times: dict[str, list[int]] = defaultdict(list)
    for node, annotations in placed(world).values():
        times[node].append(int(annotations[PREDICATE_TIME]))
    assert all(len(set(found)) == len(found) for found in times.values())
    for names in parts.values():
        templates = [MODEL.named(name) for name in names]
        assert sum(t.cores for t in templates if t is not None) <= 8
        assert sum(t.cpus for t in templates if t is not None) <= MODEL.cpus
        assert sum(t.dvpp == "yes" for t in templates if t is not None) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("plugins", list(CONFIGURATIONS))
@settings(max_examples=examples(40), deadline=None)
@given(
    rounds=st.lists(st.tuples(st.lists(pods(), max_size=5), st.booleans(), st.integers(0, 3)), min_size=1, max_size=5)
)
def test_no_chip_gives_more_than_it_has(
    plugins: str, rounds: list[tuple[list[tuple[int, dict[str, str]]], bool, int]]
) -> None:
    objects: list[Raw] = [each for n in "ab" for each in (core_node(n, CHIPS, whole=CHIPS), core_info(n, ALL))]
    number = 0
    for waiting, confirms, ends in rounds:
        for cores, labels in waiting:
            name, number = f"j{number}", number + 1
            whole = [group(name, minimum=1), pod(f"{name}-0", f"1c+1Gi+{ASCEND_310P}=1", name)]
            objects += core_job(name, cores, labels=labels) if cores else whole
        world = World(*objects).run(CONFIGURATIONS[plugins])  # a scheduler that has just started
        check(world)
        ended = set(sorted(placed(world))[:ends])
        objects = [
            confirmed(each) if confirms else each
            for each in world.cluster.objects()
            if each["kind"] in KINDS and each["metadata"]["name"] not in ended
        ]


def confirmed(raw: Raw) -> Raw:
    """A Pod as it is when the device plugin has reported its devices."""
    annotations = raw["metadata"].get("annotations") or {}
    text = annotations.get(NPU_CORE, annotations.get(ASCEND_310P, ""))
    if raw["kind"] != "Pod" or not text or ASCEND_REAL in annotations:
        return raw
    chips, dash, _ = text.partition("-") if NPU_CORE in annotations else (text.replace("Ascend310P-", ""), "", "")
    listed = chips.split(",")
    real = f"Ascend310P-part-100-{chips}_0" if dash else ",".join(f"Ascend310P-{chip}" for chip in listed)
    return {**raw, "metadata": {**raw["metadata"], "annotations": {**annotations, ASCEND_REAL: real}}}
