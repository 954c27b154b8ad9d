"""The plugin ascend: assigns each task NPU chips where the family of its job needs them, on the node where this leaves
the best remainder.

``resolve`` chooses the family of a job, ``demand`` checks its requests, ``inventory`` reads the free chips, ``ledger``
keeps them during the session, ``columns`` filters and scores nodes, and ``annotations`` builds the annotations for the
device plugin. Where no node and no Pod has a resource of NPUs, the plugin registers nothing.
"""

from functools import cached_property
from typing import ClassVar

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import HUAWEI_PREFIX
from scheduler.api.task import Task, TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.cache_requirements import cache_requirements_of
from scheduler.framework.columns import Filter, MaskFilter, Nowhere, Score
from scheduler.framework.registry import register_plugin, register_prefix
from scheduler.framework.session import Session
from scheduler.plugins.ascend.annotations import PodAnnotations
from scheduler.plugins.ascend.columns import ChipFilter, ChipScore
from scheduler.plugins.ascend.demand import Demand, Use
from scheduler.plugins.ascend.family import Family
from scheduler.plugins.ascend.inventory import read_nodes, whole_chips
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.resolve import CHIP_RESOURCES
from scheduler.plugins.ascend.resources import ChipResource


@register_plugin
class Ascend:
    """Has no arguments. Arguments of other builds of the plugin are accepted and ignored."""

    name: ClassVar[str] = "ascend"

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        self._session = session
        self.ledgers: dict[ChipResource, ChipLedger] = {}
        """The chips of the session. Empty if there are no NPUs."""
        if not any(name.startswith(HUAWEI_PREFIX) for name in session.dimensions.names):
            return
        owned = cache_requirements_of(session.configuration, session.snapshot.config_maps).devices
        self._demand = Demand(session.dimensions, owned)
        self._family_filters: dict[tuple[Family, ChipResource], list[Filter]] = {}
        known = {d: resource for d, resource in self._demand.resources.items() if resource.name in CHIP_RESOURCES}
        self.ledgers |= {resource: self._read(resource, d) for d, resource in known.items()}
        session.add_job_valid(self._demand.check)
        session.add_filter(self._filters, per_job=self.use)
        session.add_score(self._scores, per_job=self.use)
        session.add_bind_annotations(self._bind)
        for ledger in self.ledgers.values():
            session.add_handlers(ledger.allocate, ledger.deallocate)

    def _read(self, resource: ChipResource, position: int) -> ChipLedger:
        session = self._session
        allocatable = whole_chips(session.nodes.allocatable[position])
        rows = np.flatnonzero(allocatable > 0)
        chips = read_nodes(session.snapshot, resource, rows, allocatable[rows].tolist())
        for problem in (problem for node in chips for problem in node.problems):
            session.malformed_field(problem)
        return ChipLedger(session, resource, self._demand, rows, chips, allocatable)

    def use(self, job: Job) -> Use | None:
        """How a job of the session uses chips; None if it uses none, or if it is refused."""
        return self._demand.use(job) if self.ledgers else None

    # --- which nodes are of a family ---
    def _nodes_of(self, family: Family, resource: ChipResource) -> list[Filter]:
        filters = self._family_filters.get((family, resource))
        if filters is None:
            allocatable = self.ledgers[resource].allocatable
            bare = allocatable < 1
            others = allocatable > family.chips
            for label, values in family.node_labels.items():
                codes, found = self._session.nodes.facts.label_column(label)
                others |= np.isin(codes, [code for code, value in enumerate(found) if value not in values])
                if "" not in values:
                    others |= codes < 0
            filters = self._family_filters[family, resource] = [
                MaskFilter(~bare, f"node(s) had no {resource.prefix.removesuffix('-')} chips"),
                MaskFilter(bare | ~others, f"node(s) were not of the family {family.title}"),
            ]
        return filters

    # --- answers ---
    def _filters(self, cls: TaskClass, use: Use | None) -> list[Filter]:
        if not self._demand.asks(cls):
            return []
        chips = 0 if use is None else self._demand.chips(cls, use.resource)
        if use is None or chips not in use.family.sizes:
            return [Nowhere("node(s) had no chips of a family that fits the job")]
        return [*self._nodes_of(use.family, use.resource), ChipFilter(self.ledgers[use.resource], use, chips)]

    def _scores(self, cls: TaskClass, use: Use | None) -> list[Score]:
        chips = 0 if use is None else self._demand.chips(cls, use.resource)
        if use is None or chips not in use.family.sizes:
            return []
        return [ChipScore(self.ledgers[use.resource], use, chips)]

    def _bind(self, task: Task, row: int) -> dict[str, str]:
        use = self._demand.use(self._session.jobs[task.job]) if self._demand.asks(task.cls) else None
        if use is None:
            return {}
        session, ledger = self._session, self.ledgers[use.resource]
        annotations, problems = self._annotations.for_task(
            task,
            session.nodes.facts.objects[row],
            use.resource,
            ledger.taken(task),
            distributed=use.several,
            allocatable=int(ledger.allocatable[row]),
        )
        for problem in problems:
            session.malformed_field(problem)
        return annotations

    @cached_property
    def _annotations(self) -> PodAnnotations:
        return PodAnnotations(self._session.now)


register_prefix("volcano-npu", Ascend.name)
