"""Interning of task classes: Pods of one shape share one TaskClass.

The shape of a Pod is its spec (less what says where it runs), its claims, its namespace, and those labels and
annotations that somebody looks at. Labels that nobody selects by, such as a task's index, do not split a class; when a
selector in some Pod first names a key, ``label_keys`` grows and the cache classifies its Pods anew before the next
snapshot. Keys that a Service names matter to the Pods it selects only.
"""

from collections.abc import Collection, Iterable, Iterator

import msgspec

from scheduler.api.names import CLASS_ANNOTATIONS, CLASS_LABELS, QUEUE_ALLOCATION_GATE
from scheduler.api.objects import LabelSelector, Pod, PodAffinityTerm, PodSpec, SchedulingGate, Volume
from scheduler.api.resource import Dimensions, is_empty
from scheduler.api.task import MountedClaim, PodClaim, TaskClass
from scheduler.cache.requests import nonzero_request, pod_request
from scheduler.cache.selection_table import SelectionTable, maker_of

_Shape = tuple[str, bytes, tuple[tuple[str, str], ...], tuple[tuple[str, str], ...], tuple[PodClaim, ...], str]
_Key = tuple[_Shape, tuple[MountedClaim, ...]]
_NOTHING = Volume()


class ClassTable:
    """All task classes of a cache."""

    def __init__(self, dimensions: Dimensions, selections: SelectionTable) -> None:
        self._dimensions = dimensions
        self._width = dimensions.width
        """Width that every request has at least."""
        self._selections = selections
        self._classes: dict[_Key, TaskClass] = {}
        self._alike: dict[_Shape, int] = {}
        """Shape without claims -> what its classes with claims have in common."""
        self._specs: dict[int, bytes] = {}
        self._next = 0
        self._sociable: dict[int, TaskClass] = {}
        self.label_keys: set[str] = set(CLASS_LABELS)
        """Label keys that split classes."""

    def of(self, pod: Pod, device_claims: tuple[PodClaim, ...] = ()) -> TaskClass:
        """The class of a Pod. Raises QuantityError if its requests are malformed."""
        spec = msgspec.structs.replace(
            pod.spec,
            node_name="",
            scheduler_name="",
            scheduling_gates=_queue_gate(pod.spec.scheduling_gates),
            priority=None,
            volumes=_inline(pod.spec.volumes) or None if pod.spec.volumes else None,
        )
        annotations = pod.metadata.annotations or {}
        return self._intern(
            pod.metadata.namespace,
            msgspec.json.encode(spec),
            spec,
            pod.metadata.labels or {},
            tuple([(key, annotations[key]) for key in CLASS_ANNOTATIONS if key in annotations]) if annotations else (),
            mounted_claims(pod) if pod.spec.volumes else (),
            device_claims,
            maker_of(pod.metadata.owner_references),
        )

    def again(self, cls: TaskClass, labels: dict[str, str], device_claims: tuple[PodClaim, ...]) -> TaskClass:
        """The class of a Pod that was in ``cls`` and has the labels given, now that ``label_keys`` has grown, or that
        its ResourceClaims or those who select it have changed."""
        annotations = tuple(cls.annotations.items())
        encoded = self._specs[cls.id]
        return self._intern(cls.namespace, encoded, cls.spec, labels, annotations, cls.claims, device_claims, cls.maker)

    def sociable(self) -> tuple[TaskClass, ...]:
        """The classes with (anti-)affinity to other Pods."""
        return tuple(self._sociable.values())

    def widen(self) -> None:
        """Lengthen every request if the dimensions have grown. Not while a session reads them."""
        if self._width == self._dimensions.width:
            return
        self._width = self._dimensions.width
        for cls in self._classes.values():
            cls.request = self._dimensions.fit(cls.request)

    def count_again(self) -> None:
        """Work out every request anew, now that other resources are counted. Not while a session reads them."""
        for cls in self._classes.values():
            cls.request = pod_request(cls.spec, self._dimensions)
            cls.best_effort = is_empty(cls.request)
            cls.nonzero = nonzero_request(cls.spec, cls.request)

    def keep(self, ids: Collection[int]) -> None:
        """Forget the classes that no task is of any more. Their numbers are not used again."""
        self._classes = {key: cls for key, cls in self._classes.items() if cls.id in ids}
        self._sociable = {number: cls for number, cls in self._sociable.items() if number in ids}
        self._specs = {number: spec for number, spec in self._specs.items() if number in ids}
        used = {cls.alike for cls in self._classes.values()}
        self._alike = {shape: number for shape, number in self._alike.items() if number in used}

    def _intern(
        self,
        namespace: str,
        encoded: bytes,
        spec: PodSpec,
        labels: dict[str, str],
        annotations: tuple[tuple[str, str], ...],
        claims: tuple[MountedClaim, ...],
        device_claims: tuple[PodClaim, ...],
        maker: str,
    ) -> TaskClass:
        keys = self.label_keys.intersection(labels)
        selected = self._selections.of(namespace).keys(labels)
        if selected:
            keys.update(selected.intersection(labels))
        kept = tuple([(key, labels[key]) for key in sorted(keys)]) if keys else ()
        shape = (namespace, encoded, kept, annotations, device_claims, maker)
        key = (shape, claims)
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
                claims=claims,
                alike=self._alike.setdefault(shape, self._next) if claims else -1,
                device_claims=device_claims,
                maker=maker,
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


def mounted_claims(pod: Pod) -> tuple[MountedClaim, ...]:
    """The claims that a Pod mounts; an ephemeral volume has one that is named after the Pod and belongs to it."""
    meta = pod.metadata
    found = []
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            found.append(MountedClaim(volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            found.append(MountedClaim(f"{meta.name}-{volume.name}", meta.uid))
    return tuple(dict.fromkeys(found))


def _queue_gate(gates: list[SchedulingGate] | None) -> list[SchedulingGate] | None:
    """The gates if that of queue admission is the only one, else None: others may come and go within a class."""
    return gates if gates and len(gates) == 1 and gates[0].name == QUEUE_ALLOCATION_GATE else None


def _inline(volumes: Iterable[Volume]) -> list[Volume]:
    """The volumes that a Pod names itself and that take a place on their node, or are images that may be there already,
    without what they are called.

    All others are left out: every Pod gets one of a random name for its token, which must not split classes.
    """
    found = []
    for volume in volumes:
        bare = msgspec.structs.replace(volume, name="", persistent_volume_claim=None, ephemeral=None)
        if bare != _NOTHING:
            found.append(bare)
    return found


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
