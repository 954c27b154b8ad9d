"""Remedies for device claims: more devices on a node."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final

from scheduler.api.kinds import RESOURCE_SLICE
from scheduler.api.task import Task
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.registry import remedies
from scheduler.plugins.predicates.dynamic_resources.books import Books
from scheduler.plugins.predicates.dynamic_resources.budget import Budget, OverBudgetError, SessionBudget
from scheduler.plugins.predicates.dynamic_resources.cel_selectors import Selectors
from scheduler.plugins.predicates.dynamic_resources.claims import Claims
from scheduler.plugins.predicates.dynamic_resources.columns import DeviceFilter, SharedClaimFilter
from scheduler.plugins.predicates.dynamic_resources.demand import Alternative
from scheduler.plugins.predicates.dynamic_resources.devices import SlicedDevice
from scheduler.plugins.predicates.dynamic_resources.pools import DeviceInventory
from scheduler.plugins.predicates.dynamic_resources.search import may_select, number_free, selected
from scheduler.plugins.predicates.plugin import Predicates

_SPARE: Final = 4


@remedies(Predicates, ChangeKind.DEVICES)
def more_devices(evidence: Evidence, plugin: Predicates) -> Iterator[Plan]:
    """Adds copies of existing devices to the node that has room for the Pods and needs the fewest devices."""
    session = evidence.session
    with evidence.unplaced_tasks() as left:
        tasks = [task for task in left if task.cls.device_claims]
        counts = evidence.room_by_row(tasks[0].cls, DeviceFilter, SharedClaimFilter) if tasks else {}
    rows = [row for row, number in counts.items() if number]
    if not rows:
        return
    adjustments = []
    try:
        demand = _DeviceDemand(evidence, tasks)
        row = min(rows, key=lambda row: (sum(demand.missing(row).values()), row))
        for name, number in demand.missing(row).items():
            model = demand.model(row, name)
            if model is None:
                return
            change = partial(_with_devices, evidence, session.nodes.names[row], name, model)
            adjustments.append(Adjustment(ChangeKind.DEVICES, number, number * _SPARE, change, name))
    except OverBudgetError:
        return
    if adjustments:
        yield tuple(adjustments)


class _DeviceDemand:
    """The demand of some Pods for devices of each DeviceClass, compared with the existing devices."""

    def __init__(self, evidence: Evidence, tasks: Sequence[Task]) -> None:
        snapshot = evidence.session.snapshot
        self._selectors = evidence.session.memo(Selectors, (), lambda _: Selectors())
        self._budget = Budget(None, SessionBudget(), "")
        self._inventory = DeviceInventory(snapshot.objects[RESOURCE_SLICE], snapshot.nodes.facts, None)
        self._books = Books(self._inventory)
        claims = Claims(snapshot, self._books, evidence.session.malformed_field)
        self._requested: Counter[str] = Counter()
        """DeviceClass -> number of requested devices."""
        self._alternatives: dict[str, Alternative] = {}
        shared: set[str] = set()
        for task in tasks:
            for claim in claims.of_class(task.cls).unallocated:
                if claim.key in shared:
                    continue
                shared |= {claim.key} - {""}
                for alternative, number in claim.demand.least_numbers():
                    self._requested[alternative.device_class] += number
                    self._alternatives.setdefault(alternative.device_class, alternative)

    def missing(self, row: int) -> dict[str, int]:
        """DeviceClass -> the number of devices that a node is missing, for classes that are missing any; if none is, 1
        for each class."""
        pools, given = self._inventory.at(row), (self._selectors, self._budget)
        free = {name: number_free(self._books, pools, one, *given) for name, one in self._alternatives.items()}
        short = {name: number - free[name] for name, number in self._requested.items() if number > free[name]}
        return short or dict.fromkeys(self._requested, 1)

    def model(self, row: int, name: str) -> SlicedDevice | None:
        """A device of the class that can be copied, preferably of the node; None if there is none. Raises
        OverBudgetError, as ``missing`` does."""
        alternative = self._alternatives[name]
        everywhere = (
            device
            for device in self._inventory.by_id.values()
            if may_select(device, alternative, self._selectors, self._budget)
        )
        here = selected(self._inventory.at(row), alternative, self._selectors, self._budget).devices
        return next((device for device in chain(here, everywhere) if not device.counters), None)


def _with_devices(evidence: Evidence, node: str, name: str, model: SlicedDevice, amount: int) -> Step:
    """Adds ``amount`` copies of a device: to its slice if this belongs to the node, else in a new slice for the
    node."""
    text = f"{amount} more device{'s' * (amount > 1)} of class {name} on node {node}"
    slice_name, objects = model.slice.metadata.name, evidence.objects
    devices = (objects.find(RESOURCE_SLICE, "", slice_name) or {}).get("spec", {}).get("devices") or ()
    original = next(device for device in devices if device["name"] == model.spec.name)
    copies = [{**_without_nodes(original), "name": f"{model.spec.name}-more-{i}"} for i in range(1, amount + 1)]
    if model.slice.spec.node_name == node:
        return Step(text, (Edit(RESOURCE_SLICE, "", slice_name, partial(_extended, copies)),))
    own = evidence.unused_name(RESOURCE_SLICE, f"{node}-{model.driver}-more")
    pool = {"name": own, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": model.driver, "nodeName": node, "pool": pool, "devices": copies}
    return Step(text, (Edit(RESOURCE_SLICE, "", own, lambda blank: {**blank, "spec": spec}, creates=True),))


def _without_nodes(device: Raw) -> Raw:
    """The device without its own node specification; its slice specifies the node."""
    return {key: value for key, value in device.items() if key not in ("nodeName", "nodeSelector", "allNodes")}


def _extended(devices: Sequence[Raw], raw: Raw) -> Raw:
    spec = raw["spec"]
    return {**raw, "spec": {**spec, "devices": [*spec["devices"], *devices]}}
