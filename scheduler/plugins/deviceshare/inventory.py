"""The cards of one family of devices on each node, and what Pods hold of them, at the start of a session.

Users who may edit a Pod can write anything into the annotations that list its cards. The annotations that the scheduler
bound the Pod with therefore count in any case; a Pod never counts with more than it requests; and where no annotation
can be trusted, a Pod counts with its request on every card of its node.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import compress, zip_longest
from operator import is_not
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import structs
from msgspec.structs import replace

from scheduler.api.names import EVENT_DEVICES_DISAGREE
from scheduler.api.node import Mask, NodeFacts, Rows
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import MAX_EARLIER, Task, TaskClass, TaskStatus
from scheduler.framework.kept_values import NodeReading, NodeValues, ObjectsByNode, node_columns
from scheduler.plugins.deviceshare.cards import Cards, CardUse, Grant, charge
from scheduler.plugins.deviceshare.containers import aligned
from scheduler.plugins.deviceshare.family import DeviceFamily, FamilyInventory


class FamilyClaims:
    """The requests of task classes to one family."""

    def __init__(self, family: DeviceFamily[Any]) -> None:
        self.family = family
        self._of_class: dict[int, Any] = {}

    def of(self, cls: TaskClass) -> Any:
        """Returns the request of a class; None if it requests no device of the family."""
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
    grants, problems, cards = {}, list(inventory.problems), inventory.cards
    for task, known in zip(tasks, bound, strict=True):
        claim = claims.of(task.cls)
        if claim is not None and (task.unproven(since) or len(task.earlier) == MAX_EARLIER):
            grants[task.uid] = _on_every_card(family, claim, cards)
            problems.append(_unknown(task, claim))
            continue
        bound_grant = _aligned(family, claim, cards, inventory.grants.get(task.uid, ()))
        annotated_grant = _aligned(family, claim, cards, annotated.get(task.uid, ()))
        believed = _limit_to_claim(family, claim, cards, annotated_grant) if claim is not None else ()
        if claim is not None:
            before = _earlier(family, claim, cards, node, source, task)
            limited = [_limit_to_claim(family, claim, cards, grant) for grant in before]
            first = bound_grant if known is not task else believed
            grants[task.uid] = _together(dict.fromkeys([first, believed, *limited]))
        if known is not task and annotated_grant != bound_grant:
            listed = _description(inventory, annotated_grant)
            what = f"bound to node {task.node} with {_description(inventory, bound_grant)}, annotated with {listed}"
            problems.append(_disagreement(task, what, "both count while it exists"))
        elif annotated_grant != believed:
            listed, wanted = _description(inventory, annotated_grant), "nothing" if claim is None else claim.description
            what = f"asked for {wanted} of {family.title}; annotated with {listed}"
            problems.append(_disagreement(task, what, "what is beyond that is ignored"))
    return replace(inventory, grants={uid: grant for uid, grant in grants.items() if grant}, problems=tuple(problems))


def _unknown(task: Task, claim: Any) -> Malformed:
    """Reports that nothing says which cards a Pod has."""
    what = (
        f"asked for {claim.description}; nothing says which cards of node {task.node} it has: its binding has no "
        "record that the scheduler signed, or its annotations were changed too often"
    )
    return _disagreement(task, what, "it counts with what it asked for on every card there while it exists")


def _with_bound_annotations(task: Task) -> Task:
    """Returns the task with the annotations that the scheduler bound it with."""
    devices = {} if task.record is None else task.record.chips
    if all(task.annotations.get(key) == value for key, value in devices.items()):
        return task
    return structs.replace(task, annotations={**task.annotations, **devices})


def _aligned(family: DeviceFamily[Any], claim: Any, cards: Cards, listed: Grant) -> Grant:
    """Returns what an annotation gives to each container with a request."""
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
    """Returns all that the grants give to each container."""
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


Holders = Mapping[str, tuple[Task, Grant]]
"""uid -> a Pod on a node and what it holds there."""


class NodeState(msgspec.Struct, frozen=True):
    """One node at the start of a session."""

    inventory: FamilyInventory
    holders: Holders
    now: Cards
    """The cards with what all Pods on the node use."""
    later: Cards
    """The cards after terminating Pods are deleted; the same object if none terminates."""


class FamilyNodes(msgspec.Struct, frozen=True):
    """The nodes that have devices of a family at the start of a session. Sessions share it."""

    states: Mapping[int, NodeState]
    """Row -> the state of the node."""
    has_devices: Mask
    """Shape (nodes,)."""
    in_use: frozenset[int]
    """The rows of the nodes of whose devices Pods hold a part."""
    unhealthy: frozenset[int]
    """The rows of the nodes with cards that are reported as unhealthy."""
    problems: tuple[Malformed, ...]
    kinds: tuple[NodeState, ...]
    """A node of each kind. Nodes are of one kind if they are equal but for the ids of their cards and their Pods."""
    kind: Rows
    """Shape (nodes,): the position of each node's kind in ``kinds``; -1: no devices."""


_FEW: Final = 256
"""Up to this number of kinds, those that no node has any more are kept."""
_NO_OBJECTS: Final[Mapping[str, object]] = {}


def read_nodes(snapshot: Snapshot, family: DeviceFamily[Any]) -> FamilyNodes:
    """Returns the nodes that have devices of a family. From one session to the next, only nodes with a changed object
    or a changed Pod with devices are read."""
    claims, since = FamilyClaims(family), snapshot.signed_since

    def read(row: int, node: Node, source: ConfigMap | None, tasks: tuple[Task, ...] | None) -> NodeState:
        return _read(claims, node, source, tasks or (), since)

    prefix = family.config_map_prefix
    reading = NodeReading(
        key=("deviceshare", family.name),
        rows=lambda: np.flatnonzero(_with_devices(snapshot, family)),
        sources=(ObjectsByNode(snapshot.config_maps if prefix else _NO_OBJECTS, prefix), ObjectsByNode(snapshot.chips)),
        make=read,
        constants=(since, family.key),
    )
    return node_columns(snapshot.memory, snapshot.nodes, reading, _nodes)


def _with_devices(snapshot: Snapshot, family: DeviceFamily[Any]) -> Mask:
    """Returns which nodes have devices of a family. Of the nodes of the last session, it reads only those that
    changed."""
    facts = snapshot.nodes.facts

    def compute(last: tuple[NodeFacts, Mask] | None) -> tuple[NodeFacts, Mask]:
        changed: Iterable[int] = range(len(facts))
        if last is not None and last[0].names is facts.names:
            before, mask = last[0].objects, last[1].copy()
            changed = compress(range(len(mask)), map(is_not, before, facts.objects))
        else:
            mask = np.zeros(len(facts), dtype=np.bool_)
        for row in changed:
            mask[row] = family.has(facts.objects[row])
        return facts, mask

    return snapshot.memory.memo(("deviceshare", "nodes", family.name), (facts,), compute, family.key)[1]


def _nodes(values: NodeValues[NodeState], number: int, before: FamilyNodes | None) -> FamilyNodes:
    """Returns the nodes of a family. ``number``: the number of all nodes; ``before``: the nodes of the values that
    these follow, if they are known."""
    rows, states = values.rows.tolist(), values.values
    problems = tuple(problem for state in states if state.inventory.problems for problem in state.inventory.problems)
    if before is not None:
        changed = {rows[i]: states[i] for i in values.changed}
        found, has_devices, kind = {**before.states, **changed}, before.has_devices, before.kind.copy()
        in_use = before.in_use - changed.keys() | {row for row, state in changed.items() if state.holders}
        unhealthy = before.unhealthy - changed.keys()
        kinds = {_kind(state): (i, state) for i, state in enumerate(before.kinds)}
    else:
        changed = found = dict(zip(rows, states, strict=True))
        has_devices, kind = np.zeros(number, dtype=np.bool_), np.full(number, -1, dtype=np.intp)
        has_devices[values.rows] = True
        has_devices.flags.writeable = False
        in_use = frozenset(row for row in rows if found[row].holders)
        unhealthy = frozenset()
        kinds = {}
    unhealthy |= {row for row, state in changed.items() if state.inventory.unhealthy}
    for row, state in changed.items():
        kind[row], _ = kinds.setdefault(_kind(state), (len(kinds), state))
    examples = tuple(state for _, state in kinds.values())
    if len(examples) > _FEW:
        used, kind[values.rows] = np.unique(kind[values.rows], return_inverse=True)
        examples = tuple(examples[i] for i in used.tolist())
    return FamilyNodes(found, has_devices, in_use, unhealthy, problems, examples, kind)


def _kind(state: NodeState) -> Hashable:
    inventory = state.inventory
    return inventory.cards, inventory.models, inventory.mode, state.now, state.later


def _read(claims: FamilyClaims, node: Node, source: ConfigMap | None, tasks: Iterable[Task], since: float) -> NodeState:
    there = {task.uid: task for task in tasks}
    inventory = read_holdings(claims, node, source, tuple(there.values()), since)
    holders = {uid: (there[uid], grant) for uid, grant in inventory.grants.items()}
    held = {uid: claims.family.held(claims.of(task.cls), grant) for uid, (task, grant) in holders.items()}
    now = inventory.cards
    for grant in held.values():
        now = charge(now, grant)
    later = now
    for uid, (task, _) in holders.items():
        if task.status is TaskStatus.RELEASING:
            later = charge(later, held[uid], -1)
    return NodeState(inventory, holders, now, later)
