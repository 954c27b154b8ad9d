"""conformance: system-critical Pods are never victims, regardless of other plugins, tiers and flags.

The veto ensures this. The plugin also votes, as in Volcano, so that the tier to which it belongs decides as in Volcano.
"""

from collections.abc import Sequence
from typing import ClassVar

from scheduler.api.names import KUBE_SYSTEM, SYSTEM_CRITICAL_CLASSES
from scheduler.api.node import Mask
from scheduler.api.task import Task
from scheduler.framework.eviction_candidates import EvictionCandidates
from scheduler.framework.extension import PREEMPTABLE, RECLAIMABLE, VICTIM_TASKS
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin


@register_plugin
class Conformance:
    """Takes no arguments."""

    name: ClassVar[str] = "conformance"

    def open(self, session: PluginSession) -> None:
        session.add_preemptable(_evictable, bound=_not_critical, by_demand=True)
        session.add_reclaimable(_evictable, bound=_not_critical, by_demand=True)
        session.add_unified_evictable(_evictable, bound=_not_critical)
        for point in (PREEMPTABLE, RECLAIMABLE, VICTIM_TASKS):
            session.add_veto(point, lambda preemptor, task: critical(task))


def _evictable(preemptor: object, candidates: Sequence[Task]) -> list[Task]:
    return [task for task in candidates if not critical(task)]


def _not_critical(preemptor: object, candidates: EvictionCandidates) -> Mask:
    return ~candidates.per_task(critical)


def critical(task: Task) -> bool:
    """Whether the Pod is in kube-system or has a system-critical priority class."""
    return task.namespace == KUBE_SYSTEM or task.cls.spec.priority_class_name in SYSTEM_CRITICAL_CLASSES
