"""The devices that each node can take: assembles pools from ResourceSlices as kube-scheduler does.

A driver publishes a pool as a number of slices of one generation. Until all of them are known, the pool is incomplete,
and none of its devices are allocated. A slice applies to one node, to the nodes of a selector, to all nodes, or
specifies the nodes per device. Pools are ordered by driver and name, slices by name, and devices by their position in
the slice. The first device that fits is taken, so drivers can set priorities by names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from scheduler.api import dra
from scheduler.api.node import NodeFacts
from scheduler.api.objects import NodeSelector
from scheduler.api.reasons import Malformed
from scheduler.api.selectors import nodes_of_terms
from scheduler.plugins.predicates.dynamic_resources.devices import CounterKey, DeviceId, PoolKey, Slice, SlicedDevice


@dataclass(slots=True, eq=False)
class NodePools:
    """The pools of one node, or of several nodes with exactly the same devices."""

    devices: tuple[SlicedDevice, ...]
    """The devices in the order in which a search tries them."""
    keys: tuple[PoolKey, ...]
    """The pools of the devices."""
    incomplete: str = ""
    """An incomplete pool (``driver/pool``), or ""."""
    invalid: str = ""
    """An inconsistent pool and the reason, or ""."""
    selected: dict[tuple[str, ...], Any] = field(default_factory=dict)
    """Expressions -> the devices that all of them select (``search.Selected``). A cache, the latest last."""


SlicePart = tuple[Slice, tuple[SlicedDevice, ...]]
"""A slice, and those of its devices that a node can take."""


class DeviceInventory:
    """All devices of a cluster."""

    def __init__(
        self, objects: Mapping[str, dra.ResourceSlice], facts: NodeFacts, previous: "DeviceInventory | None"
    ) -> None:
        """``previous``: the inventory of the last session; slices that are the same objects are reused, and with them
        the pools of nodes whose slices are all the same."""
        self._facts = facts
        parsed = previous._slices if previous is not None else {}
        self._slices: dict[int, tuple[dra.ResourceSlice, Slice]] = {}
        for obj in objects.values():
            entry = parsed.get(id(obj))
            self._slices[id(obj)] = entry if entry is not None and entry[0] is obj else (obj, Slice(obj))
        self.problems: list[Malformed] = []
        self._pools: dict[PoolKey, list[Slice]] = {}
        self._local: dict[str, list[SlicePart]] = {}
        self._all_nodes: list[SlicePart] = []
        self._by_row: dict[int, list[SlicePart]] = {}
        """Row -> devices that a selector, or a per-device specification, assigns to the node."""
        for _, resource_slice in self._slices.values():
            self.problems += [
                Malformed("ResourceSlice", "", resource_slice.name, where, problem)
                for where, problem in resource_slice.problems
            ]
            self._pools.setdefault(resource_slice.pool_key, []).append(resource_slice)
            self._assign(resource_slice)
        self._counters: dict[PoolKey, Mapping[CounterKey, int]] = {}
        self._rows: dict[int, NodePools] = {}
        self._by_parts: dict[tuple[object, ...], NodePools] = {}
        self._last_parts: dict[tuple[object, ...], NodePools] = {} if previous is None else previous._by_parts
        self._last_pools: dict[PoolKey, list[Slice]] = {} if previous is None else previous._pools
        self.by_id: dict[DeviceId, SlicedDevice] = {}
        """The devices of the newest generation of each pool."""
        self.multi_node: list[SlicedDevice] = []
        """Devices that several nodes can take, or that use counters of a pool whose devices are on several nodes."""
        for slices in self._pools.values():
            self._index(slices)

    def counters(self, pool: PoolKey) -> Mapping[CounterKey, int]:
        """The values of a pool's counters when no device is taken."""
        found = self._counters.get(pool)
        if found is None:
            slices = _newest(self._pools.get(pool, ()))
            found = self._counters[pool] = dict(chain.from_iterable(s.counters.items() for s in slices))
        return found

    def at(self, row: int) -> NodePools:
        """The pools of the node of a row."""
        pools = self._rows.get(row)
        if pools is None:
            parts = self._parts(row)
            key = tuple(
                (id(resource_slice), *(map(id, devices) if len(devices) < len(resource_slice.devices) else ()))
                for resource_slice, devices in parts
            )
            pools = self._by_parts.get(key)
            if pools is None:
                pools = self._by_parts[key] = self._reused(key, parts) or self._build(parts)
            self._rows[row] = pools
        return pools

    # --- reading ---
    def _index(self, slices: Sequence[Slice]) -> None:
        newest = list(_newest(slices))
        nodes_with_devices = {resource_slice.spec.node_name for resource_slice in newest if resource_slice.devices}
        for resource_slice in newest:
            for device in resource_slice.devices:
                self.by_id[device.id] = device
                if not resource_slice.spec.node_name or (device.counters and len(nodes_with_devices) > 1):
                    self.multi_node.append(device)

    def _assign(self, resource_slice: Slice) -> None:
        """Assigns the devices of a slice to nodes."""
        spec = resource_slice.spec
        if not resource_slice.devices:
            return
        if spec.node_name:
            self._local.setdefault(spec.node_name, []).append((resource_slice, resource_slice.devices))
        elif spec.all_nodes:
            self._all_nodes.append((resource_slice, resource_slice.devices))
        elif spec.node_selector is not None:
            for row in self._matching_rows(spec.node_selector, resource_slice):
                self._by_row.setdefault(row, []).append((resource_slice, resource_slice.devices))
        elif spec.per_device_node_selection:
            by_row: dict[int, list[SlicedDevice]] = {}
            for device in resource_slice.devices:
                for row in self._rows_of(device, resource_slice):
                    by_row.setdefault(row, []).append(device)
            for row, devices in by_row.items():
                self._by_row.setdefault(row, []).append((resource_slice, tuple(devices)))

    def _rows_of(self, device: SlicedDevice, resource_slice: Slice) -> Iterable[int]:
        """The rows of the nodes that a device with a per-device specification is assigned to."""
        spec = device.spec
        if spec.node_name:
            row = self._facts.index.get(spec.node_name)
            return () if row is None else (row,)
        if spec.all_nodes:
            return range(len(self._facts))
        return () if spec.node_selector is None else self._matching_rows(spec.node_selector, resource_slice)

    def _matching_rows(self, selector: NodeSelector, resource_slice: Slice) -> list[int]:
        """The rows of the nodes that match a selector."""

        def report(field: str, problem: str) -> None:
            self.problems.append(Malformed("ResourceSlice", "", resource_slice.name, f"nodeSelector: {field}", problem))

        rows: list[int] = np.flatnonzero(nodes_of_terms(self._facts, selector.node_selector_terms, report)).tolist()
        return rows

    def _parts(self, row: int) -> list[SlicePart]:
        local = self._local.get(self._facts.names[row], [])
        return [*local, *self._by_row.get(row, ()), *self._all_nodes]

    def _reused(self, key: tuple[object, ...], parts: Iterable[SlicePart]) -> NodePools | None:
        """The pools that the last inventory made from the same parts, unless other slices of them have changed."""
        found, last = self._last_parts.get(key), self._last_pools
        if found is None:
            return None
        names = {resource_slice.pool_key for resource_slice, _ in parts}
        return found if all(self._pools[name] == last.get(name) for name in names) else None

    def _build(self, parts: Iterable[SlicePart]) -> NodePools:
        by_pool: dict[PoolKey, list[SlicePart]] = {}
        for part in parts:
            by_pool.setdefault(part[0].pool_key, []).append(part)
        built = NodePools((), ())
        usable: list[tuple[bool, PoolKey, list[SlicedDevice]]] = []
        for key, pool_parts in sorted(by_pool.items()):
            # Counters apply to all devices of their pool, on all nodes.
            pool_parts += [
                (resource_slice, ()) for resource_slice in self._pools[key] if resource_slice.spec.shared_counters
            ]
            generation = max(resource_slice.spec.pool.generation for resource_slice, _ in pool_parts)
            relevant = [part for part in pool_parts if part[0].spec.pool.generation == generation]
            complete = self._complete(key, generation, [resource_slice for resource_slice, _ in relevant])
            if complete is None:
                continue  # the driver is replacing the pool, and the new generation has no devices for this node
            if not complete:
                built.incomplete = "/".join(key)
                continue
            devices = [d for _, part in sorted(relevant, key=lambda part: part[0].name) for d in part]
            inconsistency = _inconsistency((resource_slice for resource_slice, _ in relevant), complete)
            if inconsistency:
                built.invalid = f"{'/'.join(key)}: {inconsistency}"
                continue
            usable.append((any(d.spec.binding_conditions for d in devices), key, devices))
        usable.sort(key=lambda entry: entry[:2])  # devices with binding conditions come last
        built.devices = tuple(device for _, _, devices in usable for device in devices)
        built.keys = tuple(key for _, key, _ in usable)
        return built

    def _complete(self, key: PoolKey, generation: int, relevant: list[Slice]) -> list[Slice] | None:
        """All slices of a generation of a pool; empty if some are missing; None if the generation is obsolete."""
        count = relevant[0].spec.pool.resource_slice_count
        if len(relevant) == count:
            return relevant
        slices = self._pools[key]
        if any(resource_slice.spec.pool.generation > generation for resource_slice in slices):
            return None
        same = [resource_slice for resource_slice in slices if resource_slice.spec.pool.generation == generation]
        return same if len(same) == count else []


def _newest(slices: Iterable[Slice]) -> Iterable[Slice]:
    listed = list(slices)
    newest = max((resource_slice.spec.pool.generation for resource_slice in listed), default=0)
    return (resource_slice for resource_slice in listed if resource_slice.spec.pool.generation == newest)


def _inconsistency(relevant: Iterable[Slice], complete: Iterable[Slice]) -> str:
    """Why a complete pool is inconsistent, or ""."""
    duplicate = _first_duplicate(device.spec.name for resource_slice in relevant for device in resource_slice.devices)
    if duplicate:
        return f"duplicate device name {duplicate}"
    sets: dict[str, set[str]] = {}
    for resource_slice in complete:
        for counter_set in resource_slice.spec.shared_counters or ():
            if counter_set.name in sets:
                return f"duplicate counter set name {counter_set.name}"
            sets[counter_set.name] = set(counter_set.counters or ())
    for resource_slice in complete:
        for device in resource_slice.devices:
            for counter_set_name, counter in device.counters:
                if counter not in sets.get(counter_set_name, ()):
                    return f"counter {counter} not found in counter set {counter_set_name}"
    return ""


def _first_duplicate(names: Iterable[str]) -> str:
    """The first name that occurs twice, or ""."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""
