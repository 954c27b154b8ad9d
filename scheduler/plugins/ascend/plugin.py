"""The plugin ascend: assigns each task chips of one HCCS ring, on the node where this leaves the best remainder.

It follows Huawei's NPU affinity scheduling design for the Ascend 910 module with eight chips. ``demand`` checks
requests, ``inventory`` reads the free chips, ``ledger`` keeps them during the session, ``columns`` filters and scores
nodes, and ``annotations`` builds the annotations for the device plugin.
"""

from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from scheduler.api.names import ACCELERATOR_TYPE
from scheduler.api.node import Rows
from scheduler.api.task import Task, TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Filter, MaskFilter, Score
from scheduler.framework.registry import register_plugin, register_prefix
from scheduler.framework.session import Session
from scheduler.plugins.ascend.annotations import PodAnnotations
from scheduler.plugins.ascend.columns import RingFilter, RingScore
from scheduler.plugins.ascend.demand import Demand, skips_plugin
from scheduler.plugins.ascend.families import MODULE_910_X8, Family
from scheduler.plugins.ascend.inventory import read_nodes, whole_chips
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.rings import CHIPS


@register_plugin
class Ascend:
    """Has no arguments. Arguments of other builds of the plugin are accepted and ignored."""

    name: ClassVar[str] = "ascend"

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    def open(self, session: Session) -> None:
        self._session = session
        self._family: Family = MODULE_910_X8
        self._demand = Demand(session.dimensions, self._family)
        self._annotations = PodAnnotations(self._family, session.now)
        self._ledger = self._read()
        session.add_job_valid(self._demand.check)
        # Network faults matter to jobs of several Pods only. Without faults the answer depends on the class alone.
        if self._ledger.has_network_faults:
            session.add_filter(self._filters, per_job=self._demand.is_distributed)
        else:
            session.add_filter(lambda cls: self._filters(cls, False))
        session.add_score(self._scores)
        session.add_bind_annotations(self._bind)
        session.add_handlers(self._ledger.allocate, self._ledger.deallocate)

    def _read(self) -> ChipLedger:
        session = self._session
        rows: Rows = np.flatnonzero(self._own_family)
        chips = read_nodes(session.snapshot, self._family, rows, self._allocatable[rows].tolist())
        for problem in (problem for node in chips for problem in node.problems):
            session.malformed_field(problem)
        return ChipLedger(session, self._family, self._demand, rows, chips)

    @property
    def ledger(self) -> ChipLedger:
        """The chips of the session."""
        return self._ledger

    # --- which nodes are of the family ---
    @cached_property
    def _allocatable(self) -> NDArray[np.int64]:
        """Shape (nodes,): the number of allocatable whole chips."""
        nodes = self._session.nodes
        position = self._session.dimensions.find(self._family.resource)
        if position is None:
            return np.zeros(len(nodes), dtype=np.int64)
        return whole_chips(nodes.allocatable[position])

    @cached_property
    def _other_family(self) -> NDArray[np.bool_]:
        """Nodes with chips of another family: they have another ``accelerator-type``, or more than eight chips."""
        codes, values = self._session.nodes.facts.label_column(ACCELERATOR_TYPE)
        others = [code for code, value in enumerate(values) if value not in self._family.accelerator_types]
        return (self._allocatable > CHIPS) | np.isin(codes, others)

    @cached_property
    def _own_family(self) -> NDArray[np.bool_]:
        return (self._allocatable > 0) & ~self._other_family

    @cached_property
    def _family_filters(self) -> list[Filter]:
        bare = self._allocatable < 1
        return [
            MaskFilter(~bare, f"node(s) had no {self._family.chip_prefix.removesuffix('-')} chips"),
            MaskFilter(bare | ~self._other_family, f"node(s) were not of the family {self._family.title}"),
        ]

    # --- answers ---
    def _filters(self, cls: TaskClass, distributed: bool) -> list[Filter]:
        table = self._family.tables.get(self._demand.chips(cls))
        if table is None or skips_plugin(cls):
            return []
        return [*self._family_filters, RingFilter(self._ledger, table, distributed)]

    def _scores(self, cls: TaskClass) -> list[Score]:
        table = self._family.tables.get(self._demand.chips(cls))
        return [] if table is None or skips_plugin(cls) else [RingScore(self._ledger, table)]

    def _bind(self, task: Task, row: int) -> dict[str, str]:
        chips = self._ledger.taken(task)
        if not chips or skips_plugin(task.cls):
            return {}
        session = self._session
        annotations, problems = self._annotations.for_task(
            task,
            session.nodes.facts.objects[row],
            chips,
            distributed=self._demand.is_distributed(session.jobs[task.job]),
            allocatable=int(self._allocatable[row]),
        )
        for problem in problems:
            session.malformed_field(problem)
        return annotations


register_prefix("volcano-npu", Ascend.name)
