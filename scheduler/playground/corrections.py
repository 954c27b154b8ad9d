"""What a device plugin learns from the kubelet's list of the devices of Pods: annotations to correct, and lost answers.

When the kubelet requests devices, it does not say for which Pod. The device plugin follows the annotation of the Pod
with the smallest ``predicate-time`` and annotates this Pod. Afterwards the kubelet lists the devices of each Pod.
"""

from collections.abc import Collection, Mapping, Sequence

from scheduler.api.names import ASCEND_REAL, PREDICATE_TIME
from scheduler.playground.device_plugin import PodDevices, annotations_for, kubelet_decides, swap_message
from scheduler.playground.kubelet_devices import device_chips
from scheduler.playground.node import Machine, chip_of, resources_of
from scheduler.playground.objects import (
    CONSUMED,
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


def mounted_by_annotations(machine: Machine, pods: Sequence[SimulatedPod]) -> dict[frozenset[str], list[str]]:
    """What was mounted, as the annotations of the Pods say it after a restart of the device plugin.

    The newest source counts: the annotations that the device plugin writes, then ``MOUNTED``, which remains on the Pod
    whose annotation was followed until the Pod that has the devices has these annotations itself.
    """
    found: dict[frozenset[str], list[str]] = {}
    for pod in pods:
        names = annotations_of(pod).get(machine.family.resource, "").split(",")
        if not kubelet_decides(machine, machine.family.resource, len(names)):
            found[frozenset(names)] = names
    for pod in pods:
        if record := _record_of(pod):
            found[record[0]] = record[1]
    for pod in pods:
        annotations = annotations_of(pod)
        if not pod.ended and annotations.get(KUBELET_DEVICES) and annotations.get(ASCEND_REAL):
            found[frozenset(annotations[KUBELET_DEVICES].split(","))] = annotations[ASCEND_REAL].split(",")
    return found


def _record_of(pod: SimulatedPod) -> tuple[frozenset[str], list[str]] | None:
    """The devices in the annotation ``MOUNTED``: those of the kubelet, and those that were mounted for them."""
    kubelet, _, mounted = annotations_of(pod).get(MOUNTED, "").partition("=")
    return (frozenset(kubelet.split(",")), mounted.split(",")) if mounted else None


def answered_annotations(machine: Machine, pod: SimulatedPod, found: PodDevices, *, again: bool) -> dict[str, str]:
    """The annotations of the Pod whose annotation the device plugin follows, at the answer to the kubelet.

    ``again``: the kubelet has lost an earlier answer for the Pod. Otherwise a Pod that has devices already, those of
    another one, keeps the annotations about them.
    """
    annotations = {PREDICATE_TIME: CONSUMED}
    if again or not annotations_of(pod).get(KUBELET_DEVICES):
        annotations |= annotations_for(machine, pod, found)
    if set(found.kubelet) != set(found.mounted):
        annotations[MOUNTED] = f"{','.join(found.kubelet)}={','.join(found.mounted)}"
    return annotations


def lost_answers(
    machine: Machine,
    pods: Sequence[SimulatedPod],
    assigned: Assigned,
    mounted: Mounted,
    answered: Collection[str],
    amount: int,
) -> dict[str, bool]:
    """UIDs of Pods whose annotations, of an amount of chips, were followed in answers that the kubelet has lost: it
    ended before it stored them. The value says whether the Pod itself waits for devices.

    Each Pod with devices has consumed one annotation, its own or that of another Pod. So answers were lost if more Pods
    wait than annotations are left. ``pods``: all Pods of the node; ``answered``: UIDs of Pods whose annotations were
    followed in answers that the kubelet is about to store.
    """
    resource = machine.family.resource
    names = {
        pod.metadata.uid: set(text.split(","))
        for pod in pods
        if not pod.ended and not pod.metadata.deletion_timestamp and (text := annotations_of(pod).get(resource))
    }
    same = [pod for pod in pods if len(names.get(pod.metadata.uid, ())) == amount]
    waiting = {pod.metadata.uid for pod in same if not _has_devices(pod, assigned)}
    left = [pod for pod in same if annotations_of(pod).get(PREDICATE_TIME) != CONSUMED]
    taken = set().union(*(names[pod.metadata.uid] for pod in left))
    for pod in pods:
        if found := _devices_of(machine, assigned.get(pod.key, {}), mounted):
            taken.update(found.mounted)
        elif pod.key not in assigned and not pod.ended:
            taken.update(annotations_of(pod).get(ASCEND_REAL, "").split(","))
    unmounted = [
        pod.metadata.uid
        for pod in same
        if pod not in left
        and annotations_of(pod).get(KUBELET_DEVICES)  # otherwise no device plugin followed its annotation
        and pod.metadata.uid not in answered
        and not names[pod.metadata.uid] & taken
    ]
    unmounted.sort(key=lambda uid: uid not in waiting)
    return {uid: uid in waiting for uid in unmounted[: max(len(waiting) - len(left), 0)]}


def correct(machine: Machine, pods: Sequence[SimulatedPod], assigned: Assigned, mounted: Mounted) -> Step:
    """The annotations to change so that each Pod has those of its own devices. ``pods``: all Pods of the node.

    A Pod with the chips of another one that waits for devices is corrected when that one has its devices, too. Until
    then the annotations of both together name all their chips, so that the scheduler gives none to a third Pod.
    """
    step = Step()
    settled: set[frozenset[str]] = set()
    for pod in pods:
        found = _devices_of(machine, assigned.get(pod.key, {}), mounted)
        if pod.ended or found is None:
            continue
        annotations = annotations_for(machine, pod, found)
        if all(annotations_of(pod).get(key) == value for key, value in annotations.items()):
            settled.add(frozenset(found.kubelet))
            continue
        owner = _owner(machine, pods, pod, found)
        if owner is None or owner.ended or _has_devices(owner, assigned):
            step.writes.append(Patch(POD, pod.metadata, {"metadata": {"annotations": annotations}}))
            if owner is not None:
                message = swap_message(",".join(found.mounted), owner.key)
                step.writes.append(Warn(POD, pod.metadata, SWAPPED, message))
                step.news.append(f"Pod {pod.key}: {message}")
    for pod in pods:
        if (record := _record_of(pod)) and record[0] in settled:
            step.writes.append(Patch(POD, pod.metadata, {"metadata": {"annotations": {MOUNTED: None}}}))
    return step


def _has_devices(pod: SimulatedPod, assigned: Assigned) -> bool:
    """Whether the kubelet has assigned devices to a Pod. A kubelet that starts lists its Pods one after the other: for
    a Pod that it does not list yet, the annotation counts, unless another Pod has these devices."""
    if pod.key in assigned:
        return any(assigned[pod.key].values())
    of_others = {name for resources in assigned.values() for names in resources.values() for name in names}
    named = set(filter(None, annotations_of(pod).get(KUBELET_DEVICES, "").split(",")))
    return bool(named) and not named & of_others


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


def _owner(machine: Machine, pods: Sequence[SimulatedPod], pod: SimulatedPod, found: PodDevices) -> SimulatedPod | None:
    """The Pod whose annotation names the chips that another Pod has; None if they are its own."""
    resource, real = machine.family.resource, set(found.mounted)
    if kubelet_decides(machine, resource, len(found.kubelet)):
        return None
    named = [each for each in pods if set(annotations_of(each).get(resource, "").split(",")) == real]
    return None if any(each.key == pod.key for each in named) else next(iter(named), None)
