"""What is wrong with claims, volumes and capacities: set aside, and told with the object's name and field."""

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import Malformed
from scheduler.api.selectors import FieldReporter
from scheduler.framework.session import Session


class Complaints:
    """For one session; each is told once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._told: set[Malformed] = set()

    def about(self, kind: Kind, obj: KubeObject, prefix: str = "") -> FieldReporter:
        """What takes complaints about one object: a field (below ``prefix``), and what is wrong with it."""
        meta = obj.metadata

        def report(field: str, problem: str) -> None:
            malformed = Malformed(kind.name, meta.namespace, meta.name, f"{prefix}{field}", problem)
            if malformed not in self._told:
                self._told.add(malformed)
                self._session.malformed_field(malformed)

        return report
