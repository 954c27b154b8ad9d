"""Dying words: the ConfigMap ``fault-config-<job>`` beside a job, with the ranks of its faulty chips. Training programs
read it while they stop, and save what the healthy ranks have (unless ``dying-words`` is false)."""

import hashlib
import json
from collections.abc import Callable
from typing import Final

from scheduler.api.decisions import ObjectWrite
from scheduler.api.job import Job
from scheduler.api.kinds import CONFIG_MAP
from scheduler.api.names import JOB_NAME
from scheduler.api.task import TaskClass
from scheduler.plugins.ascend.ranks import is_number
from scheduler.plugins.ascend.rescheduling.state import Restart

PREFIX: Final = "fault-config-"
FAULT_NPUS: Final = "fault-npus"
CHECK_CODE: Final = "checkCode"
NAME_LABELS: Final = (JOB_NAME, "training.kubeflow.org/job-name", "deploy-name")
"""Labels of Pods with the name of their vcjob, AscendJob or Deployment."""
_MAX_NAME_LENGTH: Final = 253


def name_of(job: Job) -> str:
    """The name of a job for other components: that of its vcjob, AscendJob or Deployment."""
    labels = (task.labels for task in job.tasks())
    return next((each[label] for each in labels for label in NAME_LABELS if label in each), job.name)


def dying_words(job: Job, restart: Restart, chips: Callable[[TaskClass], int]) -> ObjectWrite | None:
    """Returns the write of the ConfigMap for a restart; None if no faulty Pod of it has a rank and chips. ``chips``:
    the number of chips of the Pods of a class."""
    faulty = {entry.uid: entry.rank for entry in restart.pods if entry.fault and is_number(entry.rank)}
    ranks: list[int] = []
    for task in job.tasks():
        if task.uid in faulty:
            number, first = chips(task.cls), int(faulty[task.uid])
            ranks += range(first * number, (first + 1) * number)
    name = f"{PREFIX}{name_of(job)}"
    if not ranks or len(name) > _MAX_NAME_LENGTH:
        return None
    listed = json.dumps([str(rank) for rank in sorted(ranks)], separators=(",", ":"))
    text = json.dumps({"FaultRankIds": listed, "CreatTime": restart.time}, separators=(",", ":"))
    data = {FAULT_NPUS: text, CHECK_CODE: hashlib.sha256(text.encode()).hexdigest()}
    return ObjectWrite(CONFIG_MAP, job.namespace, name, {"data": data}, create=True, optional=True)
