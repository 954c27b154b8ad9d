"""What a recorded restart changes in the cluster: its Pods are deleted, or marked if another component does that, and
ConfigMaps beside the job tell its processes.

* ``fault-config-<job>``: the dying words of a job, the ranks of its faulty chips. Training programs read it while they
  stop, and save what the healthy ranks have (unless ``dying-words`` is false).
* ``reset-config-<job>``: ``GracefulExit`` asks the processes to save and exit before the Pods are deleted
  (``subHealthyStrategy: graceExit``). Other components own it; only this field changes.
"""

import hashlib
import json
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final

from scheduler.api.decisions import Evict, ObjectWrite, group_ref
from scheduler.api.job import Job
from scheduler.api.kinds import CONFIG_MAP, POD
from scheduler.api.names import (
    EVENT_RESCHEDULED,
    EVENT_WARNING,
    JOB_NAME,
    POD_STATUS,
    RESET_CONFIG_KEY,
    RESET_CONFIG_PREFIX,
)
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.ascend.npu_session import NpuSession
from scheduler.plugins.ascend.ranks import is_number
from scheduler.plugins.ascend.rescheduling.decision import SUB_HEALTH, Deletion, deletions, marks
from scheduler.plugins.ascend.rescheduling.faults import is_lost
from scheduler.plugins.ascend.rescheduling.state import Restart
from scheduler.plugins.support.device_info import DeviceInfoError, json_object

_FAULT_PREFIX: Final = "fault-config-"
_FAULT_NPUS: Final = "fault-npus"
RESET_LABELS: Final = "reset=true"
"""Selector of the ``reset-config`` ConfigMaps."""
_GRACEFUL_EXIT: Final = "GracefulExit"
_CHECK_CODE: Final = "checkCode"
_NAME_LABELS: Final = (JOB_NAME, "training.kubeflow.org/job-name", "deploy-name")
"""Labels of Pods with the name of their vcjob, AscendJob or Deployment."""
_MAX_NAME_LENGTH: Final = 253
_EVICTION: Final = "rescheduling"


def due_deletions(npus: NpuSession, restarts: Mapping[str, Restart], jobs: Container[str]) -> Iterator[Evict]:
    """Yields the Pods of restarts to delete at the end of a session, and marks those that another component deletes.
    ``restarts``: the recorded restarts by the keys of jobs; ``jobs``: keys of the jobs with a policy."""
    session = npus.session
    for key, restart in restarts.items():
        if not restart.pods:
            continue
        job, reason = session.jobs.get(key), f"{_EVICTION} ({restart.why})"
        if job is None:
            # Controllers create the PodGroup again once the Pods are gone, which a Pod on a broken node never is by
            # itself. So Pods that had time to stop are deleted by force.
            tasks = [task for task in session.snapshot.tasks_without_job if task.job == key]
            late = (due.task for due in _due(npus, tasks, restart) if due.grace_period == 0)
            yield from (Evict(task, reason, 0) for task in late)
        elif key in jobs:
            for task, value in marks(job, restart):
                body = {"metadata": {"annotations": {POD_STATUS: value}}}
                session.write(ObjectWrite(POD, task.namespace, task.name, body, uid=task.uid))
            due = _due(npus, job.tasks(), restart)
            if due:
                session.event(group_ref(job), EVENT_WARNING, EVENT_RESCHEDULED, _announcement(restart))
                session.write(*dying_words(npus, job, restart))  # again, in case the first write failed
            yield from (Evict(task, reason, grace_period) for task, grace_period in due)


def _due(npus: NpuSession, tasks: Iterable[Task], restart: Restart) -> list[Deletion]:
    """Returns those of the Pods of a job that a restart deletes now."""
    snapshot = npus.session.snapshot

    def is_reachable(node: str) -> bool:
        """Whether a node exists, and is ready or has been unready for a short time only."""
        if node not in snapshot.nodes.index:
            return not snapshot.all_nodes
        return not is_lost(snapshot, node)

    return deletions(tasks, restart, npus.session.now, npus.settings.grace_over_time, is_reachable)


def _announcement(restart: Restart) -> str:
    """Returns the message of the Event about a restart whose Pods are deleted."""
    number, first, pods = restart.number, restart.pods[0].name, len(restart.pods)
    if pods == 1 and restart.force:
        return f"restart {number} of the job: Pod {first} is deleted without a grace period ({restart.why})"
    if pods == 1:
        return f"restart {number} of the job: Pod {first} is deleted ({restart.why})"
    if restart.force:
        return f"restart {number} of the job: {pods} Pods are deleted without a grace period ({restart.why})"
    return f"restart {number} of the job: {pods} Pods are deleted ({restart.why})"


def dying_words(npus: NpuSession, job: Job, restart: Restart) -> list[ObjectWrite]:
    """Returns the write of the ``fault-config`` ConfigMap for a restart; none if it is not enabled, or if no faulty Pod
    has a rank and chips."""
    faulty = {entry.uid: entry.rank for entry in restart.pods if entry.fault and is_number(entry.rank)}
    ranks: list[int] = []
    for task in job.tasks() if npus.settings.dying_words else ():
        if task.uid in faulty:
            number, first = sum(npus.demand.whole_chips(task.cls.request).values()), int(faulty[task.uid])
            ranks += range(first * number, (first + 1) * number)
    name = f"{_FAULT_PREFIX}{_name_of(job)}"
    if not ranks or len(name) > _MAX_NAME_LENGTH:
        return []
    listed = json.dumps([str(rank) for rank in sorted(ranks)], separators=(",", ":"))
    text = json.dumps({"FaultRankIds": listed, "CreatTime": restart.time}, separators=(",", ":"))
    data = {_FAULT_NPUS: text, _CHECK_CODE: hashlib.sha256(text.encode()).hexdigest()}
    return [ObjectWrite(CONFIG_MAP, job.namespace, name, {"data": data}, create=True, optional=True)]


def graceful_exit(session: PluginSession, job: Job, restart: Restart) -> list[ObjectWrite]:
    """Returns the write that sets the field of the ``reset-config`` ConfigMap while a restart is in progress, and
    resets it afterwards; none if it is as it should be, if there is no ConfigMap, or if the Pods have no time to exit.
    A ConfigMap that cannot be read is reported, and left as it is."""
    healthy = all(entry.fault == SUB_HEALTH for entry in restart.reasons)
    config_map = session.snapshot.config_maps.get(f"{job.namespace}/{RESET_CONFIG_PREFIX}{_name_of(job)}")
    if config_map is None or not (healthy and restart.reasons) or restart.force or restart.external:
        return []
    meta, wanted = config_map.metadata, 1 if restart.pods else 0
    try:
        document = json_object((config_map.data or {}).get(RESET_CONFIG_KEY, ""))
    except DeviceInfoError as error:
        field = f"data[{RESET_CONFIG_KEY}]"
        session.malformed_field(Malformed("ConfigMap", meta.namespace, meta.name, field, str(error)))
        return []
    if document.get(_GRACEFUL_EXIT, 0) == wanted:
        return []
    text = json.dumps({**document, _GRACEFUL_EXIT: wanted}, separators=(",", ":"), ensure_ascii=False)
    data = {RESET_CONFIG_KEY: text, _CHECK_CODE: hashlib.sha256(text.encode()).hexdigest()}
    return [ObjectWrite(CONFIG_MAP, meta.namespace, meta.name, {"data": data}, meta.uid, meta.resource_version)]


def _name_of(job: Job) -> str:
    """Returns the name of a job for other components: that of its vcjob, AscendJob or Deployment."""
    labels = (task.labels for task in job.tasks())
    return next((each[label] for each in labels for label in _NAME_LABELS if label in each), job.name)
