"""The answers of a device plugin to a kubelet: the devices that it prefers, and the environment of a container."""

from collections.abc import Collection, Sequence
from typing import Final

from scheduler.playground.device_plugin import PodDevices, next_pod
from scheduler.playground.kubelet_devices import device_chips
from scheduler.playground.node import Machine, chip_number, visible_number
from scheduler.playground.objects import SimulatedPod, annotations_of

NVIDIA_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
"""Environment variable: the GPUs that NVIDIA's container runtime mounts."""
ASCEND_VISIBLE_DEVICES: Final = "ASCEND_VISIBLE_DEVICES"
"""Environment variable: the numbers of the chips or virtual NPUs that Ascend's container runtime mounts."""
ASCEND_RUNTIME_OPTIONS: Final = "ASCEND_RUNTIME_OPTIONS"
"""Environment variable: ``VIRTUAL`` if these are virtual NPUs."""


def preferred_devices(
    machine: Machine,
    pods: Sequence[SimulatedPod],
    resource: str,
    available: Collection[str],
    required: Sequence[str],
    amount: int,
    forgotten: Collection[str] = (),
) -> list[str]:
    """The devices that the kubelet should assign: the chips that the annotation of the next Pod names, so that the
    kubelet counts the chips as assigned that are mounted; otherwise the available devices with the lowest numbers.

    ``required``: devices that the kubelet assigns anyway; ``forgotten``: see ``next_pod``.
    """
    named: Sequence[str] = ()
    if resource == machine.family.resource and not machine.family.gpus:
        pod = next_pod(machine, pods, resource, amount, forgotten)
        named = annotations_of(pod)[resource].split(",") if pod is not None else ()
    ordered = device_chips(machine, resource) or sorted(available)
    wanted = dict.fromkeys([*required, *(name for name in (*named, *ordered) if name in available)])
    return list(wanted)[:amount]


def container_environment(machine: Machine, found: PodDevices) -> dict[str, str]:
    """The environment variables of a container with devices, from which the container runtime mounts them."""
    if machine.family.gpus:
        return {NVIDIA_VISIBLE_DEVICES: ",".join(found.mounted)}
    family = machine.family
    environment = {ASCEND_VISIBLE_DEVICES: ",".join(str(visible_number(family, name)) for name in found.mounted)}
    if any(chip_number(family, name) is None for name in found.mounted):
        environment[ASCEND_RUNTIME_OPTIONS] = "VIRTUAL"
    return environment
