"""The annotations that a binding writes onto a Pod of an NPU job: its chips or its part of a chip, its rank, and its
block in a super pod."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

from scheduler.api.job import Job
from scheduler.api.names import (
    ASCEND_910_CONFIGURATION,
    ASCEND_REAL,
    DISTRIBUTED_JOB,
    HCCL_RANK_INDEX,
    NPU_CONFIGURATION,
    NPU_CORE,
    RESCHEDULE_IN_PLACE,
    SUPER_POD_RANK,
)
from scheduler.api.task import Task
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.ascend.annotations import ChipAnnotations
from scheduler.plugins.ascend.demand import ChipDemand
from scheduler.plugins.ascend.masks import format_chips
from scheduler.plugins.ascend.npu_ledgers import NpuLedgers
from scheduler.plugins.ascend.shares import ShareUse, annotations_of, copied
from scheduler.plugins.ascend.super_pod_plans import ID, SuperPodPlans
from scheduler.plugins.support.predicate_times import NodeTimes

_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


class Bindings:
    """The bindings of one session."""

    def __init__(
        self,
        session: PluginSession,
        demand: ChipDemand,
        ledgers: NpuLedgers,
        plans: SuperPodPlans,
        ranks: Callable[[Job], Mapping[str, str]],
        returns: Callable[[Task, str], bool],
    ) -> None:
        """``ranks``: uid -> rank of the Pods of a job; ``returns``: whether a task returns to the node of its
        predecessor."""
        self._session = session
        self._demand = demand
        self._ledgers = ledgers
        self._plans = plans
        self._ranks = ranks
        self._returns = returns
        self._copied_quotas: dict[str, Mapping[str, str]] = {}
        """Key of a job -> the annotations that each of its Pods with chips gets."""
        self._without_npus: set[str] = set()
        """Keys of the jobs with bindings of which no Pod requests NPUs."""

    def annotations(self, task: Task, row: int) -> Mapping[str, str]:
        """Returns the annotations of a task that is bound to the node at a row."""
        if task.job in self._without_npus:
            return _NO_ANNOTATIONS
        session, demand = self._session, self._demand
        job = session.jobs[task.job]
        if not demand.is_npu_job(job):
            self._without_npus.add(task.job)
            return _NO_ANNOTATIONS
        annotations: dict[str, str] = {}
        choice = None if self._ledgers.parts is None else self._ledgers.parts.taken(task)
        if choice is not None:
            annotations = self._of_parts(task, row, NPU_CORE, choice.annotation)
        elif demand.asks(task.cls):
            annotations = self._of_chips(job, task, row)
        elif demand.asks_virtual(task.cls):
            annotations = self._of_device(task, row)
        rank = self._ranks(job)[task.uid]
        if task.rank != rank:
            annotations[HCCL_RANK_INDEX] = rank
        if self._returns(task, session.nodes.names[row]):
            annotations[RESCHEDULE_IN_PLACE] = "true"
        return annotations

    def _of_parts(self, task: Task, row: int, key: str, value: str) -> dict[str, str]:
        """Returns the annotations of a task with a part of a chip, which the annotation ``key`` names."""
        distributed = self._demand.is_distributed(self._session.jobs[task.job])
        return self._annotations.for_parts(key, value, self._session.nodes.names[row], distributed=distributed)

    def _of_device(self, task: Task, row: int) -> dict[str, str]:
        """Returns the annotations of a task with a virtual NPU that was created beforehand."""
        for devices in self._ledgers.devices:
            name = devices.taken(task)
            if name:
                return self._of_parts(task, row, devices.resource.name, name)
        distributed = self._demand.is_distributed(self._session.jobs[task.job])
        return {DISTRIBUTED_JOB: "true" if distributed else "false"}

    def _of_chips(self, job: Job, task: Task, row: int) -> dict[str, str]:
        """Returns the annotations about the chips of a task."""
        sharing = self._demand.share_use(job)
        if sharing is not None:
            return self._of_share(task, row, sharing)
        use = self._demand.use(job)
        if use is None:
            return {}
        ledger, node = self._ledgers.whole[use.resource], self._session.nodes.facts.objects[row]
        key = NPU_CONFIGURATION if use.family.npu_configuration else ASCEND_910_CONFIGURATION
        annotations, problems = self._annotations.for_task(
            task, node, row, ledger, configuration_key=key, distributed=use.several
        )
        for problem in problems:
            self._session.malformed_field(problem)
        if job.key not in self._copied_quotas:
            self._copied_quotas[job.key] = copied(job)
        if quota := self._copied_quotas[job.key]:
            annotations |= quota
            annotations.pop(ASCEND_REAL, None)  # the device plugin names the share
        plan = self._plans.known(job) if use.job else None
        if plan is not None and task.uid in plan.blocks:
            annotations |= {SUPER_POD_RANK: str(plan.blocks[task.uid]), ID: str(int(ledger.super_pods[row]))}
        return annotations

    def _of_share(self, task: Task, row: int, use: ShareUse) -> dict[str, str]:
        """Returns the annotations of a task that shares a chip."""
        shares = self._ledgers.shares.get(use.resource)
        chip = None if shares is None else shares.chip(task)
        if chip is None:
            return {}
        names = format_chips((chip,), use.resource.prefix)
        return self._of_parts(task, row, use.resource.name, names) | annotations_of(use.quota)

    @cached_property
    def _annotations(self) -> ChipAnnotations:
        return ChipAnnotations(self._session.once(NodeTimes))
