"""Reports invalid fields of objects as Warning Events, each once per session."""

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import Malformed
from scheduler.api.selectors import FieldReporter
from scheduler.api.task import TaskClass
from scheduler.framework.session import Session


class ObjectReporters:
    """Reporters for objects of a snapshot, such as claims and volumes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._reported: set[Malformed] = set()

    def reporter(self, kind: Kind, obj: KubeObject, prefix: str = "") -> FieldReporter:
        """Returns a reporter for invalid fields of one object. ``prefix`` is put before the name of the field."""
        meta = obj.metadata

        def report(field: str, problem: str) -> None:
            malformed = Malformed(kind.name, meta.namespace, meta.name, f"{prefix}{field}", problem)
            if malformed not in self._reported:
                self._reported.add(malformed)
                self._session.malformed_field(malformed)

        return report


def field_reporter(session: Session, cls: TaskClass, prefix: str = "spec: ") -> FieldReporter:
    """Returns a reporter for invalid fields of the Pods of a class, which are reported with the name of one of the
    Pods. ``prefix`` is put before the name of the field."""
    reported: set[tuple[str, str]] = set()

    def report(field: str, problem: str) -> None:
        if (field, problem) not in reported:
            reported.add((field, problem))
            session.malformed_pod(cls, f"{prefix}{field}", problem)

    return report
