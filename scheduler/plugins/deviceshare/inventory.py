"""The cards of one family of devices on each node, and what Pods hold of them, at the start of a session."""

from collections.abc import Hashable, Iterable, Mapping
from itertools import compress
from operator import is_not
from typing import Any, Final

import msgspec
import numpy as np

from scheduler.api.node import Mask, NodeFacts, Rows
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.node_values import NodeReading, NodeValues, ObjectsByNode, node_columns
from scheduler.plugins.deviceshare.cards import Cards, Grant, charge
from scheduler.plugins.deviceshare.family import DeviceFamily, FamilyInventory
from scheduler.plugins.deviceshare.holdings import FamilyClaims, read_holdings

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
    """``number``: of all nodes; ``before``: the nodes that these follow, if they are known."""
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
