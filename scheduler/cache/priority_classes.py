"""PriorityClasses, and the value that a name stands for."""

from scheduler.api.objects import PriorityClass


class PriorityClasses:
    """All PriorityClass objects, by name."""

    def __init__(self) -> None:
        self._classes: dict[str, PriorityClass] = {}

    def upsert(self, obj: PriorityClass) -> bool:
        """Take an object; whether any value may be another now."""
        old = self._classes.get(obj.metadata.name)
        if old is not None and (old.value, old.global_default) == (obj.value, obj.global_default):
            return False
        self._classes[obj.metadata.name] = obj
        return True

    def delete(self, name: str) -> bool:
        """A PriorityClass is gone; whether it was there."""
        return self._classes.pop(name, None) is not None

    def names(self) -> list[str]:
        return list(self._classes)

    def value(self, name: str) -> int:
        """The value of a priority class, else that of the cluster's default class (of several the lowest, as
        Kubernetes'), else 0."""
        found = self._classes.get(name)
        if found is not None:
            return found.value
        return min((p.value for p in self._classes.values() if p.global_default), default=0)
