"""What is wrong with the Pods of a class: told once, and named after one of them."""

from scheduler.api.job import Job
from scheduler.api.reasons import Malformed
from scheduler.api.task import TaskClass
from scheduler.framework.session import Session
from scheduler.plugins.selectors import Complain


def complaint(session: Session, cls: TaskClass, job: Job, prefix: str = "spec: ") -> Complain:
    """What takes complaints about the Pods of a class: a field (below ``prefix``), and what is wrong with it."""
    told: set[Malformed] = set()

    def complain(field: str, problem: str) -> None:
        name = next((task.name for task in job.tasks() if task.cls is cls), job.name)
        malformed = Malformed("Pod", cls.namespace, name, f"{prefix}{field}", problem)
        if malformed not in told:
            told.add(malformed)
            session.malformed_field(malformed)

    return complain
