"""Overviews of sessions in memory, for tests of the web page."""

import msgspec

from scheduler.api.names import ASCEND_910
from scheduler.explain.overview import overview
from scheduler.framework.configuration import Configuration
from scheduler.observability.cluster_figures import CardDevices
from scheduler.observability.overview import Overview
from tests.builders import Raw, World, configuration, group, node, pods, queue
from tests.unit.plugins.ascend.chips import device_info, npu_node
from tests.unit.plugins.capacity_card.cards import GPU, gpu_node

PLUGINS = configuration(["gang", "priority"], ["predicates", "capacity", "nodeorder", "ascend"])


def of(world: World, plugins: Configuration = PLUGINS) -> Overview:
    """The overview of the next session."""
    world.run(plugins)
    assert world.outcome is not None
    return overview(world.outcome.session, CardDevices())


def in_namespace(namespace: str, *raws: Raw | list[Raw]) -> list[Raw]:
    flat = [raw for each in raws for raw in (each if isinstance(each, list) else [each])]
    return [{**raw, "metadata": {**raw["metadata"], "namespace": namespace}} for raw in flat]


def example(at: float = 1000.0) -> Overview:
    """A cluster with a tree of queues, gangs that wait for quota, and nodes with NPUs and GPUs."""
    world = World(
        queue("research", weight=4, parent="root", capability="600c+2048Gi"),
        queue(
            "training",
            weight=2,
            parent="research",
            capability=f"400c+1024Gi+{ASCEND_910}=24",
            deserved=f"64c+512Gi+{ASCEND_910}=16",
        ),
        queue("evaluation", parent="research", deserved="8c+64Gi"),
        queue("serving", weight=3, parent="root", capability=f"200c+{GPU}=12", deserved=f"100c+{GPU}=8"),
        queue("closed-soon", state="Closing"),
        [npu_node(f"npu-{i}") for i in range(6)],
        device_info("npu-2", [0, 1, 2, 4, 6, 7], Unhealthy=[3, 5]),
        device_info("npu-4", list(range(8)), NetworkUnhealthy=[7]),
        [gpu_node(f"gpu-{i}") for i in range(3)],
        node("cpu-0", "16c+64Gi", taints=[{"key": "example.com/maintenance", "effect": "NoSchedule"}]),
        [raw for i in range(3) for raw in _gang("vision", f"train-{i}", "training", 1, f"16c+64Gi+{ASCEND_910}=8")],
        _gang("vision", "finetune-large", "training", 2, f"16c+64Gi+{ASCEND_910}=8"),
        _gang("speech", "asr", "training", 4, f"8c+64Gi+{ASCEND_910}=8"),
        _gang("speech", "eval", "evaluation", 2, "8c+16Gi"),
        _gang("web", "chat", "serving", 9, f"8c+16Gi+{GPU}=1"),
        _gang("web", "chat-2", "serving", 6, f"8c+16Gi+{GPU}=1"),
    )
    of(world)
    found = of(world)
    waiting = tuple(msgspec.structs.replace(row, since=int(at) - 700) for row in found.waiting)
    running = tuple(msgspec.structs.replace(row, since=int(at) - 9000) for row in found.running)
    return msgspec.structs.replace(found, at=at, waiting=waiting, running=running)


def _gang(namespace: str, name: str, queue_name: str, number: int, asks: str) -> list[Raw]:
    return in_namespace(namespace, group(name, queue_name, number, phase="Inqueue"), pods(name, number, asks, name))
