"""The parts of a node's cards that Pods hold, determined from annotations that may be forged.

Users who may edit a Pod can write anything into the annotations that list its cards. The annotations that the scheduler
bound the Pod with therefore count in any case; a Pod never counts with more than it requests; and where no annotation
can be trusted, a Pod counts with its request on every card of its node.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from msgspec import structs
from msgspec.structs import replace

from scheduler.api.names import EVENT_DEVICES_DISAGREE
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.reasons import Malformed
from scheduler.api.task import MAX_EARLIER, Task, TaskClass
from scheduler.plugins.deviceshare.cards import Cards, CardUse, Grant
from scheduler.plugins.deviceshare.containers import aligned
from scheduler.plugins.deviceshare.family import DeviceFamily, FamilyInventory


class FamilyClaims:
    """The requests of task classes to one family."""

    def __init__(self, family: DeviceFamily[Any]) -> None:
        self.family = family
        self._of_class: dict[int, Any] = {}

    def of(self, cls: TaskClass) -> Any:
        """The request of a class; None if it requests no device of the family."""
        if cls.id not in self._of_class:
            self._of_class[cls.id] = self.family.claim(cls)
        return self._of_class[cls.id]


def read_holdings(
    claims: FamilyClaims, node: Node, source: ConfigMap | None, tasks: Sequence[Task], since: float
) -> FamilyInventory:
    """Returns the cards of a node and what Pods hold of them. ``since``: Unix time from which on bindings are
    recorded."""
    family = claims.family
    bound = [_with_bound_annotations(task) for task in tasks]
    inventory = family.read(node, source, bound)
    annotated = inventory.grants if bound == list(tasks) else family.read(node, source, tasks).grants
    grants, problems = {}, list(inventory.problems)
    for task, known in zip(tasks, bound, strict=True):
        claim, cards = claims.of(task.cls), inventory.cards
        bound_grant = _aligned(family, claim, cards, inventory.grants.get(task.uid, ()))
        annotated_grant = _aligned(family, claim, cards, annotated.get(task.uid, ()))
        if claim is None:
            believed: Grant = ()
        elif task.unproven(since) or len(task.earlier) == MAX_EARLIER:
            grants[task.uid] = _on_every_card(family, claim, cards)
            problems.append(
                _disagreement(
                    task,
                    f"asked for {claim.description}; nothing says which cards of node {task.node} it has: its "
                    "binding has no record that the scheduler signed, or its annotations were changed too often",
                    "it counts with what it asked for on every card there while it exists",
                )
            )
            continue
        else:
            believed = _limit_to_claim(family, claim, cards, annotated_grant)
            before = [
                _limit_to_claim(family, claim, cards, grant)
                for grant in _earlier(family, claim, cards, node, source, task)
            ]
            candidates = [bound_grant if known is not task else believed, believed, *before]
            grants[task.uid] = _together(dict.fromkeys(candidates))
        if known is not task and annotated_grant != bound_grant:
            problems.append(
                _disagreement(
                    task,
                    f"bound to node {task.node} with {_description(inventory, bound_grant)}, annotated with "
                    f"{_description(inventory, annotated_grant)}",
                    "both count while it exists",
                )
            )
        elif annotated_grant != believed:
            wanted = "nothing" if claim is None else claim.description
            problems.append(
                _disagreement(
                    task,
                    f"asked for {wanted} of {family.title}; annotated with {_description(inventory, annotated_grant)}",
                    "what is beyond that is ignored",
                )
            )
    return replace(inventory, grants={uid: grant for uid, grant in grants.items() if grant}, problems=tuple(problems))


def _with_bound_annotations(task: Task) -> Task:
    """Returns the task with the annotations that the scheduler bound it with."""
    devices = {} if task.record is None else task.record.chips
    if all(task.annotations.get(key) == value for key, value in devices.items()):
        return task
    return structs.replace(task, annotations={**task.annotations, **devices})


def _aligned(family: DeviceFamily[Any], claim: Any, cards: Cards, listed: Grant) -> Grant:
    """What an annotation gives to each container with a request."""
    return aligned(family.upper_bounds(claim, cards[0]), listed) if listed and claim is not None else listed


def _earlier(
    family: DeviceFamily[Any], claim: Any, cards: Cards, node: Node, source: ConfigMap | None, task: Task
) -> Iterator[Grant]:
    """Yields what the Pod holds according to earlier values of its annotations."""
    for key, value in task.earlier:
        once = structs.replace(task, annotations={**task.annotations, key: value})
        yield _aligned(family, claim, cards, family.read(node, source, (once,)).grants.get(task.uid, ()))


def _limit_to_claim(family: DeviceFamily[Any], claim: Any, cards: Cards, grant: Grant) -> Grant:
    """Limits a grant to what the claim requests."""
    result = []
    for number, uses in enumerate(grant):
        kept: list[CardUse] = []
        for use in uses:
            requests = family.upper_bounds(claim, cards[use.card])
            if number < len(requests) and len(kept) < requests[number].number:
                request = requests[number]
                memory = use.memory if use.part is not None else min(use.memory, request.memory)
                kept.append(use._replace(memory=memory, cores=min(use.cores, request.cores)))
        result.append(tuple(kept))
    return tuple(result)


def _together(grants: Iterable[Grant]) -> Grant:
    """All that the grants give to each container."""
    return tuple(
        tuple(use for uses in of_container for use in uses) for of_container in zip_longest(*grants, fillvalue=())
    )


def _on_every_card(family: DeviceFamily[Any], claim: Any, cards: Cards) -> Grant:
    return _together(
        tuple((CardUse(i, request.memory, request.cores),) for request in family.upper_bounds(claim, card))
        for i, card in enumerate(cards)
    )


def _description(inventory: FamilyInventory, grant: Grant) -> str:
    """Formats a grant for messages: ``GPU-1 (memory 4000, cores 40)``."""
    uses = [use for uses in grant for use in uses]
    listed = (f"{inventory.names[use.card]} (memory {use.reported_memory}, cores {use.cores})" for use in uses)
    return ", ".join(listed) or "none"


def _disagreement(task: Task, what: str, consequence: str) -> Malformed:
    field = "metadata.annotations"
    return Malformed("Pod", task.namespace, task.name, field, what, consequence, EVENT_DEVICES_DISAGREE, uid=task.uid)
