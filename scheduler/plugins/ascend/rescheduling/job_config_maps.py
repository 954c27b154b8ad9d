"""The ConfigMaps beside a job by which a restart reaches its processes.

* ``fault-config-<job>``: the dying words of a job, the ranks of its faulty chips. Training programs read it while they
  stop, and save what the healthy ranks have (unless ``dying-words`` is false).
* ``reset-config-<job>``: ``GracefulExit`` asks the processes to save and exit before the Pods are deleted
  (``subHealthyStrategy: graceExit``). Other components own it; only this field changes.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Final

from scheduler.api.decisions import ObjectWrite
from scheduler.api.job import Job
from scheduler.api.kinds import CONFIG_MAP
from scheduler.api.names import JOB_NAME, RESET_CONFIG_KEY
from scheduler.api.objects import ConfigMap
from scheduler.api.reasons import Malformed
from scheduler.api.task import TaskClass
from scheduler.plugins.ascend.ranks import is_number
from scheduler.plugins.ascend.rescheduling.decision import SUB_HEALTH
from scheduler.plugins.ascend.rescheduling.state import Restart
from scheduler.plugins.support.device_info import DeviceInfoError, json_object

FAULT_PREFIX: Final = "fault-config-"
FAULT_NPUS: Final = "fault-npus"
RESET_LABELS: Final = "reset=true"
"""Selector of the ``reset-config`` ConfigMaps."""
GRACEFUL_EXIT: Final = "GracefulExit"
CHECK_CODE: Final = "checkCode"
NAME_LABELS: Final = (JOB_NAME, "training.kubeflow.org/job-name", "deploy-name")
"""Labels of Pods with the name of their vcjob, AscendJob or Deployment."""
_MAX_NAME_LENGTH: Final = 253


def name_of(job: Job) -> str:
    """Returns the name of a job for other components: that of its vcjob, AscendJob or Deployment."""
    labels = (task.labels for task in job.tasks())
    return next((each[label] for each in labels for label in NAME_LABELS if label in each), job.name)


def dying_words(job: Job, restart: Restart, chips: Callable[[TaskClass], int]) -> ObjectWrite | None:
    """Returns the write of the ``fault-config`` ConfigMap for a restart; None if no faulty Pod of it has a rank and
    chips. ``chips`` returns the number of chips of the Pods of a class."""
    faulty = {entry.uid: entry.rank for entry in restart.pods if entry.fault and is_number(entry.rank)}
    ranks: list[int] = []
    for task in job.tasks():
        if task.uid in faulty:
            number, first = chips(task.cls), int(faulty[task.uid])
            ranks += range(first * number, (first + 1) * number)
    name = f"{FAULT_PREFIX}{name_of(job)}"
    if not ranks or len(name) > _MAX_NAME_LENGTH:
        return None
    listed = json.dumps([str(rank) for rank in sorted(ranks)], separators=(",", ":"))
    text = json.dumps({"FaultRankIds": listed, "CreatTime": restart.time}, separators=(",", ":"))
    data = {FAULT_NPUS: text, CHECK_CODE: hashlib.sha256(text.encode()).hexdigest()}
    return ObjectWrite(CONFIG_MAP, job.namespace, name, {"data": data}, create=True, optional=True)


def may_exit_gracefully(restart: Restart) -> bool:
    """Whether the processes of a job exit before its Pods are deleted: its faults are all of sub-health, and it has
    time."""
    healthy = all(entry.fault == SUB_HEALTH for entry in restart.reasons)
    return healthy and bool(restart.reasons) and not restart.force and not restart.external


def graceful_exit(config_map: ConfigMap, restart: Restart, problems: list[Malformed]) -> ObjectWrite | None:
    """Returns the write that sets the field while a restart is in progress, and resets it afterwards; None if it is as
    it should be. A ConfigMap that cannot be read is left as it is, and added to ``problems``."""
    meta, wanted = config_map.metadata, 1 if restart.pods else 0
    try:
        document = json_object((config_map.data or {}).get(RESET_CONFIG_KEY, ""))
    except DeviceInfoError as error:
        problems.append(Malformed("ConfigMap", meta.namespace, meta.name, f"data[{RESET_CONFIG_KEY}]", str(error)))
        return None
    if document.get(GRACEFUL_EXIT, 0) == wanted:
        return None
    text = json.dumps({**document, GRACEFUL_EXIT: wanted}, separators=(",", ":"), ensure_ascii=False)
    data = {RESET_CONFIG_KEY: text, CHECK_CODE: hashlib.sha256(text.encode()).hexdigest()}
    version = meta.resource_version
    return ObjectWrite(CONFIG_MAP, meta.namespace, meta.name, {"data": data}, meta.uid, version)
