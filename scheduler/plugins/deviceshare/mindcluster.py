"""Virtual NPUs that MindCluster's device plugin creates on Ascend 310P chips on demand.

A Pod requests AI cores (``huawei.com/npu-core``). A multiple of a chip's cores means whole chips. Fewer cores mean a
template, which the number of cores and the Pod's labels determine (``npu_templates``). The device plugin reports the
virtual NPU in the Pod's annotation ``huawei.com/AscendReal``. It ignores init containers.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from operator import add
from typing import Any, Final

import msgspec

from scheduler.api.names import (
    ACCELERATOR,
    ASCEND_310P,
    ASCEND_REAL,
    DEVICE_INFO_CONFIGMAP_PREFIX,
    DEVICE_INFO_KEY,
    DEVICE_INFO_NAMESPACE,
    NPU_CORE,
    NPU_JOB_KIND,
    PREDICATE_TIME,
    SERVER_TYPE,
    UNHEALTHY_SUFFIX,
    VNPU_DVPP,
    VNPU_LEVEL,
)
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.pod_amounts import effective_total
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task, TaskClass
from scheduler.plugins.deviceshare.cards import (
    MAX_CARDS,
    UNLIMITED,
    Card,
    CardPlacement,
    CardRequests,
    Cards,
    CardUse,
    ContainerRequest,
    Grant,
    Part,
)
from scheduler.plugins.deviceshare.containers import peak_limit, unserved_init_containers
from scheduler.plugins.deviceshare.family import DeviceFamily, FamilyInventory, limit_of, limit_or_request, pod_problem
from scheduler.plugins.deviceshare.npu_templates import (
    CPUS,
    CUTTING,
    HIGH,
    NO,
    NULL,
    TEMPLATES,
    WHOLE,
    YES,
    place,
    template_for,
)
from scheduler.plugins.support.device_info import DeviceInfoError, device_info
from scheduler.plugins.support.predicate_times import NodeTimes

KIND: Final = "Ascend310P"
JOB_KIND: Final = "ascend-310P"
_CHIP: Final = re.compile(rf"{KIND}-(0|[1-9][0-9]{{0,2}})")
_VGROUP: Final = re.compile(r".*_([0-9]{1,3})", re.DOTALL)


class CoreClaim(msgspec.Struct, frozen=True):
    """A request for AI cores."""

    cores: int
    template: str
    """The template for fewer cores than a chip has; "" if no template has this number of cores."""
    problem: str = ""
    unserved: str = ""
    """Why the device plugin cannot serve the Pods, or ""."""

    @property
    def description(self) -> str:
        if self.problem or not self.template:
            return self.problem or f"{KIND} chips with {self.cores} AI cores free"
        return f"{KIND} chips with {self.cores} AI cores free for template {self.template}"


def core_claim(cls: TaskClass) -> CoreClaim | None:
    """Returns the request of a class for AI cores of Ascend 310P chips; None if it requests none."""
    if cls.labels.get(NPU_JOB_KIND) != JOB_KIND:
        return None
    amounts = [limit_of(container, NPU_CORE) for container in cls.spec.containers]
    unserved = unserved_init_containers(cls.spec, NPU_CORE)
    cores = peak_limit(cls.spec, NPU_CORE) if unserved else next((amount for amount in amounts if amount), 0)
    if not cores:
        return None
    dvpp = cls.labels.get(VNPU_DVPP, NULL)
    if dvpp not in (YES, NO, NULL):
        return CoreClaim(cores, "", f"chips for a label {VNPU_DVPP} that is not yes, no or null: {dvpp[:64]!r}")
    return CoreClaim(cores, template_for(cores, cls.labels.get(VNPU_LEVEL) == HIGH, dvpp), unserved=unserved)


class MindClusterNpu(DeviceFamily[CoreClaim]):
    """The family of virtual NPUs on Ascend 310P chips."""

    name = "ascend310p-vNPU"
    title = f"{KIND} chips"
    config_map_prefix = f"{DEVICE_INFO_NAMESPACE}/{DEVICE_INFO_CONFIGMAP_PREFIX}"

    def __init__(self, times: NodeTimes) -> None:
        self._times = times

    @property
    def key(self) -> Hashable:
        return self.name

    # --- Pods ---
    def claim(self, cls: TaskClass) -> CoreClaim | None:
        return core_claim(cls)

    def annotations(
        self, task: Task, claim: CoreClaim, node: Node, inventory: FamilyInventory, grant: Grant
    ) -> dict[str, str]:
        (uses,) = grant
        part = uses[0].part
        chips = ",".join(inventory.names[use.card] for use in uses)
        cut = f"-{part.name}" if part is not None and part.name != WHOLE else ""
        return {PREDICATE_TIME: self._times.next(node.metadata.name), NPU_CORE: f"{chips}{cut}"}

    # --- nodes ---
    def has(self, node: Node) -> bool:
        labels = node.metadata.labels or {}
        return cores_per_chip(labels) > 0 and labels.get(ACCELERATOR, "").partition("-")[2] == KIND

    def read(self, node: Node, source: ConfigMap | None, tasks: Sequence[Task]) -> FamilyInventory:
        cores = cores_per_chip(node.metadata.labels or {})
        problems: list[Malformed] = []
        listed, broken = _lists(node, source, problems)
        chip = Card(UNLIMITED, CPUS, cores)
        held = {task.uid: _held(task, chip, problems) for task in tasks if NPU_CORE in task.annotations}
        unusable = broken.union(*map(_assigned_whole, tasks))
        there = sorted({*listed, *(use.card for uses in held.values() for use in uses)})[:MAX_CARDS]
        places = {number: i for i, number in enumerate(there)}
        return FamilyInventory(
            tuple(chip._replace(slots=0) if number in unusable else chip for number in there),
            tuple(map(str, there)),
            {
                uid: (tuple(u._replace(card=places[u.card]) for u in uses if u.card in places),)
                for uid, uses in held.items()
            },
            tuple(problems),
            unhealthy={places[number]: f"{KIND}-{number}" for number in sorted(broken & places.keys())},
        )

    def upper_bounds(self, claim: CoreClaim, card: Card) -> CardRequests:
        template = TEMPLATES.get(claim.template)
        if template is not None and claim.cores < card.cores:
            return (ContainerRequest(1, template.cpus, template.cores),)
        return (ContainerRequest(max(claim.cores // card.cores, 1), card.memory, card.cores),)

    def place(self, cards: Cards, claim: CoreClaim, eligible: int) -> CardPlacement | None:
        return None if claim.problem or claim.unserved else place(cards, claim.cores, claim.template)


def cores_per_chip(labels: Mapping[str, str]) -> int:
    """Returns the cores per chip from a label such as ``Ascend310P-8`` or ``Ascend310P-10-dual``; 0 if there are
    none."""
    fields = labels.get(SERVER_TYPE, "").split("-")
    text = fields[1] if len(fields) > 1 else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 4 else 0


def _lists(node: Node, source: ConfigMap | None, problems: list[Malformed]) -> tuple[list[int], set[int]]:
    """Returns the listed and the unhealthy chips, from the device plugin's ConfigMap, or from the Node's
    annotations."""
    lists: Mapping[str, Any] = node.metadata.annotations or {}
    where = ("Node", "", node.metadata.name, "metadata.annotations")
    if source is not None:
        meta = source.metadata
        origin = ("ConfigMap", meta.namespace, meta.name, f"data[{DEVICE_INFO_KEY}]")
        try:
            lists, where = device_info((source.data or {}).get(DEVICE_INFO_KEY, "")).lists, origin
        except DeviceInfoError as error:
            problems.append(Malformed(*origin, str(error)))
    listed, broken = (
        _chips(lists.get(key, ""), (*where[:3], f"{where[3]}[{key}]"), problems)
        for key in (ASCEND_310P, ASCEND_310P + UNHEALTHY_SUFFIX)
    )
    return listed, set(broken)


def _chips(text: object, where: tuple[str, str, str, str], problems: list[Malformed]) -> list[int]:
    if not isinstance(text, str):
        problems.append(Malformed(*where, f"a comma-separated list is wanted, not {type(text).__name__}"))
        return []
    names = [name for name in text.split(",") if name]
    found = [int(match.group(1)) for name in names if (match := _CHIP.fullmatch(name))]
    if len(found) < len(names):
        problems.append(Malformed(*where, f"{text[:64]!r} is not a list of chips, as {KIND}-0,{KIND}-1 is"))
    return found


def _held(task: Task, chip: Card, problems: list[Malformed]) -> tuple[CardUse, ...]:
    """Returns what a Pod holds. ``CardUse.card`` is the number of the chip."""
    text = task.annotations[NPU_CORE]
    real = task.annotations.get(ASCEND_REAL, "")
    chips, _, name = text.partition("-")
    numbers = chips.split(",")
    template = TEMPLATES.get(name)
    if not all(n.isascii() and n.isdecimal() and len(n) < 4 for n in numbers) or (name and template is None):
        problems.append(
            pod_problem(task, NPU_CORE, f"{text[:64]!r} is neither chips, as 0,1 is, nor a part, as 0-vir01 is")
        )
        return ()
    if template is None:
        return tuple(CardUse(int(n), chip.memory, chip.cores, Part(WHOLE)) for n in numbers)
    group = _VGROUP.fullmatch(real)
    part = Part(name, state="" if real else CUTTING, group=-1 if group is None else int(group.group(1)))
    return (CardUse(int(numbers[0]), template.cpus, template.cores, part),)


def _assigned_whole(task: Task) -> set[int]:
    """Returns the chips that a Pod has by their own resource: those of its annotation and of the record of its binding.
    Lists of more chips than it requests are ignored."""
    spec = task.cls.spec
    requested = effective_total(
        spec.containers, spec.init_containers, lambda c: limit_or_request(c, ASCEND_310P) or 0, 0, add, max
    )
    if not requested:
        return set()
    recorded = "" if task.record is None else task.record.chips.get(ASCEND_310P, "")
    lists = [text.split(",") for text in (recorded, task.annotations.get(ASCEND_310P, ""))]
    names = [name for listed in lists if len(listed) <= requested for name in listed]
    return {int(match.group(1)) for name in names if (match := _CHIP.fullmatch(name))}
