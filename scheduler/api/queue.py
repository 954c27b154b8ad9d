"""The scheduler's model of a queue, and the devices of ResourceClaims as amounts that limit queues.

Volcano names these amounts: ``deviceclass/<class>`` is a number of devices, ``<dimension>.deviceclass/<class>`` an
amount of their capacity. Only requests for an exact number count. The amount of a request with alternatives, or for all
devices, is not known before the allocation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.api.dra import EXACT_COUNT, ResourceClaimSpec
from scheduler.api.names import DEVICE_CAPACITY_QUOTA, DEVICE_CLASS_QUOTA, ROOT_QUEUE
from scheduler.api.objects import ResourceList
from scheduler.api.quantity import ExactAmount, parse_amount
from scheduler.api.resource import Vector
from scheduler.api.scheduling import QueueAffinity
from scheduler.api.task import Task

OPEN = "Open"
CLOSING = "Closing"
"""The queue admits no new PodGroups and still has some."""
CLOSED = "Closed"
UNKNOWN = "Unknown"
QUEUE_PHASES = ("pending", "inqueue", "running", "unknown", "completed")
"""The phases of PodGroups that are counted for each queue, in its status and in metrics."""
COUNTED_PHASE = {"": "pending"} | {phase.capitalize(): phase for phase in QUEUE_PHASES}
"""Phase of a PodGroup -> the phase as which it is counted; any other: ``unknown``."""


@dataclass(slots=True, eq=False)
class Queue:
    """A Queue object with its amounts as vectors. Plugins keep the amounts that they compute (share, allocated)."""

    name: str
    weight: int
    priority: int
    creation: float
    state: str
    """Open, Closed, Closing, Unknown or "" (not yet set by the queue controller; counts as open)."""
    reclaimable: bool
    parent: str
    capability: Vector
    """Upper bound; infinity for resources that are not listed."""
    has_capability: bool
    guarantee: Vector
    deserved: Vector
    """The deserved amount in the spec; 0 for resources that are not listed."""
    deserves: frozenset[str] = frozenset()
    """Resources with a deserved or guaranteed amount in the spec, even 0."""
    device_limits: dict[str, ExactAmount] = field(default_factory=dict)
    """``deviceclass/<class>`` and ``<dimension>.deviceclass/<class>`` of the capability."""
    affinity: QueueAffinity | None = None
    """The node groups that its Pods may use."""
    annotations: dict[str, str] = field(default_factory=dict)
    allocated: dict[str, str] = field(default_factory=dict)
    """status.allocated as the API server has it."""
    groups: dict[str, int] = field(default_factory=dict)
    """The numbers of PodGroups by phase in the status, as the API server has them."""
    cards: dict[str, dict[str, str]] = field(default_factory=dict)
    """status.cards as last written, or as on the API server before the first write. An API server with Volcano's
    resource definition does not store it."""
    shown_deserved: dict[str, str] | None = None
    """status.deserved, as ``cards``. None: there is none."""
    without_queue: dict[str, Any] | None = None
    """status.withoutQueue, as ``cards``. None: there is none."""

    @property
    def open(self) -> bool:
        return self.state in (OPEN, "")


def not_open_message(queue: Queue) -> str:
    """Why a queue that is not open takes no jobs."""
    return f"queue {queue.name} is {queue.state}: only an Open queue takes jobs"


def ancestors(queues: Mapping[str, Queue], name: str) -> list[str]:
    """Returns the ancestors of a queue, nearest first. A cycle or a missing parent ends the list. A queue that does not
    exist has no ancestors."""
    result: list[str] = []
    seen = {name}
    while name != ROOT_QUEUE and name in queues:
        name = queues[name].parent or ROOT_QUEUE
        if name in seen or name not in queues:
            break
        seen.add(name)
        result.append(name)
    return result


_UNIT = 10**9
Amounts = dict[str, ExactAmount]


def device_amounts(spec: ResourceClaimSpec) -> Amounts:
    """Returns the amounts of a claim. Raises QuantityError."""
    result: Amounts = {}
    for request in spec.devices.requests or ():
        ask = request.exactly
        if ask is None or ask.allocation_mode != EXACT_COUNT or not ask.device_class_name:
            continue
        number = max(ask.count, 1)
        add(result, {f"{DEVICE_CLASS_QUOTA}{ask.device_class_name}": ExactAmount(number * _UNIT)})
        for dimension, quantity in ((ask.capacity.requests if ask.capacity else None) or {}).items():
            name = f"{dimension}{DEVICE_CAPACITY_QUOTA}{ask.device_class_name}"
            add(result, {name: parse_amount(quantity) * number})
    return result


def device_limits(amounts: ResourceList | None) -> Amounts:
    """Returns the device amounts of a queue. Raises QuantityError, which names the resource."""
    return {name: parse_amount(amount) for name, amount in (amounts or {}).items() if device_class_of(name)}


def device_class_of(name: str) -> str:
    """Returns the DeviceClass in the name of an amount, or "" for other resources."""
    if name.startswith(DEVICE_CLASS_QUOTA):
        return name.removeprefix(DEVICE_CLASS_QUOTA)
    dimension, _, device_class = name.partition(DEVICE_CAPACITY_QUOTA)
    return device_class if dimension else ""


def add(sums: Amounts, amounts: Mapping[str, ExactAmount], sign: int = 1) -> None:
    """Adds amounts by name, or subtracts them with ``sign`` -1."""
    for name, amount in amounts.items():
        sums[name] = sums.get(name, ExactAmount(0)) + amount * sign


def claims_of(task: Task) -> list[str]:
    """The keys of the existing ResourceClaims of a Pod."""
    names = (
        entry.resource_claim_name or task.device_claims.get(entry.name) for entry in task.cls.spec.resource_claims or ()
    )
    return [f"{task.namespace}/{name}" for name in dict.fromkeys(names) if name]
