"""The plugin ascend: assigns each task NPU chips where the family of its job needs them, on the node where this leaves
the best remainder.

``resolve`` chooses the family of a job, ``demand`` checks its requests, ``inventory`` reads the free chips, ``ledger``
keeps them during the session, ``columns`` filters and scores nodes, and ``annotations`` builds the annotations for the
device plugin. Where no node and no Pod has a resource of NPUs, the plugin registers nothing.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from scheduler.api.decisions import ObjectWrite
from scheduler.api.device_states import Device
from scheduler.api.job import Condition, Job
from scheduler.api.names import (
    ASCEND_310P,
    ASCEND_910_CONFIGURATION,
    ASCEND_REAL,
    CONDITION_UNSCHEDULABLE,
    DISTRIBUTED_JOB,
    HCCL_RANK_INDEX,
    HUAWEI_PREFIX,
    NPU_CONFIGURATION,
    NPU_CORE,
    RESCHEDULE_IN_PLACE,
    SUPER_POD_RANK,
)
from scheduler.api.node import Mask, Rows
from scheduler.api.objects import ConfigMap
from scheduler.api.reasons import Refusal
from scheduler.api.task import Task, TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.cache_requirements import CacheRequirements, cache_requirements_of
from scheduler.framework.columns import CodedFilter, Filter, MaskFilter, RefusingFilter, Score, StaticScore
from scheduler.framework.extension import Vote
from scheduler.framework.figures import Figures
from scheduler.framework.registry import register_plugin, register_prefix
from scheduler.framework.session import Session
from scheduler.plugins.ascend import cluster_reports, node_health
from scheduler.plugins.ascend.annotations import PodAnnotations
from scheduler.plugins.ascend.chip_columns import read_columns
from scheduler.plugins.ascend.chip_counts import chip_counts
from scheduler.plugins.ascend.chip_states import chip_states, shares_of
from scheduler.plugins.ascend.chiplist import format_chips
from scheduler.plugins.ascend.columns import ChipFilter, ChipScore
from scheduler.plugins.ascend.demand import CoreUse, Demand, Use
from scheduler.plugins.ascend.family import Family
from scheduler.plugins.ascend.gangs import Gangs
from scheduler.plugins.ascend.inventory import NodeChips, read_exhausted, whole_chips
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.previous_nodes import PreviousNodes
from scheduler.plugins.ascend.ranks import malformed_ranks, ranks_of
from scheduler.plugins.ascend.rescheduling import graceful_exit, rescheduler
from scheduler.plugins.ascend.rescheduling.dying_words import dying_words
from scheduler.plugins.ascend.rescheduling.rescheduler import Rescheduler
from scheduler.plugins.ascend.rescheduling.state import Restart
from scheduler.plugins.ascend.resolve import CHIP_RESOURCES
from scheduler.plugins.ascend.resources import ChipResource
from scheduler.plugins.ascend.settings import ENTRY, settings_of
from scheduler.plugins.ascend.sharing.columns import ShareScore, share_filters
from scheduler.plugins.ascend.sharing.ledger import ShareLedger
from scheduler.plugins.ascend.sharing.quota import SHARED_NODE, ShareUse, annotations_of, copied
from scheduler.plugins.ascend.super_pod_plans import ID, SuperPodPlans
from scheduler.plugins.ascend.vnpu.columns import PartScore, part_filters
from scheduler.plugins.ascend.vnpu.exclusion import Exclusion
from scheduler.plugins.ascend.vnpu.ledger import PartLedger
from scheduler.plugins.ascend.vnpu.part_columns import read_columns as read_part_columns
from scheduler.plugins.ascend.vnpu.requests import request_of
from scheduler.plugins.ascend.vnpu.static import DeviceFilter, DeviceLedger
from scheduler.plugins.support.predicate_times import NodeTimes

REASON_VALIDATE: Final = "JobValidateFailed"
REASON_ENQUEUE: Final = "JobEnqueueFailed"
REASON_PREDICATE: Final = "NodePredicateFailed"
REASON_ORDER: Final = "BatchOrderFailed"
"""Reasons of the condition Unschedulable of PodGroups."""
_SUB_HEALTHY: Final = "node(s) were sub-healthy, which the job's subHealthyStrategy excludes"
_NOT_CHOSEN: Final = "node(s) were not chosen for the job in its super pods"
NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


@register_plugin
class Ascend:
    """Has no arguments. Arguments of other builds of the plugin are accepted and ignored."""

    name: ClassVar[str] = "ascend"
    configurations: ClassVar[tuple[str, ...]] = (ENTRY,)

    def __init__(self, arguments: Arguments) -> None:
        del arguments

    @classmethod
    def cache_requirements(cls, arguments: Arguments, config_maps: Mapping[str, ConfigMap]) -> CacheRequirements:
        """Declares the ConfigMaps of NodeD and ClusterD, and those with the state of restarts."""
        del arguments, config_maps
        return CacheRequirements(
            optional_config_maps=rescheduler.CONFIG_MAPS,
            labelled_config_maps=frozenset(
                [
                    ("", graceful_exit.LABELS),
                    *((cluster_reports.NAMESPACE, labels) for labels in cluster_reports.LABELS),
                ]
            ),
        )

    def open(self, session: Session) -> None:
        self._session = session
        self.ledgers: dict[ChipResource, ChipLedger] = {}
        """The chips of the session. Empty if there are no NPUs."""
        self.devices: list[DeviceLedger] = []
        self._chips: dict[ChipResource, Mapping[int, NodeChips]] = {}
        """Row of a node -> its chips when the session was opened."""
        self.parts: PartLedger | None = None
        self.shares: dict[ChipResource, ShareLedger] = {}
        """The chips that Pods share, for resources with nodes whose chips are shared."""
        if not any(name.startswith(HUAWEI_PREFIX) for name in session.dimensions.names):
            return
        self._settings = settings_of(session)
        collected = self._settings.cluster_reports
        self._reports = cluster_reports.read(session.snapshot) if collected else cluster_reports.NO_REPORTS
        for problem in self._reports.problems:
            session.malformed_field(problem)
        self._ranks: dict[str, Mapping[str, str]] = {}
        """Key of a job -> uid -> rank."""
        self._copied_quotas: dict[str, Mapping[str, str]] = {}
        """Key of a job -> the annotations that each of its Pods with chips gets."""
        owned = cache_requirements_of(session.configuration, session.snapshot.config_maps).devices
        position = session.dimensions.find(NPU_CORE)
        parts = read_part_columns(session.snapshot, position, self._reports)
        self._demand = Demand(
            session.dimensions,
            self._settings.super_pod_size,
            owned,
            preset_virtual=self._settings.preset_virtual,
            models={parts.kinds[number].model for number in np.unique(parts.kind).tolist() if number >= 0},
            report=session.malformed_field,
        )
        self._gangs = Gangs(session, self._demand)
        self._plans = SuperPodPlans(session, self._settings, self._ranks_of, self._sub_healthy)
        self._family_filters: dict[tuple[Family, ChipResource], list[Filter]] = {}
        self._health_of: dict[ChipResource, node_health.NodeHealth] = {}
        known = {d: resource for d, resource in self._demand.resources.items() if resource.name in CHIP_RESOURCES}
        self.ledgers |= {resource: self._read(resource, d) for d, resource in known.items()}
        self.devices = [self._read_devices(resource, d) for d, resource in self._demand.virtual.items()]
        if position is not None:
            self.parts = PartLedger(session, self._demand, position, parts, self.ledgers)
            for problem in () if NPU_CORE in owned else parts.problems:
                session.malformed_field(problem)
        session.add_job_valid(self._demand.check)
        session.add_filter(self._filters, per_job=self._shared_use)
        session.add_score(self._scores, per_job=self._shared_use)
        session.add_bind_annotations(self._bind)
        session.add_job_enqueueable(self._enqueueable)
        session.add_job_valid(self._gangs.check)
        session.add_job_ready(self._gangs.missing, by_demand=True)
        session.add_job_pipelined(self._gangs.pipelined, by_demand=True)
        self.rescheduler = Rescheduler(
            session,
            self.ledgers,
            self._chips,
            self._exhausted,
            self._health,
            self._reports,
            self._demand.is_npu_job,
            self._settings.grace_over_time,
            words=self._words if self._settings.dying_words else None,
        )
        self.rescheduler.open()
        previous = PreviousNodes(session, self._demand, self.rescheduler, prefer=self._settings.prefer_previous)
        if previous.matters:
            session.add_score(previous.scores, per_job=previous.rows)
            session.add_node_assignment(previous.assign)
            session.add_task_order(previous.last)
        session.add_close(self._close)
        session.add_handlers(
            self._plans.allocate, self._plans.deallocate
        )  # before the ledgers, which it leaves as they are
        for ledger in self.ledgers.values():
            session.add_handlers(ledger.allocate, ledger.deallocate)
        for shares in self.shares.values():
            session.add_handlers(shares.allocate, shares.deallocate)
        for devices in self.devices:
            session.add_handlers(devices.allocate, devices.deallocate)
        session.add_node_devices(self._node_devices)
        session.add_figures(self._figures)
        if self.parts is not None:
            session.add_handlers(self.parts.allocate, self.parts.deallocate)
        if NPU_CORE in owned and position is not None:
            exclusion = Exclusion(session, ASCEND_310P)
            session.add_filter(exclusion.filters)
            session.add_handlers(exclusion.allocate, exclusion.deallocate)

    def _read(self, resource: ChipResource, position: int) -> ChipLedger:
        session = self._session
        chips = read_columns(
            session.snapshot, resource, position, self._reports, self_maintain=self._settings.self_maintain
        )
        for problem in chips.problems:
            session.malformed_field(problem)
        self._chips[resource] = chips.by_row
        ledger = ChipLedger(session, resource, self._demand, chips, whole_chips(session.nodes.allocatable[position]))
        shares = ShareLedger(session, self._demand, ledger, chips)
        if shares.memory:
            self.shares[resource] = shares
        return ledger

    def _exhausted(self, resource: ChipResource, *, with_pods: bool = True) -> Mapping[int, NodeChips]:
        """Row -> chips of the nodes of which no chip is allocatable. ``with_pods``: only those with Pods that request
        the resource."""
        position = self._session.dimensions.index(resource.name)
        snapshot, own = self._session.snapshot, self._settings.self_maintain
        return read_exhausted(snapshot, resource, position, self._reports, self_maintain=own, with_pods=with_pods)

    def _words(self, job: Job, restart: Restart) -> ObjectWrite | None:
        return dying_words(job, restart, lambda cls: sum(self._demand.whole_chips(cls.request).values()))

    def _node_devices(self) -> Iterable[Device]:
        session = self._session
        tasks = {task.uid: task for of_node in session.snapshot.chips.values() for task in of_node}
        tasks |= {task.uid: task for job in session.jobs.values() for task in job.tasks()}
        placed = [(tasks[uid], row) for job in session.jobs.values() for uid, row in job.placed.items()]
        for resource, ledger in self.ledgers.items():
            chips = {**self._chips[resource], **self._exhausted(resource, with_pods=False)}
            shares = shares_of(resource, self.parts, self.devices, self.shares.get(resource), placed)
            nodes, health = session.nodes.facts.objects, self._health(resource)
            yield from chip_states(ledger, nodes, health, dict(sorted(chips.items())), shares, tasks)

    def _figures(self) -> Figures:
        nodes, dimensions = self._session.nodes, self._session.dimensions
        return Figures(
            devices=[
                chip_counts(ledger, nodes, dimensions.index(resource.name), self._health(resource))
                for resource, ledger in self.ledgers.items()
            ]
        )

    def _read_devices(self, resource: ChipResource, position: int) -> DeviceLedger:
        """The devices of a resource of virtual NPUs that were created beforehand. Their chips are not assigned
        whole."""
        devices = DeviceLedger(self._session, resource, position)
        for problem in devices.problems:
            self._session.malformed_field(problem)
        whole = self.ledgers.get(ChipResource(resource.name.partition("-")[0]))
        if whole is not None:
            whole.in_parts |= devices.chips
        return devices

    def use(self, job: Job) -> Use | None:
        """How a job of the session uses chips; None if it uses none, or if it is refused."""
        return self._demand.use(job) if self.ledgers else None

    def _shared_use(self, job: Job) -> Use | CoreUse | ShareUse | None:
        """How a job uses chips; equal for jobs with equal filters and scores. Most jobs that wait for nodes in super
        pods share their refusal, and so are refused at the cost of one."""
        use = self.use(job)
        if use is None:
            return self._demand.core_use(job) or self._demand.share_use(job)
        if not use.job:
            return use
        if self._plans.planning:
            return use._replace(job="")
        plan = self._plans.of(job, use, self.ledgers[use.resource])
        if not plan.failure:
            return use
        return use._replace(job="", failure=plan.failure if plan.fitting else _NOT_CHOSEN)

    # --- nodes of a family --------------------------------------------------------------------------------------------
    def _health(self, resource: ChipResource) -> node_health.NodeHealth:
        if resource not in self._health_of:
            ledger = self.ledgers[resource]
            health = node_health.read(
                self._session.snapshot, resource.name, lambda: np.flatnonzero(ledger.allocatable > 0), self._reports
            )
            for problem in health.problems:
                self._session.malformed_field(problem)
            self._health_of[resource] = health
        return self._health_of[resource]

    def _sub_healthy(self, resource: ChipResource) -> Mask:
        """Shape (nodes,): nodes of which a chip or a switch has a fault that jobs may ignore."""
        return self._health(resource).sub_healthy | self.ledgers[resource].sub_healthy

    def _nodes_of(self, family: Family, resource: ChipResource) -> list[Filter]:
        filters = self._family_filters.get((family, resource))
        if filters is None:
            ledger = self.ledgers[resource]
            bare = ledger.allocatable < 1
            lonely = ledger.super_pods < 0 if family.super_pods else np.zeros_like(bare)
            # A device plugin of shared chips reports each of them many times.
            chips = np.minimum(ledger.allocatable, ledger.capacity + ledger.broken)
            others = np.zeros_like(bare) if family.any_ids else chips > family.chips
            for label, values in family.node_labels.items():
                codes, found = self._session.nodes.facts.label_column(label)
                others |= np.isin(codes, [code for code, value in enumerate(found) if value not in values])
                if "" not in values:
                    others |= codes < 0
            filters = self._family_filters[family, resource] = [
                MaskFilter(~bare, f"node(s) had no {resource.prefix.removesuffix('-')} chips"),
                MaskFilter(bare | ~others, f"node(s) were not of the family {family.title}"),
                MaskFilter(bare | others | ~lonely, "node(s) were in no super pod"),
                *self._open_nodes(resource),
            ]
        return filters

    def _open_nodes(self, resource: ChipResource) -> list[Filter]:
        """The filters of the nodes that are healthy, and of which the free chips are known."""
        return [
            CodedFilter(self._health(resource).codes, node_health.REASONS),
            MaskFilter(~self.ledgers[resource].unreported, "node(s) had no list of free chips that can be read"),
            MaskFilter(~self.ledgers[resource].contradictory, "node(s) listed more free chips than were idle"),
        ]

    @cached_property
    def _part_health(self) -> node_health.NodeHealth:
        """The health of the nodes with AI cores."""
        parts = self.parts

        def rows() -> Rows:
            return np.zeros(0, dtype=np.intp) if parts is None else np.flatnonzero(parts.columns.kind >= 0)

        health = node_health.read(self._session.snapshot, NPU_CORE, rows, self._reports)
        for problem in health.problems:
            self._session.malformed_field(problem)
        return health

    def _part_filters(self, use: CoreUse) -> list[Filter]:
        """The filters by the health of nodes, for jobs that request AI cores."""
        health, whole = self._part_health, self.ledgers.get(ChipResource(use.resource))
        filters: list[Filter] = [CodedFilter(health.codes, node_health.REASONS)]
        if use.avoids_sub_health:
            sub_healthy = health.sub_healthy if whole is None else health.sub_healthy | whole.sub_healthy
            filters.append(MaskFilter(~sub_healthy, _SUB_HEALTHY))
        return filters

    def _share_filters(self, use: ShareUse) -> list[Filter]:
        shares = self.shares.get(use.resource)
        if shares is None:
            return [RefusingFilter(f"no node had the label {SHARED_NODE}=true")]
        own = frozenset(task.uid for task in self._session.jobs[use.job].tasks())
        filters = [*self._open_nodes(use.resource), *share_filters(shares, use, own, len(self._session.nodes))]
        if use.avoids_sub_health:
            filters.append(MaskFilter(~self._sub_healthy(use.resource), _SUB_HEALTHY))
        return filters

    # --- answers ---
    def _filters(self, cls: TaskClass, use: Use | CoreUse | ShareUse | None) -> list[Filter]:
        if isinstance(use, ShareUse) and self._demand.chips(cls, use.resource):
            return self._share_filters(use)
        if self.parts is not None and isinstance(use, CoreUse) and self._demand.cores(cls):
            request = request_of(cls, self._demand.cores(cls))
            return [*self._part_filters(use), *part_filters(self.parts, use.resource, request)]
        if not self._demand.asks(cls) and not self._demand.cores(cls):
            devices = [DeviceFilter(devices) for devices in self.devices if devices.nodes and devices.concerns(cls)]
            return [*devices, *self._health_filters(use)]
        chips = self._demand.chips(cls, use.resource) if isinstance(use, Use) else 0
        if isinstance(use, Use) and not chips:
            return [RefusingFilter(f"the family of the job has {use.resource.name} only")]
        if not isinstance(use, Use) or chips not in use.family.sizes:
            return [RefusingFilter("node(s) had no chips of a family that fits the job")]
        filters = [*self._nodes_of(use.family, use.resource), ChipFilter(self.ledgers[use.resource], use, chips)]
        if use.avoids_sub_health:
            filters.append(MaskFilter(~self._sub_healthy(use.resource), _SUB_HEALTHY))
        if use.failure and use.failure != _NOT_CHOSEN:
            filters.append(RefusingFilter(use.failure))
        elif use.job or use.failure:
            filters.append(self._planned(cls, use))
        return filters

    def _health_filters(self, use: Use | CoreUse | ShareUse | None) -> list[Filter]:
        """The filters for the Pods without chips of a job with chips: a fault of their node would restart the job."""
        if isinstance(use, CoreUse):
            return self._part_filters(use)
        if use is None:
            return []
        filters: list[Filter] = [CodedFilter(self._health(use.resource).codes, node_health.REASONS)]
        if use.avoids_sub_health:
            filters.append(MaskFilter(~self._sub_healthy(use.resource), _SUB_HEALTHY))
        return filters

    def _planned(self, cls: TaskClass, use: Use) -> Filter:
        """The filter of the nodes that were chosen for a job as a whole. Without a choice it passes no node, so that no
        Pods are evicted for a part of the job."""
        rows: Rows = np.zeros(0, dtype=np.intp)
        if not use.failure:
            job = self._session.jobs[use.job]
            rows = self._plans.rows(self._plans.of(job, use, self.ledgers[use.resource]), job, cls)
        return MaskFilter(self._plans.mask(rows), _NOT_CHOSEN)

    def _scores(self, cls: TaskClass, use: Use | CoreUse | ShareUse | None) -> list[Score]:
        if isinstance(use, ShareUse):
            shares = self.shares.get(use.resource)
            return [ShareScore(shares, use)] if shares is not None and self._demand.chips(cls, use.resource) else []
        if self.parts is not None and isinstance(use, CoreUse) and self._demand.cores(cls):
            return [PartScore(self.parts, self._session.nodes, request_of(cls, self._demand.cores(cls)))]
        chips = self._demand.chips(cls, use.resource) if isinstance(use, Use) else 0
        if not isinstance(use, Use) or chips not in use.family.sizes or use.failure:
            return []
        if use.job:
            job = self._session.jobs[use.job]
            plan = self._plans.of(job, use, self.ledgers[use.resource])
            return [StaticScore(self._plans.score(self._plans.rows(plan, job, cls)))]
        sub_healthy = self._sub_healthy(use.resource)
        return [ChipScore(self.ledgers[use.resource], use, chips, sub_healthy if sub_healthy.any() else None)]

    def _enqueueable(self, job: Job) -> Vote:
        """Rejects a job that asks for more chips than are free in the cluster."""
        asked = {} if job.min_resources is None else self._demand.whole_chips(job.min_resources)
        pods = max(self._gangs.minimum(job), 1) if asked else 1
        for resource, number_each in asked.items():
            number = number_each * pods
            # A job of an unknown resource is admitted: that no family has it is said when its Pods are there.
            if resource in self.ledgers and number > self.ledgers[resource].countable:
                free = self.ledgers[resource].countable
                text = f"the job asks for {number} {resource.name}, the cluster has {free} free chips"
                self._session.refuse(job, Refusal(REASON_ENQUEUE, text))
                return Vote.REJECT
        return Vote.PERMIT if asked and self._settings.force_enqueue else Vote.ABSTAIN

    def _close(self) -> None:
        """Says on the PodGroup of each gang that waits at which step the plugin refused it."""
        for job in self._session.active_jobs.values():
            if not (job.refusals or job.fit_errors) or job.missing <= 0:
                continue
            if self._demand.is_npu_job(job) or self._demand.check(job) is not None:
                found = self._condition(job)
                if found is not None:
                    job.new_conditions.append(Condition(CONDITION_UNSCHEDULABLE, *found))

    def _condition(self, job: Job) -> tuple[str, str] | None:
        """Reason and message. A job may be invalid and request more than the cluster has: the message says both."""
        invalid = self._demand.check(job) or self._gangs.check(job)
        found = [] if invalid is None else [(REASON_VALIDATE, f"{invalid.reason}: {invalid.message}")]
        found += [(REASON_ENQUEUE, refusal.message) for refusal in job.refusals if refusal.reason == REASON_ENQUEUE][:1]
        if found:
            return found[-1][0], "; ".join(message for _, message in found)
        plan = self._plans.known(job)
        if plan is not None and plan.failure and plan.fitting:
            return REASON_ORDER, plan.failure
        errors = next(iter(job.fit_errors.values()), None)
        return None if errors is None else (REASON_PREDICATE, errors.message())

    def _bind(self, task: Task, row: int) -> Mapping[str, str]:
        session, demand = self._session, self._demand
        job = session.jobs[task.job]
        if not demand.is_npu_job(job):
            return NO_ANNOTATIONS
        annotations: dict[str, str] = {}
        choice = None if self.parts is None else self.parts.taken(task)
        if choice is not None:
            annotations = self._of_parts(task, row, NPU_CORE, choice.annotation)
        elif demand.asks(task.cls):
            annotations = self._of_chips(job, task, row)
        elif demand.asks_virtual(task.cls):
            annotations = self._of_device(task, row)
        rank = self._ranks_of(job)[task.uid]
        if task.rank != rank:
            annotations[HCCL_RANK_INDEX] = rank
        if self.rescheduler.returns(task, session.nodes.names[row]):
            annotations[RESCHEDULE_IN_PLACE] = "true"
        return annotations

    def _of_parts(self, task: Task, row: int, key: str, value: str) -> dict[str, str]:
        """The annotations of a task with a part of a chip, which the annotation ``key`` names."""
        distributed = self._demand.is_distributed(self._session.jobs[task.job])
        return self._annotations.for_parts(key, value, self._session.nodes.names[row], distributed=distributed)

    def _of_device(self, task: Task, row: int) -> dict[str, str]:
        """The annotations of a task with a virtual NPU that was created beforehand."""
        for devices in self.devices:
            name = devices.taken(task)
            if name:
                return self._of_parts(task, row, devices.resource.name, name)
        distributed = self._demand.is_distributed(self._session.jobs[task.job])
        return {DISTRIBUTED_JOB: "true" if distributed else "false"}

    def _of_chips(self, job: Job, task: Task, row: int) -> dict[str, str]:
        """The annotations about the chips of a task."""
        sharing = self._demand.share_use(job)
        if sharing is not None:
            return self._of_share(task, row, sharing)
        use = self._demand.use(job)
        if use is None:
            return {}
        ledger, node = self.ledgers[use.resource], self._session.nodes.facts.objects[row]
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
        """The annotations of a task that shares a chip."""
        shares = self.shares.get(use.resource)
        chip = None if shares is None else shares.chip(task)
        if chip is None:
            return {}
        names = format_chips((chip,), use.resource.prefix)
        return self._of_parts(task, row, use.resource.name, names) | annotations_of(use.quota)

    def _ranks_of(self, job: Job) -> Mapping[str, str]:
        if job.key not in self._ranks:
            self._ranks[job.key] = ranks_of(job, self._demand.asks, self.rescheduler.ranks(job))
            for problem in malformed_ranks(job):
                self._session.malformed_field(problem)
        return self._ranks[job.key]

    @cached_property
    def _annotations(self) -> PodAnnotations:
        return PodAnnotations(self._session.once(NodeTimes))


register_prefix("volcano-npu", Ascend.name)
