"""Over sessions in which the state of nodes and chips changes at random, by any source: no Pod gets a chip that is not
healthy, or a node that is not."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.names import ACCELERATOR_TYPE, ASCEND_910
from tests.builders import Raw, World, feed, group, manifests, pod
from tests.unit.plugins.ascend.chips import CONFIGURATION, chips_of, config_map, names, npu_node
from tests.unit.plugins.ascend.test_cluster_reports import aggregate

SELECTOR = {ACCELERATOR_TYPE: "module-910b-8"}
CHIPS = set(range(8))


@dataclass
class State:
    """The state of one node."""

    name: str
    held: set[int] = field(default_factory=set)
    unhealthy: set[int] = field(default_factory=set)
    recovering: set[int] = field(default_factory=set)
    network: set[int] = field(default_factory=set)
    faults: list[Raw] = field(default_factory=list)
    status: str = ""
    switches: str = ""
    ready: bool = True

    def change(self, random: Random) -> None:
        kinds = [random.choice(["", "", "", "unhealthy", "recovering", "network"]) for _ in CHIPS]
        self.unhealthy, self.recovering, self.network = (
            {chip for chip in CHIPS if kinds[chip] == kind} for kind in ("unhealthy", "recovering", "network")
        )
        sub_healthy = random.sample(sorted(CHIPS), random.choice([0, 0, 0, 1]))
        self.faults = [{"npu_name": f"Ascend910-{i}", "fault_handling": "SubHealthFault"} for i in sub_healthy]
        self.status = random.choice(["", "", "Healthy", "PreSeparate", "UnHealthy"])
        self.switches = random.choice(["", "", "Healthy", "SubHealthy", "UnHealthy"])
        self.ready = random.random() < 0.9

    @property
    def excluded(self) -> bool:
        return not self.ready or self.status in ("PreSeparate", "UnHealthy") or self.switches == "UnHealthy"

    @property
    def sub_healthy(self) -> bool:
        return bool(self.faults) or self.switches == "SubHealthy"

    def report(self, time: int) -> Raw:
        lists = {
            ASCEND_910: names(sorted(CHIPS - self.held - self.unhealthy - self.recovering)),
            f"{ASCEND_910}-Unhealthy": names(sorted(self.unhealthy)),
            f"{ASCEND_910}-Recovering": names(sorted(self.recovering)),
            f"{ASCEND_910}-NetworkUnhealthy": names(sorted(self.network)),
            f"{ASCEND_910}-Fault": json.dumps(self.faults),
        }
        return {"DeviceList": lists, "UpdateTime": time}


def reports(states: list[State], time: int, *, copied: bool) -> Iterator[Raw]:
    """The ConfigMaps of all nodes, or ClusterD's."""
    for state in states:
        raw = npu_node(state.name, labels=SELECTOR)
        raw["metadata"]["annotations"]["baseDeviceInfos"] = json.dumps({f"Ascend910-{i}": {} for i in CHIPS})
        raw["status"]["conditions"] = [{"type": "Ready", "status": str(state.ready)}]
        yield raw
    if copied:
        yield aggregate("device-0", {f"mindx-dl-deviceinfo-{each.name}": each.report(time) for each in states})
    for state in [] if copied else states:
        info = config_map(state.name, json.dumps({"DeviceInfo": state.report(time)}))
        info["data"]["SwitchInfoCfg"] = json.dumps({"NodeStatus": state.switches})
        yield info
        info = config_map(state.name, "")
        text = json.dumps({"NodeInfo": {"NodeStatus": state.status}}) if state.status else ""
        meta = {"name": f"mindx-dl-nodeinfo-{state.name}", "namespace": "mindx-dl"}
        yield info | {"metadata": meta, "data": {"NodeInfo": text}}
    statuses = {f"mindx-dl-nodeinfo-{each.name}": {"NodeStatus": each.status} for each in states if each.status}
    switches = {f"mindx-dl-switchinfo-{each.name}": {"NodeStatus": each.switches} for each in states if each.switches}
    yield aggregate("node-cm", statuses if copied and statuses else "")
    yield aggregate("switch-0", switches if copied and switches else "")


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_only_healthy_chips_of_healthy_nodes_are_assigned(seed: int, copied: bool) -> None:
    random = Random(seed)
    states = [State(f"n{i}") for i in range(3)]
    world = World()
    jobs: dict[str, tuple[bool, bool]] = {}
    """Maps the name of a job to whether it has several Pods, and whether it avoids sub-healthy nodes."""
    for time in range(1, 6):
        for state in states:
            state.change(random)
        feed(world.cluster.cache, *reports(states, time, copied=copied))
        for i in range(random.randint(0, 3)):
            pods, strict, name = random.choice([1, 2]), random.random() < 0.4, f"j{time}-{i}"
            labels = {"subHealthyStrategy": "forceExit"} if strict else {}
            asks = f"1c+{ASCEND_910}={random.choice([1, 2, 3, 8])}"
            members = [pod(f"{name}-{n}", asks, name, labels=labels, selector=SELECTOR) for n in range(pods)]
            world.cluster.load(manifests(group(name, minimum=pods), members))
            jobs[name] = pods > 1, strict
        for name, (node, listed) in chips_of(world.run(CONFIGURATION)).items():
            state, chips = next(each for each in states if each.name == node), set(listed)
            several, strict = jobs[name.rpartition("-")[0]]
            assert not state.excluded
            assert not (strict and state.sub_healthy)
            assert not chips & (state.held | state.unhealthy | state.recovering)
            assert not (several and chips & state.network)
            state.held |= chips
