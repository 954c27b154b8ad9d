"""Events about a job: each is posted with the plan that gave rise to it, and none twice in a row."""

from scheduler.api import batch
from scheduler.api.kinds import VCJOB
from scheduler.api.names import EVENT_MALFORMED, EVENT_NORMAL, EVENT_WARNING
from scheduler.controllers.effects import Plan, Post
from scheduler.controllers.job.memory import Memory
from scheduler.controllers.posts import event, normal


class Teller:
    """Gathers what one look has to tell."""

    def __init__(self, job: batch.Job, memory: Memory) -> None:
        self._job = job
        self._memory = memory

    def say(self, reason: str, message: str) -> None:
        """Something that happens once."""
        self._memory.news.append(event(VCJOB, self._job, EVENT_NORMAL, reason, message))

    def warn(self, topic: str, reason: str, message: str) -> None:
        """A state of affairs: told when it begins and when the message changes, "" when it is over."""
        if not message:
            self._memory.told.pop(topic, None)
        elif self._memory.told.get(topic) != message:
            self._memory.told[topic] = message
            self._memory.news.append(event(VCJOB, self._job, EVENT_WARNING, reason, message))

    def malformed(self, field: str, problem: str) -> None:
        """A field of the job is set aside."""
        self.warn(field, EVENT_MALFORMED, f"{field}: {problem}; ignored")

    def post(self, reason: str, message: str) -> Post:
        """An Event that has its place in the plan."""
        return normal(VCJOB, self._job, reason, message)

    def into(self, plan: Plan) -> Plan:
        """The plan, with all that is to be told before anything is done."""
        news, self._memory.news = self._memory.news, []
        if news:
            plan.stages.insert(0, [Post(told) for told in news])
        return plan
