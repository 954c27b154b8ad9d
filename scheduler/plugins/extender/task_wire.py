"""Encodes tasks for extenders: the fields of Volcano's TaskInfo, with the Pod as the API server returned it."""

from typing import Any, Final

import msgspec

from scheduler.api.job import Job
from scheduler.api.kinds import POD
from scheduler.api.names import NUMA_TOPOLOGY_POLICY
from scheduler.api.pod_amounts import is_sidecar
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Vector
from scheduler.api.task import Task, TaskClass, TaskStatus, revocable
from scheduler.api.times import format_timestamp
from scheduler.framework.plugin_session import PluginSession

Json = dict[str, Any]
STATUS: Final = {
    TaskStatus.PENDING: 1,
    TaskStatus.ALLOCATED: 2,
    TaskStatus.PIPELINED: 4,
    TaskStatus.BINDING: 8,
    TaskStatus.BOUND: 16,
    TaskStatus.RUNNING: 32,
    TaskStatus.RELEASING: 64,
    TaskStatus.SUCCEEDED: 128,
    TaskStatus.FAILED: 256,
    TaskStatus.UNKNOWN: 512,
}
_NULL: Final = msgspec.Raw(b"null")


class _Meta(msgspec.Struct):
    annotations: msgspec.Raw = _NULL


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class TaskWire:
    """Encodes the tasks of one session."""

    def __init__(self, session: PluginSession) -> None:
        self._session = session
        self._names = session.dimensions.names
        self._by_class: dict[int, Json] = {}
        """Class id -> the fields that all tasks of the class have in common."""

    def encode(self, job: Job | None, task: Task) -> Json:
        """Encodes a task in its current state in the session. ``job``: None for a task without a known job."""
        status, node = task.status, task.node
        if job is not None:
            status = self._session.status_of(job, task)
            row = job.placed.get(task.uid)
            node = node if row is None else self._session.nodes.names[row]
        pod = self._pod(task, node)
        last = job.transaction.get(task.uid) if job is not None else None
        return {
            "UID": task.uid,
            "Job": task.job,
            "Name": task.name,
            "Namespace": task.namespace,
            "TaskRole": task.role,
            **self._of_class(task.cls),
            "DRAResreq": None,
            "ResourceClaimKeys": None,
            "ResourceClaimDRAResreq": None,
            **_transaction(node, status, job is not None and task.uid in job.nominated),
            "LastTransaction": None if last is None else _transaction(last[1], last[0], False),
            "Priority": task.priority,
            "VolumeReady": False,
            "Preemptable": task.preemptable,
            "SchGated": task.gated,
            "Pod": pod,
            "PodAnnotations": msgspec.json.decode(pod, type=_Object).metadata.annotations,
            "CustomBindErrHandlerSucceeded": False,
        }

    def _of_class(self, cls: TaskClass) -> Json:
        fields = self._by_class.get(cls.id)
        if fields is None:
            request = self.amounts(cls.request)
            fields = self._by_class[cls.id] = {
                "Resreq": request,
                "InitResreq": request,
                "BestEffort": cls.best_effort,
                "HasRestartableInitContainer": any(map(is_sidecar, cls.spec.init_containers or ())),
                "RevocableZone": "*" if revocable(cls.annotations) else "",
                "NumaInfo": {"Policy": cls.annotations.get(NUMA_TOPOLOGY_POLICY, ""), "ResMap": {}},
            }
        return fields

    def _pod(self, task: Task, node: str) -> msgspec.Raw:
        """The Pod; if the task was placed in this session, with its node."""
        original = self._session.snapshot.original(POD.name, task.key)
        if original is None:
            original = _reconstructed(task)
        if node == task.node:
            return original
        pod: Json = msgspec.json.decode(original)
        pod["spec"] = {**pod.get("spec", {}), "nodeName": node}
        return msgspec.Raw(msgspec.json.encode(pod))

    def amounts(self, vector: Vector, listed: Vector | None = None, *, limit: bool = False) -> Json:
        """Encodes amounts as Volcano's Resource. ``listed``: resources that are listed even if their amount is 0.
        ``limit``: whether the number of Pods is a maximum."""
        nonzero = vector if listed is None else vector + listed
        scalars = {
            name: int(vector[position])
            for position, name in enumerate(self._names)
            if position >= PODS_INDEX and nonzero[position]
        }
        return {
            "MilliCPU": int(vector[CPU_INDEX]),
            "Memory": int(vector[MEMORY_INDEX]),
            "ScalarResources": scalars or None,
            "MaxTaskNum": int(listed[PODS_INDEX] if listed is not None else vector[PODS_INDEX]) if limit else 0,
        }


def _transaction(node: str, status: TaskStatus, evicted: bool) -> Json:
    return {
        "NodeName": node,
        "EvictionOccurred": evicted,
        "JobAllocatedHyperNode": "",
        "Status": STATUS[status],
    }


def _reconstructed(task: Task) -> msgspec.Raw:
    """Reconstructs a Pod from the task, if the original is not available."""
    pod = {
        "metadata": {
            "name": task.name,
            "namespace": task.namespace,
            "uid": task.uid,
            "resourceVersion": task.resource_version,
            "creationTimestamp": format_timestamp(task.creation),
            "labels": task.labels,
            "annotations": {**task.cls.annotations, **task.annotations},
        },
        "spec": {**msgspec.to_builtins(task.cls.spec), **({"nodeName": task.node} if task.node else {})},
        "status": {},
    }
    return msgspec.Raw(msgspec.json.encode(pod))
