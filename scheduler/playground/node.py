"""A simulated node: what it is, read from its Node, and the Node to create for it."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from scheduler.api.names import HUAWEI_PREFIX, NPU_CORE
from scheduler.playground.families import DYNAMIC, FAMILIES, NodeFamily, Template, division_problem
from scheduler.playground.faults import Faults, read_faults
from scheduler.playground.holdings import FIRST_ID
from scheduler.playground.names import FAMILY, FAULTS, INDEX, VNPU
from scheduler.playground.objects import NODE, Json, SimulatedNode, annotations_of, whole_number

UNSUPPORTED: Final = -2
"""The super pod of a node that is in none."""
_GENERAL: Final = {"cpu": "192", "memory": "1536Gi", "ephemeral-storage": "2Ti", "pods": "110"}
_MAX_NODES: Final = 1 << 14


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

    @property
    def address(self) -> str:
        return f"192.168.{self.index // 250}.{self.index % 250 + 1}"

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
    indexes = (index for index in range(_MAX_NODES) if str(index) not in taken)
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
                raise ValueError(f"more than {_MAX_NODES} nodes cannot be simulated")
            in_pod = (
                {"super_pod": first + i // super_pod_size, "server": i % super_pod_size} if family.super_pods else {}
            )
            found.append(Machine(name, family, index, division, **in_pod))
        first += pods_of_family
    return found


def machine_of(node: SimulatedNode) -> Machine:
    """Reads what a Node is. Raises ValueError, with the field and the problem."""
    labels, annotations = node.metadata.labels or {}, annotations_of(node)
    family = FAMILIES.get(labels.get(FAMILY, ""))
    if family is None:
        raise ValueError(f"metadata.labels[{FAMILY}]: no family {labels.get(FAMILY, '')!r}")
    division = annotations.get(VNPU, "")
    if problem := division_problem(family, division):
        raise ValueError(f"metadata.annotations[{VNPU}]: {problem}")
    return Machine(
        name=node.metadata.name,
        family=family,
        index=_number(annotations, INDEX, _MAX_NODES),
        division=division,
        super_pod=_number(annotations, "superPodID", 1 << 31) if "superPodID" in annotations else UNSUPPORTED,
        server=_number(annotations, "serverIndex", 1 << 31) if "serverIndex" in annotations else UNSUPPORTED,
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
    base = {
        name: {"IP": machine.chip_address(chip), "SuperDeviceID": _super_device(machine, chip)}
        for chip, name in enumerate(family.chip_names)
    }
    annotations = {INDEX: str(machine.index), "baseDeviceInfos": json.dumps(base, separators=(",", ":"))}
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


def resources_of(machine: Machine) -> list[str]:
    """The resources that the device plugin of a node offers."""
    return [name for name in machine.amounts(set()) if name.startswith(HUAWEI_PREFIX)]


def _super_device(machine: Machine, chip: int) -> int:
    """The number of a chip in its super pod."""
    return chip + max(machine.server, 0) * machine.family.chips


def _number(annotations: Mapping[str, str], key: str, limit: int) -> int:
    number = whole_number(annotations.get(key, ""))
    if number is None or number >= limit:
        raise ValueError(f"metadata.annotations[{key}]: {annotations.get(key)!r:.66} is not a number below {limit}")
    return number
