"""Reports invalid fields in the Pods of a task class: each once, with the name of one of the Pods."""

from scheduler.api.job import Job
from scheduler.api.reasons import Malformed
from scheduler.api.selectors import FieldReporter
from scheduler.api.task import TaskClass
from scheduler.framework.session import Session


def field_reporter(session: Session, cls: TaskClass, job: Job, prefix: str = "spec: ") -> FieldReporter:
    """Returns a reporter for invalid fields of the Pods of a class. ``prefix`` is put before the name of the field."""
    reported: set[Malformed] = set()

    def report(field: str, problem: str) -> None:
        name = next((task.name for task in job.tasks() if task.cls is cls), job.name)
        malformed = Malformed("Pod", cls.namespace, name, f"{prefix}{field}", problem)
        if malformed not in reported:
            reported.add(malformed)
            session.malformed_field(malformed)

    return report
