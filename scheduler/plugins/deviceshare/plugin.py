"""The plugin deviceshare: assigns each Pod its cards, where several Pods can share a card.

Each family of devices (``gpushare``, ``vgpu``, ``hami``, ``mindcluster``) reads requests and the cards of nodes, and
builds the annotations for its device plugin. ``ledger`` keeps the allocations, ``columns`` filters and scores nodes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import NPU_CORE
from scheduler.api.objects import ConfigMap
from scheduler.api.preparation import Preparation
from scheduler.api.reasons import Malformed, Refusal
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.arguments import Arguments
from scheduler.framework.cache_requirements import CacheRequirements
from scheduler.framework.card_parts import CardParts
from scheduler.framework.columns import Filter, MaskFilter, PinUse, RefusingFilter, Score
from scheduler.framework.extension import Vote
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.plugins.deviceshare.card_parts import card_parts
from scheduler.plugins.deviceshare.columns import CardFilter, CardScore, ClaimColumns, IdleScore
from scheduler.plugins.deviceshare.device_config import DEFAULT, KEY, DeviceConfig, parse_device_config
from scheduler.plugins.deviceshare.exclusion import ExclusionRule, ExclusionRules
from scheduler.plugins.deviceshare.family import DeviceFamily
from scheduler.plugins.deviceshare.gpushare import GpuShare
from scheduler.plugins.deviceshare.hami import HamiNpu
from scheduler.plugins.deviceshare.ledger import DEVICE_USAGE, CardLedger, DeviceUsage
from scheduler.plugins.deviceshare.mindcluster import MindClusterNpu
from scheduler.plugins.deviceshare.node_lock import LockFilter, lock_for
from scheduler.plugins.deviceshare.settings import DeviceShareSettings
from scheduler.plugins.deviceshare.vgpu import Vgpu
from scheduler.plugins.support.predicate_times import NodeTimes
from scheduler.plugins.support.vnpu_failures import AvoidedChips, VnpuFailures

REASON_UNSERVED: Final = "UnservedDevices"
"""Reason of a condition of PodGroups."""


@register_plugin
class DeviceShare:
    """Assigns shared cards. ``settings.Settings`` describes the arguments."""

    name: ClassVar[str] = "deviceshare"

    def __init__(self, arguments: Arguments) -> None:
        self._settings = DeviceShareSettings.read(arguments)

    @classmethod
    def refusal(cls, arguments: Arguments) -> str:
        return DeviceShareSettings.read(arguments).conflict

    @classmethod
    def cache_requirements(cls, arguments: Arguments, config_maps: Mapping[str, ConfigMap]) -> CacheRequirements:
        """Declares the resources that nodes do not report as allocatable: memory and cores of HAMi's NPUs, and
        percentages of GPU memory; and the NPUs that it shares."""
        settings = DeviceShareSettings.read(arguments)
        devices = {NPU_CORE} if settings.mindcluster else set()
        if not settings.vgpu and not settings.hami:
            return CacheRequirements(devices=frozenset(devices))
        config, _ = _read_config(settings, config_maps)
        uncounted = {config.vgpu.percentage} if settings.vgpu else set()
        if settings.hami:
            uncounted |= {name for npu in config.npus for name in (npu.memory_resource, npu.core_resource)}
            devices |= {name for npu in config.npus for name in (npu.resource, npu.memory_resource, npu.core_resource)}
        return CacheRequirements(
            uncounted=frozenset(uncounted),
            devices=frozenset(devices),
            pod_labels=frozenset(key for rule in settings.rules for key, _ in rule),
            config_maps=frozenset({settings.config_map}),
        )

    @classmethod
    def card_parts(cls, arguments: Arguments, config_maps: Mapping[str, ConfigMap]) -> Iterable[CardParts]:
        """Returns how the enabled families divide cards, for card quota."""
        settings = DeviceShareSettings.read(arguments)
        return card_parts(settings, _read_config(settings, config_maps)[0])

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._exclusion_rules = ExclusionRules(self._settings.rules)
        self._columns: dict[tuple[str, Any, ExclusionRule | None], ClaimColumns] = {}
        self.ledgers = [
            CardLedger(session, family, self._exclusion_rules if isinstance(family, Vgpu) else None)
            for family in self._families()
        ]
        self._locked: dict[str, LockFilter] = {}
        """Name of a family -> the filter of the nodes that its device plugin holds locked."""
        for ledger in self.ledgers:
            for problem in ledger.problems:
                session.malformed_field(problem)
            session.add_handlers(ledger.allocate, ledger.deallocate)
        if self._settings.vgpu:
            session.add_filter(self._filters, per_job=self._exclusion_rules.exclusive_job, pin=PinUse.IGNORED)
            session.add_score(self._scores, per_job=self._exclusion_rules.exclusive_job)
        else:
            session.add_filter(lambda cls: self._filters(cls, ""), pin=PinUse.IGNORED)
            session.add_score(lambda cls: self._scores(cls, ""))
        if self._settings.mindcluster:
            failures = VnpuFailures(session)
            failures.open()
            session.add_filter(self._avoiding, per_job=failures.avoided)
        session.add_job_enqueueable(self._enqueueable)
        session.add_bind_annotations(self._annotations)
        session.add_held_amounts(self._held_amounts)
        session.add_device_faults(lambda: chain.from_iterable(ledger.faults() for ledger in self.ledgers))
        if self._settings.node_lock:
            session.add_preparations(self._locks)
        session.shared[DEVICE_USAGE] = [
            DeviceUsage(ledger) for ledger in self.ledgers if ledger.family.name == Vgpu.name
        ]

    def _avoiding(self, cls: TaskClass, avoided: AvoidedChips) -> list[Filter]:
        """Returns the filter of the nodes on which a virtual NPU of the job could not be created."""
        position = self._session.dimensions.find(NPU_CORE)
        if not avoided or position is None or not cls.request[position]:
            return []
        index = self._session.nodes.index
        passes = np.ones(len(self._session.nodes), dtype=bool)
        passes[[index[name] for name, _ in avoided if name in index]] = False
        return [MaskFilter(passes, "node(s) had a chip on which a virtual NPU of the job could not be created before")]

    def _families(self) -> list[DeviceFamily[Any]]:
        settings, session = self._settings, self._session
        now, locks, policy = session.now, settings.node_lock, settings.policy
        times = session.once(NodeTimes)
        config, problems = _read_config(settings, session.snapshot.config_maps)
        self._basis = settings, config
        """All that the answer of ``claim`` depends on, except the class."""
        namespace, name = settings.config_map
        for problem in problems:
            session.malformed_field(Malformed("ConfigMap", namespace, name, f"data[{KEY}]", problem))
        families: list[DeviceFamily[Any]] = []
        if settings.gpu_sharing or settings.gpu_number:
            families.append(GpuShare(times, whole=settings.gpu_number, locks=locks))
        if settings.vgpu:
            serves = settings.vgpu_init_containers
            families.append(Vgpu(config.vgpu, policy, now, locks=locks, serves_init_containers=serves))
        if settings.mindcluster:
            families.append(MindClusterNpu(times))
        if settings.hami:
            families += [HamiNpu(npu, policy, now, soft=config.soft_npus, locks=locks) for npu in config.npus]
        return families

    # --- answers ---
    def _enqueueable(self, job: Job) -> Vote:
        """Rejects a job that cannot start because device plugins do not serve its Pods: else it would reserve what it
        never uses."""
        problem = job.remember("Pods that no device plugin serves", self._basis, partial(self._unserved, job))
        if not problem:
            return Vote.ABSTAIN
        self._session.refuse(job, Refusal(REASON_UNSERVED, problem))
        return Vote.REJECT

    def _unserved(self, job: Job) -> str:
        """Returns why device plugins do not serve as many Pods of a job as it needs, or ""."""
        classes = Counter(task.cls for task in job.of(TaskStatus.PENDING).values())
        unserved = {cls: self._problem(cls) for cls in classes}
        number = sum(pods for cls, pods in classes.items() if unserved[cls])
        existing = sum(len(tasks) for tasks in job.by_status.values())
        if not number or not existing - number < job.min_member <= existing:
            return ""
        first = next(problem for problem in unserved.values() if problem)
        return (
            f"{number} of {existing} Pods cannot start, {job.min_member} are needed: {first}" if existing > 1 else first
        )

    def _problem(self, cls: TaskClass) -> str:
        """Returns why a device plugin does not serve the Pods of a class, or ""."""
        claims = (ledger.claim(cls) for ledger in self.ledgers)
        return next((claim.unserved for claim in claims if claim is not None and claim.unserved), "")

    def _filters(self, cls: TaskClass, exclusive_job: str) -> list[Filter]:
        problem = self._problem(cls)
        if problem:
            return [RefusingFilter(problem)]
        return [
            f
            for ledger in self.ledgers
            if ledger.claim(cls) is not None
            for f in self._filters_of(ledger, cls, exclusive_job)
        ]

    def _filters_of(self, ledger: CardLedger, cls: TaskClass, exclusive_job: str) -> list[Filter]:
        family, columns = ledger.family, self._column(ledger, cls, exclusive_job)
        filters: list[Filter] = [
            MaskFilter(ledger.has_devices, f"node(s) had no {family.title}"),
            MaskFilter(
                columns.eligible_nodes | ~ledger.has_devices,
                f"node(s) had no {family.title} of the kind that the Pod asks for",
            ),
            CardFilter(columns, ledger.claim(cls).description),
        ]
        if family.lock:
            if family.name not in self._locked:
                self._locked[family.name] = LockFilter(self._session.snapshot, ledger.node_states, family.lock)
            filters.append(self._locked[family.name])
        return filters

    def _scores(self, cls: TaskClass, exclusive_job: str) -> list[Score]:
        weight = self._settings.weight
        if not weight:
            return []
        scores: list[Score] = []
        for ledger in self.ledgers:
            if ledger.claim(cls) is None:
                continue
            columns = self._column(ledger, cls, exclusive_job)
            if isinstance(ledger.family, MindClusterNpu):
                position = self._session.dimensions.find(NPU_CORE)
                if position is not None:
                    scores.append(IdleScore(columns, self._session.nodes, position, weight))
            else:
                scores.append(CardScore(columns, weight))
        return scores

    def _column(self, ledger: CardLedger, cls: TaskClass, exclusive_job: str) -> ClaimColumns:
        claim, exclusion = ledger.claim(cls), ledger.exclusion(cls, exclusive_job)
        key = (ledger.family.name, claim, exclusion)
        columns = self._columns.get(key)
        if columns is None:
            columns = self._columns[key] = ClaimColumns(ledger, claim, exclusion)
        return columns

    def _annotations(self, task: Task, row: int) -> dict[str, str]:
        annotations: dict[str, str] = {}
        for ledger in self.ledgers:
            grant = ledger.taken(task)
            if grant is not None:
                node = self._session.nodes.facts.objects[row]
                inventory = ledger.node_states[row].inventory
                claim = ledger.claim(task.cls)
                annotations.update(ledger.family.annotations(task, claim, node, inventory, grant))
        return annotations

    def _held_amounts(self) -> Iterator[tuple[Task, Mapping[str, int]]]:
        for ledger in self.ledgers:
            if isinstance(ledger.family, Vgpu):
                for task, grant in ledger.grants():
                    yield task, ledger.family.amounts(ledger.claim(task.cls), grant)

    def _locks(self, task: Task, row: int) -> Iterable[Preparation]:
        for ledger in self.ledgers:
            if ledger.family.lock and ledger.taken(task) is not None:
                yield lock_for(self._session.nodes.names[row], ledger.family.lock, task.uid)
                return


def _read_config(
    settings: DeviceShareSettings, config_maps: Mapping[str, ConfigMap]
) -> tuple[DeviceConfig, tuple[str, ...]]:
    """Returns the configuration from the ConfigMap, and the problems found in it."""
    if not settings.vgpu and not settings.hami:
        return DEFAULT, ()
    namespace, name = settings.config_map
    found = config_maps.get(f"{namespace}/{name}")
    text = None if found is None else (found.data or {}).get(KEY)
    return (DEFAULT, ()) if text is None else parse_device_config(text)
