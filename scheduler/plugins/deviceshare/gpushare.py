"""GPUs shared by memory (``volcano.sh/gpu-memory``), or allocated whole (``volcano.sh/gpu-number``).

This is Volcano's oldest GPU sharing: a node reports the number of its GPUs and the sum of their memory in its capacity,
and an annotation lists the indexes of a Pod's GPUs. The requests of containers are added up.

The device plugin ignores init containers, so that the kubelet would not admit a Pod with an init container that
requests GPUs. Such Pods of other schedulers count with the most that they request at once.
"""

from collections.abc import Hashable, Sequence

import msgspec

from scheduler.api.names import GPU_INDEX, GPU_MEMORY, GPU_NODE_LOCK, GPU_NUMBER, GPU_PREDICATE_TIME, GPU_UNHEALTHY_IDS
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.quantity import QuantityError, parse_quantity
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
    fits,
)
from scheduler.plugins.deviceshare.containers import peak_limit, unserved_init_containers
from scheduler.plugins.deviceshare.family import DeviceFamily, FamilyInventory, node_problem, pod_problem, pod_room
from scheduler.plugins.support.predicate_times import NodeTimes


class GpuClaim(msgspec.Struct, frozen=True):
    """An amount of memory on one GPU, or a number of whole GPUs."""

    memory: int = 0
    number: int = 0
    unserved: str = ""
    """Why the device plugin cannot serve the Pods, or ""."""

    @property
    def description(self) -> str:
        if self.memory:
            return f"GPU with {self.memory} {GPU_MEMORY} free"
        return "idle GPU" if self.number == 1 else f"{self.number} idle GPUs"


class GpuShare(DeviceFamily[GpuClaim]):
    """The family of GPUs shared by memory, or allocated by number (``whole``)."""

    name = "GpuShare"
    title = "GPUs"

    def __init__(self, times: NodeTimes, *, whole: bool, locks: bool) -> None:
        self.whole = whole
        self.lock = GPU_NODE_LOCK if locks and not whole else ""
        self._times = times

    @property
    def key(self) -> Hashable:
        return self.name, self.whole

    def claim(self, cls: TaskClass) -> GpuClaim | None:
        name = GPU_NUMBER if self.whole else GPU_MEMORY
        amount, unserved = peak_limit(cls.spec, name), unserved_init_containers(cls.spec, name)
        if not amount:
            return None
        return GpuClaim(number=amount, unserved=unserved) if self.whole else GpuClaim(amount, unserved=unserved)

    def has(self, node: Node) -> bool:
        return bool(_capacity(node, GPU_NUMBER)) and _capacity(node, GPU_MEMORY) is not None

    def read(self, node: Node, source: ConfigMap | None, tasks: Sequence[Task]) -> FamilyInventory:
        problems: list[Malformed] = []
        number, memory = _capacity(node, GPU_NUMBER) or 0, _capacity(node, GPU_MEMORY) or 0
        if number > MAX_CARDS:
            problems.append(
                Malformed(
                    "Node", "", node.metadata.name, f"status.capacity[{GPU_NUMBER}]", f"more than {MAX_CARDS} GPUs"
                )
            )
            number = MAX_CARDS
        card = Card(1, 0, 0) if self.whole else Card(UNLIMITED, memory // max(number, 1), 0)
        broken = set(_unhealthy(node, problems))
        cards = tuple(card._replace(slots=0) if i in broken else card for i in range(number))
        grants = {task.uid: self._held(task, number, problems) for task in tasks}
        names = tuple(map(str, range(number)))
        return FamilyInventory(
            cards,
            names,
            {uid: grant for uid, grant in grants.items() if grant},
            tuple(problems),
            unhealthy={i: f"GPU {i}" for i in sorted(broken) if i < number},
        )

    def _held(self, task: Task, number: int, problems: list[Malformed]) -> Grant:
        text = task.annotations.get(GPU_INDEX)
        if text is None:
            return ()
        memory = peak_limit(task.cls.spec, GPU_MEMORY)
        if not memory and not peak_limit(task.cls.spec, GPU_NUMBER):
            return ()
        indexes = _indexes(text)
        if indexes is None:
            problems.append(pod_problem(task, GPU_INDEX, f"{text[:64]!r} is not a list of GPUs, as 0,1 is"))
            return ()
        return (tuple(CardUse(i, 0 if self.whole else memory) for i in indexes if i < number),)

    def upper_bounds(self, claim: GpuClaim, card: Card) -> CardRequests:
        return (ContainerRequest(claim.number or 1, claim.memory),)

    def place(self, cards: Cards, claim: GpuClaim, eligible: int) -> CardPlacement | None:
        if claim.unserved:
            return None
        wanted = claim.number or 1
        uses = [CardUse(i, claim.memory) for i, card in enumerate(cards) if fits(card, claim.memory, 0)][:wanted]
        return CardPlacement((tuple(uses),)) if len(uses) == wanted else None

    def room(self, cards: Cards, claim: GpuClaim, eligible: int, exclusive: bool) -> int:
        if claim.unserved:
            return 0
        request = ContainerRequest(claim.number or 1, claim.memory)
        return pod_room(cards, request, range(len(cards)), exclusive=exclusive)

    def annotations(
        self, task: Task, claim: GpuClaim, node: Node, inventory: FamilyInventory, grant: Grant
    ) -> dict[str, str]:
        return {
            GPU_PREDICATE_TIME: self._times.next(node.metadata.name),
            GPU_INDEX: ",".join(str(use.card) for uses in grant for use in uses),
        }


def _capacity(node: Node, name: str) -> int | None:
    quantity = (node.status.capacity or {}).get(name)
    try:
        return None if quantity is None else max(parse_quantity(quantity), 0)
    except QuantityError:  # reported where the amounts are read
        return None


def _unhealthy(node: Node, problems: list[Malformed]) -> list[int]:
    text = (node.metadata.annotations or {}).get(GPU_UNHEALTHY_IDS)
    if not text:
        return []
    parts = text.split(",")
    known = [int(part) for part in parts if _is_index(part)]
    if len(known) < len(parts):
        problems.append(node_problem(node, GPU_UNHEALTHY_IDS, f"{text[:64]!r} is not a list of GPUs, as 0,1 is"))
    return known


def _indexes(text: str) -> list[int] | None:
    parts = text.split(",")
    return [int(part) for part in parts] if all(map(_is_index, parts)) and len(parts) <= MAX_CARDS else None


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10
