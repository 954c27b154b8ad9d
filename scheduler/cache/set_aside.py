"""What could not be used of the objects taken in, told of once for each object, field and problem."""

from collections.abc import Container, Iterable

from scheduler.api.reasons import Malformed

Faults = dict[str, str]
"""Field of an object -> what is wrong with it."""


class SetAside:
    """``begin``, then ``add`` for each field of the object being taken in, then ``end``."""

    def __init__(self) -> None:
        self._problems: Faults = {}
        """Those of the object being taken in."""
        self._told: dict[tuple[str, str, str], Faults] = {}
        """(kind, namespace, name) -> those last told of."""
        self._news: dict[tuple[str, str, str], list[Malformed]] = {}
        """By object; what was set aside of a deleted object is not reported."""

    def begin(self) -> None:
        """An object is about to be taken in."""
        self._problems = {}

    def add(self, field: str, problem: str) -> None:
        """A field of the object being taken in cannot be used."""
        self._problems[field] = problem

    def end(self, kind: str, namespace: str, name: str) -> None:
        """The object has been taken in: tell of what was set aside of it, unless it was told before."""
        if not self._problems and not self._told:
            return
        key = (kind, namespace, name)
        before = self._told.pop(key, {})
        if self._problems:
            self._told[key] = self._problems
        for field, problem in self._problems.items():
            if before.get(field) != problem:
                self._news.setdefault(key, []).append(Malformed(kind, namespace, name, field, problem))

    def tell(self, news: Iterable[Malformed]) -> None:
        """Tell of what was found while no object was being taken in."""
        for malformed in news:
            self._news.setdefault((malformed.kind, malformed.namespace, malformed.name), []).append(malformed)

    def forget(self, kind: str, namespace: str, name: str) -> None:
        """An object is gone; another of its name is told of anew."""
        self._told.pop((kind, namespace, name), None)
        self._news.pop((kind, namespace, name), None)

    def forget_others(self, kind: str, present: Container[tuple[str, str]]) -> None:
        """All objects of a kind are gone but those given by (namespace, name)."""
        for told_kind, namespace, name in list(self._told):
            if told_kind == kind and (namespace, name) not in present:
                self.forget(kind, namespace, name)

    def take(self) -> list[Malformed]:
        """What was told of since the last call."""
        news, self._news = self._news, {}
        return [malformed for those in news.values() for malformed in those]
