"""Reports invalid fields of claims, volumes and other objects as Warning Events, each once per session."""

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import Malformed
from scheduler.api.selectors import FieldReporter
from scheduler.framework.plugin_session import PluginSession


class ObjectReporters:
    """Reporters for the objects of a snapshot."""

    def __init__(self, session: PluginSession) -> None:
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
