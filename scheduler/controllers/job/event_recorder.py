"""Records Events about a job: each with the plan that caused it, and none twice."""

from scheduler.api import batch
from scheduler.api.kinds import VCJOB
from scheduler.api.names import EVENT_NORMAL, EVENT_WARNING
from scheduler.api.reasons import Malformed, first_fields
from scheduler.controllers.effects import Plan, RecordEvent, event, normal
from scheduler.controllers.job.state import ReconcileState


class ReconcileEvents:
    """Collects the Events of one reconciliation."""

    def __init__(self, job: batch.Job, state: ReconcileState) -> None:
        self._job = job
        self._state = state

    def record(self, reason: str, message: str) -> None:
        """Records a Normal Event."""
        self._state.pending_events.append(event(VCJOB, self._job, EVENT_NORMAL, reason, message))

    def warn(self, topic: str, reason: str, message: str) -> None:
        """Records a Warning when a condition begins and when its message changes; "" when the condition has ended."""
        if not message:
            self._state.reported.pop(topic, None)
        elif self._state.reported.get(topic) != message:
            self._state.reported[topic] = message
            self._state.pending_events.append(event(VCJOB, self._job, EVENT_WARNING, reason, message))

    def malformed(self, *problems: tuple[str, str]) -> None:
        """Records Warnings that fields of the job are ignored. ``problems``: fields, and what is wrong with them."""
        meta = self._job.metadata
        found = (Malformed(VCJOB.name, meta.namespace, meta.name, field, problem) for field, problem in problems)
        for each in first_fields(found):
            self.warn(each.field, each.reason, each.message)

    def effect(self, reason: str, message: str) -> RecordEvent:
        """An Event as an effect, for a later stage of the plan."""
        return normal(VCJOB, self._job, reason, message)

    def add_to(self, plan: Plan) -> Plan:
        """Adds a first stage with all recorded Events to the plan, and returns it."""
        pending_events, self._state.pending_events = self._state.pending_events, []
        if pending_events:
            plan.stages.insert(0, [RecordEvent(recorded) for recorded in pending_events])
        return plan
