"""The fields of watched objects that cannot be used. Each object, field and problem is reported once."""

from collections.abc import Iterable

from scheduler.api.reasons import IGNORED, Malformed

Faults = dict[str, str]
"""Field of an object -> what is wrong with it."""
_Problems = dict[str, tuple[str, str]]
"""Field of an object -> what is wrong with it, and what follows."""


class MalformedFields:
    """Collects the problems of one object at a time: ``begin``, ``add`` for each malformed field, ``end``."""

    def __init__(self) -> None:
        self._problems: _Problems = {}
        """Problems of the current object."""
        self._reported: dict[tuple[str, str, str], _Problems] = {}
        """(kind, namespace, name) -> the problems of the object's latest version, all reported."""
        self._pending: dict[tuple[str, str, str], list[Malformed]] = {}
        """Reports since the last ``take``, by object; the reports about a deleted object are dropped."""

    def begin(self) -> None:
        """Begins with an object that was added or changed."""
        if self._problems:
            self._problems = {}

    def add(self, field: str, problem: str, consequence: str = IGNORED) -> None:
        """Records that a field of the current object cannot be used."""
        self._problems[field] = problem, consequence

    def end(self, kind: str, namespace: str, name: str) -> None:
        """Reports the problems of the current object that its previous version did not have."""
        if not self._problems and not self._reported:
            return
        key = (kind, namespace, name)
        before = self._reported.pop(key, {})
        if self._problems:
            self._reported[key] = self._problems
        for field, found in self._problems.items():
            if before.get(field) != found:
                self._pending.setdefault(key, []).append(Malformed(kind, namespace, name, field, *found))

    def report(self, problems: Iterable[Malformed]) -> None:
        """Reports problems that were found outside ``begin`` and ``end``."""
        for malformed in problems:
            self._pending.setdefault((malformed.kind, malformed.namespace, malformed.name), []).append(malformed)

    def forget(self, kind: str, namespace: str, name: str) -> None:
        """Forgets a deleted object. A new object with its name is reported again."""
        self._reported.pop((kind, namespace, name), None)
        self._pending.pop((kind, namespace, name), None)

    def take(self) -> list[Malformed]:
        """Returns the reports since the last call."""
        pending, self._pending = self._pending, {}
        return [malformed for reports in pending.values() for malformed in reports]
