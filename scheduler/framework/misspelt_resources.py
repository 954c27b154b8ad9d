"""Reports requests for resources that no node has, but whose names resemble one that nodes have."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.reasons import Malformed
from scheduler.api.resource import Vector
from scheduler.api.suggestions import similar_resource
from scheduler.api.task import TaskStatus
from scheduler.framework.session import Session

MAX_REPORTS: Final = 100
"""Warnings of one session."""
LIKENESS: Final = 0.85
"""How much names must resemble each other: nodes with further resources may be added later."""
_CONSEQUENCE: Final = "the Pod waits until a node has it"


def report_misspelt_resources(session: Session) -> None:
    """Records a Warning for a waiting Pod of each class of a job, or else for its PodGroup; a hundred at most."""
    meant = _meant(session)
    if meant:
        for malformed in islice(_reports(session, meant), MAX_REPORTS):
            session.malformed_field(malformed)


def _reports(session: Session, meant: dict[int, tuple[str, str]]) -> Iterator[Malformed]:
    positions = list(meant)
    for job in session.active_jobs.values():
        if job.pending[positions].any():
            requests = {task.cls.id: (task.name, task.cls.request) for task in job.of(TaskStatus.PENDING).values()}
            for name, request in requests.values():
                yield from _about(job, meant, request, "Pod", name, "spec.containers[].resources")
        elif job.min_resources is not None and not job.size:
            yield from _about(job, meant, job.min_resources, "PodGroup", job.name, "spec.minResources")


def _meant(session: Session) -> dict[int, tuple[str, str]]:
    """Position of a resource that no node has -> its name, and that of the resource that it resembles."""
    names, nodes = session.dimensions.names, session.nodes
    absent = np.flatnonzero(session.total[: len(names)] == 0)
    if not len(absent) or not len(nodes):
        return {}
    absent = absent[nodes.capacity[absent].max(axis=1) == 0]
    unknown = {names[position] for position in absent}
    known = [name for name in names if name not in unknown]
    found = {int(position): similar_resource(names[position], known, LIKENESS) for position in absent}
    return {position: (names[position], name) for position, name in found.items() if name}


def _about(
    job: Job, meant: dict[int, tuple[str, str]], amounts: Vector, kind: str, name: str, field: str
) -> Iterator[Malformed]:
    for position, (resource, other) in meant.items():
        if amounts[position] > 0:
            problem = f"no node has this resource; did you mean {other!r}?"
            yield Malformed(kind, job.namespace, name, f"{field}[{resource}]", problem, _CONSEQUENCE)
