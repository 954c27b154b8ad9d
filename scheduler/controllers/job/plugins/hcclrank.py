"""Job plugin hcclrank: the rank of a Pod among Ascend masters and workers, as annotation ``hccl/rankIndex``.

A RANK that the template sets is taken as it is.
"""

from collections.abc import Sequence

from scheduler.api import batch
from scheduler.api.job_plugins import HcclRankOptions, parse
from scheduler.api.names import HCCL_RANK_INDEX
from scheduler.controllers.effects import Json
from scheduler.controllers.job.plugins.contract import JobPlugin
from scheduler.controllers.job.plugins.podspec import find_env, rank


class HcclRank(JobPlugin):
    def __init__(self, job: batch.Job, arguments: Sequence[str]) -> None:
        self._options = parse(HcclRankOptions, arguments)

    def mutate_pod(self, pod: Json, task: batch.TaskSpec, index: int, job: batch.Job) -> None:
        given = find_env(pod, "RANK")
        own = rank(job, self._options.master, self._options.worker, task, index)
        if given or own is not None:
            annotations = pod["metadata"].setdefault("annotations", {})
            annotations.setdefault(HCCL_RANK_INDEX, given or str(own))
