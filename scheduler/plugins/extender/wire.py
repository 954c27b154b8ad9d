"""Encodes tasks, nodes, jobs, queues and the whole session for extenders, with the fields of Volcano's types."""

import msgspec

from scheduler.api.job import Job
from scheduler.api.kinds import QUEUE, RESOURCE_QUOTA
from scheduler.api.names import HIERARCHY, HIERARCHY_WEIGHTS, REVOCABLE_ZONE
from scheduler.api.queue import Queue
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.session import Session
from scheduler.plugins.extender.job_wire import JobWire
from scheduler.plugins.extender.node_wire import NodeWire
from scheduler.plugins.extender.task_wire import STATUS, Json, TaskWire


class ExtenderObjects:
    """Encodes the objects of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tasks = TaskWire(session)
        self._nodes = NodeWire(session, self._tasks)
        self._jobs = JobWire(session, self._tasks)

    def task(self, job: Job | None, task: Task, status: TaskStatus | None = None) -> Json:
        """``job``: None for a task without a known job. ``status``: replaces the current status of the task."""
        encoded = self._tasks.encode(job, task)
        return encoded if status is None else {**encoded, "Status": STATUS[status]}

    def node(self, row: int) -> msgspec.Raw:
        return self._nodes.encode(row)

    def job(self, job: Job) -> Json:
        return self._jobs.encode(job)

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
