"""Task classes: Pods of equal shape share one TaskClass.

The shape of a Pod is its spec (without the fields that say where it runs), its claims, its namespace, and the labels
and annotations that a selector or a plugin reads. Labels that no selector names, such as the index of a task, do not
split a class (``named_labels``). When a selector in some Pod first names a label, the cache classifies the Pods with it
again before the next snapshot. Keys that a Service names count only for the Pods that it selects. The cache keeps no
other annotations of a Pod: a new annotation key counts for the Pods that are stored from then on.

While a Pod on a node is resized, the spec of its class has the amounts that the Pod holds (``pod_resize``). So it is in
another class than the other Pods of its template.

Each Pod of a gang has its own ResourceClaims, made from a template. While these request the same and are not allocated,
the Pods stay in one class. When one of the claims is created, allocated or deleted, its Pod is classified again. Claims
do not split the classes of Pods that have a node.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec

from scheduler.api.dra import ResourceClaim
from scheduler.api.names import CLASS_ANNOTATIONS, CLASS_LABELS, QUEUE_ALLOCATION_GATE
from scheduler.api.objects import (
    Pod,
    PodResourceClaim,
    PodSpec,
    SchedulingGate,
    Volume,
    is_controlled_by,
)
from scheduler.api.pod_amounts import nonzero_request, pod_request
from scheduler.api.pod_resize import held_spec
from scheduler.api.pod_rules import Pin, pin_of
from scheduler.api.resource import Dimensions, is_empty
from scheduler.api.selectors import NOTHING_SELECTED, FieldReporter, ignore_field
from scheduler.api.task import MountedClaim, PodClaim, Task, TaskClass, without_variables
from scheduler.api.workloads import is_online
from scheduler.cache.named_labels import NamedLabels
from scheduler.cache.pod_tasks import NO_LABELS
from scheduler.cache.selection_table import SelectionTable, workload_of
from scheduler.cache.versioning import SnapshotDict

_Shape = tuple[str, bytes, tuple[tuple[str, str], ...], tuple[tuple[str, str], ...], tuple[PodClaim, ...], str, bool]
_Key = tuple[_Shape, tuple[MountedClaim, ...]]
_EMPTY_VOLUME = Volume()
_encode = msgspec.json.Encoder().encode
NO_KEYS: frozenset[str] = frozenset()


class ClassTable:
    """All task classes of a cache."""

    def __init__(self, dimensions: Dimensions, selections: SelectionTable) -> None:
        self._dimensions = dimensions
        self._width = dimensions.width
        """Least width of the request vectors."""
        self.selections = selections
        self._classes: dict[_Key, TaskClass] = {}
        self._shape_ids: dict[_Shape, int] = {}
        """Shape without mounted claims -> ``TaskClass.shape_id`` of its classes with claims. Shape without the node to
        which it is pinned -> ``TaskClass.pin_id``."""
        self._specs: dict[int, bytes] = {}
        """Class id -> its spec as JSON."""
        self._next_id = 0
        self._affinity_classes: dict[int, TaskClass] = {}
        self.labels = NamedLabels(CLASS_LABELS)
        """The labels that split classes."""
        self.annotation_keys: tuple[str, ...] = CLASS_ANNOTATIONS
        """Annotation keys that split classes. Only the classes of Pods stored afterwards consider a new key."""
        self._annotation_keys = frozenset(self.annotation_keys)

    def of(self, pod: Pod, device_claims: tuple[PodClaim, ...] = (), report: FieldReporter = ignore_field) -> TaskClass:
        """Returns the class of a Pod. ``report``: receives malformed amounts of its status, and invalid labels, which
        are ignored. Raises QuantityError if its requests are malformed."""
        spec = msgspec.structs.replace(
            without_variables(held_spec(pod, report) if pod.spec.node_name else pod.spec),
            node_name="",
            scheduler_name="",
            scheduling_gates=_queue_gate(pod.spec.scheduling_gates),
            priority=None,
            termination_grace_period_seconds=None,
            volumes=_inline_volumes(pod.spec.volumes) or None if pod.spec.volumes else None,
        )
        meta = pod.metadata
        annotations = meta.annotations
        kept: tuple[tuple[str, str], ...] = ()
        if annotations and not self._annotation_keys.isdisjoint(annotations):
            kept = tuple([(key, annotations[key]) for key in self.annotation_keys if key in annotations])
        claims = mounted_claims(pod) if pod.spec.volumes else ()
        owner = workload_of(meta.owner_references), is_online(meta, report)
        return self._intern(
            meta.namespace, _encode(spec), spec, meta.labels or NO_LABELS, kept, claims, device_claims, owner
        )

    def add_annotation_keys(self, keys: Iterable[str]) -> None:
        """Puts Pods stored from now on that differ in one of these annotations into different classes."""
        self.annotation_keys += tuple(keys)
        self._annotation_keys = frozenset(self.annotation_keys)

    def reclassify(self, cls: TaskClass, labels: dict[str, str], device_claims: tuple[PodClaim, ...]) -> TaskClass:
        """Returns the present class of a Pod that was in ``cls``. The labels that count, the ResourceClaims of the Pod
        or the selectors that match it have changed. ``labels``: all labels of the Pod."""
        annotations = tuple(cls.annotations.items())
        encoded = self._specs[cls.id]
        return self._intern(
            cls.namespace,
            encoded,
            cls.spec,
            labels,
            annotations,
            cls.claims,
            device_claims,
            (cls.workload, cls.online),
        )

    def affinity_classes(self) -> tuple[TaskClass, ...]:
        """The classes with affinity or anti-affinity to other Pods."""
        return tuple(self._affinity_classes.values())

    def widen(self) -> None:
        """Widens all requests if the dimensions have grown. Must not run while a session reads them."""
        if self._width == self._dimensions.width:
            return
        self._width = self._dimensions.width
        for cls in self._classes.values():
            cls.request = self._dimensions.fit(cls.request)

    def recount(self) -> None:
        """Computes all requests again after the set of counted resources has changed. Must not run while a session
        reads them."""
        for cls in self._classes.values():
            cls.request = pod_request(cls.spec, self._dimensions)
            cls.best_effort = is_empty(cls.request)
            cls.nonzero = nonzero_request(cls.spec, cls.request)

    def retain(self, ids: Collection[int]) -> None:
        """Drops all classes except these. Their ids are not used again."""
        self._classes = {key: cls for key, cls in self._classes.items() if cls.id in ids}
        self._affinity_classes = {id_: cls for id_, cls in self._affinity_classes.items() if id_ in ids}
        self._specs = {id_: spec for id_, spec in self._specs.items() if id_ in ids}
        used = {id_ for cls in self._classes.values() for id_ in (cls.shape_id, cls.pin_id)}
        self._shape_ids = {shape: id_ for shape, id_ in self._shape_ids.items() if id_ in used}

    def _intern(
        self,
        namespace: str,
        encoded: bytes,
        spec: PodSpec,
        labels: dict[str, str],
        annotations: tuple[tuple[str, str], ...],
        claims: tuple[MountedClaim, ...],
        device_claims: tuple[PodClaim, ...],
        owner: tuple[str, bool],
    ) -> TaskClass:
        """``owner``: the fields ``workload`` and ``online`` of the class."""
        if spec.affinity is not None or spec.topology_spread_constraints:
            self.labels.name_own(namespace, spec, labels)
        selections = self.selections.of(namespace)
        selected = NO_KEYS if selections is NOTHING_SELECTED else selections.keys(labels)
        kept = self.labels.kept(namespace, labels, selected) if labels else ()
        shape = (namespace, encoded, kept, annotations, device_claims, *owner)
        key = (shape, claims)
        cls = self._classes.get(key)
        if cls is None:
            request = pod_request(spec, self._dimensions)
            pin = pin_of(spec) if spec.affinity is not None and not claims and not device_claims else None
            cls = TaskClass(
                id=self._next_id,
                namespace=namespace,
                labels=dict(kept),
                annotations=dict(annotations),
                spec=spec,
                request=request,
                best_effort=is_empty(request),
                nonzero=nonzero_request(spec, request),
                claims=claims,
                shape_id=self._shape_ids.setdefault(shape, self._next_id) if claims else -1,
                device_claims=device_claims,
                workload=owner[0],
                online=owner[1],
                pinned_to=pin.node if pin is not None else "",
                pin_id=self._pin_id(shape, pin) if pin is not None else -1,
            )
            self._next_id += 1
            self._classes[key] = cls
            if spec.affinity is not None and (spec.affinity.pod_affinity or spec.affinity.pod_anti_affinity):
                self._affinity_classes[cls.id] = cls
            self._specs[cls.id] = encoded
            if spec.affinity is not None or spec.topology_spread_constraints:
                self.labels.name(namespace, spec)
        return cls

    def _pin_id(self, shape: _Shape, pin: Pin) -> int:
        without_node = shape[1].replace(msgspec.json.encode(pin.term.match_fields), b"", 1)
        return self._shape_ids.setdefault((shape[0], without_node, *shape[2:]), self._next_id)

    def __len__(self) -> int:
        return len(self._classes)


class DeviceClaims:
    """The ResourceClaims of waiting Pods, and an index from claims made from templates to their Pods."""

    def __init__(self, claims: SnapshotDict[ResourceClaim]) -> None:
        self._claims = claims
        self._users: dict[str, dict[str, None]] = {}
        """Key of a claim made from a template -> keys of the Pods that name it (normally one)."""

    def of(self, spec: PodSpec, namespace: str, uid: str, generated: Mapping[str, str | None]) -> tuple[PodClaim, ...]:
        """The claims of a Pod. ``generated``: entry of the spec -> name of the claim made for it; None: it needs
        none."""
        found = (self._claim(entry, namespace, uid, generated) for entry in spec.resource_claims or ())
        return tuple(claim for claim in found if claim is not None)

    def _claim(
        self, entry: PodResourceClaim, namespace: str, uid: str, generated: Mapping[str, str | None]
    ) -> PodClaim | None:
        if entry.resource_claim_name is not None:
            return PodClaim(entry.name, claim=entry.resource_claim_name)
        if entry.resource_claim_template_name is None:
            return PodClaim(entry.name, problem="none of the supported fields are set")
        if entry.name not in generated:
            return PodClaim(entry.name, problem="ResourceClaim not created yet")
        name = generated[entry.name]
        if name is None:
            return None  # the Pod needs none
        claim = self._claims.get(f"{namespace}/{name}")
        if claim is None:
            return PodClaim(entry.name, problem="ResourceClaim not found")
        if claim.metadata.deletion_timestamp is not None:
            return PodClaim(entry.name, problem="ResourceClaim is being deleted")
        if not is_controlled_by(claim, uid):
            return PodClaim(entry.name, problem="ResourceClaim was not created for the Pod (Pod is not owner)")
        if claim.status.allocation is not None:
            return PodClaim(entry.name, claim=name)
        return PodClaim(entry.name, shape=msgspec.json.encode(claim.spec))

    # --- which Pod has which claim ---
    def replace(self, old: Task | None, new: Task | None) -> None:
        """Updates the index: ``new`` replaces ``old``. None: the task was added or removed."""
        if old is not None and old.device_claims:
            for claim in _generated_claims(old):
                users = self._users.get(claim, {})
                users.pop(old.key, None)
                if not users:
                    self._users.pop(claim, None)
        if new is not None and new.device_claims:
            for claim in _generated_claims(new):
                self._users.setdefault(claim, {})[new.key] = None

    def users(self, claim: str) -> list[str]:
        """The keys of the Pods that name a claim, by its key."""
        return list(self._users.get(claim, ()))


def mounted_claims(pod: Pod) -> tuple[MountedClaim, ...]:
    """The claims that a Pod mounts. The claim of an ephemeral volume is named after the Pod, which owns it."""
    meta = pod.metadata
    found = []
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            found.append(MountedClaim(volume.persistent_volume_claim.claim_name))
        elif volume.ephemeral is not None:
            found.append(MountedClaim(f"{meta.name}-{volume.name}", meta.uid))
    return tuple(dict.fromkeys(found)) if found else ()


def _queue_gate(gates: list[SchedulingGate] | None) -> list[SchedulingGate] | None:
    """The gates if the only one is the gate of queue admission, else None: other gates may come and go within a
    class."""
    return gates if gates and len(gates) == 1 and gates[0].name == QUEUE_ALLOCATION_GATE else None


def _inline_volumes(volumes: Iterable[Volume]) -> list[Volume]:
    """The volumes that a Pod defines inline and that count against a limit of their node, or are images that may be
    on the node already. Their names are removed.

    All others are left out: each Pod has a token volume of a random name, which must not split classes.
    """
    found = []
    for volume in volumes:
        bare = msgspec.structs.replace(volume, name="", persistent_volume_claim=None, ephemeral=None)
        if bare != _EMPTY_VOLUME:
            found.append(bare)
    return found


def _generated_claims(task: Task) -> list[str]:
    """The keys of the claims made for a Pod from templates."""
    return [f"{task.namespace}/{name}" for name in task.device_claims.values() if name is not None]
