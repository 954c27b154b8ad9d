"""The predicate for one session. Nothing is read before a class of Pods with claims is met."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from scheduler.api import dra
from scheduler.api.job import Job
from scheduler.api.node import Mask
from scheduler.api.preparation import Preparation
from scheduler.api.reasons import Malformed
from scheduler.api.selectors import nodes_of_terms
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import Filter, MaskFilter, Nowhere, Score
from scheduler.framework.extension import PREPARATIONS
from scheduler.framework.session import Session
from scheduler.plugins.predicates.dynamic_resources.books import Books
from scheduler.plugins.predicates.dynamic_resources.claims import Claims, ClassClaims
from scheduler.plugins.predicates.dynamic_resources.columns import (
    CommonDeviceFilter,
    DeviceFilter,
    PreferenceScore,
    SharedClaimFilter,
)
from scheduler.plugins.predicates.dynamic_resources.demand import Demand
from scheduler.plugins.predicates.dynamic_resources.ledger import DeviceLedger
from scheduler.plugins.predicates.dynamic_resources.pools import InventoryMemo
from scheduler.plugins.predicates.dynamic_resources.search import Budget, may_select
from scheduler.plugins.predicates.dynamic_resources.words import NOT_AVAILABLE

CHOICES_PER_SECOND: Final = 100_000
"""What a second of searching is taken for: a session does not read the clock."""
_inventories = InventoryMemo()
"""What the last session read; the next takes over what has not changed since."""


class DynamicResources:
    """Filters, a score and books for Pods that claim devices."""

    def __init__(self, session: Session, filter_seconds: int) -> None:
        """``filter_seconds``: how long devices are searched for one class of Pods; 0: without end."""
        self._session = session
        self._choices = filter_seconds * CHOICES_PER_SECOND if filter_seconds > 0 else None
        self._reaches: dict[int, tuple[dra.Allocation, Mask]] = {}
        session.add_handlers(self._allocate, self._deallocate)
        session.add(PREPARATIONS, self._preparations)

    @cached_property
    def _claims(self) -> Claims:
        return Claims(self._session.snapshot, self._books, self._session.malformed_field)

    @cached_property
    def _books(self) -> Books:
        snapshot = self._session.snapshot
        inventory = _inventories.inventory(snapshot.resource_slices, self._session.nodes.facts)
        for problem in inventory.problems:
            self._session.malformed_field(problem)
        return Books(inventory)

    @cached_property
    def _ledger(self) -> DeviceLedger:
        return DeviceLedger(self._books, self._claims, self._session.nodes.names, self._choices)

    # --- answers ---
    def filters(self, cls: TaskClass) -> list[Filter]:
        if not cls.device_claims:
            return []
        claims = self._claims.of_class(cls)
        if claims.problem:
            return [Nowhere(claims.problem)]
        filters: list[Filter] = []
        if claims.allocated:
            filters.append(MaskFilter(self._reach(claims.allocated), NOT_AVAILABLE))
        if any(wanted.key for wanted in claims.wanted):
            budget = self._budget()

            def common(demands: Sequence[Demand]) -> DeviceFilter:
                return CommonDeviceFilter(self._ledger, demands, cls, self._session.nodes, budget)

            filters.append(SharedClaimFilter(self._ledger, claims, common, self._reach))
        elif claims.wanted:
            demands = [wanted.demand for wanted in claims.wanted]
            kind = CommonDeviceFilter if self._common(claims) else DeviceFilter
            filters.append(kind(self._ledger, demands, cls, self._session.nodes, self._budget()))
        return filters

    def scores(self, cls: TaskClass) -> list[Score]:
        if not cls.device_claims:
            return []
        claims = self._claims.of_class(cls)
        choice = any(wanted.demand.has_choice for wanted in claims.wanted)
        return [PreferenceScore(self._ledger, claims)] if choice else []

    def _budget(self) -> Budget:
        return Budget(self._choices)

    def _common(self, claims: ClassClaims) -> bool:
        """Whether a device could be asked for that is not of one node alone."""
        asks = [ask for wanted in claims.wanted for ask in wanted.demand.asks()]
        return any(may_select(device, ask) for device in self._books.inventory.wide for ask in asks)

    def _reach(self, keys: Iterable[str]) -> Mask:
        """The nodes that can use what the claims have got; those without anything do not count."""
        mask: Mask = np.ones(len(self._session.nodes), dtype=bool)
        for key in keys:
            given = self._ledger.given(key)
            if given is not None and given.node_selector is not None:
                mask &= self._usable(key, given)
        return mask

    def _usable(self, key: str, given: dra.Allocation) -> Mask:
        known = self._reaches.get(id(given))
        if known is None:
            namespace, _, name = key.partition("/")

            def report(field: str, problem: str) -> None:
                where = f"status.allocation.nodeSelector: {field}"
                self._session.malformed_field(Malformed("ResourceClaim", namespace, name, where, problem))

            terms = given.node_selector.node_selector_terms if given.node_selector is not None else ()
            mask = nodes_of_terms(self._session.nodes.facts, terms, report)
            known = self._reaches[id(given)] = (given, mask)
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
