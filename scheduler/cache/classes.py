"""Interning of task classes: Pods of one shape share one TaskClass.

The shape of a Pod is its spec (less what says where it runs), its namespace, and those labels and annotations that
somebody looks at. Labels that nobody selects by, such as a task's index, do not split a class; when a selector in some
Pod first names a key, ``label_keys`` grows and the cache classifies its Pods anew.
"""

from collections.abc import Collection, Iterable, Iterator

import msgspec

from scheduler.api.names import CLASS_ANNOTATIONS, CLASS_LABELS
from scheduler.api.objects import LabelSelector, Pod, PodAffinityTerm, PodSpec
from scheduler.api.resource import Dimensions, is_empty
from scheduler.api.task import TaskClass
from scheduler.cache.requests import nonzero_request, pod_request

_Key = tuple[str, bytes, tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]


class ClassTable:
    """All task classes of a cache."""

    def __init__(self, dimensions: Dimensions) -> None:
        self._dimensions = dimensions
        self._classes: dict[_Key, TaskClass] = {}
        self._specs: dict[int, bytes] = {}
        self._next = 0
        self._sociable: dict[int, TaskClass] = {}
        self.label_keys: set[str] = set(CLASS_LABELS)
        """Label keys that split classes."""

    def of(self, pod: Pod) -> TaskClass:
        """The class of a Pod. Raises QuantityError if its requests are malformed."""
        spec = msgspec.structs.replace(pod.spec, node_name="", scheduler_name="", scheduling_gates=None, priority=None)
        annotations = pod.metadata.annotations or {}
        return self._intern(
            pod.metadata.namespace,
            msgspec.json.encode(spec),
            spec,
            pod.metadata.labels or {},
            tuple((key, annotations[key]) for key in CLASS_ANNOTATIONS if key in annotations),
        )

    def again(self, cls: TaskClass, labels: dict[str, str]) -> TaskClass:
        """The class of a Pod that was in ``cls`` and has the labels given, now that ``label_keys`` has grown."""
        return self._intern(cls.namespace, self._specs[cls.id], cls.spec, labels, tuple(cls.annotations.items()))

    def sociable(self) -> tuple[TaskClass, ...]:
        """The classes with (anti-)affinity to other Pods."""
        return tuple(self._sociable.values())

    def widen(self) -> None:
        """Lengthen every request after the dimensions grew. Not while a session reads them."""
        for cls in self._classes.values():
            cls.request = self._dimensions.fit(cls.request)

    def keep(self, ids: Collection[int]) -> None:
        """Forget the classes that no task is of any more. Their numbers are not used again."""
        self._classes = {key: cls for key, cls in self._classes.items() if cls.id in ids}
        self._sociable = {number: cls for number, cls in self._sociable.items() if number in ids}
        self._specs = {number: spec for number, spec in self._specs.items() if number in ids}

    def _intern(
        self,
        namespace: str,
        encoded: bytes,
        spec: PodSpec,
        labels: dict[str, str],
        annotations: tuple[tuple[str, str], ...],
    ) -> TaskClass:
        kept = tuple(sorted((key, labels[key]) for key in self.label_keys if key in labels))
        key = (namespace, encoded, kept, annotations)
        cls = self._classes.get(key)
        if cls is None:
            request = pod_request(spec, self._dimensions)
            cls = TaskClass(
                id=self._next,
                namespace=namespace,
                labels=dict(kept),
                annotations=dict(annotations),
                spec=spec,
                request=request,
                best_effort=is_empty(request),
                nonzero=nonzero_request(spec, request),
            )
            self._next += 1
            self._classes[key] = cls
            if spec.affinity is not None and (spec.affinity.pod_affinity or spec.affinity.pod_anti_affinity):
                self._sociable[cls.id] = cls
            self._specs[cls.id] = encoded
            self.label_keys.update(_selected_keys(spec))
        return cls

    def __len__(self) -> int:
        return len(self._classes)


def _selected_keys(spec: PodSpec) -> Iterator[str]:
    """The label keys that the Pod's affinity and spreading look at on Pods."""
    for constraint in spec.topology_spread_constraints or ():
        yield from _keys(constraint.label_selector)
        yield from constraint.match_label_keys or ()
    if spec.affinity is None:
        return
    for affinity in (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity):
        if affinity is None:
            continue
        terms: list[PodAffinityTerm] = list(affinity.required_during_scheduling_ignored_during_execution or ())
        terms += [t.pod_affinity_term for t in affinity.preferred_during_scheduling_ignored_during_execution or ()]
        for term in terms:
            yield from _keys(term.label_selector)
            yield from _joined(term.match_label_keys, term.mismatch_label_keys)


def _keys(selector: LabelSelector | None) -> Iterator[str]:
    if selector is not None:
        yield from selector.match_labels or ()
        yield from (requirement.key for requirement in selector.match_expressions or ())


def _joined(*lists: Iterable[str] | None) -> Iterator[str]:
    for values in lists:
        yield from values or ()
