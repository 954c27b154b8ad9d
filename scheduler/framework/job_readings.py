"""A cache of values that are computed from jobs: a value is computed again only if its job changed.

A session computes the values of the jobs that changed since the session before, and iterates over no others.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from scheduler.api.job import Job
from scheduler.api.snapshot import Snapshot

V = TypeVar("V")


class _State(NamedTuple, Generic[V]):
    """The values that the last session read."""

    identity: object
    """Of the jobs (``JobChanges.identity``)."""
    constants: tuple[Hashable, ...]
    values: dict[str, V]


class JobReadings(Generic[V]):
    """The values of the last session, for the next one. Sessions may run in several threads."""

    def __init__(self) -> None:
        self._last: _State[V] | None = None

    def read(
        self, snapshot: Snapshot, make: Callable[[Job], V | None], constants: tuple[Hashable, ...] = ()
    ) -> Mapping[str, V]:
        """Returns key -> ``make(job)`` of all jobs where it is not None; the same instance if nothing changed.

        To be called before the session changes jobs. ``constants``: all else that the values depend on; if one changes,
        all are computed again.
        """
        last, changes = self._last, snapshot.job_changes
        if last is not None and last.constants == constants and last.identity is changes.identity:
            return last.values
        if last is not None and last.constants == constants and last.identity is changes.follows:
            values = _updated(last.values, snapshot.jobs, changes.keys, make)
        else:
            values = {key: value for key, job in snapshot.jobs.items() if (value := make(job)) is not None}
        self._last = _State(changes.identity, constants, values)
        return values


def _updated(
    last: dict[str, V], jobs: Mapping[str, Job], keys: Collection[str], make: Callable[[Job], V | None]
) -> dict[str, V]:
    """The values after some jobs have changed; ``last`` itself if no value has."""
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
