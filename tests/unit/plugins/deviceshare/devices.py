"""Builders of nodes with shared devices, and of Pods that request them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.api.names import (
    GPU_INDEX,
    GPU_MEMORY,
    GPU_NUMBER,
    NPU_CORE,
    VGPU_CORES,
    VGPU_IDS,
    VGPU_MEMORY,
    VGPU_NUMBER,
    VGPU_REGISTER,
)
from scheduler.framework.configuration import Configuration
from tests.builders import Raw, World, configuration, group, node, pod

ASCEND = "huawei.com/Ascend310P"
HELD_NPUS = "hami.io/Ascend310P-devices-allocated"
MODEL = "NVIDIA-Tesla V100"


def sharing(
    *, actions: str = "enqueue, allocate, backfill", others: Sequence[str] = (), **settings: Any
) -> Configuration:
    """A configuration with the plugin; ``settings`` are its arguments (``VGPUEnable=True``)."""
    arguments = {f"deviceshare.{key}": value for key, value in settings.items()}
    return configuration(
        ["priority", "gang"], ["deviceshare", *others], actions=actions, arguments={"deviceshare": arguments}
    )


VGPU = sharing(VGPUEnable=True)
GPU_SHARING = sharing(GPUSharingEnable=True)
GPU_WHOLE = sharing(GPUNumberEnable=True)
HAMI = sharing(AscendHAMiVNPUEnable=True)
MINDCLUSTER = sharing(AscendMindClusterVNPUEnable=True)


# --- nodes ---
def annotated(raw: Raw, annotations: Mapping[str, str]) -> Raw:
    raw["metadata"]["annotations"] = {**raw["metadata"].get("annotations", {}), **annotations}
    return raw


def gpu_node(name: str, number: int, memory: int, **annotations: str) -> Raw:
    """A node with ``number`` GPUs of ``memory`` each, as Volcano's device plugin reports it."""
    raw = node(name, f"64c+256Gi+{GPU_MEMORY}={number * memory}+{GPU_NUMBER}={number}")
    raw["status"]["capacity"] = dict(raw["status"]["allocatable"])
    return annotated(raw, annotations)


def vgpu_node(
    name: str,
    number: int = 2,
    memory: int = 10_000,
    *,
    slots: int = 10,
    model: str = MODEL,
    broken: Sequence[int] = (),
    mode: str = "hami-core",
    annotations: Mapping[str, str] | None = None,
) -> Raw:
    """A node of GPUs ``<name>-0``, ``<name>-1``, ... as the vGPU device plugin registers them."""
    register = "".join(
        f"{name}-{i},{slots},{memory},{model},{str(i not in broken).lower()},{mode}:" for i in range(number)
    )
    totals = f"{VGPU_NUMBER}={number * slots}+{VGPU_MEMORY}={number * memory}+{VGPU_CORES}={number * 100}"
    return annotated(node(name, f"64c+256Gi+{totals}"), {VGPU_REGISTER: register, **(annotations or {})})


def npu_node(
    name: str,
    number: int = 2,
    *,
    memory: int = 21527,
    cores: int = 8,
    slots: int = 7,
    word: str = "Ascend310P",
    networks: Sequence[int] = (),
    broken: Sequence[int] = (),
    annotations: Mapping[str, str] | None = None,
) -> Raw:
    """A node of NPUs ``<name>-0``, ``<name>-1``, ... as HAMi's device plugin registers them."""
    register = [
        {"id": f"{name}-{i}", "index": i, "count": slots, "devmem": memory, "devcore": cores, "health": i not in broken}
        | ({"custominfo": {"NetworkID": networks[i]}} if networks else {})
        for i in range(number)
    ]
    raw = node(name, f"64c+256Gi+huawei.com/{word}={number * slots}")
    return annotated(raw, {f"hami.io/node-register-{word}": json.dumps(register), **(annotations or {})})


def chip_node(name: str, number: int = 2, cores: int = 8) -> Raw:
    """A node with Ascend 310P chips on which MindCluster's device plugin creates virtual NPUs."""
    labels = {"accelerator": "huawei-Ascend310P", "servertype": f"Ascend310P-{cores}"}
    return node(name, f"64c+256Gi+{NPU_CORE}={number * cores}", labels)


def chip_list(node_name: str, chips: Any, unhealthy: Sequence[int] = ()) -> Raw:
    """The ConfigMap of MindCluster's device plugin for a node; ``chips``: a list of numbers, or any text."""
    lists = {
        ASCEND: ",".join(f"Ascend310P-{i}" for i in chips) if isinstance(chips, list | range) else chips,
        f"{ASCEND}-Unhealthy": ",".join(f"Ascend310P-{i}" for i in unhealthy),
    }
    data = {"DeviceInfoCfg": json.dumps({"DeviceInfo": {"DeviceList": lists}})}
    return config_map(f"mindx-dl-deviceinfo-{node_name}", data)


def config_map(name: str, data: Mapping[str, str]) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system"},
        "data": dict(data),
    }


# --- Pods ---
class Sidecar(dict[str, int | str]):
    """Limits of an init container that keeps running."""


def limited(
    name: str, *containers: Mapping[str, int | str], init: Sequence[Mapping[str, int | str]] = (), **rest: Any
) -> Raw:
    """A Pod whose containers have these limits."""
    raw = pod(name, **rest)
    raw["spec"]["containers"] = [_container(f"c{i}", limits) for i, limits in enumerate(containers)]
    if init:
        raw["spec"]["initContainers"] = [_container(f"i{i}", limits) for i, limits in enumerate(init)]
    return raw


def _container(name: str, limits: Mapping[str, int | str]) -> Raw:
    amounts = {key: str(value) for key, value in limits.items()}
    lasting = {"restartPolicy": "Always"} if isinstance(limits, Sidecar) else {}
    resources = {"resources": {"limits": amounts, "requests": amounts}} if amounts else {}
    return {"name": name, **lasting, **resources}


def slice_of(number: int = 1, memory: int | None = None, cores: int | None = None) -> dict[str, int | str]:
    """Limits of a container that requests vGPUs."""
    asked: dict[str, int | str] = {VGPU_NUMBER: number}
    if memory is not None:
        asked[VGPU_MEMORY] = memory
    if cores is not None:
        asked[VGPU_CORES] = cores
    return asked


def slices(ids: str) -> list[dict[str, int | str]]:
    """Limits of the containers of a Pod that holds these vGPUs."""
    uses = [[entry.split(",") for entry in listed.split(":") if entry] for listed in ids.split(";")]
    return [slice_of(len(cards), int(cards[0][2]), int(cards[0][3])) for cards in uses]


def jobs(*pods: Raw, minimum: int = 1, name: str = "job", **rest: Any) -> list[Raw]:
    """The Pods in one PodGroup."""
    for raw in pods:
        raw["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = name
    return [group(name, minimum=minimum, **rest), *pods]


def vgpu_pods(number: int, *asked: int | None, name: str = "p", **rest: Any) -> list[Raw]:
    """Builds ``number`` Pods with one container that requests (number, memory, cores) of vGPUs."""
    return [limited(f"{name}-{i}", slice_of(*asked), **rest) for i in range(number)]  # type: ignore[arg-type]


# --- outcomes ---
def given(world: World, key: str) -> dict[str, str]:
    """Maps each Pod to an annotation of the bindings of the last session."""
    return {bind.task.name: bind.annotations[key] for bind in world.decisions.binds if key in bind.annotations}


def vgpus(world: World) -> dict[str, str]:
    return given(world, VGPU_IDS)


def gpus(world: World) -> dict[str, str]:
    return given(world, GPU_INDEX)


def cores(world: World) -> dict[str, str]:
    return given(world, NPU_CORE)


def npus(world: World) -> dict[str, str]:
    return given(world, HELD_NPUS)
