"""Remedies for volumes: more volumes, more storage capacity, higher attach limits of a node."""

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
from scheduler.framework.remedies.adjustments import (
    Adjustment,
    ChangeKind,
    Edit,
    Plan,
    Raw,
    Step,
    indivisible,
    join_names,
)
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.nodes import passing_nodes, room
from scheduler.framework.remedies.registry import remedies
from scheduler.plugins.predicates.plugin import Predicates
from scheduler.plugins.predicates.volumes.claims import ClaimRequest, claim_key, is_bound, request_of
from scheduler.plugins.predicates.volumes.details import largest
from scheduler.plugins.predicates.volumes.disks import Disks
from scheduler.plugins.predicates.volumes.limits import AttachFilter, Attachments

_MAX_CAPACITIES: Final = 3
"""The number of CSIStorageCapacities that are tried."""
_SPARE: Final = 4
_MODE: Final = "ReadWriteOnce"
_SMALL: Final = "1Gi"
"""The size of a claim that does not exist."""


# --- volumes ---
@remedies(Predicates, ChangeKind.VOLUMES)
def more_volumes(evidence: Evidence, plugin: Predicates) -> Iterator[Plan]:
    """Creates volumes for unbound claims: for each request as many as there are claims. Claims that do not exist are
    created together with a volume."""
    keys = _claims(evidence, plugin)
    adjustments = [
        indivisible(ChangeKind.VOLUMES, _with_claim(evidence, key), key)
        for key in keys
        if key not in evidence.session.snapshot.objects[CLAIM]
    ]
    by_request: dict[ClaimRequest, list[PersistentVolumeClaim]] = {}
    for claim, request in _unbound(evidence, keys):
        if claim.spec.volume_name not in evidence.session.snapshot.objects[VOLUME]:
            by_request.setdefault(request, []).append(claim)
    for request, claims in by_request.items():
        change = partial(_with_volumes, evidence, request, claims)
        adjustments.append(Adjustment(ChangeKind.VOLUMES, len(claims), len(claims), change, claim_key(claims[0])))
    if adjustments:
        yield tuple(adjustments)


def _claims(evidence: Evidence, predicates: Predicates) -> list[str]:
    """The keys of the claims of Pods without a node for which the volume filters reject any node."""
    with evidence.unplaced_tasks() as left:
        rejected = [task for task in left if task.cls.claims and not _passes_everywhere(evidence, predicates, task)]
    return list(dict.fromkeys(f"{task.namespace}/{mounted.name}" for task in rejected for mounted in task.cls.claims))


def _passes_everywhere(evidence: Evidence, predicates: Predicates, task: Task) -> bool:
    return bool(passing_nodes(evidence.session, predicates.volumes.filters(task.cls)).all())


def _unbound(evidence: Evidence, keys: Sequence[str]) -> Iterator[tuple[PersistentVolumeClaim, ClaimRequest]]:
    """The existing claims that are not bound, with their requests."""
    for key in keys:
        claim = evidence.session.snapshot.objects[CLAIM].get(key)
        if claim is not None and not is_bound(claim):
            try:
                yield claim, request_of(claim, claim.spec.volume_name)
            except QuantityError:
                continue  # the filter reports it


def _with_claim(evidence: Evidence, key: str) -> Step:
    namespace, _, name = key.partition("/")
    volume = evidence.unused_name(VOLUME, f"volume-for-{namespace}-{name}")
    amounts = {STORAGE: _SMALL}
    claim_spec: Raw = {"accessModes": [_MODE], "resources": {"requests": amounts}, "volumeName": volume}
    claim_ref = {"namespace": namespace, "name": name}
    volume_spec: Raw = {"accessModes": [_MODE], "capacity": amounts, "claimRef": claim_ref}
    edits = (
        Edit(
            CLAIM,
            namespace,
            name,
            lambda blank: {**blank, "spec": {**claim_spec, "storageClassName": ""}},
            creates=True,
        ),
        Edit(VOLUME, "", volume, lambda blank: {**blank, "spec": volume_spec}, creates=True),
    )
    return Step(f"create PersistentVolumeClaim {key}, and a volume for it", edits)


def _with_volumes(
    evidence: Evidence, request: ClaimRequest, claims: Sequence[PersistentVolumeClaim], amount: int
) -> Step:
    size = quantity(MEMORY, float(request.size))
    spec: Raw = {
        "capacity": {STORAGE: size},
        "accessModes": sorted(request.access_modes),
        "storageClassName": request.storage_class,
        "volumeMode": request.volume_mode,
        **({"volumeAttributesClassName": request.attributes_class} if request.attributes_class else {}),
    }
    labels = _labels(claims[0].spec.selector)
    chosen = [claim_key(claim) for claim in claims[:amount]]

    def created(blank: Raw) -> Raw:
        return {**blank, "metadata": {**blank["metadata"], "labels": labels}, "spec": spec}

    names = [request.prebound or evidence.unused_name(VOLUME, f"volume-for-{key.replace('/', '-')}") for key in chosen]
    volumes = "1 volume more" if amount == 1 else f"{amount} volumes more"
    of_class = f"of class {request.storage_class}" if request.storage_class else "without a class"
    claimants = f"for claim {chosen[0]}" if amount == 1 else f"for claims {join_names(chosen)}"
    text = f"{volumes} of {size} {of_class}, {', '.join(spec['accessModes'])} ({claimants})"
    return Step(text, tuple(Edit(VOLUME, "", name, created, creates=True) for name in names))


def _labels(selector: LabelSelector | None) -> dict[str, str]:
    return dict((selector.match_labels if selector is not None else None) or {})


# --- storage ---
@remedies(Predicates, ChangeKind.STORAGE)
def more_storage(evidence: Evidence, plugin: Predicates) -> Iterator[Plan]:
    """Increases the storage capacity of a storage class that is too small for a claim, where it is largest."""
    sizes: dict[str, int] = {}
    for _, request in _unbound(evidence, _claims(evidence, plugin)):
        sizes[request.storage_class] = max(request.size, sizes.get(request.storage_class, 0))
    for storage_class, size in sizes.items():
        capacities = evidence.session.snapshot.objects[STORAGE_CAPACITY].values()
        of_class = [capacity for capacity in capacities if capacity.storage_class_name == storage_class]
        for capacity in sorted(of_class, key=lambda capacity: (-largest(capacity), capacity.metadata.name))[
            :_MAX_CAPACITIES
        ]:
            missing, name = units(MEMORY, size - largest(capacity)), capacity.metadata.name
            if missing > 0:
                change = partial(_with_storage, capacity)
                yield (Adjustment(ChangeKind.STORAGE, missing, missing * _SPARE, change, name, grain_of(MEMORY)),)


def _with_storage(capacity: CsiStorageCapacity, amount: int) -> Step:
    meta, now = capacity.metadata, largest(capacity)
    field = "capacity" if capacity.maximum_volume_size is None else "maximumVolumeSize"
    more = amount * unit_of(MEMORY)
    then = quantity(MEMORY, now + more)
    text = (
        f"{quantity(MEMORY, more)} more storage of class {capacity.storage_class_name} "
        f"({field} of CSIStorageCapacity {meta.namespace}/{meta.name} {then})"
    )
    edit = Edit(STORAGE_CAPACITY, meta.namespace, meta.name, lambda raw: {**raw, field: then})
    return Step(text, (edit,))


# --- attach limits ---
@remedies(Predicates, ChangeKind.ATTACHMENTS)
def more_attachments(evidence: Evidence, plugin: Predicates) -> Iterator[Plan]:
    """Raises the attach limits of the node that otherwise has room for the most Pods."""
    session = evidence.session
    with evidence.unplaced_tasks() as left:
        tasks = [task for task in left if task.cls.claims]
        state = plugin.volumes.claim_state(tasks[0].cls) if tasks else None
        if state is None or not (state.unattached or state.attached):
            return
        others = [f for f in session.filters(tasks[0].cls, evidence.job) if not isinstance(f, AttachFilter)]
        open_rows = np.intersect1d(np.flatnonzero(passing_nodes(session, others)), evidence.rows)
        counts = {row: room(session.nodes.idle[:, row], tasks[0].cls) for row in open_rows.tolist()}
    row = max(counts, key=lambda row: (counts[row], -row), default=None)
    if row is None or not counts[row]:
        return
    attached, number = (
        Attachments(session.snapshot, session.nodes, Disks(session.snapshot)),
        min(counts[row], len(tasks)),
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


def _with_limit(node: str, driver: str, now: int, amount: int) -> Step:
    def raised(raw: Raw) -> Raw:
        drivers = raw["spec"]["drivers"]
        raised_drivers = [{**e, "allocatable": {"count": now + amount}} if e["name"] == driver else e for e in drivers]
        return {**raw, "spec": {**raw["spec"], "drivers": raised_drivers}}

    text = (
        f"room for {amount} more volume{'s' * (amount > 1)} of driver {driver} on node {node} ({now + amount} in all)"
    )
    return Step(text, (Edit(CSI_NODE, "", node, raised),))
