"""For ``explain``: the requests of a Pod's claims, the volumes and storage available for them, and remedies: more
volumes, more storage capacity, higher attach limits of a node."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.kinds import CLAIM, CSI_DRIVER, CSI_NODE, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from scheduler.api.names import MEMORY, NO_PROVISIONER, STORAGE
from scheduler.api.objects import LabelSelector
from scheduler.api.quantity import QuantityError, parse_quantity
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
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.nodes import passing_nodes
from scheduler.framework.remedies.registry import pod_details, remedies
from scheduler.framework.session import Session
from scheduler.plugins.predicates.plugin import Predicates
from scheduler.plugins.predicates.volumes.attachments import AttachFilter, Attachments, Disks
from scheduler.plugins.predicates.volumes.claims import (
    ClaimRequest,
    capacity,
    claim_key,
    class_of,
    is_available,
    is_bound,
    request_of,
)

_MAX_CAPACITIES: Final = 3
"""The number of CSIStorageCapacities that are tried."""
_SPARE: Final = 4
_MODE: Final = "ReadWriteOnce"
_SMALL: Final = "1Gi"
"""The size of a claim that does not exist."""


@pod_details(Predicates)
def volumes(session: Session, plugin: Predicates, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    """Yields a gate for each claim if the volume filters reject any node."""
    if not task.cls.claims:
        return
    nodes = len(session.nodes)
    left = int(passing_nodes(session, plugin.volumes.filters(task.cls)).sum())
    for mounted in task.cls.claims if left < nodes else ():
        claim = session.snapshot.objects[CLAIM].get(f"{task.namespace}/{mounted.name}")
        what = "does not exist" if claim is None else _describe(session, claim)
        yield Gate(
            GateKind.VOLUMES, f"{task.name}: claim {mounted.name} {what} (volumes let it onto {left} of {nodes} nodes)"
        )
    state = plugin.volumes.claim_state(task.cls)
    if state.unattached and left < nodes:
        yield from _attachments(session, task, state.unattached)


def _attachments(session: Session, task: Task, unattached: Iterable[tuple[str, int]]) -> Iterator[Gate]:
    """Yields a gate for each driver of which some nodes cannot attach as many volumes as the Pod needs."""
    attached = _attachments_of(session)
    for driver, needed in unattached:
        left = attached.limits[driver] - attached.counts[driver]
        number, row = int((left < needed).sum()), int(left.argmax())
        if number:
            most = f"{left[row]:g} of {attached.limits[driver][row]:g} on node {session.nodes.names[row]}"
            text = f"{number} nodes have fewer places left than that for volumes of {driver}, most are left: {most}"
            yield Gate(GateKind.VOLUMES, f"{task.name}: needs {needed} attached; {text}")


def _attachments_of(session: Session) -> Attachments:
    return Attachments(session.snapshot, session.nodes, Disks(session.snapshot))


def _describe(session: Session, claim: PersistentVolumeClaim) -> str:
    if is_bound(claim):
        return f"is bound to volume {claim.spec.volume_name}"
    name = class_of(claim)
    try:
        size = quantity(MEMORY, request_of(claim).size)
    except QuantityError:
        return "asks for no amount"
    found = f"{_free(session, name)}, {_provisioning(session, name)}"
    return f"asks for {size} of class {name}: {found}" if name else f"asks for {size} without a class: {found}"


def _free(session: Session, storage_class: str) -> str:
    sizes = []
    for volume in session.snapshot.objects[VOLUME].values():
        if is_available(volume) and class_of(volume) == storage_class:
            try:
                sizes.append(capacity(volume))
            except QuantityError:
                continue  # the filter reports it
    if not sizes:
        return "no such volume is free"
    most = quantity(MEMORY, max(sizes))
    if len(sizes) == 1:
        return f"1 such volume is free, the largest of {most}"
    return f"{len(sizes)} such volumes are free, the largest of {most}"


def _provisioning(session: Session, name: str) -> str:
    """Describes the provisioner of a storage class, and its free storage capacity."""
    storage = session.snapshot.objects[STORAGE_CLASS].get(name)
    if storage is None:
        return f"and there is no StorageClass {name}" if name else "and no provisioner makes one"
    if storage.provisioner in ("", NO_PROVISIONER):
        return "and no provisioner makes more"
    text = f"and {storage.provisioner} makes more"
    driver = session.snapshot.objects[CSI_DRIVER].get(storage.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return text
    most = max(map(largest, _storage_capacities(session, name)), default=0)
    return f"{text} of up to {quantity(MEMORY, most)}, by its CSIStorageCapacities"


def _storage_capacities(session: Session, name: str) -> list[CsiStorageCapacity]:
    return [c for c in session.snapshot.objects[STORAGE_CAPACITY].values() if c.storage_class_name == name]


def largest(storage: CsiStorageCapacity) -> int:
    """The bytes of the largest volume that can be provisioned; 0 if the amount is invalid, which the filter reports."""
    text = storage.capacity if storage.maximum_volume_size is None else storage.maximum_volume_size
    try:
        return parse_quantity(text or 0)
    except QuantityError:
        return 0


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
        of_class = _storage_capacities(evidence.session, storage_class)
        for storage in sorted(of_class, key=lambda one: (-largest(one), one.metadata.name))[:_MAX_CAPACITIES]:
            missing, name = units(MEMORY, size - largest(storage)), storage.metadata.name
            if missing > 0:
                change = partial(_with_storage, storage)
                yield (Adjustment(ChangeKind.STORAGE, missing, missing * _SPARE, change, name, grain_of(MEMORY)),)


def _with_storage(storage: CsiStorageCapacity, amount: int) -> Step:
    meta, now = storage.metadata, largest(storage)
    field = "capacity" if storage.maximum_volume_size is None else "maximumVolumeSize"
    more = amount * unit_of(MEMORY)
    then = quantity(MEMORY, now + more)
    text = (
        f"{quantity(MEMORY, more)} more storage of class {storage.storage_class_name} "
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
        counts = evidence.room_by_row(tasks[0].cls, AttachFilter)
    row = max(counts, key=lambda row: (counts[row], -row), default=None)
    if row is None or not counts[row]:
        return
    attached, number = _attachments_of(session), min(counts[row], len(tasks))
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
