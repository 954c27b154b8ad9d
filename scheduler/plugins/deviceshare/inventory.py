"""The cards of one family of devices on each node, and what Pods hold of them, at the start of a session."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scheduler.api.node import NodeFacts
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.readings import Readings
from scheduler.plugins.deviceshare.cards import Cards, Grant, charge
from scheduler.plugins.deviceshare.family import Family, Inventory
from scheduler.plugins.deviceshare.holdings import read_holdings

Holders = Mapping[str, tuple[Task, Grant]]
"""uid -> a Pod on a node and what it holds there."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node at the start of a session."""

    inventory: Inventory
    holders: Holders
    now: Cards
    """The cards with what all Pods on the node use."""
    later: Cards
    """The cards after terminating Pods are deleted; the same object if none terminates."""


@dataclass(slots=True)
class _FamilyCache:
    """What the last session read of one family."""

    key: Hashable
    node_states: Readings[str, NodeState] = field(default_factory=Readings)
    """Keyed by the name of the node."""
    facts: NodeFacts | None = None
    rows: list[int] = field(default_factory=list)
    """The rows in ``facts`` of the nodes that have devices of the family."""


_family_caches: dict[str, _FamilyCache] = {}
"""Keyed by the name of the family."""


def read_nodes(snapshot: Snapshot, family: Family[Any]) -> dict[int, NodeState]:
    """Returns row -> the state of each node that has devices of a family."""
    facts, tasks_of, config_maps = snapshot.nodes.facts, snapshot.chips, snapshot.config_maps
    since = snapshot.signed_since
    cached = _family_caches.get(family.name)
    if cached is None or cached.key != family.key:
        cached = _family_caches[family.name] = _FamilyCache(family.key)
    if cached.facts is not facts:
        cached.facts, cached.rows = facts, [row for row, node in enumerate(facts.objects) if family.has(node)]
    names = facts.names
    sources = {
        names[row]: (facts.objects[row], family.source(names[row], config_maps), tasks_of.get(names[row], ()), since)
        for row in cached.rows
    }
    node_states = cached.node_states.of(sources.items(), lambda name: _read(family, *sources[name]))
    return dict(zip(cached.rows, node_states.values(), strict=True))


def _read(family: Family[Any], node: Node, source: ConfigMap | None, tasks: Iterable[Task], since: float) -> NodeState:
    there = {task.uid: task for task in tasks}
    inventory = read_holdings(family, node, source, tuple(there.values()), since)
    holders = {uid: (there[uid], grant) for uid, grant in inventory.grants.items()}
    now = inventory.cards
    for _, grant in holders.values():
        now = charge(now, grant)
    later = now
    for task, grant in holders.values():
        if task.status is TaskStatus.RELEASING:
            later = charge(later, grant, -1)
    return NodeState(inventory, holders, now, later)
