"""The devices that a device plugin offers to its kubelet: their names, and which of them are healthy."""

from uuid import NAMESPACE_URL, uuid5

from scheduler.api.names import NPU_CORE
from scheduler.playground.faults import Faults
from scheduler.playground.node import Holdings, Machine


def device_chips(machine: Machine, resource: str) -> dict[str, int]:
    """The devices of a resource, with the chip of each; none for AI cores, which belong to no chip until one is cut."""
    if resource == NPU_CORE:
        return {}
    if resource != machine.family.resource:
        return machine.devices()
    names = _gpu_names(machine) if machine.family.gpus else machine.family.chip_names
    return {name: chip for chip, name in enumerate(names)}


def offered_devices(machine: Machine, faults: Faults, holdings: Holdings, resource: str) -> dict[str, bool]:
    """The devices of a resource, and whether each is healthy, in the order of their numbers."""
    broken = faults.broken(holdings.used)
    if resource == NPU_CORE:
        cores = machine.family.cores
        healthy = (machine.family.chips - len(broken)) * cores
        return {f"npu-core-{core}": core < healthy for core in range(machine.family.chips * cores)}
    return {name: chip not in broken for name, chip in device_chips(machine, resource).items()}


def _gpu_names(machine: Machine) -> list[str]:
    """Names in the form of NVIDIA's UUIDs, the same at each start."""
    return [f"GPU-{uuid5(NAMESPACE_URL, f'{machine.name}/{gpu}')}" for gpu in range(machine.family.chips)]
