"""jobtemplate-controller: a JobTemplate's status lists the jobs that were made of it.

As in Volcano the list is brought up to date when a job is made, not when one is deleted: it also shows which jobs a
JobFlow made and took away again.
"""

from scheduler.api.batch import Job, JobTemplate
from scheduler.api.kinds import JOB_TEMPLATE, VCJOB
from scheduler.api.names import CREATED_BY_JOB_TEMPLATE
from scheduler.controllers.controller import Controller, observes
from scheduler.controllers.effects import Patch, Plan
from scheduler.controllers.store import Key, Store, key_of


class JobTemplateController(Controller):
    """See Controller."""

    name = "jobtemplate-controller"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs: dict[Key, set[str]] = {}
        """The names of the jobs of a JobTemplate."""

    @observes(JOB_TEMPLATE)
    def _observe_template(self, old: JobTemplate | None, new: JobTemplate | None, now: float) -> list[Key]:
        return [key_of(new)] if old is None and new is not None else []

    @observes(VCJOB)
    def _observe_job(self, old: Job | None, new: Job | None, now: float) -> list[Key]:
        before, after = _template(old), _template(new)
        if before == after and old is not None:
            return []
        if before is not None and old is not None:
            jobs = self._jobs.get(before, set())
            jobs.discard(old.metadata.name)
            if not jobs:
                self._jobs.pop(before, None)
        if after is None or new is None:
            return []
        self._jobs.setdefault(after, set()).add(new.metadata.name)
        return [after]

    def plan(self, key: Key, now: float) -> Plan:
        template = self._store.get(JOB_TEMPLATE, *key)
        jobs = sorted(self._jobs.get(key, ()))
        if template is None or not jobs or template.status.get("jobDependsOnList") == jobs:
            return Plan()
        body = {"status": {"jobDependsOnList": jobs}}
        return Plan().then(Patch(JOB_TEMPLATE, *key, body, template.metadata.uid, subresource="status"))


def _template(job: Job | None) -> Key | None:
    """Namespace and name of the JobTemplate a job was made of, or None. The annotation says it too where the name is
    too long for a label."""
    if job is None:
        return None
    labels, annotations = job.metadata.labels or {}, job.metadata.annotations or {}
    text = labels.get(CREATED_BY_JOB_TEMPLATE) or annotations.get(CREATED_BY_JOB_TEMPLATE) or ""
    namespace, _, name = text.partition(".")
    return (namespace, name) if name and namespace == job.metadata.namespace else None
