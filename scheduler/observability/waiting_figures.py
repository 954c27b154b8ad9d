"""Gauges of what waits at the end of a session: Pods by reason, jobs by queue and reason, and the jobs that have waited
longest."""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.api.job import PENDING_PHASES, Job, without_uid
from scheduler.api.task import TaskStatus

REASON_CLASSES: Final = ("not_admitted", "refused", "no_node", "gang", "other")
MAX_JOBS: Final = 20
"""Maximum of jobs with series of their own."""


class _Waiting(msgspec.Struct, frozen=True):
    """The Pods and jobs that wait at the end of one session."""

    pods: Counter[str] = msgspec.field(default_factory=Counter)
    """Class of reasons -> number of waiting Pods."""
    jobs: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)
    """(queue, class of reasons) -> number of jobs without their minimum of Pods."""
    since: dict[tuple[str, str], float] = msgspec.field(default_factory=dict)
    """(queue, class of reasons) -> Unix time since which the first of these jobs has waited."""
    longest: list[tuple[float, str, str, str, str]] = msgspec.field(default_factory=list)
    """Unix time, namespace, name, queue and class of reasons of the jobs that have waited longest."""


class WaitingFigures(Collector):
    """The gauges. A job waits until its minimum of Pods is placed, since the creation of its first waiting Pod, or
    since its own creation if it has none."""

    def __init__(self) -> None:
        self._last = _Waiting()

    def update(self, jobs: Mapping[str, Job]) -> None:
        """``jobs``: the jobs at the end of a session."""
        found = _Waiting()
        waiting: list[tuple[float, str, str, str, str]] = []
        for job in jobs.values():
            pending = job.by_status.get(TaskStatus.PENDING)
            if not pending and job.phase not in PENDING_PHASES:
                continue
            reason = reason_class(job)
            since = job.creation
            if pending:
                found.pods[reason] += len(pending)
                since = next(iter(pending.values())).creation
                if job.missing <= 0:
                    continue
            key = job.queue, reason
            found.jobs[key] += 1
            if since < found.since.get(key, float("inf")):
                found.since[key] = since
            waiting.append((since, job.namespace, job.name, *key))
        found.longest.extend(heapq.nsmallest(MAX_JOBS, waiting))
        self._last = found

    def collect(self) -> Iterable[GaugeMetricFamily]:
        last = self._last
        pods = GaugeMetricFamily(
            "volcano_py_pending_pods",
            "Pods that wait: not_admitted to their queue, refused (quota, invalid), no_node fits, gang (others of "
            "their gang find no node), other",
            labels=["reason"],
        )
        for reason in REASON_CLASSES:
            pods.add_metric([reason], last.pods[reason])
        by_queue = ["queue_name", "reason"]
        jobs = GaugeMetricFamily(
            "volcano_py_waiting_jobs", "Jobs whose minimum of Pods is not placed, by queue", labels=by_queue
        )
        since = GaugeMetricFamily(
            "volcano_py_waiting_since_seconds",
            "Unix time since which the job has waited that has waited longest in its queue for its reason",
            labels=by_queue,
        )
        for key, number in sorted(last.jobs.items()):
            jobs.add_metric(key, number)
            since.add_metric(key, last.since[key])
        longest = GaugeMetricFamily(
            "volcano_py_longest_waiting_job_since_seconds",
            f"Unix time since which a job has waited, for the {MAX_JOBS} jobs that have waited longest",
            labels=["job_namespace", "job_name", *by_queue],
        )
        named = {(namespace, without_uid(name), *rest): since for since, namespace, name, *rest in last.longest}
        for labels, moment in named.items():
            longest.add_metric(labels, moment)
        return (pods, jobs, since, longest)


def reason_class(job: Job) -> str:
    """Why the Pods of a job wait, as one of ``REASON_CLASSES``."""
    if job.phase in PENDING_PHASES:
        return "not_admitted"
    if job.refusals or any(errors.note for errors in job.fit_errors.values()):
        return "refused"
    if job.fit_errors:
        return "no_node"
    return "gang" if job.missing > 0 else "other"
