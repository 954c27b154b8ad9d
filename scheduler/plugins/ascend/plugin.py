"""The plugin ascend: assigns each task NPU chips where the family of its job needs them, on the node where this leaves
the best remainder.

``resolve`` chooses the family of a job, ``demand`` checks its requests, ``inventory`` reads the free chips,
``npu_session`` keeps them during the session, ``filters`` and ``columns`` filter and score nodes, and ``bindings``
builds the annotations for the device plugin. Where no node and no Pod has a resource of NPUs, the plugin registers
nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final

from scheduler.api.job import GroupCondition, Job
from scheduler.api.names import ASCEND_310P, CONDITION_UNSCHEDULABLE, HUAWEI_PREFIX, NPU_CORE
from scheduler.api.objects import ConfigMap
from scheduler.api.reasons import Refusal
from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.cache_requirements import CacheRequirements
from scheduler.framework.card_parts import CardParts
from scheduler.framework.columns import PinUse, Score, StaticScore
from scheduler.framework.extension import Vote
from scheduler.framework.figures import Figures
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin, register_prefix
from scheduler.plugins.ascend import cluster_reports
from scheduler.plugins.ascend.bindings import Bindings
from scheduler.plugins.ascend.card_parts import NpuCoreParts, ShareParts
from scheduler.plugins.ascend.chip_states import chip_counts, chip_faults, node_devices
from scheduler.plugins.ascend.columns import ChipScore
from scheduler.plugins.ascend.demand import ChipUse, CoreUse, NpuUse
from scheduler.plugins.ascend.family_choices import FamilyChoice, NodeKinds, advice, choices, node_kinds
from scheduler.plugins.ascend.filters import NOT_CHOSEN, NodeFilters
from scheduler.plugins.ascend.gangs import Gangs
from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.ascend.npu_session import NpuLedgers, NpuSession
from scheduler.plugins.ascend.previous_nodes import PreviousNodes
from scheduler.plugins.ascend.ranks import malformed_ranks, ranks_of
from scheduler.plugins.ascend.rescheduling.effects import RESET_LABELS
from scheduler.plugins.ascend.rescheduling.rescheduler import CONFIG_MAPS, Rescheduler
from scheduler.plugins.ascend.settings import ENTRY
from scheduler.plugins.ascend.share_ledger import ShareScore
from scheduler.plugins.ascend.shares import ShareUse
from scheduler.plugins.ascend.super_pod_plans import SuperPodPlans
from scheduler.plugins.ascend.vnpu.columns import PartScore
from scheduler.plugins.ascend.vnpu.exclusion import Exclusion
from scheduler.plugins.ascend.vnpu.models import request_of

REASON_VALIDATE: Final = "JobValidateFailed"
REASON_ENQUEUE: Final = "JobEnqueueFailed"
REASON_PREDICATE: Final = "NodePredicateFailed"
REASON_ORDER: Final = "BatchOrderFailed"
"""Reasons of the condition Unschedulable of PodGroups."""


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
            optional_config_maps=CONFIG_MAPS,
            labelled_config_maps=frozenset(
                {("", RESET_LABELS), *((cluster_reports.NAMESPACE, labels) for labels in cluster_reports.LABELS)}
            ),
        )

    @classmethod
    def card_parts(cls, arguments: Arguments, config_maps: Mapping[str, ConfigMap]) -> Iterable[CardParts]:
        """Returns how chips are divided, for card quota."""
        del arguments, config_maps
        return NpuCoreParts(), ShareParts()

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._has_chips = False
        """Whether there are resources of whole chips."""
        if not any(name.startswith(HUAWEI_PREFIX) for name in session.dimensions.names):
            return
        npus = self._npus = NpuSession.read(session)
        ledgers, self._demand, self._health = npus.ledgers, npus.demand, npus.health
        self._has_chips = bool(ledgers.whole)
        self._ranks: dict[str, Mapping[str, str]] = {}
        """Key of a job -> uid -> rank."""
        self._gangs = Gangs(session, self._demand)
        self._plans = SuperPodPlans(npus, self._ranks_of)
        self._kinds: dict[ChipResource, NodeKinds] = {}
        session.add_job_valid(self._valid)
        self.filters = NodeFilters(npus, self._plans)
        session.add_filter(self.filters.of, per_job=self._shared_use, pin=PinUse.IGNORED)
        session.add_score(self._scores, per_job=self._shared_use)
        session.add_job_enqueueable(self._enqueueable)
        session.add_job_valid(self._gangs.check)
        session.add_job_ready(self._gangs.missing, by_demand=True)
        session.add_job_pipelined(self._gangs.pipelined, by_demand=True)
        self.rescheduler = Rescheduler(npus)
        self.rescheduler.open()
        if NPU_CORE not in npus.owned_elsewhere:
            npus.failures.open()
        bindings = Bindings(npus, self._plans, self._ranks_of, self.rescheduler.returns)
        session.add_bind_annotations(bindings.annotations)
        previous = PreviousNodes(npus, self.rescheduler)
        if previous.matters:
            session.add_score(previous.scores, per_job=previous.rows)
            session.add_node_assignment(previous.assign)
            session.add_task_order(previous.last)
        session.add_close(self._close)
        session.add_handlers(self._plans.allocate, self._plans.deallocate)  # refuses nodes before a ledger has changed
        for ledger in ledgers:
            session.add_handlers(ledger.allocate, ledger.deallocate)
        session.add_node_devices(lambda: node_devices(npus))
        session.add_device_faults(lambda: chip_faults(npus))
        session.add_figures(self._figures)
        if NPU_CORE in npus.owned_elsewhere and ledgers.parts is not None:
            exclusion = Exclusion(session, ASCEND_310P)
            session.add_filter(exclusion.filters, pin=PinUse.IGNORED)
            session.add_handlers(exclusion.allocate, exclusion.deallocate)

    @property
    def ledgers(self) -> NpuLedgers:
        """The chips of the session, by the way in which Pods get them."""
        return self._npus.ledgers

    def _figures(self) -> Figures:
        return Figures(devices=[chip_counts(self._npus, ledger) for ledger in self.ledgers.whole.values()])

    def use(self, job: Job) -> ChipUse | None:
        """Returns how a job of the session uses chips; None if it uses none, or if it is refused."""
        return self._demand.use(job) if self._has_chips else None

    def family_choices(self, job: Job) -> Sequence[FamilyChoice]:
        """Returns the other families of nodes in the cluster that the job could have, best first."""
        resource = self._demand.resource(job) if self._has_chips else None
        ledger = self.ledgers.whole.get(resource) if resource is not None else None
        if resource is None or ledger is None:
            return ()
        if resource not in self._kinds:
            self._kinds[resource] = node_kinds(self._session.nodes.facts, ledger)
        kinds = self._kinds[resource]
        return job.remember(
            "family choices", (self._demand.basis, kinds), lambda: tuple(choices(job, self._demand, kinds))
        )

    def _valid(self, job: Job) -> Refusal | None:
        """Refuses a job as ``ChipDemand.check`` does, and says which family of the cluster's nodes would accept it."""
        refusal = self._demand.check(job)
        text = "" if refusal is None else advice(self.family_choices(job), refusal)
        return Refusal(refusal.reason, f"{refusal.message}; {text}", refusal.shortages) if refusal and text else refusal

    def _shared_use(self, job: Job) -> NpuUse | None:
        """Returns how a job uses chips; equal for jobs with equal filters and scores. Most jobs that wait for nodes in
        super pods share their refusal, and so are refused at the cost of one."""
        use = self._demand.npu_use(job)
        if not isinstance(use, ChipUse) or not use.job:
            return use
        if self._plans.planning:
            return use._replace(job="")
        plan = self._plans.of(job, use, self.ledgers.whole[use.resource])
        if not plan.failure:
            return use
        return use._replace(job="", failure=plan.failure if plan.fitting else NOT_CHOSEN)

    # --- answers ---
    def _scores(self, cls: TaskClass, use: NpuUse | None) -> list[Score]:
        ledgers = self.ledgers
        if isinstance(use, ShareUse):
            shares = ledgers.shares.get(use.resource)
            return [ShareScore(shares, use)] if shares is not None and self._demand.chips(cls, use.resource) else []
        if ledgers.parts is not None and isinstance(use, CoreUse) and self._demand.cores(cls):
            request = request_of(cls, self._demand.cores(cls))
            return [PartScore(ledgers.parts, self._session.nodes, request, use.avoided)]
        chips = self._demand.chips(cls, use.resource) if isinstance(use, ChipUse) else 0
        if not isinstance(use, ChipUse) or chips not in use.family.sizes or use.failure:
            return []
        if use.job:
            job = self._session.jobs[use.job]
            plan = self._plans.of(job, use, ledgers.whole[use.resource])
            return [StaticScore(self._plans.score(self._plans.rows(plan, job, cls)))]
        sub_healthy = self._health.sub_healthy(use.resource)
        return [ChipScore(ledgers.whole[use.resource], use, chips, sub_healthy if sub_healthy.any() else None)]

    def _enqueueable(self, job: Job) -> Vote:
        """Rejects a job that asks for more chips than are free in the cluster."""
        asked = {} if job.min_resources is None else self._demand.whole_chips(job.min_resources)
        pods = max(self._gangs.minimum(job), 1) if asked else 1
        for resource, number_each in asked.items():
            number = number_each * pods
            # A job of an unknown resource is admitted: that no family has it is said when its Pods are there.
            ledger = self.ledgers.whole.get(resource)
            if ledger is not None and number > ledger.countable:
                free = ledger.countable
                text = f"the job asks for {number} {resource.name}, the cluster has {free} free chips"
                self._session.refuse(job, Refusal(REASON_ENQUEUE, text))
                return Vote.REJECT
        return Vote.PERMIT if asked and self._npus.settings.force_enqueue else Vote.ABSTAIN

    def _close(self) -> None:
        """Adds a condition to the PodGroup of each gang that waits: at which step the plugin refused it."""
        for job in self._session.active_jobs.values():
            if not (job.refusals or job.fit_errors) or job.missing <= 0:
                continue
            if self._demand.is_npu_job(job) or self._demand.check(job) is not None:
                found = self._condition(job)
                if found is not None:
                    job.new_conditions += (GroupCondition(CONDITION_UNSCHEDULABLE, *found),)

    def _condition(self, job: Job) -> tuple[str, str] | None:
        """Returns reason and message of this condition, or None. A job may be invalid and request more than the cluster
        has: the message says both."""
        invalid = self._valid(job) or self._gangs.check(job)
        found = [] if invalid is None else [(REASON_VALIDATE, f"{invalid.reason}: {invalid.message}")]
        found += [(REASON_ENQUEUE, refusal.message) for refusal in job.refusals if refusal.reason == REASON_ENQUEUE][:1]
        if found:
            return found[-1][0], "; ".join(message for _, message in found)
        plan = self._plans.known(job)
        if plan is not None and plan.failure and plan.fitting:
            return REASON_ORDER, plan.failure
        errors = next(iter(job.fit_errors.values()), None)
        return None if errors is None else (REASON_PREDICATE, errors.message())

    def _ranks_of(self, job: Job) -> Mapping[str, str]:
        if job.key not in self._ranks:
            self._ranks[job.key] = ranks_of(job, self._demand.asks, self.rescheduler.ranks(job))
            for problem in malformed_ranks(job):
                self._session.malformed_field(problem)
        return self._ranks[job.key]


register_prefix("volcano-npu", Ascend.name)
