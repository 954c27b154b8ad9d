"""Readings of nodes, kept with the very objects they were made of: what did not change is not read again."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from scheduler.api.node import NodeFacts
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task, TaskStatus
from scheduler.plugins.deviceshare.cards import Cards, Grant, charge
from scheduler.plugins.deviceshare.family import Family, Inventory

_SPARE: Final = 1000
"""How many readings of nodes that may be gone are kept before anyone looks."""

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
    """Once those that terminate are gone."""


class _Known(NamedTuple):
    """What was made of a node, and of which objects."""

    node: Node
    source: ConfigMap | None
    tasks: tuple[Task, ...]
    key: Hashable
    reading: Reading


_known: dict[tuple[str, str], _Known] = {}
"""(family, node name) -> the last reading. Those of nodes that are gone are dropped once they outnumber the rest."""
_rows: dict[str, tuple[NodeFacts, Hashable, list[int]]] = {}
"""Family -> the rows of the nodes that have devices of it, and what that was found of."""


def read_nodes(snapshot: Snapshot, family: Family[Any]) -> tuple[dict[int, Reading], list[Malformed]]:
    """Row -> the reading of each node that has devices of a family, and the problems not told of at an earlier one."""
    facts, tasks_of, config_maps = snapshot.nodes.facts, snapshot.chips, snapshot.config_maps
    readings: dict[int, Reading] = {}
    fresh: list[Malformed] = []
    for row in _rows_of(family, facts):
        node = facts.objects[row]
        name = facts.names[row]
        known = _known.get((family.name, name))
        source, tasks = family.source(name, config_maps), tasks_of.get(name, ())
        now = (node, source, tasks, family.key)
        if known is None or any(a is not b for a, b in zip(known[:3], now[:3], strict=True)) or known.key != now[3]:
            told = known.reading.inventory.problems if known is not None else ()
            known = _known[family.name, name] = _Known(*now, _read(family, node, source, tasks))
            fresh += [problem for problem in known.reading.inventory.problems if problem not in told]
        readings[row] = known.reading
    if len(_known) > 2 * len(facts) + _SPARE:
        for key in [key for key in _known if key[1] not in facts.index]:
            del _known[key]
    return readings, fresh


def _rows_of(family: Family[Any], facts: NodeFacts) -> list[int]:
    found = _rows.get(family.name)
    if found is None or found[0] is not facts or found[1] != family.key:
        rows = [row for row, node in enumerate(facts.objects) if family.has(node)]
        found = _rows[family.name] = (facts, family.key, rows)
    return found[2]


def _read(family: Family[Any], node: Node, source: ConfigMap | None, tasks: Iterable[Task]) -> Reading:
    there = {task.uid: task for task in tasks}
    inventory = family.read(node, source, tuple(there.values()))
    now = later = inventory.cards
    for uid, grant in inventory.grants.items():
        now = charge(now, grant)
        if there[uid].status is not TaskStatus.RELEASING:
            later = charge(later, grant)
    holders = {uid: (there[uid], grant) for uid, grant in inventory.grants.items()}
    return Reading(inventory, holders, now, later)
