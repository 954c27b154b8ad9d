"""conformance: system-critical Pods are never victims, whatever other plugins, tiers and flags say.

It also votes, as Volcano's plugin does, so that a tier in which it stands with others decides as there.
"""

from collections.abc import Sequence
from typing import ClassVar

from scheduler.api.names import KUBE_SYSTEM, SYSTEM_CRITICAL_CLASSES
from scheduler.api.node import Mask
from scheduler.api.task import Task
from scheduler.framework.arguments import Arguments
from scheduler.framework.eviction_candidates import EvictionCandidates
from scheduler.framework.extension import PREEMPTABLE, RECLAIMABLE, VICTIM_TASKS
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session


@register_plugin
class Conformance:
    """Drops system-critical tasks from the victims."""

    name: ClassVar[str] = "conformance"

    def __init__(self, arguments: Arguments) -> None:
        del arguments  # takes none

    def open(self, session: Session) -> None:
        session.add_preemptable(_evictable, bound=_not_critical, by_demand=True)
        session.add_reclaimable(_evictable, bound=_not_critical, by_demand=True)
        session.add_unified_evictable(_evictable, bound=_not_critical)
        for point in (PREEMPTABLE, RECLAIMABLE, VICTIM_TASKS):
            session.add_veto(point, lambda claimant, task: critical(task))


def _evictable(claimant: object, candidates: Sequence[Task]) -> list[Task]:
    return [task for task in candidates if not critical(task)]


def _not_critical(claimant: object, candidates: EvictionCandidates) -> Mask:
    return ~candidates.per_task(critical)


def critical(task: Task) -> bool:
    """Whether the Pod belongs to the system and must not be evicted."""
    return task.namespace == KUBE_SYSTEM or task.cls.spec.priority_class_name in SYSTEM_CRITICAL_CLASSES
