"""Which devices are within reach of which node: pools put together from ResourceSlices, as kube-scheduler does it.

A driver publishes a pool in slices of one generation and says how many there are; until all of them are seen the pool
is incomplete and nothing is taken of it. A slice is for one node, for those a selector meets, for all, or says so
device by device. Pools come in the order of driver and name, slices and devices in the order of their names and lists:
the first that fits is taken, so drivers can say by names what is to go first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from scheduler.api import dra
from scheduler.api.node import NodeFacts
from scheduler.api.objects import NodeSelector
from scheduler.api.reasons import Malformed
from scheduler.api.selectors import nodes_of_terms
from scheduler.plugins.predicates.dynamic_resources.devices import (
    CounterKey,
    Device,
    DeviceId,
    PoolKey,
    Slice,
)


@dataclass(slots=True, eq=False)
class NodePools:
    """What one node, or several that see the very same, can take devices from."""

    devices: tuple[Device, ...]
    """In the order in which they are tried."""
    keys: tuple[PoolKey, ...]
    """The pools they are of."""
    incomplete: str = ""
    """A pool of which slices are missing (``driver/pool``), or ""."""
    invalid: str = ""
    """A pool that contradicts itself, and how, or ""."""
    chosen: dict[tuple[str, ...], tuple[Device, ...]] = field(default_factory=dict)
    """Expressions -> the devices that all of them select here; kept for those who ask again."""


Part = tuple[Slice, tuple[Device, ...]]
"""A slice, and which of its devices a node reaches."""


class Inventory:
    """All devices of a cluster."""

    def __init__(self, objects: Mapping[str, dra.ResourceSlice], facts: NodeFacts, known: "Inventory | None") -> None:
        """``known``: what was read before; slices that are the same objects are taken over from it."""
        self._objects = objects
        self._facts = facts
        before = known._slices if known is not None else {}
        self._slices: dict[int, tuple[dra.ResourceSlice, Slice]] = {}
        for obj in objects.values():
            kept = before.get(id(obj))
            self._slices[id(obj)] = kept if kept is not None and kept[0] is obj else (obj, Slice(obj))
        self.problems: list[Malformed] = []
        self._pools: dict[PoolKey, list[Slice]] = {}
        self._local: dict[str, list[Part]] = {}
        self._everywhere: list[Part] = []
        self._chosen: dict[int, list[Part]] = {}
        """Row -> what a selector, or the devices one by one, say is for that node."""
        for _, piece in self._slices.values():
            self.problems += [
                Malformed("ResourceSlice", "", piece.name, where, problem) for where, problem in piece.problems
            ]
            self._pools.setdefault(piece.pool_key, []).append(piece)
            self._spread(piece)
        self._counters: dict[PoolKey, Mapping[CounterKey, int]] = {}
        self._rows: dict[int, NodePools] = {}
        self._alike: dict[tuple[object, ...], NodePools] = {}
        self.by_id: dict[DeviceId, Device] = {}
        """The devices of every pool's newest generation."""
        self.wide: list[Device] = []
        """Those of them that more than one node can take, or that draw on counters of a pool on several nodes."""
        for slices in self._pools.values():
            self._index(slices)

    def of(self, objects: Mapping[str, dra.ResourceSlice], facts: NodeFacts) -> bool:
        """Whether this is the inventory of those very slices and nodes."""
        return self._objects is objects and self._facts is facts

    def counters(self, pool: PoolKey) -> Mapping[CounterKey, int]:
        """What the counters of a pool stand at when nothing is taken."""
        found = self._counters.get(pool)
        if found is None:
            slices = _newest(self._pools.get(pool, ()))
            found = self._counters[pool] = dict(chain.from_iterable(s.counters.items() for s in slices))
        return found

    def at(self, row: int) -> NodePools:
        """What the node of a row can take devices from."""
        pools = self._rows.get(row)
        if pools is None:
            parts = self._parts(row)
            key = tuple(
                (id(piece), *(map(id, devices) if len(devices) < len(piece.devices) else ()))
                for piece, devices in parts
            )
            pools = self._alike.get(key)
            if pools is None:
                pools = self._alike[key] = self._build(parts)
            self._rows[row] = pools
        return pools

    # --- reading ---
    def _index(self, slices: Sequence[Slice]) -> None:
        newest = list(_newest(slices))
        homes = {piece.spec.node_name for piece in newest if piece.devices}
        for piece in newest:
            for device in piece.devices:
                self.by_id[device.id] = device
                if not piece.spec.node_name or (device.counters and len(homes) > 1):
                    self.wide.append(device)

    def _spread(self, piece: Slice) -> None:
        """Note for which nodes the devices of a slice are."""
        spec = piece.spec
        if not piece.devices:
            return
        if spec.node_name:
            self._local.setdefault(spec.node_name, []).append((piece, piece.devices))
        elif spec.all_nodes:
            self._everywhere.append((piece, piece.devices))
        elif spec.node_selector is not None:
            for row in self._meeting(spec.node_selector, piece):
                self._chosen.setdefault(row, []).append((piece, piece.devices))
        elif spec.per_device_node_selection:
            reached: dict[int, list[Device]] = {}
            for device in piece.devices:
                for row in self._reached(device, piece):
                    reached.setdefault(row, []).append(device)
            for row, devices in reached.items():
                self._chosen.setdefault(row, []).append((piece, tuple(devices)))

    def _reached(self, device: Device, piece: Slice) -> Iterable[int]:
        """The rows of the nodes that a device is for by its own word."""
        spec = device.spec
        if spec.node_name:
            row = self._facts.index.get(spec.node_name)
            return () if row is None else (row,)
        if spec.all_nodes:
            return range(len(self._facts))
        return () if spec.node_selector is None else self._meeting(spec.node_selector, piece)

    def _meeting(self, selector: NodeSelector, piece: Slice) -> list[int]:
        """The rows of the nodes that meet a selector."""

        def report(field: str, problem: str) -> None:
            self.problems.append(Malformed("ResourceSlice", "", piece.name, f"nodeSelector: {field}", problem))

        rows: list[int] = np.flatnonzero(nodes_of_terms(self._facts, selector.node_selector_terms, report)).tolist()
        return rows

    def _parts(self, row: int) -> list[Part]:
        local = self._local.get(self._facts.names[row], [])
        return [*local, *self._chosen.get(row, ()), *self._everywhere]

    def _build(self, parts: Iterable[Part]) -> NodePools:
        by_pool: dict[PoolKey, list[Part]] = {}
        for part in parts:
            by_pool.setdefault(part[0].pool_key, []).append(part)
        built = NodePools((), ())
        usable: list[tuple[bool, PoolKey, list[Device]]] = []
        for key, reached in sorted(by_pool.items()):
            # Counters belong to all devices of their pool, wherever these are.
            reached += [(piece, ()) for piece in self._pools[key] if piece.spec.shared_counters]
            generation = max(piece.spec.pool.generation for piece, _ in reached)
            relevant = [part for part in reached if part[0].spec.pool.generation == generation]
            everywhere = self._complete(key, generation, [piece for piece, _ in relevant])
            if everywhere is None:
                continue  # the driver is replacing it, and the new generation has nothing for this node
            if not everywhere:
                built.incomplete = "/".join(key)
                continue
            devices = [d for _, part in sorted(relevant, key=lambda part: part[0].name) for d in part]
            fault = _fault((piece for piece, _ in relevant), everywhere)
            if fault:
                built.invalid = f"{'/'.join(key)}: {fault}"
                continue
            usable.append((any(d.spec.binding_conditions for d in devices), key, devices))
        usable.sort(key=lambda entry: entry[:2])  # what has to be waited for comes last
        built.devices = tuple(device for _, _, devices in usable for device in devices)
        built.keys = tuple(key for _, key, _ in usable)
        return built

    def _complete(self, key: PoolKey, generation: int, relevant: list[Slice]) -> list[Slice] | None:
        """All slices of a pool's generation; none of them if some are missing; None if the generation is obsolete."""
        count = relevant[0].spec.pool.resource_slice_count
        if len(relevant) == count:
            return relevant
        slices = self._pools[key]
        if any(piece.spec.pool.generation > generation for piece in slices):
            return None
        same = [piece for piece in slices if piece.spec.pool.generation == generation]
        return same if len(same) == count else []


def _newest(slices: Iterable[Slice]) -> Iterable[Slice]:
    listed = list(slices)
    newest = max((piece.spec.pool.generation for piece in listed), default=0)
    return (piece for piece in listed if piece.spec.pool.generation == newest)


def _fault(relevant: Iterable[Slice], everywhere: Iterable[Slice]) -> str:
    """How a complete pool contradicts itself, or ""."""
    twice = _repeated(device.spec.name for piece in relevant for device in piece.devices)
    if twice:
        return f"duplicate device name {twice}"
    sets: dict[str, set[str]] = {}
    for piece in everywhere:
        for counter_set in piece.spec.shared_counters or ():
            if counter_set.name in sets:
                return f"duplicate counter set name {counter_set.name}"
            sets[counter_set.name] = set(counter_set.counters or ())
    for piece in everywhere:
        for device in piece.devices:
            for counter_set_name, counter in device.counters:
                if counter not in sets.get(counter_set_name, ()):
                    return f"counter {counter} not found in counter set {counter_set_name}"
    return ""


def _repeated(names: Iterable[str]) -> str:
    """The first name that comes twice, or ""."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


class InventoryMemo:
    """The inventory of the last session, for the next one to take over."""

    def __init__(self) -> None:
        self._kept: Inventory | None = None

    def inventory(self, objects: Mapping[str, dra.ResourceSlice], facts: NodeFacts) -> Inventory:
        if self._kept is None or not self._kept.of(objects, facts):
            self._kept = Inventory(objects, facts, self._kept)
        return self._kept
