"""Encodes nodes for extenders: the fields of Volcano's NodeInfo, with all tasks on the node.

The encoding of a node is cached until something on the node changes.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

import msgspec
import numpy as np

from scheduler.api.job import Job
from scheduler.api.kinds import NODE
from scheduler.api.names import REVOCABLE_ZONE
from scheduler.api.node import ChangedRows
from scheduler.api.task import FINISHED_STATUSES, Task
from scheduler.api.usage import PERIOD
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.extender.task_wire import Json, TaskWire

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
