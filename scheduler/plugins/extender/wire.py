"""Encodes nodes, jobs, queues and the whole session for extenders, with the fields of Volcano's types; ``task_wire``
encodes tasks."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

import msgspec
import numpy as np

from scheduler.api.job import Job
from scheduler.api.kinds import NODE, POD_GROUP, QUEUE, RESOURCE_QUOTA
from scheduler.api.names import HIERARCHY, HIERARCHY_WEIGHTS, JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE, REVOCABLE_ZONE
from scheduler.api.node import ChangedRows
from scheduler.api.queue import Queue
from scheduler.api.selectors import ignore_field
from scheduler.api.sub_job import SubJob
from scheduler.api.task import FINISHED_STATUSES, Task, TaskStatus, revocable
from scheduler.api.times import format_timestamp
from scheduler.api.usage import PERIOD
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.extender.task_wire import STATUS, Json, TaskWire
from scheduler.plugins.support.waiting_time import own_waiting_time

_READY: Final = {"Phase": 1, "Reason": ""}
_NEVER: Final = "0001-01-01T00:00:00Z"
_NO_AMOUNTS: Final = {"MilliCPU": 0, "Memory": 0, "ScalarResources": None, "MaxTaskNum": 0}


class NodeWire:
    """Encodes the nodes of one session."""

    def __init__(self, session: PluginSession, tasks: TaskWire) -> None:
        self._session = session
        self._tasks = tasks
        self._encoded: dict[int, msgspec.Raw] = {}
        """Row -> encoded node."""
        self._changed_rows = ChangedRows(session.nodes)

    @cached_property
    def _tasks_on(self) -> dict[int, dict[str, tuple[Job | None, Task]]]:
        """Row -> uid -> (job, task), for the tasks on each node. Handlers keep it current after the first use."""
        session, index = self._session, self._session.nodes.index
        tasks_on: dict[int, dict[str, tuple[Job | None, Task]]] = {}
        for job in session.jobs.values():
            for task in job.tasks():
                row = job.placed.get(task.uid, index.get(task.node))
                if row is not None and task.status not in FINISHED_STATUSES:
                    tasks_on.setdefault(row, {})[task.uid] = (job, task)
        for task in session.snapshot.tasks_without_job:
            if task.node in index:
                tasks_on.setdefault(index[task.node], {})[task.uid] = (None, task)
        session.add_handlers(self._allocated, self._deallocated)
        return tasks_on

    @cached_property
    def _nodes_with_image(self) -> Counter[str]:
        """Image -> the number of nodes that have it."""
        nodes = self._session.nodes.facts.objects
        return Counter(n for node in nodes for n in {n for i in node.status.images or () for n in i.names or ()})

    # --- handlers ---
    def _allocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        for task, row in zip(tasks, rows, strict=True):
            self._tasks_on.setdefault(row, {})[task.uid] = (job, task)

    def _deallocated(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        for task, row in zip(tasks, rows, strict=True):
            if not task.node:  # an evicted task stays on the node until its Pod has terminated
                del self._tasks_on[row][task.uid]

    def encode(self, row: int) -> msgspec.Raw:
        for changed in self._changed_rows.take():
            self._encoded.pop(changed, None)
        found = self._encoded.get(row)
        if found is None:
            found = self._encoded[row] = msgspec.Raw(msgspec.json.encode(self._fields(row)))
        return found

    def _fields(self, row: int) -> Json:
        nodes, amounts = self._session.nodes, self._tasks.amounts
        facts, there = nodes.facts, nodes.allocatable[:, row]
        original = self._session.snapshot.original(NODE.name, facts.names[row])
        images = facts.objects[row].status.images or ()
        return {
            "Name": facts.names[row],
            "Node": facts.objects[row] if original is None else original,
            "State": _READY,
            "Releasing": amounts(nodes.releasing[:, row]),
            "Pipelined": amounts(nodes.pipelined[:, row]),
            "Idle": amounts(nodes.idle[:, row], there, limit=True),
            "Used": amounts(nodes.used[:, row]),
            "Allocatable": amounts(there, limit=True),
            "Capacity": amounts(nodes.capacity[:, row], limit=True),
            "ResourceUsage": self._usage(row),
            "Tasks": {task.key: self._tasks.encode(job, task) for job, task in self._tasks_on.get(row, {}).values()},
            "NumaInfo": None,
            "UnassignedNumaPods": None,
            "NumaSchedulerInfo": None,
            "RevocableZone": facts.labels[row].get(REVOCABLE_ZONE, ""),
            "Others": {},
            "OversubscriptionNode": False,
            "OfflineJobEvicting": False,
            "OversubscriptionResource": _NO_AMOUNTS,
            "ImageStates": {
                name: {"Size": image.size_bytes, "NumNodes": self._nodes_with_image[name], "Nodes": None}
                for image in images
                for name in image.names or ()
            },
            "Generation": 0,
            "BindGeneration": 0,
        }

    def _usage(self, row: int) -> Json:
        usage = self._session.snapshot.usage
        if usage is None or not np.isfinite(usage.moment[row]):
            return {"MetricsTime": _NEVER, "CPUUsageAvg": {}, "MEMUsageAvg": {}}
        return {
            "MetricsTime": datetime.fromtimestamp(float(usage.moment[row]), UTC).isoformat(),
            "CPUUsageAvg": {PERIOD: float(usage.cpu[row])},
            "MEMUsageAvg": {PERIOD: float(usage.memory[row])},
        }


class ExtenderObjects:
    """Encodes the objects of one session."""

    def __init__(self, session: PluginSession) -> None:
        self._session = session
        self._tasks = TaskWire(session)
        self.node = NodeWire(session, self._tasks).encode

    def task(self, job: Job | None, task: Task, status: TaskStatus | None = None) -> Json:
        """Encodes a task. ``job``: None for a task without a known job. ``status``: replaces the current status of the
        task."""
        encoded = self._tasks.encode(job, task)
        return encoded if status is None else {**encoded, "Status": STATUS[status]}

    def job(self, job: Job) -> Json:
        """Encodes a job with all of its tasks and its PodGroup: the fields of Volcano's JobInfo."""
        tasks = {task.uid: msgspec.Raw(msgspec.json.encode(self._tasks.encode(job, task))) for task in job.tasks()}
        total = sum((task.cls.request for task in job.tasks()), np.zeros_like(job.allocated))
        minimum = dict(job.role_minimum)
        created, waiting = format_timestamp(job.creation), own_waiting_time(job, ignore_field)
        return {
            "UID": job.key,
            "PgUID": job.uid,
            "Name": job.name,
            "Namespace": job.namespace,
            "Queue": job.queue,
            "Priority": job.priority,
            "MinAvailable": job.min_member,
            "WaitingTime": None if waiting is None else int(waiting * 1e9),
            "JobFitErrors": "",
            "NodesFitErrors": {},
            "AllocatedHyperNode": "",
            "NetworkTopology": job.topology,
            "SubJobs": self._sub_jobs(job, tasks),
            "TaskToSubJob": {uid: job.sub_job_of[uid].key if uid in job.sub_job_of else job.key for uid in tasks},
            "MinSubJobs": dict(job.sub_group_minimum or {}),
            "TaskStatusIndex": _by_status(job, tasks),
            "Tasks": tasks,
            "TaskMinAvailable": minimum,
            "TaskMinAvailableTotal": sum(minimum.values()),
            "Allocated": self._tasks.amounts(job.allocated),
            "TotalRequest": self._tasks.amounts(total),
            "CreationTimestamp": created,
            "PodGroup": self._group(job),
            "ScheduleStartTimestamp": created,
            "Preemptable": job.preemptable,
            "RevocableZone": "*" if revocable(job.annotations) else "",
            "Budget": _budget(job),
        }

    @staticmethod
    def _sub_jobs(job: Job, tasks: Json) -> Json:
        """The sub-jobs of a job. A job without sub-jobs has itself as the only one, as in Volcano."""
        all_tasks = {task.uid: task for task in job.tasks()}
        whole = SubJob(job.key, job.key, None, job.min_member, 0, job.topology, all_tasks, job.priority)
        result: Json = {}
        for part in job.sub_jobs.values() or (whole,):
            encoded = {uid: tasks[uid] for uid in part.tasks if uid in tasks}
            result[part.key] = {
                "GID": job.key if part.policy is None else f"{job.key}/{part.policy}",
                "UID": part.key,
                "Job": job.key,
                "MinAvailable": part.minimum,
                "Priority": part.priority,
                "MatchIndex": part.index,
                "Tasks": encoded,
                "TaskStatusIndex": _by_status(job, encoded),
                "AllocatedHyperNode": "",
                "NominatedHyperNode": "",
                "NetworkTopology": part.topology,
            }
        return result

    def _group(self, job: Job) -> Json:
        """The PodGroup, with its phase in this session."""
        original = self._session.snapshot.original(POD_GROUP.name, job.key)
        if original is None:
            meta: Json = {"name": job.name, "namespace": job.namespace, "uid": job.uid}
            meta |= {"labels": dict(job.labels), "annotations": dict(job.annotations)}
            spec: Json = {"minMember": job.min_member, "queue": job.queue, "minTaskMember": dict(job.role_minimum)}
            group: Json = {"metadata": meta, "spec": spec | {"minResources": job.min_resource_list}}
        else:
            group = msgspec.json.decode(original)
        group["status"] = {**(group.get("status") or {}), **({"phase": job.phase} if job.phase else {})}
        return {**group, "Version": "v1beta1"}

    def queue(self, queue: Queue) -> Json:
        original = self._session.snapshot.original(QUEUE.name, queue.name)
        reconstructed = {
            "metadata": {"name": queue.name, "annotations": queue.annotations},
            "spec": {"weight": queue.weight},
        }
        return {
            "UID": queue.name,
            "Name": queue.name,
            "Weight": queue.weight,
            "Weights": queue.annotations.get(HIERARCHY_WEIGHTS, ""),
            "Hierarchy": queue.annotations.get(HIERARCHY, ""),
            "Queue": reconstructed if original is None else original,
        }

    def session(self) -> Json:
        session = self._session
        rows = range(len(session.nodes))
        quotas: dict[str, Json] = {}
        for quota in session.snapshot.objects[RESOURCE_QUOTA].values():
            namespace = quotas.setdefault(
                quota.metadata.namespace, {"Name": quota.metadata.namespace, "QuotaStatus": {}}
            )
            namespace["QuotaStatus"][quota.metadata.name] = quota.status
        return {
            "Jobs": {job.key: self.job(job) for job in session.jobs.values()},
            "Nodes": {session.nodes.names[row]: self.node(row) for row in rows},
            "Queues": {queue.name: self.queue(queue) for queue in session.queues.values()},
            "NamespaceInfo": quotas,
            "RevocableNodes": {
                session.nodes.names[row]: self.node(row)
                for row in rows
                if REVOCABLE_ZONE in session.nodes.facts.labels[row]
            },
            "NodeList": None,
        }


def _by_status(job: Job, tasks: Json) -> Json:
    result: Json = {}
    for status, group in job.by_status.items():
        entries = {uid: tasks[uid] for uid in group if uid in tasks}
        if entries:
            result[str(STATUS[status])] = entries
    return result


def _budget(job: Job) -> Json:
    minimum, maximum = job.annotations.get(JDB_MIN_AVAILABLE), job.annotations.get(JDB_MAX_UNAVAILABLE)
    return {"MinAvailable": minimum or "", "MaxUnavailable": (maximum or "") if minimum is None else ""}
