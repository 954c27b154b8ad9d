"""Finds plugins that ask task classes for labels and annotations which no plugin names in ``cache_requirements``.

The cache does not keep these, so a plugin would take them for missing. A cluster in memory has the Pods with all their
labels and annotations, so tests, ``simulate`` and ``explain`` can raise an error; a scheduler cannot.
"""

from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from typing import Any

from scheduler.api.kinds import POD
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import TaskClass
from scheduler.cluster.memory.server import MemoryServer


class _KeptTexts(dict[str, str]):
    """The labels or annotations of a task class. A plugin that asks for one which Pods of the class have, but which is
    not kept because no plugin requires it, would take it for missing: this raises LookupError."""

    def __init__(self, kept: Mapping[str, str], others: Set[str], field: str) -> None:
        """``others``: the keys that Pods of the class have besides. ``field``: of CacheRequirements."""
        super().__init__(kept)
        self._others = others
        self._field = field

    def __missing__(self, key: str) -> str:
        self._check(key)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        self._check(key)
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._check(key)
        return super().get(key, default)

    def _check(self, key: object) -> None:
        if key in self._others:
            missing = f"no plugin names it in {self._field} of its cache_requirements"
            raise LookupError(f"Pods of this class have {key}, but {missing}")


def refuse_unkept(snapshot: Snapshot, server: MemoryServer) -> list[tuple[TaskClass, dict[str, str], dict[str, str]]]:
    """Makes the classes of a snapshot raise LookupError if they are asked for labels or annotations that their Pods
    have and the cache does not keep. Returns the classes with the labels and annotations that they had before."""
    pods = {(pod.metadata.namespace, pod.metadata.name): pod.metadata for pod in server.structs(POD)}
    keys: dict[TaskClass, tuple[set[str], set[str]]] = {}
    for task in (task for job in snapshot.jobs.values() for task in job.tasks()):
        if meta := pods.get((task.namespace, task.name)):
            labels, annotations = keys.setdefault(task.cls, (set(), set()))
            labels.update(meta.labels or ())
            annotations.update(meta.annotations or ())
    before = [(cls, cls.labels, cls.annotations) for cls in keys]
    for cls, (labels, annotations) in keys.items():
        cls.labels = _KeptTexts(cls.labels, labels.difference(cls.labels), "pod_labels")
        cls.annotations = _KeptTexts(cls.annotations, annotations.difference(cls.annotations), "pod_annotations")
    return before


@contextmanager
def refusing_unkept(snapshot: Snapshot, server: MemoryServer) -> Iterator[None]:
    """``refuse_unkept`` within the block only."""
    before = refuse_unkept(snapshot, server)
    try:
        yield
    finally:
        for cls, labels, annotations in before:
            cls.labels, cls.annotations = labels, annotations
