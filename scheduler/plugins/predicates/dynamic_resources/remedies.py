"""Changes about devices that Pods claim: more of them on a node."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.kinds import RESOURCE_SLICE
from scheduler.api.task import Task
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.nodes import passing, room
from scheduler.framework.remedies.registry import remedies
from scheduler.plugins.predicates.dynamic_resources.books import Books
from scheduler.plugins.predicates.dynamic_resources.claims import Claims
from scheduler.plugins.predicates.dynamic_resources.columns import DeviceFilter, SharedClaimFilter
from scheduler.plugins.predicates.dynamic_resources.demand import Alternative
from scheduler.plugins.predicates.dynamic_resources.devices import Device
from scheduler.plugins.predicates.dynamic_resources.pools import Inventory
from scheduler.plugins.predicates.dynamic_resources.search import may_select, selected
from scheduler.plugins.predicates.plugin import Predicates

_SPARE: Final = 4


@remedies(Predicates, ChangeKind.DEVICES)
def more_devices(evidence: Evidence, plugin: Predicates) -> Iterator[Plan]:
    """Devices like those that are there, on the node that has room for the Pods and lacks fewest."""
    session = evidence.session
    with evidence.crowded() as left:
        asking = [task for task in left if task.cls.device_claims]
        rows = _open_but_for_devices(evidence, asking[0]) if asking else []
    if not rows:
        return
    stock = _Stock(evidence, asking)
    row = min(rows, key=lambda row: (sum(stock.missing(row).values()), row))
    adjustments = []
    for name, number in stock.missing(row).items():
        model = stock.model(row, name)
        if model is None:
            return
        change = partial(_with_devices, evidence, session.nodes.names[row], name, model)
        adjustments.append(Adjustment(ChangeKind.DEVICES, number, number * _SPARE, change, name))
    if adjustments:
        yield tuple(adjustments)


def _open_but_for_devices(evidence: Evidence, task: Task) -> list[int]:
    """The nodes that lack nothing else for a Pod."""
    session = evidence.session
    filters = [
        f for f in session.filters(task.cls, evidence.job) if not isinstance(f, DeviceFilter | SharedClaimFilter)
    ]
    fits = np.intersect1d(np.flatnonzero(passing(session, filters)), evidence.rows)
    return [row for row in fits.tolist() if room(session.nodes.idle[:, row], task.cls)]


class _Stock:
    """What some Pods ask for of each DeviceClass, and which devices there are for it."""

    def __init__(self, evidence: Evidence, tasks: Sequence[Task]) -> None:
        snapshot = evidence.session.snapshot
        self._inventory = Inventory(snapshot.resource_slices, snapshot.nodes.facts, None)
        self._books = Books(self._inventory)
        claims = Claims(snapshot, self._books, evidence.session.malformed_field)
        self.asked: Counter[str] = Counter()
        """DeviceClass -> number of devices."""
        self._asks: dict[str, Alternative] = {}
        shared: set[str] = set()
        for task in tasks:
            for wanted in claims.of_class(task.cls).unallocated:
                if wanted.key in shared:
                    continue
                shared |= {wanted.key} - {""}
                for alternatives in wanted.demand.requests:
                    ask = alternatives[-1]
                    if not ask.all_devices:
                        self.asked[ask.device_class] += ask.spec.count
                        self._asks.setdefault(ask.device_class, ask)

    def missing(self, row: int) -> dict[str, int]:
        """DeviceClass -> how many more of its devices would have to be free on a node; classes that lack none are left
        out, and if none does, each lacks one."""
        free = {name: self._free(row, ask) for name, ask in self._asks.items()}
        short = {name: number - free[name] for name, number in self.asked.items() if number > free[name]}
        return short or dict.fromkeys(self.asked, 1)

    def _free(self, row: int, ask: Alternative) -> int:
        books = self._books
        there = selected(self._inventory.at(row), ask)
        return sum(books.free(device) and books.consumption(device, ask) is not None for device in there)

    def model(self, row: int, name: str) -> Device | None:
        """A device of the class, of the node if it has one; None: there is none that others could be made like."""
        ask = self._asks[name]
        everywhere = (device for device in self._inventory.by_id.values() if may_select(device, ask))
        return next((d for d in (*selected(self._inventory.at(row), ask), *everywhere) if not d.counters), None)


def _with_devices(evidence: Evidence, node: str, name: str, model: Device, degree: int) -> Step:
    """So many more, on the slice of the model if that is the node's own, else on a slice that is made for the node."""
    text = f"{degree} more device{'s' * (degree > 1)} of class {name} on node {node}"
    theirs, server = model.slice.metadata.name, evidence.objects
    devices = (server.find(RESOURCE_SLICE, "", theirs) or {}).get("spec", {}).get("devices") or ()
    original = next(device for device in devices if device["name"] == model.spec.name)
    made = [{**_alone(original), "name": f"{model.spec.name}-more-{i}"} for i in range(1, degree + 1)]
    if model.slice.spec.node_name == node:
        return Step(text, (Edit(RESOURCE_SLICE, "", theirs, partial(_extended, made)),))
    own = evidence.unused(RESOURCE_SLICE, f"{node}-{model.driver}-more")
    pool = {"name": own, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": model.driver, "nodeName": node, "pool": pool, "devices": made}
    return Step(text, (Edit(RESOURCE_SLICE, "", own, lambda blank: {**blank, "spec": spec}, creates=True),))


def _alone(device: Raw) -> Raw:
    """A device without what says for which nodes it is: that is said by its slice."""
    return {key: value for key, value in device.items() if key not in ("nodeName", "nodeSelector", "allNodes")}


def _extended(devices: Sequence[Raw], raw: Raw) -> Raw:
    spec = raw["spec"]
    return {**raw, "spec": {**spec, "devices": [*spec["devices"], *devices]}}
