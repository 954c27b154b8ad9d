"""The device plugin's answer when the kubelet starts a Pod: which devices are mounted."""

import re
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from scheduler.api.names import (
    ASCEND_910,
    ASCEND_910_CONFIGURATION,
    ASCEND_REAL,
    NPU,
    NPU_CONFIGURATION,
    NPU_CORE,
    PREDICATE_TIME,
)
from scheduler.api.pod_amounts import is_sidecar
from scheduler.playground.families import Template
from scheduler.playground.faults import FaultOf, Faults
from scheduler.playground.kubelet_devices import device_chips, offered_devices
from scheduler.playground.node import Holdings, Machine, chip_number
from scheduler.playground.objects import (
    CONSUMED,
    KUBELET_DEVICES,
    Container,
    SimulatedPod,
    annotations_of,
    whole_number,
)
from scheduler.playground.reports import go_json

_WHOLE: Final = re.compile(r"\d+(,\d+)*")
_GROUPS: Final = 4
"""Groups of virtual NPUs on a chip; each has an equal share of the AI cores."""


class AdmissionError(Exception):
    """The kubelet does not start the Pod. The message says why."""


class PodDevices(msgspec.Struct, frozen=True):
    """The devices of a Pod."""

    kubelet: list[str]
    """The devices that the kubelet assigned."""
    mounted: list[str]
    """The devices that the device plugin mounted."""
    chips: list[int]
    """The chips of these devices."""
    chosen: SimulatedPod | None
    """The Pod whose annotation was followed. None: that of no Pod."""


def allocate(
    machine: Machine, faults: Faults, pods: Sequence[SimulatedPod], holdings: Holdings, resource: str, amount: int
) -> PodDevices:
    """The devices of a Pod that the kubelet starts: the kubelet assigns free ones, and the device plugin mounts
    those of an annotation. ``pods``: all Pods of the node. Raises AdmissionError."""
    picked = _pick(machine, faults, holdings, resource, amount)
    return mount(machine, faults, pods, holdings, resource, picked)


def mount(
    machine: Machine,
    faults: Faults,
    pods: Sequence[SimulatedPod],
    holdings: Holdings,
    resource: str,
    picked: Sequence[str],
    forgotten: Collection[str] = (),
) -> PodDevices:
    """Chooses the devices to mount for devices that the kubelet assigned. Raises AdmissionError.

    The kubelet does not say for which Pod it assigned them: see ``next_pod``. If it assigned all chips, all are
    mounted. ``pods``: all Pods of the node; ``holdings``: what they have; ``forgotten``: see ``next_pod``.
    """
    amount = len(picked)
    devices = device_chips(machine, resource)
    order = {name: number for number, name in enumerate(offered_devices(machine, faults, holdings, resource))}
    if unknown := [name for name in picked if name not in order]:
        raise AdmissionError(f"{machine.name} has no device {unknown[0]!r:.66} of {resource}")
    picked = sorted(picked, key=order.__getitem__)
    if machine.family.gpus or resource not in (machine.family.resource, NPU_CORE):
        return PodDevices(picked, picked, [devices[name] for name in picked], None)
    chosen = next_pod(machine, pods, resource, amount, forgotten)
    known_free = chosen is not None and chosen.metadata.uid in forgotten
    if kubelet_decides(machine, resource, amount):
        if not known_free:
            _refuse_mounted(holdings, picked)
        return PodDevices(picked, picked, list(range(machine.family.chips)), chosen)
    if chosen is None:
        raise AdmissionError(_no_candidate(pods, resource, amount))
    text = annotations_of(chosen)[resource]
    if resource == NPU_CORE and not _WHOLE.fullmatch(text):
        number, _, template = text.partition("-")
        if int(number) in faults.having(FaultOf.DIVISION):
            raise AdmissionError("NPUSegmentFailed")
        return _cut(machine, holdings, picked, int(number), template, chosen)
    names = [f"{machine.family.prefix}{chip}" for chip in text.split(",")] if resource == NPU_CORE else text.split(",")
    chips = []
    for name in names:
        chip_id = chip_number(machine.family, name)
        if chip_id is None:
            raise AdmissionError(f"{resource} of Pod {chosen.key} is {text!r}: {machine.name} has no chip {name}")
        if chip_id in holdings.parts:
            raise AdmissionError(f"{resource} of Pod {chosen.key} is {text!r}: {name} is divided into virtual NPUs")
        chips.append(chip_id)
    if not known_free:
        _refuse_mounted(holdings, names)
    return PodDevices(picked, names, chips, chosen)


def next_pod(
    machine: Machine, pods: Sequence[SimulatedPod], resource: str, amount: int, forgotten: Collection[str] = ()
) -> SimulatedPod | None:
    """The Pod for which the kubelet assigns devices, as the device plugin assumes; None if no Pod waits for as many.

    It is the Pod with the smallest ``predicate-time`` among the Pods whose annotation names as many devices, and whose
    containers, without init containers, request some. ``forgotten``: UIDs of Pods whose annotations were followed in
    answers that the kubelet has lost; they come first, and their devices are known to be free.
    """
    candidates = (pod for pod in pods if _names_devices(machine, pod, resource, amount, forgotten))
    return min(candidates, key=lambda pod: (pod.metadata.uid not in forgotten, _predicate_time(pod)), default=None)


def annotations_for(machine: Machine, pod: SimulatedPod, found: PodDevices) -> dict[str, str]:
    """The annotations that the device plugin writes onto the Pod that got the devices."""
    annotations = {KUBELET_DEVICES: ",".join(found.kubelet), ASCEND_REAL: ",".join(found.mounted)}
    family = machine.family
    if family.resource not in (ASCEND_910, NPU) and not family.duo:
        return annotations
    whole = all(chip_number(family, name) is not None for name in found.mounted)
    configuration = {
        "pod_name": pod.metadata.name,
        "server_id": pod.metadata.uid,
        "server_ip": machine.address,
        "host_ip": machine.address,
        "super_pod_id": machine.super_pod,
        "rack_id": 0,
        "devices": [
            {
                "device_id": str(chip),
                "device_ip": machine.chip_address(chip) if whole else "127.0.0.1",
                "super_device_id": str(chip + max(machine.server, 0) * family.chips),
            }
            for chip in found.chips
        ],
        "server_index": str(machine.server) if machine.server >= 0 else "",
    }
    key = NPU_CONFIGURATION if family.resource == NPU else ASCEND_910_CONFIGURATION
    return {**annotations, key: go_json(configuration)}


def _pick(machine: Machine, faults: Faults, holdings: Holdings, resource: str, amount: int) -> list[str]:
    """The devices that the kubelet assigns: the first healthy ones that it has not assigned yet."""
    if resource not in (machine.family.resource, NPU_CORE) and amount > 1:
        raise AdmissionError(f"request num {amount} of {resource} is invalid: a Pod gets one virtual NPU")
    offered = offered_devices(machine, faults, holdings, resource)
    free = [name for name, healthy in offered.items() if healthy and name not in holdings.kubelet]
    if len(free) < amount:
        raise AdmissionError(
            f"requested number of devices unavailable for {resource}. Requested: {amount}, Available: {len(free)}"
        )
    return free[:amount]


def _names_devices(machine: Machine, pod: SimulatedPod, resource: str, amount: int, forgotten: Collection[str]) -> bool:
    """Whether a Pod may be the one that the kubelet starts with an amount of a resource."""
    annotations = annotations_of(pod)
    time = annotations.get(PREDICATE_TIME, "")
    if pod.ended or pod.metadata.deletion_timestamp or whole_number(time) is None:
        return False
    if time == CONSUMED and pod.metadata.uid not in forgotten:
        return False
    if not any(_amount(container, resource) for container in pod.spec.containers or ()):
        return False  # the device plugin ignores init containers
    return _amount_named(machine, resource, annotations.get(resource, "")) == amount


def _amount_named(machine: Machine, resource: str, text: str) -> int:
    """The amount of devices that an annotation names; 0 if it names none."""
    if resource != NPU_CORE:
        return len(text.split(",")) if text else 0
    if _WHOLE.fullmatch(text):
        return len(text.split(",")) * machine.family.cores
    number, _, name = text.partition("-")
    chip, template = whole_number(number), machine.family.template(name)
    return template.cores if template and chip is not None and chip < machine.family.chips else 0


def _predicate_time(pod: SimulatedPod) -> int:
    return int(annotations_of(pod)[PREDICATE_TIME])


def _no_candidate(pods: Sequence[SimulatedPod], resource: str, amount: int) -> str:
    named = [
        f"{pod.key} has {text!r}"
        for pod in pods
        if not pod.ended
        and (text := annotations_of(pod).get(resource))
        and annotations_of(pod).get(PREDICATE_TIME, CONSUMED) != CONSUMED
    ]
    return f"no Pod of the node has {amount} of {resource} in its annotation and a predicate-time; " + (
        "; ".join(named) or "no annotation waits"
    )


def _cut(
    machine: Machine, holdings: Holdings, picked: list[str], chip: int, name: str, chosen: SimulatedPod
) -> PodDevices:
    """Creates a virtual NPU on a chip."""
    family = machine.family
    template = family.template(name)
    if template is None or chip in holdings.chips:
        raise AdmissionError(f"NPUSegmentFailed: chip {chip} of {machine.name} is used whole")
    parts = [
        (part, group)
        for suffix, _, group in holdings.parts.get(chip, ())
        if (part := family.template(suffix)) is not None
    ]
    cores = sum(part.cores for part, _ in parts)
    cpus = sum(part.cpus for part, _ in parts)
    if cores + template.cores > family.cores or cpus + template.cpus > family.cpus:
        raise AdmissionError(
            f"NPUSegmentFailed: {template.name} needs {template.cores} AI cores and {template.cpus} AI CPUs; "
            f"chip {chip} of {machine.name} has {family.cores - cores} and {family.cpus - cpus} left"
        )
    group = _group(family.cores // _GROUPS, parts, template)
    device = f"{family.prefix}{template.suffix}-{holdings.next_id()}-{chip}_{group}"
    return PodDevices(picked, [device], [chip], chosen)


def _group(share: int, parts: Sequence[tuple[Template, int]], template: Template) -> int:
    """The first group with enough free cores; larger virtual NPUs begin with an empty group."""
    used = [0] * _GROUPS
    for part, first in parts:
        left, group = part.cores, first
        while left > 0 and group < _GROUPS:
            taken = min(left, share)
            used[group] += taken
            left, group = left - taken, group + 1
    for group, cores in enumerate(used):
        if cores + min(template.cores, share) <= share:
            return group
    return _GROUPS - 1


def kubelet_decides(machine: Machine, resource: str, amount: int) -> bool:
    """Whether the device plugin mounts the devices that the kubelet assigns, whatever annotations say."""
    family = machine.family
    if family.gpus or resource != family.resource:
        return resource != NPU_CORE
    return amount == family.chips


def swap_message(devices: str, owner: str) -> str:
    """Why a Pod has the devices of another one. ``owner``: the Pod whose annotation names them."""
    return f"{devices} of Pod {owner} is mounted: its predicate-time is smaller, but the kubelet starts this Pod first"


def _refuse_mounted(holdings: Holdings, names: Sequence[str]) -> None:
    """Raises AdmissionError if another Pod has one of the devices: stricter than the real device plugin, which would
    mount it twice."""
    for name in names:
        if holder := holdings.devices.get(name):
            raise AdmissionError(f"{name} is mounted in Pod {holder} already")


def in_allocation_order(pod: SimulatedPod, resource: str) -> list[tuple[int, bool]]:
    """How many devices the kubelet asks for, for each container that wants some, and whether the containers after it
    get the same devices: it is an init container that ends before they start."""
    init_containers = [(each, not is_sidecar(each)) for each in pod.spec.init_containers or ()]
    others = [(each, False) for each in pod.spec.containers or ()]
    amounts = ((_amount(container, resource), ends) for container, ends in (*init_containers, *others))
    return [(amount, ends) for amount, ends in amounts if amount]


def _amount(container: Container, resource: str) -> int:
    resources = container.resources
    amounts = {**((resources and resources.requests) or {}), **((resources and resources.limits) or {})}
    return whole_number(str(amounts.get(resource, 0))) or 0
