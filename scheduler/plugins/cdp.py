"""cdp: protects Pods from eviction for some time after they are scheduled (Volcano's cooldown protection plugin).

The label, or else the annotation, ``volcano.sh/cooldown-time`` sets how long after its scheduling a running Pod is no
victim. This prevents that Pods of elastic jobs are evicted and replaced over and over.
"""

from collections.abc import Sequence
from typing import ClassVar

from scheduler.api.names import COOLDOWN_TIME
from scheduler.api.node import Mask
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task, TaskStatus
from scheduler.api.times import DurationError, parse_duration
from scheduler.framework.eviction_candidates import EvictionCandidates
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin


@register_plugin
class Cdp:
    """Takes no arguments."""

    name: ClassVar[str] = "cdp"

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._cooling_by_uid: dict[str, bool] = {}
        """uid -> whether the task is still protected. A cache."""
        session.add_preemptable(self._victims, bound=self._cooled, by_demand=True)
        session.add_reclaimable(self._victims, bound=self._cooled, by_demand=True)
        session.add_unified_evictable(self._victims, bound=self._cooled)

    def _victims(self, preemptor: object, candidates: Sequence[Task]) -> list[Task]:
        return [task for task in candidates if not self._cooling(task)]

    def _cooled(self, preemptor: object, candidates: EvictionCandidates) -> Mask:
        return ~candidates.per_task(self._cooling)

    def _cooling(self, task: Task) -> bool:
        cooling = self._cooling_by_uid.get(task.uid)
        if cooling is None:
            cooling = self._cooling_by_uid[task.uid] = self._session.now < self._end(task)
        return cooling

    def _end(self, task: Task) -> float:
        """When the protection ends, in seconds since the epoch; 0 without protection."""
        text = task.labels.get(COOLDOWN_TIME, task.cls.annotations.get(COOLDOWN_TIME))
        if text is None or task.status is not TaskStatus.RUNNING or not task.scheduled_at:
            return 0.0
        try:
            return task.scheduled_at + parse_duration(text)
        except DurationError as error:
            where = "labels" if COOLDOWN_TIME in task.labels else "annotations"
            field = f"metadata.{where}[{COOLDOWN_TIME}]"
            self._session.malformed_field(Malformed("Pod", task.namespace, task.name, field, str(error)))
            return 0.0
