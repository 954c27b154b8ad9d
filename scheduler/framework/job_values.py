"""Values that are computed from jobs and kept across sessions: a value is computed again only if its job changed.

A session computes the values of the jobs that changed since the session before, and iterates over no others.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from scheduler.api.job import Job
from scheduler.api.snapshot import Snapshot

V = TypeVar("V")


class _Kept(NamedTuple, Generic[V]):
    identity: object
    """The identity of the jobs (``JobChanges.identity``)."""
    values: dict[str, V]


def job_values(snapshot: Snapshot, key: Hashable, make: Callable[[Job], V | None]) -> Mapping[str, V]:
    """Returns key of a job -> ``make(job)``, for all jobs where it is not None; the same instance if nothing changed.

    It must be called before the session changes jobs. ``key`` is the key in the memory; ``make`` depends on nothing but
    the job.
    """
    changes = snapshot.job_changes

    def compute(before: _Kept[V] | None) -> _Kept[V]:
        if before is not None and before.identity is changes.follows:
            return _Kept(changes.identity, _updated(before.values, snapshot.jobs, changes.keys, make))
        values = {key: value for key, job in snapshot.jobs.items() if (value := make(job)) is not None}
        return _Kept(changes.identity, values)

    return snapshot.memory.memo(key, (changes.identity,), compute).values


def _updated(
    last: dict[str, V], jobs: Mapping[str, Job], keys: Collection[str], make: Callable[[Job], V | None]
) -> dict[str, V]:
    """Returns the values after some jobs have changed; ``last`` itself if no value has."""
    found = {key: make(jobs[key]) if key in jobs else None for key in keys}
    if not any(value is not None or key in last for key, value in found.items()):
        return last
    values = last.copy()
    for key, value in found.items():
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    return values
