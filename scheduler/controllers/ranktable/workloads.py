"""The workloads that may have a rank table, and their Pods: vcjobs, AscendJobs, Deployments and StatefulSets; and what
the settings of a job say about its rank table (``Layout``)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.api.acjob import is_backup
from scheduler.api.batch import FINISHED_PHASES, Workload
from scheduler.api.kinds import ACJOB, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, VCJOB, Kind, find_kind
from scheduler.api.names import (
    ACCELERATOR_TYPE,
    AFFINITY_CONFIG,
    MINDIE_APP,
    MINDIE_JOB,
    NPU,
    NPU_JOB_KIND,
    RANK_TABLE_VOLUME,
    SCALE_OUT,
    SCHEDULE_POLICY,
    SP_BLOCK,
    SUPER_POD_AFFINITY,
    SUPER_POD_SOFT,
)
from scheduler.api.objects import KubeObject, OwnerReference, Pod, controller_of
from scheduler.controllers.controller import latest
from scheduler.controllers.ranktable.servers import requested_chips
from scheduler.controllers.store import Key, Store, key_of

KINDS: Final[tuple[Kind, ...]] = (VCJOB, ACJOB, DEPLOYMENT, STATEFUL_SET)
"""The kinds in their order of precedence: two workloads with one name share one ConfigMap."""


class Communicator(NamedTuple):
    """A workload whose Pods communicate by a rank table."""

    kind: Kind
    obj: KubeObject
    size: int
    """Number of Pods that it should have."""
    pods: tuple[Pod, ...]
    """The Pods that it has, without terminating ones and backups. Failed Pods of a Deployment do not count, because
    others replace them; failed Pods of other workloads keep their names and their places."""
    in_file: bool
    """Its Pods read the table from a file."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the workload, and of the template of its Pods."""
        return _merged([*(pod.metadata.annotations for pod in self.pods[:1]), self.obj.metadata.annotations])

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the workload, and of the template of its Pods."""
        return _merged([*(pod.metadata.labels for pod in self.pods[:1]), self.obj.metadata.labels])

    @property
    def accelerator_types(self) -> list[str]:
        """The values of ``accelerator-type`` in the node selectors of the Pods."""
        return sorted({(pod.spec.node_selector or {}).get(ACCELERATOR_TYPE, "") for pod in self.pods})

    @property
    def chips(self) -> Mapping[str, int]:
        """Resource of chips -> amount, as the first Pod with chips requests them."""
        return next((chips for pod in self.pods if (chips := requested_chips(pod))), {})

    @property
    def own_nodes(self) -> bool:
        """Whether every Pod has a node of its own."""
        nodes = [pod.spec.node_name for pod in self.pods]
        return "" not in nodes and len(set(nodes)) == len(nodes)


class Communicators:
    """Finds the communicators of a store. One thread uses it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._replica_sets: dict[tuple[str, str], set[Key]] = {}
        """Namespace and uid of the Deployment -> the keys of its ReplicaSets."""

    def observe_pod(self, old: Pod | None, new: Pod | None) -> list[Key]:
        """A Pod was added, changed or deleted. Returns the keys of the workloads that it concerns."""
        pod = latest(old, new)
        owner = controller_of(pod)
        if owner is None:
            return []
        namespace, kind = pod.metadata.namespace, find_kind(owner.api_version, owner.kind)
        name = owner.name
        if kind is REPLICA_SET:
            replica_set = self._store.get(REPLICA_SET, namespace, name)
            deployment = None if replica_set is None else _deployment(replica_set)
            if deployment is None:
                return []
            kind, name = DEPLOYMENT, deployment.name
        if kind not in KINDS:
            return []
        workload = self._store.get(kind, namespace, name)
        if workload is None or not (kind is ACJOB or _is_labelled(workload) or _reads_file(pod)):
            return []
        same = old is not None and new is not None and _relevant(old) == _relevant(new)
        return [] if same else [(namespace, name)]

    def observe_replica_set(self, old: Workload | None, new: Workload | None) -> list[Key]:
        """A ReplicaSet was added, changed or deleted. Returns the keys of the Deployments that it concerns."""
        keys: dict[Key, None] = {}
        for obj in (old, new):
            owner = None if obj is None else _deployment(obj)
            if obj is None or owner is None:
                continue
            place = obj.metadata.namespace, owner.uid
            if obj is new:
                self._replica_sets.setdefault(place, set()).add(key_of(obj))
            elif new is None:
                sets = self._replica_sets.get(place, set())
                sets.discard(key_of(obj))
                if not sets:
                    self._replica_sets.pop(place, None)
            keys[obj.metadata.namespace, owner.name] = None
        return list(keys)

    def of(self, key: Key) -> Iterator[Communicator]:
        """The communicators of a name, in the order of precedence."""
        job = self._store.get(VCJOB, *key)
        if job is not None and job.status.state.phase not in FINISHED_PHASES:
            yield from self._communicator(VCJOB, job, sum(max(task.replicas, 0) for task in job.spec.tasks), [job])
        acjob = self._store.get(ACJOB, *key)
        if acjob is not None and not acjob.is_finished:
            specs = (acjob.spec.replica_specs or {}).values()
            size = sum(1 if spec.replicas is None else max(spec.replicas, 0) for spec in specs)
            yield from self._communicator(ACJOB, acjob, size, [acjob])
        for kind in (DEPLOYMENT, STATEFUL_SET):
            workload = self._store.get(kind, *key)
            if workload is None:
                continue
            owners: list[KubeObject] = [workload]
            if kind is DEPLOYMENT:
                sets = sorted(self._replica_sets.get((key[0], workload.metadata.uid), ()))
                found = (self._store.get(REPLICA_SET, *each) for each in sets)
                owners = [each for each in found if each is not None]
            replicas = workload.spec.replicas
            yield from self._communicator(kind, workload, 1 if replicas is None else replicas, owners)

    def _pods_of(self, owner: KubeObject) -> Iterable[Pod]:
        return self._store.pods_of(owner.metadata.namespace, owner.metadata.uid).values()

    def _communicator(
        self, kind: Kind, obj: KubeObject, size: int, owners: Iterable[KubeObject]
    ) -> Iterator[Communicator]:
        if obj.metadata.deletion_timestamp is not None:
            return
        pods = [pod for owner in owners for pod in self._pods_of(owner)]
        in_file = any(map(_reads_file, pods[:1]))
        if in_file or kind is ACJOB or _is_labelled(obj):
            counted = (pod for pod in pods if _counts(pod) and not (kind is DEPLOYMENT and has_failed(pod)))
            yield Communicator(kind, obj, size, tuple(counted), in_file)


def _is_labelled(obj: KubeObject) -> bool:
    return NPU_JOB_KIND in (obj.metadata.labels or ())


def _reads_file(pod: Pod) -> bool:
    return any(volume.name == RANK_TABLE_VOLUME for volume in pod.spec.volumes or ())


def _counts(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and not is_backup(pod)


def has_failed(pod: Pod) -> bool:
    return pod.status.phase == "Failed"


def _relevant(pod: Pod) -> tuple[object, ...]:
    """The parts of a Pod that its rank table depends on."""
    place = pod.metadata.uid, pod.metadata.annotations, pod.status.pod_ip, pod.spec.node_name
    return *place, _counts(pod), has_failed(pod)


def _deployment(obj: KubeObject) -> OwnerReference | None:
    owner = controller_of(obj)
    if owner is None or find_kind(owner.api_version, owner.kind) is not DEPLOYMENT:
        return None
    return owner


def _merged(parts: Iterable[Mapping[str, str] | None]) -> dict[str, str]:
    """The union; later parts win."""
    return {key: value for part in parts for key, value in (part or {}).items()}


PLAIN: Final = "1.0"
SUPER_PODS: Final = "1.2"
NETWORK_LEVELS: Final = "2.0"
_MULTILEVEL: Final = "multilevel"
_SUPER_POD_POLICIES: Final = frozenset({"chip2-node16-sp", "chip2-node8-sp", _MULTILEVEL})
_SUPER_POD_SERVERS: Final = ("module-a3-", "-super-pod")


class Layout(NamedTuple):
    """The settings of a job for its rank table."""

    version: str
    block_chips: int = 0
    """Chips of a logical super pod; 0: all chips of the job are in one."""
    soft: bool = False
    """The scheduler chose the logical super pods, and wrote them onto the Pods."""
    mindie: bool = False
    """A job of MindIE: the table names the models of servers, and physical super pods."""
    scale_out: str = ""
    """The network between super pods that the job asks for; "": any."""


def layout_of(
    labels: Mapping[str, str], annotations: Mapping[str, str], selectors: Sequence[str], chips: Mapping[str, int]
) -> Layout:
    """The layout of the rank table of a job. ``selectors``: the values of ``accelerator-type`` in the node selectors of
    the Pods. ``chips``: resource of chips -> amount that a Pod requests."""
    mindie = MINDIE_JOB in labels and MINDIE_APP in labels
    if NPU in chips:
        return Layout(NETWORK_LEVELS, mindie=mindie, scale_out=labels.get(SCALE_OUT, "").strip().upper())
    if SCHEDULE_POLICY in annotations:
        super_pods = annotations[SCHEDULE_POLICY] in _SUPER_POD_POLICIES
    else:
        prefix, suffix = _SUPER_POD_SERVERS
        super_pods = SP_BLOCK in annotations or any(s.startswith(prefix) and s.endswith(suffix) for s in selectors)
    if not super_pods:
        return Layout(PLAIN, mindie=mindie)
    block = block_chips(annotations, next(iter(chips.values()), 0))
    return Layout(SUPER_PODS, block, labels.get(SUPER_POD_AFFINITY) == SUPER_POD_SOFT, mindie)


def block_chips(annotations: Mapping[str, str], chips: int) -> int:
    """Chips of a logical super pod; 0 if the job has none, or if the annotation is malformed. ``chips``: those of a
    Pod, by which the schedule policy ``multilevel`` counts."""
    block = annotations.get(SP_BLOCK, "")
    if is_number(block) and int(block):
        return int(block)
    if annotations.get(SCHEDULE_POLICY) != _MULTILEVEL:
        return 0
    pairs = [pair.partition("=") for pair in annotations.get(AFFINITY_CONFIG, "").split(",")]
    nodes = next((nodes for level, _, nodes in pairs if level == "level1"), "")
    return int(nodes) * chips if is_number(nodes) else 0


def is_number(text: str) -> bool:
    """Whether a text is a number of up to seven digits."""
    return text.isascii() and text.isdecimal() and len(text) < 8
