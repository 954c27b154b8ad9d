"""The filters, the score and the handlers for device claims in one session. Claims and slices are read on first use."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Final

import numpy as np

from scheduler.api import dra
from scheduler.api.job import Job
from scheduler.api.kinds import DEVICE_CLASS, RESOURCE_SLICE
from scheduler.api.names import DEVICE_CLASS_RESOURCE_PREFIX
from scheduler.api.node import Mask, Nodes
from scheduler.api.preparation import Preparation
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Dimensions
from scheduler.api.selectors import nodes_of_terms
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import Filter, MaskFilter, RefusingFilter, Score
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.predicates.dynamic_resources.books import Books
from scheduler.plugins.predicates.dynamic_resources.budget import (
    Attempt,
    Attempts,
    Budget,
    OverBudgetError,
    SessionBudget,
)
from scheduler.plugins.predicates.dynamic_resources.cel_selectors import Selectors
from scheduler.plugins.predicates.dynamic_resources.claims import Claims, ClassClaims
from scheduler.plugins.predicates.dynamic_resources.columns import (
    NOT_AVAILABLE,
    DeviceFilter,
    MultiNodeDeviceFilter,
    PreferenceScore,
    SharedClaimFilter,
)
from scheduler.plugins.predicates.dynamic_resources.demand import ClaimDemand
from scheduler.plugins.predicates.dynamic_resources.ledger import DeviceLedger
from scheduler.plugins.predicates.dynamic_resources.pools import DeviceInventory
from scheduler.plugins.predicates.dynamic_resources.search import may_select


class ExtendedResources:
    """The resources of one session that a DeviceClass stands for (``spec.extendedResourceName``) and no node reports.

    kube-scheduler creates a ResourceClaim for a Pod that requests such a resource. This scheduler assigns devices to
    ResourceClaims that exist only, so that a Pod which requests the resource finds it only on nodes that report it.
    """

    def __init__(self, classes: Mapping[str, dra.DeviceClass], dimensions: Dimensions, nodes: Nodes) -> None:
        names: dict[str, str] = {}
        for name, device_class in sorted(classes.items()):
            extended = device_class.spec.extended_resource_name
            for resource in (*([extended] if extended else ()), f"{DEVICE_CLASS_RESOURCE_PREFIX}{name}"):
                names.setdefault(resource, name)
        positions = {resource: dimensions.find(resource) for resource in names}
        self._classes = {
            position: (resource, names[resource])
            for resource, position in positions.items()
            if position is not None and not np.any(nodes.allocatable[position] > 0)
        }
        """Position in resource vectors -> (the resource, its DeviceClass)."""

    def refusal(self, cls: TaskClass) -> str:
        """Why no node takes the Pods of a class, which request such a resource in any container; "": they do not."""
        for position, (resource, device_class) in self._classes.items():
            if position < len(cls.request) and cls.request[position] > 0:
                return (
                    f"no node reports {resource}, for which DeviceClass {device_class} stands; its devices are "
                    "assigned to ResourceClaims, which the Pod has to name in spec.resourceClaims"
                )
        return ""


CHOICES_PER_SECOND: Final = 100_000
"""Converts the time limit to a number of choices, because a session does not read the clock."""
BYTES_PER_STEP: Final = 10
"""Bytes of claims that are read in one step."""


class DynamicResources:
    """The filters, the score and the books for Pods that claim devices."""

    def __init__(self, session: PluginSession, filter_seconds: int) -> None:
        """``filter_seconds``: the time limit for finding devices for one class of Pods; 0 for no limit."""
        self._session = session
        self._choices = filter_seconds * CHOICES_PER_SECOND if filter_seconds > 0 else None
        self._budgets: dict[int, Budget] = {}
        self._nodes_by_allocation: dict[int, tuple[dra.Allocation, Mask]] = {}
        session.add_handlers(self._allocate, self._deallocate)
        session.add_preparations(self._preparations)

    @cached_property
    def selectors(self) -> Selectors:
        """The compiled selectors, kept across sessions."""
        return self._session.memo(Selectors, (), lambda _: Selectors())

    @cached_property
    def _attempts(self) -> Attempts:
        return self._session.memo(Attempts, (), lambda _: Attempts())

    @cached_property
    def _session_budget(self) -> SessionBudget:
        return SessionBudget()

    @cached_property
    def _claims(self) -> Claims:
        return Claims(self._session.snapshot, self._books, self._session.malformed_field)

    @cached_property
    def _extended_resources(self) -> ExtendedResources:
        session = self._session
        return ExtendedResources(session.snapshot.objects[DEVICE_CLASS], session.dimensions, session.nodes)

    @cached_property
    def _books(self) -> Books:
        slices, facts = self._session.snapshot.objects[RESOURCE_SLICE], self._session.nodes.facts
        inventory = self._session.memo(
            DeviceInventory, (slices, facts), lambda before: DeviceInventory(slices, facts, before)
        )
        for problem in inventory.problems:
            self._session.malformed_field(problem)
        return Books(inventory)

    @cached_property
    def _ledger(self) -> DeviceLedger:
        return DeviceLedger(self._books, self._claims, self.selectors, self._session.nodes.names, self._choices)

    # --- filters and scores ---
    def filters(self, cls: TaskClass) -> list[Filter]:
        refusal = self._extended_resources.refusal(cls) if self._session.snapshot.objects[DEVICE_CLASS] else ""
        if refusal:
            return [RefusingFilter(refusal)]
        if not cls.device_claims:
            return []
        budget = self._budget(cls)
        try:
            if not self._claims.has_read(cls):
                budget.spend(self._claims.size(cls) // BYTES_PER_STEP)
            return self._filters(cls, budget)
        except OverBudgetError as error:
            return [RefusingFilter(str(error))]

    def _filters(self, cls: TaskClass, budget: Budget) -> list[Filter]:
        """Creates the filters of a class. Raises OverBudgetError."""
        claims = self._claims.of_class(cls)
        if claims.problem:
            return [RefusingFilter(claims.problem)]
        filters: list[Filter] = []
        if claims.allocated:
            filters.append(MaskFilter(self._accessible_nodes(claims.allocated), NOT_AVAILABLE))
        if any(claim.key for claim in claims.unallocated):

            def multi_node_filter(demands: Sequence[ClaimDemand]) -> DeviceFilter:
                return MultiNodeDeviceFilter(self._ledger, demands, cls, self._session.nodes, budget)

            filters.append(SharedClaimFilter(self._ledger, claims, multi_node_filter, self._accessible_nodes))
        elif claims.unallocated:
            demands = [claim.demand for claim in claims.unallocated]
            kind = MultiNodeDeviceFilter if self._uses_multi_node_devices(claims, budget) else DeviceFilter
            filters.append(kind(self._ledger, demands, cls, self._session.nodes, budget))
        return filters

    def scores(self, cls: TaskClass) -> list[Score]:
        if not cls.device_claims or not self._claims.has_read(cls):
            return []
        claims = self._claims.of_class(cls)
        has_choice = any(claim.demand.has_choice for claim in claims.unallocated)
        return [PreferenceScore(self._ledger, claims)] if has_choice else []

    def _budget(self, cls: TaskClass) -> Budget:
        """The budget of the Pods of a class in this session. After a session in which it was exceeded, it is used up
        until the next attempt is due."""
        budget = self._budgets.get(cls.id)
        if budget is None:
            key = (cls.namespace, cls.device_claims)
            before = self._attempts.last(key)
            budget = Budget(self._choices, self._session_budget, cls.namespace, partial(self._exceeded, key, before))
            self._budgets[cls.id] = budget
            if before is not None and self._session.now < before.retry_at:
                budget.over = before.reason
            elif before is not None:
                self._attempts.forget(key)
                budget.first_row = self._session.nodes.facts.index.get(before.node, 0)
        return budget

    def _exceeded(self, key: Hashable, before: Attempt | None, budget: Budget) -> str:
        names = self._session.nodes.names
        row = budget.row + (budget.row == budget.first_row)  # one node does not take all attempts
        node = names[row % len(names)] if names else ""
        return self._attempts.failed(key, before, self._session.now, budget.over, node)

    def _uses_multi_node_devices(self, claims: ClassClaims, budget: Budget) -> bool:
        """Whether the claims may select a device that several nodes can take. Raises OverBudgetError."""
        alternatives = [a for claim in claims.unallocated for a in claim.demand.alternatives()]
        devices = self._books.inventory.multi_node
        return any(may_select(device, a, self.selectors, budget) for a in alternatives for device in devices)

    def _accessible_nodes(self, keys: Iterable[str]) -> Mask:
        """The nodes that can use the allocations of the claims; claims without an allocation are ignored."""
        mask: Mask = np.ones(len(self._session.nodes), dtype=bool)
        for key in keys:
            allocation = self._ledger.allocation(key)
            if allocation is not None and allocation.node_selector is not None:
                mask &= self._nodes_of(key, allocation)
        return mask

    def _nodes_of(self, key: str, allocation: dra.Allocation) -> Mask:
        known = self._nodes_by_allocation.get(id(allocation))
        if known is None:
            namespace, _, name = key.partition("/")

            def report(field: str, problem: str) -> None:
                where = f"status.allocation.nodeSelector: {field}"
                self._session.malformed_field(Malformed("ResourceClaim", namespace, name, where, problem))

            terms = allocation.node_selector.node_selector_terms if allocation.node_selector is not None else ()
            mask = nodes_of_terms(self._session.nodes.facts, terms, report)
            known = self._nodes_by_allocation[id(allocation)] = (allocation, mask)
        return known[1]

    # --- placements ---
    def _allocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        if tasks[0].cls.device_claims:
            self._ledger.allocate(job, tasks, rows, pipelined)

    def _deallocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        if tasks[0].cls.device_claims:
            self._ledger.deallocate(job, tasks, rows)

    def _preparations(self, task: Task, row: int) -> Iterable[Preparation]:
        return self._ledger.preparations(task, row) if task.cls.device_claims else ()
