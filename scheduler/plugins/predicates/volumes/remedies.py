"""Changes about volumes: more of them, more storage to make them from, more places for them on a node."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.kinds import CLAIM, CSI_NODE, STORAGE_CAPACITY, VOLUME
from scheduler.api.names import MEMORY, STORAGE
from scheduler.api.objects import LabelSelector
from scheduler.api.quantity import QuantityError
from scheduler.api.storage import CsiStorageCapacity, PersistentVolumeClaim
from scheduler.api.task import Task
from scheduler.api.written_amounts import grain_of, quantity, unit_of, units
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step, listed, whole
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.nodes import passing, room
from scheduler.framework.remedies.registry import remedies
from scheduler.plugins.predicates.plugin import Predicates
from scheduler.plugins.predicates.volumes.claims import ClaimRequest, claim_key, is_bound, request_of
from scheduler.plugins.predicates.volumes.details import largest
from scheduler.plugins.predicates.volumes.disks import Disks
from scheduler.plugins.predicates.volumes.limits import AttachFilter, Attachments

_SINGLE: Final = 3
"""So many CSIStorageCapacities are tried one by one."""
_SPARE: Final = 4
_MODE: Final = "ReadWriteOnce"
_SMALL: Final = "1Gi"
"""Of a claim that is made up."""


# --- volumes ---
@remedies(Predicates, ChangeKind.VOLUMES)
def more_volumes(evidence: Evidence, plugin: Predicates) -> Iterator[Plan]:
    """Volumes for claims that are not bound: as many of each sort as there are such claims. A claim that is missing is
    made with its volume."""
    keys = _claims(evidence, plugin)
    adjustments = [
        whole(ChangeKind.VOLUMES, _with_claim(evidence, key), key)
        for key in keys
        if key not in evidence.session.snapshot.claims
    ]
    sorts: dict[ClaimRequest, list[PersistentVolumeClaim]] = {}
    for claim, wanted in _unbound(evidence, keys):
        if claim.spec.volume_name not in evidence.session.snapshot.volumes:
            sorts.setdefault(wanted, []).append(claim)
    for wanted, claims in sorts.items():
        change = partial(_with_volumes, evidence, wanted, claims)
        adjustments.append(Adjustment(ChangeKind.VOLUMES, len(claims), len(claims), change, claim_key(claims[0])))
    if adjustments:
        yield tuple(adjustments)


def _claims(evidence: Evidence, predicates: Predicates) -> list[str]:
    """The keys of the claims of Pods that find no node, where the predicates on volumes refuse some node."""
    with evidence.crowded() as left:
        refused = [task for task in left if task.cls.claims and not _everywhere(evidence, predicates, task)]
    return list(dict.fromkeys(f"{task.namespace}/{mounted.name}" for task in refused for mounted in task.cls.claims))


def _everywhere(evidence: Evidence, predicates: Predicates, task: Task) -> bool:
    return bool(passing(evidence.session, predicates.volumes.filters(task.cls)).all())


def _unbound(evidence: Evidence, keys: Sequence[str]) -> Iterator[tuple[PersistentVolumeClaim, ClaimRequest]]:
    """The claims that are there and not bound, and what they ask for."""
    for key in keys:
        claim = evidence.session.snapshot.claims.get(key)
        if claim is not None and not is_bound(claim):
            try:
                yield claim, request_of(claim, claim.spec.volume_name)
            except QuantityError:
                continue  # the predicate tells of it


def _with_claim(evidence: Evidence, key: str) -> Step:
    namespace, _, name = key.partition("/")
    volume = evidence.unused(VOLUME, f"volume-for-{namespace}-{name}")
    amounts = {STORAGE: _SMALL}
    asked: Raw = {"accessModes": [_MODE], "resources": {"requests": amounts}, "volumeName": volume}
    held = {"namespace": namespace, "name": name}
    given: Raw = {"accessModes": [_MODE], "capacity": amounts, "claimRef": held}
    edits = (
        Edit(CLAIM, namespace, name, lambda blank: {**blank, "spec": {**asked, "storageClassName": ""}}, creates=True),
        Edit(VOLUME, "", volume, lambda blank: {**blank, "spec": given}, creates=True),
    )
    return Step(f"create PersistentVolumeClaim {key}, and a volume for it", edits)


def _with_volumes(
    evidence: Evidence, wanted: ClaimRequest, claims: Sequence[PersistentVolumeClaim], degree: int
) -> Step:
    size = quantity(MEMORY, float(wanted.size))
    spec: Raw = {
        "capacity": {STORAGE: size},
        "accessModes": sorted(wanted.access_modes),
        "storageClassName": wanted.storage_class,
        "volumeMode": wanted.volume_mode,
        **({"volumeAttributesClassName": wanted.attributes_class} if wanted.attributes_class else {}),
    }
    labels = _labels(claims[0].spec.selector)
    chosen = [claim_key(claim) for claim in claims[:degree]]

    def made(blank: Raw) -> Raw:
        return {**blank, "metadata": {**blank["metadata"], "labels": labels}, "spec": spec}

    names = [wanted.prebound or evidence.unused(VOLUME, f"volume-for-{key.replace('/', '-')}") for key in chosen]
    sort = f" of class {wanted.storage_class}" if wanted.storage_class else " without a class"
    text = f"{degree} volume{'s' * (degree > 1)} more of {size}{sort}, {', '.join(spec['accessModes'])}"
    text += f" (for claim{'s' * (degree > 1)} {listed(chosen)})"
    return Step(text, tuple(Edit(VOLUME, "", name, made, creates=True) for name in names))


def _labels(selector: LabelSelector | None) -> dict[str, str]:
    return dict((selector.match_labels if selector is not None else None) or {})


# --- storage ---
@remedies(Predicates, ChangeKind.STORAGE)
def more_storage(evidence: Evidence, plugin: Predicates) -> Iterator[Plan]:
    """Storage of which a driver says that too little is left for a claim, where most is left."""
    asked: dict[str, int] = {}
    for _, wanted in _unbound(evidence, _claims(evidence, plugin)):
        asked[wanted.storage_class] = max(wanted.size, asked.get(wanted.storage_class, 0))
    for storage_class, size in asked.items():
        there = evidence.session.snapshot.storage_capacities.values()
        of_class = [capacity for capacity in there if capacity.storage_class_name == storage_class]
        for capacity in sorted(of_class, key=lambda capacity: (-largest(capacity), capacity.metadata.name))[:_SINGLE]:
            missing, name = units(MEMORY, size - largest(capacity)), capacity.metadata.name
            if missing > 0:
                change = partial(_with_storage, capacity)
                yield (Adjustment(ChangeKind.STORAGE, missing, missing * _SPARE, change, name, grain_of(MEMORY)),)


def _with_storage(capacity: CsiStorageCapacity, degree: int) -> Step:
    meta, now = capacity.metadata, largest(capacity)
    field = "capacity" if capacity.maximum_volume_size is None else "maximumVolumeSize"
    more = degree * unit_of(MEMORY)
    then = quantity(MEMORY, now + more)
    text = (
        f"{quantity(MEMORY, more)} more storage of class {capacity.storage_class_name} "
        f"({field} of CSIStorageCapacity {meta.namespace}/{meta.name} {then})"
    )
    edit = Edit(STORAGE_CAPACITY, meta.namespace, meta.name, lambda raw: {**raw, field: then})
    return Step(text, (edit,))


# --- places on a node ---
@remedies(Predicates, ChangeKind.ATTACHMENTS)
def more_attachments(evidence: Evidence, plugin: Predicates) -> Iterator[Plan]:
    """Let more volumes be attached to the node that has room for most of the Pods otherwise."""
    session = evidence.session
    with evidence.crowded() as left:
        asking = [task for task in left if task.cls.claims]
        state = plugin.volumes.claim_state(asking[0].cls) if asking else None
        if state is None or not (state.unattached or state.attached):
            return
        others = [f for f in session.filters(asking[0].cls, evidence.job) if not isinstance(f, AttachFilter)]
        open_rows = np.intersect1d(np.flatnonzero(passing(session, others)), evidence.rows)
        rooms = {row: room(session.nodes.idle[:, row], asking[0].cls) for row in open_rows.tolist()}
    row = max(rooms, key=lambda row: (rooms[row], -row), default=None)
    if row is None or not rooms[row]:
        return
    attached, number = (
        Attachments(session.snapshot, session.nodes, Disks(session.snapshot)),
        min(rooms[row], len(asking)),
    )
    new = dict(state.unattached)
    for disk in state.attached:
        new[disk.driver] = new.get(disk.driver, 0) + (row not in attached.rows.get(disk, ()))
    adjustments = []
    for driver, each in new.items():
        limit = attached.limits[driver][row]
        missing = int(attached.counts[driver][row] + each * number - limit) if np.isfinite(limit) else 0
        if missing > 0:
            change = partial(_with_limit, session.nodes.names[row], driver, int(limit))
            adjustments.append(Adjustment(ChangeKind.ATTACHMENTS, missing, missing * _SPARE, change, driver))
    if adjustments:
        yield tuple(adjustments)


def _with_limit(node: str, driver: str, now: int, degree: int) -> Step:
    def raised(raw: Raw) -> Raw:
        drivers = raw["spec"]["drivers"]
        fresh = [{**e, "allocatable": {"count": now + degree}} if e["name"] == driver else e for e in drivers]
        return {**raw, "spec": {**raw["spec"], "drivers": fresh}}

    text = (
        f"room for {degree} more volume{'s' * (degree > 1)} of driver {driver} on node {node} ({now + degree} in all)"
    )
    return Step(text, (Edit(CSI_NODE, "", node, raised),))
