"""A simulated node: what it is, read from its Node, the Node to create for it, and the devices that its Pods have, read
from the annotations that the device plugin wrote."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.api.names import ASCEND_REAL, BASE_DEVICE_INFOS, NPU_CORE
from scheduler.playground.families import DYNAMIC, FAMILIES, PLUGIN_FAMILIES, NodeFamily, Template, division_problem
from scheduler.playground.faults import Faults, read_faults
from scheduler.playground.objects import (
    FAMILY,
    FAULTS,
    INDEX,
    KUBELET_DEVICES,
    NODE,
    PLUGIN_FAMILY,
    VNPU,
    Json,
    SimulatedNode,
    SimulatedPod,
    annotations_of,
    whole_number,
)

_PART: Final = re.compile(
    r"(?P<type>[A-Za-z0-9]+)-(?P<suffix>\d+c[a-z0-9.]*)-(?P<id>[0-9]{1,9})-(?P<chip>[0-9]{1,3})(_(?P<group>[0-9]))?"
)
FIRST_ID: Final = 100
"""The lowest number of a virtual NPU."""


@dataclass(slots=True)
class Holdings:
    """What the Pods of one node have that have not ended."""

    chips: dict[int, str] = field(default_factory=dict)
    """Whole chips, with the Pod that has each."""
    parts: dict[int, list[tuple[str, int, int]]] = field(default_factory=dict)
    """Chip -> its virtual NPUs that Pods have: suffix, number and group."""
    devices: dict[str, str] = field(default_factory=dict)
    """Names of mounted devices, with the Pod that has each."""
    kubelet: set[str] = field(default_factory=set)
    """Names of the devices that kubelet counts as assigned."""

    @property
    def used(self) -> set[int]:
        """The chips of which Pods have something."""
        return {*self.chips, *self.parts}

    def next_id(self) -> int:
        """The number of the next virtual NPU."""
        taken = {number for parts in self.parts.values() for _, number, _ in parts}
        return next(number for number in range(FIRST_ID, FIRST_ID + len(taken) + 1) if number not in taken)


def read_holdings(family: NodeFamily, pods: Iterable[SimulatedPod]) -> Holdings:
    """What the Pods of a node have. Names that are no devices of the family are ignored."""
    found = Holdings()
    for pod in pods:
        annotations = annotations_of(pod)
        if pod.ended or KUBELET_DEVICES not in annotations:
            continue
        found.kubelet.update(filter(None, annotations[KUBELET_DEVICES].split(",")))
        for name in filter(None, annotations.get(ASCEND_REAL, "").split(",")):
            found.devices[name] = pod.key
            chip = chip_number(family, name)
            if chip is not None:
                found.chips[chip] = pod.key
            elif part := _PART.fullmatch(name):
                parts = found.parts.setdefault(int(part["chip"]), [])
                parts.append((part["suffix"], int(part["id"]), int(part["group"] or 0)))
    return found


def chip_number(family: NodeFamily, name: str) -> int | None:
    """The number of a chip, or None if the name is no chip of the family."""
    if not name.startswith(family.prefix):
        return None
    number = whole_number(name.removeprefix(family.prefix))
    return number if number is not None and number < family.chips else None


def chip_of(family: NodeFamily, name: str) -> int | None:
    """The number of a chip, or of the chip of a virtual NPU. None if the name is neither."""
    part = _PART.fullmatch(name)
    return int(part["chip"]) if part else chip_number(family, name)


def visible_number(family: NodeFamily, name: str) -> int | None:
    """The number of a chip or of a virtual NPU, by which a container runtime finds its device file."""
    part = _PART.fullmatch(name)
    return int(part["id"]) if part else chip_number(family, name)


UNSUPPORTED: Final = -2
"""The super pod of a node that is in none."""
_GENERAL: Final = {"cpu": "192", "memory": "1536Gi", "ephemeral-storage": "2Ti", "pods": "110"}
MAX_NODES: Final = 1 << 14


class Machine(msgspec.Struct, frozen=True):
    """What a simulated node is, apart from its state."""

    name: str
    family: NodeFamily
    index: int
    """Its number among all simulated nodes, from 0."""
    division: str = ""
    """How its chips are divided: "", ``dynamic`` or a suffix of a template."""
    super_pod: int = UNSUPPORTED
    server: int = UNSUPPORTED
    """Its number in its super pod."""
    host: str = ""
    """The address of a node with a real kubelet; "" for others."""

    @property
    def address(self) -> str:
        return self.host or f"192.168.{self.index // 250}.{self.index % 250 + 1}"

    @property
    def template(self) -> Template | None:
        """The template into which the chips are divided beforehand."""
        return self.family.template(self.division) if self.division not in ("", DYNAMIC) else None

    def chip_address(self, chip: int) -> str:
        return f"10.{self.index >> 8}.{self.index & 255}.{chip + 1}"

    def pod_address(self, taken: set[str]) -> str:
        """An address for a Pod that no Pod of the node has; "" if there is none."""
        prefix = f"10.{128 + (self.index >> 8)}.{self.index & 255}"
        return next((ip for host in range(2, 255) if (ip := f"{prefix}.{host}") not in taken), "")

    def devices(self) -> dict[str, int]:
        """The virtual NPUs that were created beforehand, with the chip of each."""
        template, family = self.template, self.family
        if template is None:
            return {}
        each = min(family.cores // template.cores, family.cpus // template.cpus)
        return {
            f"{family.prefix}{template.suffix}-{FIRST_ID + number}-{number // each}": number // each
            for number in range(family.chips * each)
        }

    def amounts(self, broken: set[int]) -> dict[str, int]:
        """The amounts of devices in chips that are not broken, by resource."""
        family, working = self.family, self.family.chips - len(broken)
        if self.template is not None:
            parts = sum(chip not in broken for chip in self.devices().values())
            return {family.resource: 0, f"{family.resource}-{self.template.suffix}": parts}
        if self.division == DYNAMIC:
            return {family.resource: working, NPU_CORE: working * family.cores}
        return {family.resource: working}


def new_machines(
    families: Sequence[NodeFamily],
    number: int,
    prefix: str,
    division: str,
    super_pod_size: int,
    existing: Mapping[str, SimulatedNode],
) -> list[Machine]:
    """The nodes to create, so that there are ``number`` of each family: ``npu-910b-8-0``, ``npu-910b-8-1``, ... Their
    numbers and super pods differ from those of existing ones. Raises ValueError if these are too many nodes."""
    taken = {annotations_of(node).get(INDEX, "") for node in existing.values()}
    indexes = (index for index in range(MAX_NODES) if str(index) not in taken)
    super_pods = [whole_number(annotations_of(node).get("superPodID", "")) for node in existing.values()]
    first = max((number + 1 for number in super_pods if number is not None), default=0)
    found = []
    for family in families:
        pods_of_family = -(-number // super_pod_size) if family.super_pods else 0
        for i in range(number):
            name = f"{prefix}-{family.name}-{i}"
            if name in existing:
                continue
            index = next(indexes, None)
            if index is None:
                raise ValueError(f"more than {MAX_NODES} nodes cannot be simulated")
            in_pod = (
                {"super_pod": first + i // super_pod_size, "server": i % super_pod_size} if family.super_pods else {}
            )
            machine = Machine(name, family, index, division)
            found.append(msgspec.structs.replace(machine, **in_pod))
        first += pods_of_family
    return found


def machine_of(node: SimulatedNode) -> Machine:
    """Reads what a Node is. Raises ValueError, with the field and the problem."""
    labels, annotations = node.metadata.labels or {}, annotations_of(node)
    real = PLUGIN_FAMILY in labels and FAMILY not in labels
    key = PLUGIN_FAMILY if real else FAMILY
    family = (PLUGIN_FAMILIES if real else FAMILIES).get(labels.get(key, ""))
    if family is None:
        raise ValueError(f"metadata.labels[{key}]: no family {labels.get(key, '')!r}")
    division = annotations.get(VNPU, "")
    if problem := division_problem(family, division):
        raise ValueError(f"metadata.annotations[{VNPU}]: {problem}")
    addresses = (each.address for each in node.status.addresses or () if each.type == "InternalIP")
    return Machine(
        name=node.metadata.name,
        family=family,
        index=_number(annotations, INDEX, MAX_NODES),
        division=division,
        super_pod=_number(annotations, "superPodID", 1 << 31) if "superPodID" in annotations else UNSUPPORTED,
        server=_number(annotations, "serverIndex", 1 << 31) if "serverIndex" in annotations else UNSUPPORTED,
        host=next(addresses, "") if real else "",
    )


def faults_of(node: SimulatedNode) -> Faults:
    """Reads the faults of a Node. Raises ValueError, with the field and the problem."""
    chips = machine_of(node).family.chips
    try:
        found = read_faults(annotations_of(node).get(FAULTS))
    except ValueError as error:
        raise ValueError(f"metadata.annotations[{FAULTS}]: {error}") from None
    for chip in found.chips:
        if not 0 <= chip < chips:
            raise ValueError(f"metadata.annotations[{FAULTS}]: the node has no chip {chip}")
    return found


def node_manifest(machine: Machine, ready: Json, *, taint: bool = False) -> Json:
    """The Node to create. ``ready``: its conditions; ``taint``: only Pods that tolerate the taint get onto it."""
    family = machine.family
    annotations = {INDEX: str(machine.index), BASE_DEVICE_INFOS: base_devices(machine)}
    if machine.division:
        annotations[VNPU] = machine.division
    if machine.super_pod != UNSUPPORTED:
        annotations |= {"superPodID": str(machine.super_pod), "serverIndex": str(machine.server)}
    amounts = {**_GENERAL, **{name: str(amount) for name, amount in machine.amounts(set()).items()}}
    return {
        "apiVersion": NODE.api_version,
        "kind": NODE.name,
        "metadata": {
            "name": machine.name,
            "labels": {
                FAMILY: family.name,
                "kubernetes.io/hostname": machine.name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "arm64",
                "type": "kwok",
                "workerselector": "dls-worker-node",
                "host-arch": "huawei-arm",
                **family.labels,
            },
            "annotations": annotations,
        },
        "spec": {"taints": [{"key": FAMILY, "value": family.name, "effect": "NoSchedule"}]} if taint else {},
        "status": {
            "capacity": dict(amounts),
            "allocatable": amounts,
            "addresses": [
                {"type": "InternalIP", "address": machine.address},
                {"type": "Hostname", "address": machine.name},
            ],
            "nodeInfo": dict.fromkeys(
                ("machineID", "systemUUID", "bootID", "kernelVersion", "containerRuntimeVersion", "kubeProxyVersion"),
                "",
            )
            | {
                "osImage": "simulated",
                "kubeletVersion": "simulated",
                "operatingSystem": "linux",
                "architecture": "arm64",
            },
            **ready,
        },
    }


def base_devices(machine: Machine) -> str:
    """The annotation ``BASE_DEVICE_INFOS``: the chips, with their addresses."""
    devices = {
        name: {"IP": machine.chip_address(chip), "SuperDeviceID": _super_device(machine, chip)}
        for chip, name in enumerate(machine.family.chip_names)
    }
    return json.dumps(devices, separators=(",", ":"))


def resources_of(machine: Machine) -> list[str]:
    """The resources that the device plugin of a node offers."""
    return list(machine.amounts(set()))


def _super_device(machine: Machine, chip: int) -> int:
    """The number of a chip in its super pod."""
    return chip + max(machine.server, 0) * machine.family.chips


def _number(annotations: Mapping[str, str], key: str, limit: int) -> int:
    number = whole_number(annotations.get(key, ""))
    if number is None or number >= limit:
        raise ValueError(f"metadata.annotations[{key}]: {annotations.get(key)!r:.66} is not a number below {limit}")
    return number
