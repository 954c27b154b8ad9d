"""Details for explain: the requests of a Pod's claims, and the volumes and storage available for them."""

from collections.abc import Iterable, Iterator

from scheduler.api.job import Job
from scheduler.api.kinds import CLAIM, CSI_DRIVER, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME
from scheduler.api.names import MEMORY, NO_PROVISIONER
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.storage import CsiStorageCapacity, PersistentVolumeClaim
from scheduler.api.task import Task
from scheduler.api.written_amounts import quantity
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.nodes import passing_nodes
from scheduler.framework.remedies.registry import pod_details
from scheduler.framework.session import Session
from scheduler.plugins.predicates.plugin import Predicates
from scheduler.plugins.predicates.volumes.claims import capacity, class_of, is_available, is_bound, request_of
from scheduler.plugins.predicates.volumes.disks import Disks
from scheduler.plugins.predicates.volumes.limits import Attachments


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
    attached = Attachments(session.snapshot, session.nodes, Disks(session.snapshot))
    for driver, needed in unattached:
        left = attached.limits[driver] - attached.counts[driver]
        number, row = int((left < needed).sum()), int(left.argmax())
        if number:
            most = f"{left[row]:g} of {attached.limits[driver][row]:g} on node {session.nodes.names[row]}"
            text = f"{number} nodes have fewer places left than that for volumes of {driver}, most are left: {most}"
            yield Gate(GateKind.VOLUMES, f"{task.name}: needs {needed} attached; {text}")


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
    capacities = [c for c in session.snapshot.objects[STORAGE_CAPACITY].values() if c.storage_class_name == name]
    most = max(map(largest, capacities), default=0)
    return f"{text} of up to {quantity(MEMORY, most)}, by its CSIStorageCapacities"


def largest(storage: CsiStorageCapacity) -> int:
    """The bytes of the largest volume that can be provisioned; 0 if the amount is invalid, which the filter reports."""
    text = storage.capacity if storage.maximum_volume_size is None else storage.maximum_volume_size
    try:
        return parse_quantity(text or 0)
    except QuantityError:
        return 0
