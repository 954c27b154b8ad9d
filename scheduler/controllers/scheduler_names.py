"""The schedulerNames of a job that are likely misspelt: nothing schedules its Pods."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from scheduler.api.reasons import MAX_FIELDS
from scheduler.api.suggestions import other_scheduler


def scheduler_problems(
    named: str, pod_specs: Iterable[tuple[str, Mapping[str, Any]]], schedulers: Collection[str]
) -> list[tuple[str, str]]:
    """Returns field and problem of each name that is none of ``schedulers``: of the job's, and of those in Pod
    templates that resemble one of them. Each name once, ten at most.

    ``named``: the schedulerName of the job, or ""; ``pod_specs``: the specs of its templates with their paths.
    """
    found = {named: ("spec.schedulerName", other_scheduler(named, schedulers))}
    for path, spec in pod_specs:
        name = spec.get("schedulerName")
        if isinstance(name, str) and name not in found and len(found) <= MAX_FIELDS:
            found[name] = (f"{path}.schedulerName", other_scheduler(name, schedulers, similar=True))
    return [(field, problem) for field, problem in found.values() if problem]
