"""What nodes have of one family of devices, and what Pods there have of it, at the start of a session."""

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
"""uid -> a Pod on a node and what it has there."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One node, as a session finds it."""

    inventory: Inventory
    holders: Holders
    now: Cards
    """Less what all Pods there have."""
    later: Cards
    """Once those that terminate are gone; the same object where none do."""


@dataclass(slots=True)
class _Memo:
    """What the last session knew of one family."""

    key: Hashable
    readings: Readings[str, Reading] = field(default_factory=Readings)
    """By name of the node."""
    facts: NodeFacts | None = None
    rows: list[int] = field(default_factory=list)
    """Of the nodes that have devices of the family, among those of ``facts``."""


_memos: dict[str, _Memo] = {}
"""By name of the family."""


def read_nodes(snapshot: Snapshot, family: Family[Any]) -> dict[int, Reading]:
    """Row -> the reading of each node that has devices of a family."""
    facts, tasks_of, config_maps = snapshot.nodes.facts, snapshot.chips, snapshot.config_maps
    since = snapshot.signed_since
    memo = _memos.get(family.name)
    if memo is None or memo.key != family.key:
        memo = _memos[family.name] = _Memo(family.key)
    if memo.facts is not facts:
        memo.facts, memo.rows = facts, [row for row, node in enumerate(facts.objects) if family.has(node)]
    names = facts.names
    sources = {
        names[row]: (facts.objects[row], family.source(names[row], config_maps), tasks_of.get(names[row], ()), since)
        for row in memo.rows
    }
    readings = memo.readings.of(sources.items(), lambda name: _read(family, *sources[name]))
    return dict(zip(memo.rows, readings.values(), strict=True))


def _read(family: Family[Any], node: Node, source: ConfigMap | None, tasks: Iterable[Task], since: float) -> Reading:
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
    return Reading(inventory, holders, now, later)
