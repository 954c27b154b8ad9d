"""Arguments of plugins: all of Volcano's arguments are known, and invalid arguments are reported."""

from typing import Any

import pytest

from tests.builders import World, configuration, node

SHAPE = [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}]
VOLCANO: dict[str, dict[str, Any]] = {
    "binpack": {
        "binpack.weight": 2,
        "binpack.cpu": 2,
        "binpack.memory": 2,
        "binpack.resources": "a.b/c",
        "binpack.resources.a.b/c": 2,
    },
    "capacity": {
        "ancestorReclaimLevel": 1,
        "capacity.DynamicResourceAllocationEnable": False,
        "capacity.DRAConsumableCapacityEnable": False,
    },
    "deviceshare": {
        "deviceshare.GPUSharingEnable": True,
        "deviceshare.GPUNumberEnable": False,
        "deviceshare.VGPUEnable": False,
        "deviceshare.VGPUInitContainersEnable": True,
        "deviceshare.NodeLockEnable": True,
        "deviceshare.AscendMindClusterVNPUEnable": True,
        "deviceshare.AscendHAMiVNPUEnable": True,
        "deviceshare.SchedulePolicy": "binpack",
        "deviceshare.ScheduleWeight": 2,
        "deviceshare.KnownGeometriesCMName": "cards",
        "deviceshare.KnownGeometriesCMNamespace": "default",
        "deviceshare.GPUExclusiveRules": [{"a": "b"}],
    },
    "extender": {
        "extender.urlPrefix": "http://127.0.0.1",
        "extender.httpTimeout": "100ms",
        "extender.ignorable": True,
        "extender.managedResources": ["nvidia.com/gpu"],
        **{
            f"extender.{verb}Verb": verb
            for verb in (
                *("onSessionOpen", "onSessionClose", "predicate", "prioritize", "preemptable", "reclaimable"),
                *("queueOverused", "jobEnqueueable", "jobEnqueued", "jobReady", "allocateFunc", "deallocateFunc"),
            )
        },
    },
    "network-topology-aware": {
        "weight": 2,
        "hypernode.binpack.cpu": 2,
        "hypernode.binpack.memory": 2,
        "hypernode.binpack.resources": "a.b/c",
        "hypernode.binpack.resources.a.b/c": 2,
        "hypernode.binpack.normal-pod.enable": False,
        "hypernode.binpack.normal-pod.fading": 0,
        "hypernode.gradient.evict.max-hypernodes": 2,
    },
    "nodegroup": {"strict": False, "enablePreferredOrder": True},
    "nodeorder": {
        f"{score}.weight": 5
        for score in (
            *("leastrequested", "mostrequested", "nodeaffinity", "podaffinity", "balancedresource"),
            *("tainttoleration", "imagelocality", "podtopologyspread"),
        )
    },
    "numa-aware": {"weight": 2},
    "overcommit": {"overcommit-factor": 1.5},
    "predicates": {
        **{
            f"predicate.{name}Enable": False
            for name in (
                *("NodeAffinity", "NodePorts", "TaintToleration", "PodAffinity", "NodeVolumeLimits", "VolumeZone"),
                *("PodTopologySpread", "VolumeBinding", "Cache"),
            )
        },
        "volumebinding.bindTimeoutSeconds": 60,
        "volumebinding.shape": SHAPE,
        "volumebinding.weight": 2,
        "dynamicresources.filterTimeoutSeconds": 0,
    },
    "rescheduling": {"interval": "1m", "metricsPeriod": "10m", "strategies": [{"name": "lowNodeUtilization"}]},
    "resource-strategy-fit": {
        "resourceStrategyFitWeight": 2,
        "resources": {"a.b/*": {"type": "MostAllocated", "weight": 2}},
        "sra": {"enable": False, "resources": "a.b/c", "weight": 2, "resourceWeight": {"a.b/c": 2}},
        "proportional": {
            "enable": False,
            "resources": "a.b/c",
            "resourceProportion": {"a.b/c.cpu": 4, "a.b/c.memory": 8.5},
        },
    },
    "sla": {"sla-waiting-time": "1h"},
    "task-topology": {"task-topology.weight": 2},
    "tdm": {"tdm.revocable-zone.rz": "10:00-21:00", "tdm.evict.period": "2m"},
    "usage": {
        "usage.weight": 2,
        "cpu.weight": 2,
        "memory.weight": 2,
        "thresholds": {"cpu": 90, "mem": 90},
        "estimator": {
            "request_ratio": 0.5,
            "burst_ratio": 0.5,
            "risk_threshold": 0.5,
            "risk_factor": 2,
            "be_cpu": "100m",
            "be_mem": "1Gi",
        },
    },
}
TAKES_NONE = ("cdp", "conformance", "drf", "gang", "pdb", "priority", "proportion", "resourcequota")


def problems_of(plugin: str, arguments: dict[str, Any]) -> list[str]:
    """The problems that a session reports about a plugin's arguments."""
    session = World(node("n")).session(configuration([plugin], arguments={plugin: arguments}))
    return [problem for problem in session.problems if problem.startswith(f"plugin {plugin}: argument")]


@pytest.mark.parametrize("plugin", [*VOLCANO, *TAKES_NONE])
def test_each_argument_of_volcano_is_known(plugin: str) -> None:
    assert problems_of(plugin, VOLCANO.get(plugin, {})) == []


@pytest.mark.parametrize("plugin", [*VOLCANO, *TAKES_NONE])
def test_an_unknown_argument_is_reported(plugin: str) -> None:
    (problem,) = problems_of(plugin, {**VOLCANO.get(plugin, {}), "wieght": 1})
    assert problem.startswith(f"plugin {plugin}: argument wieght is not known; it is ignored; known: ")


def test_an_invalid_nested_argument_is_reported_with_its_path() -> None:
    (problem,) = problems_of("usage", {"thresholds": {"cpu": 80, "memory": 80}})
    assert problem.startswith("plugin usage: argument thresholds.memory is not known; it is ignored; known: ")
    assert "thresholds.cpu" in problem


@pytest.mark.parametrize(
    ("plugin", "key"),
    [(plugin, key) for plugin, known in VOLCANO.items() for key in known],
)
def test_an_argument_of_a_wrong_type_is_reported(plugin: str, key: str) -> None:
    wrong: Any = {"neither": "nor"} if not isinstance(VOLCANO[plugin][key], dict) else 7
    assert any(f"argument {key}" in problem for problem in problems_of(plugin, {**VOLCANO[plugin], key: wrong}))
