"""deviceshare: cards of which several Pods have something, and which card each Pod gets.

Each family of devices (``gpushare``, ``vgpu``, ``hami``, ``mindcluster``) tells what is asked for, what nodes have and
what its device plugin reads; ``ledger`` keeps the books, ``columns`` answers about nodes.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from scheduler.api.names import NPU_CORE
from scheduler.api.objects import ConfigMap
from scheduler.api.preparation import Preparation
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task, TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.cache_requirements import CacheRequirements
from scheduler.framework.columns import Filter, MaskFilter, Score
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session
from scheduler.plugins.deviceshare.columns import CardFilter, CardScore, ClaimColumns, IdleScore
from scheduler.plugins.deviceshare.device_config import DEFAULT, KEY, DeviceConfig, parse_device_config
from scheduler.plugins.deviceshare.family import Family
from scheduler.plugins.deviceshare.gpushare import GpuShare
from scheduler.plugins.deviceshare.hami import HamiNpu
from scheduler.plugins.deviceshare.ledger import CardLedger
from scheduler.plugins.deviceshare.mindcluster import MindClusterNpu
from scheduler.plugins.deviceshare.node_lock import LockFilter, lock_for
from scheduler.plugins.deviceshare.separation import Separation, Shuns
from scheduler.plugins.deviceshare.settings import Settings
from scheduler.plugins.deviceshare.usage import DEVICE_USAGE, DeviceUsage
from scheduler.plugins.deviceshare.vgpu import Vgpu


@register_plugin
class DeviceShare:
    """Its arguments are told in ``settings``."""

    name: ClassVar[str] = "deviceshare"

    def __init__(self, arguments: Arguments) -> None:
        self._settings = Settings.read(arguments)

    @classmethod
    def refusal(cls, arguments: Arguments) -> str:
        return Settings.read(arguments).conflict

    @classmethod
    def cache_requirements(cls, arguments: Arguments, config_maps: Mapping[str, ConfigMap]) -> CacheRequirements:
        """Memory and cores of NPUs that HAMi shares, and shares in per cent, are no amounts that nodes count."""
        settings = Settings.read(arguments)
        if not settings.vgpu and not settings.hami:
            return CacheRequirements()
        config, _ = _read_config(settings, config_maps)
        uncounted = {config.vgpu.percentage} if settings.vgpu else set()
        if settings.hami:
            uncounted |= {name for npu in config.npus for name in (npu.memory_resource, npu.core_resource)}
        return CacheRequirements(
            frozenset(uncounted),
            frozenset(key for rule in settings.rules for key, _ in rule),
            frozenset({settings.config_map}),
        )

    def open(self, session: Session) -> None:
        self._session = session
        self._separation = Separation(self._settings.rules)
        self._columns: dict[tuple[str, Any, Shuns | None], ClaimColumns] = {}
        self.ledgers = [
            CardLedger(session, family, self._separation if isinstance(family, Vgpu) else None)
            for family in self._families()
        ]
        self._locked = {
            ledger.family.name: LockFilter(session.snapshot, ledger.readings, ledger.family.lock)
            for ledger in self.ledgers
            if ledger.family.lock
        }
        for ledger in self.ledgers:
            for reading in ledger.readings.values():
                for problem in reading.inventory.problems:
                    session.malformed_field(problem)
            session.add_handlers(ledger.allocate, ledger.deallocate)
        if self._settings.vgpu:
            session.add_filter(self._filters, per_job=self._separation.job_apart)
            session.add_score(self._scores, per_job=self._separation.job_apart)
        else:
            session.add_filter(lambda cls: self._filters(cls, ""))
            session.add_score(lambda cls: self._scores(cls, ""))
        session.add_bind_annotations(self._annotations)
        session.add_held_amounts(self._held_amounts)
        if self._settings.node_lock:
            session.add_preparations(self._locks)
        session.shared[DEVICE_USAGE] = [
            DeviceUsage(ledger) for ledger in self.ledgers if ledger.family.name == Vgpu.name
        ]

    def _families(self) -> list[Family[Any]]:
        settings, session = self._settings, self._session
        now, locks, policy = session.now, settings.node_lock, settings.policy
        config, problems = _read_config(settings, session.snapshot.config_maps)
        namespace, name = settings.config_map
        for problem in problems:
            session.malformed_field(Malformed("ConfigMap", namespace, name, f"data[{KEY}]", problem))
        families: list[Family[Any]] = []
        if settings.gpu_sharing or settings.gpu_number:
            families.append(GpuShare(now, whole=settings.gpu_number, locks=locks))
        if settings.vgpu:
            families.append(Vgpu(config.vgpu, policy, now, locks=locks))
        if settings.mindcluster:
            families.append(MindClusterNpu(now))
        if settings.hami:
            families += [HamiNpu(npu, policy, now, soft=config.soft_npus, locks=locks) for npu in config.npus]
        return families

    # --- answers ---
    def _filters(self, cls: TaskClass, job_apart: str) -> list[Filter]:
        return [
            f
            for ledger in self.ledgers
            if ledger.claim(cls) is not None
            for f in self._filters_of(ledger, cls, job_apart)
        ]

    def _filters_of(self, ledger: CardLedger, cls: TaskClass, job_apart: str) -> list[Filter]:
        family, columns = ledger.family, self._column(ledger, cls, job_apart)
        filters: list[Filter] = [
            MaskFilter(ledger.has_devices, f"node(s) had no {family.title}"),
            MaskFilter(
                columns.suits | ~ledger.has_devices, f"node(s) had no {family.title} of the kind that the Pod asks for"
            ),
            CardFilter(columns, ledger.claim(cls).words),
        ]
        if family.lock:
            filters.append(self._locked[family.name])
        return filters

    def _scores(self, cls: TaskClass, job_apart: str) -> list[Score]:
        weight = self._settings.weight
        if not weight:
            return []
        scores: list[Score] = []
        for ledger in self.ledgers:
            if ledger.claim(cls) is None:
                continue
            columns = self._column(ledger, cls, job_apart)
            if isinstance(ledger.family, MindClusterNpu):
                position = self._session.dimensions.find(NPU_CORE)
                if position is not None:
                    scores.append(IdleScore(columns, self._session.nodes, position, weight))
            else:
                scores.append(CardScore(columns, weight))
        return scores

    def _column(self, ledger: CardLedger, cls: TaskClass, job_apart: str) -> ClaimColumns:
        claim, shuns = ledger.claim(cls), ledger.shuns(cls, job_apart)
        key = (ledger.family.name, claim, shuns)
        columns = self._columns.get(key)
        if columns is None:
            columns = self._columns[key] = ClaimColumns(ledger, claim, shuns)
        return columns

    def _annotations(self, task: Task, row: int) -> dict[str, str]:
        annotations: dict[str, str] = {}
        for ledger in self.ledgers:
            grant = ledger.taken(task)
            if grant is not None:
                node = self._session.nodes.facts.objects[row]
                inventory = ledger.readings[row].inventory
                claim = ledger.claim(task.cls)
                annotations.update(ledger.family.annotations(task, claim, node, inventory, grant))
        return annotations

    def _held_amounts(self) -> Iterator[tuple[Task, Mapping[str, int]]]:
        for ledger in self.ledgers:
            if isinstance(ledger.family, Vgpu):
                for task, grant in ledger.grants():
                    yield task, ledger.family.amounts(grant)

    def _locks(self, task: Task, row: int) -> Iterable[Preparation]:
        for ledger in self.ledgers:
            if ledger.family.lock and ledger.taken(task) is not None:
                yield lock_for(self._session.nodes.names[row], ledger.family.lock, task.uid)
                return


def _read_config(settings: Settings, config_maps: Mapping[str, ConfigMap]) -> tuple[DeviceConfig, tuple[str, ...]]:
    """What holds of the ConfigMap, and what of it cannot be used."""
    if not settings.vgpu and not settings.hami:
        return DEFAULT, ()
    namespace, name = settings.config_map
    found = config_maps.get(f"{namespace}/{name}")
    text = None if found is None else (found.data or {}).get(KEY)
    return (DEFAULT, ()) if text is None else parse_device_config(text)
