"""The annotations that a device plugin corrects once the kubelet has assigned devices to Pods.

When the kubelet requests devices, the device plugin does not learn for which Pod: it follows the annotation of the Pod
with the smallest ``predicate-time`` and annotates this Pod. Afterwards the kubelet lists the devices of each Pod.
"""

from collections.abc import Iterable, Mapping, Sequence

from scheduler.api.names import ASCEND_910_CONFIGURATION, ASCEND_REAL, NPU_CONFIGURATION
from scheduler.playground.device_plugin import PodDevices, annotations_for, kubelet_decides, swap_message
from scheduler.playground.kubelet_devices import device_chips
from scheduler.playground.node import Machine, chip_of, resources_of
from scheduler.playground.objects import (
    KUBELET_DEVICES,
    MOUNTED,
    POD,
    SWAPPED,
    Patch,
    SimulatedPod,
    Step,
    Warn,
    annotations_of,
)

Assigned = Mapping[str, Mapping[str, Sequence[str]]]
"""Pod -> resource -> devices, as the kubelet lists them; Pods without devices included."""
Mounted = Mapping[frozenset[str], Sequence[str]]
"""What is mounted for devices that the kubelet assigns, in the order of the container; without an entry, the devices
themselves."""


def mounted_by_annotations(machine: Machine, pods: Iterable[SimulatedPod]) -> dict[frozenset[str], list[str]]:
    """What was mounted, as the annotations of the Pods say it after a restart of the device plugin."""
    pods = list(pods)
    found: dict[frozenset[str], list[str]] = {}
    for pod in pods:
        names = annotations_of(pod).get(machine.family.resource, "").split(",")
        if not kubelet_decides(machine, machine.family.resource, len(names)):
            found[frozenset(names)] = names
    for pod in pods:
        kubelet, _, mounted = annotations_of(pod).get(MOUNTED, "").partition("=")
        if mounted:
            found[frozenset(kubelet.split(","))] = mounted.split(",")
    return found


def mounted_annotation(found: PodDevices) -> dict[str, str]:
    """The annotation from which ``mounted_by_annotations`` reads what was mounted; none if the kubelet assigned the
    same devices."""
    if set(found.kubelet) == set(found.mounted):
        return {}
    return {MOUNTED: f"{','.join(found.kubelet)}={','.join(found.mounted)}"}


def correct(machine: Machine, pods: Sequence[SimulatedPod], assigned: Assigned, mounted: Mounted) -> Step:
    """The annotations to change so that each Pod has those of its own devices. ``pods``: all Pods of the node."""
    step = Step()
    holders: dict[str, str] = {}
    for pod in pods:
        if pod.ended:
            continue
        found = _devices_of(machine, assigned.get(pod.key, {}), mounted)
        if found is None:
            continue
        holders |= dict.fromkeys(found.kubelet, pod.key)
        annotations = annotations_for(machine, pod, found)
        if any(annotations_of(pod).get(key) != value for key, value in annotations.items()):
            step.writes.append(Patch(POD, pod.metadata, {"metadata": {"annotations": annotations}}))
            _report_swap(step, machine, pods, pod, found)
    for pod in pods:
        devices = [name for name in annotations_of(pod).get(KUBELET_DEVICES, "").split(",") if name]
        others = {holders.get(name, pod.key) for name in devices} - {pod.key}
        if not pod.ended and others and pod.key not in holders.values():
            removed = dict.fromkeys((KUBELET_DEVICES, ASCEND_REAL, ASCEND_910_CONFIGURATION, NPU_CONFIGURATION))
            step.writes.append(Patch(POD, pod.metadata, {"metadata": {"annotations": removed}}))
    return step


def _devices_of(machine: Machine, assigned: Mapping[str, Sequence[str]], mounted: Mounted) -> PodDevices | None:
    """The devices of a Pod; None without any. A Pod has devices of one resource at most."""
    for resource in resources_of(machine):
        if names := assigned.get(resource):
            order = {name: number for number, name in enumerate(device_chips(machine, resource))}
            kubelet = sorted(names, key=lambda name: (order.get(name, 0), len(name), name))
            real = list(mounted.get(frozenset(kubelet), kubelet))
            chips = [chip for name in real if (chip := chip_of(machine.family, name)) is not None]
            return PodDevices(kubelet, real, chips, None)
    return None


def _report_swap(
    step: Step, machine: Machine, pods: Sequence[SimulatedPod], pod: SimulatedPod, found: PodDevices
) -> None:
    """Reports a Pod that got the chips of another one."""
    resource, real = machine.family.resource, set(found.mounted)

    def names(other: SimulatedPod) -> bool:
        return set(annotations_of(other).get(resource, "").split(",")) == real

    owner = next((other for other in pods if names(other)), None)
    if owner is not None and not names(pod) and not kubelet_decides(machine, resource, len(found.kubelet)):
        message = swap_message(",".join(found.mounted), owner.key)
        step.writes.append(Warn(POD, pod.metadata, SWAPPED, message))
        step.news.append(f"Pod {pod.key}: {message}")
