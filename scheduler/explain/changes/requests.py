"""Smaller requests: at what amounts the Pods that find no node would find one."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from scheduler.api.kinds import POD, POD_GROUP, VCJOB
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.resource import PODS_INDEX, format_amount, scale_of
from scheduler.api.task import Task
from scheduler.api.written_amounts import grain_of, quantity, unit_of, units
from scheduler.explain.changes.jobs import owner_of
from scheduler.explain.changes.nodes import mend_adjustment, mendable
from scheduler.framework.columns import Filter
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import Held

_PARTS: Final = ("requests", "limits")


def ask_for_less(evidence: Evidence) -> Iterator[Plan]:
    """Let the Pods of one kind ask for less of what is short, on the node that comes nearest."""
    by_class: dict[int, list[Task]] = {}
    for task in evidence.wanted:
        by_class.setdefault(task.cls.id, []).append(task)
    for tasks in by_class.values():
        mends, short = _short(evidence, tasks)
        if short:
            yield (*mends, *(_adjustment(evidence, tasks, d, guess) for d, guess in short.items()))
    if not evidence.job.size:
        yield from _of_templates(evidence)


def _short(evidence: Evidence, tasks: Sequence[Task]) -> tuple[list[Adjustment], dict[int, int]]:
    """What makes a node fit where none is otherwise, and by resource the units by which each of the tasks asks for too
    much of it."""
    session, cls = evidence.session, tasks[0].cls
    asked = [d for d in np.flatnonzero(cls.request > 0).tolist() if d != PODS_INDEX]
    if any(gate.held is Held.VALIDITY and gate.plugin != "gang" for gate in evidence.gates):
        # It may be a number of devices that no node gives.
        devices = [d for d in asked if _most(evidence, cls.request[d], d) > 0 and _counted(evidence, d)]
        return [], dict.fromkeys(devices[:1], 1)
    rows = evidence.rows
    if not asked or not len(rows):
        return [], {}
    idle = session.nodes.idle[asked][:, rows]
    missing = np.maximum(cls.request[asked][:, np.newaxis] - idle, 0)
    passes = _passing(evidence, session.filters(cls, evidence.job), rows) & (idle > 0).all(axis=0)
    made_fit = {} if passes.any() else mendable(evidence, tasks[0])
    if made_fit:
        passes = np.isin(rows, list(made_fit)) & (idle > 0).all(axis=0)
    if not passes.any():
        return [], {}
    weighed = np.where(passes, (missing / cls.request[asked][:, np.newaxis]).sum(axis=0), np.inf)
    best = int(weighed.argmin())
    mend = made_fit.get(int(rows[best]))
    if mend is not None:
        passes = np.arange(len(rows)) == best
    found = {}
    for place, d in enumerate(asked):
        guess = units(session.dimensions.names[d], float(missing[place, best]))
        if len(tasks) > 1:
            together = _for_all(idle[place, passes], float(cls.request[d]), len(tasks), session.dimensions.names[d])
            guess = max(guess, together)
        if guess > _most(evidence, cls.request[d], d):
            return [], {}
        if guess:
            found[d] = guess
    return [] if mend is None else [mend_adjustment([mend], 1, mend.node)], found


def _passing(evidence: Evidence, filters: Sequence[Filter], rows: Any) -> Any:
    """Shape (rows,): where filters let one task, whatever it asks for."""
    passes = np.ones(len(rows), dtype=bool)
    for condition in filters:
        passes &= condition.room(rows) > 0
    return passes


def _for_all(idle: Any, asked: float, number: int, resource: str) -> int:
    """Units by which each of a number of tasks has to ask for less, that the nodes have room for all; 0: they have."""
    low, high, unit = 0, units(resource, asked) - 1, unit_of(resource)
    if high < 1 or (idle // (asked - high * unit)).sum() < number:
        return 0
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if (idle // (asked - middle * unit)).sum() >= number else (middle + 1, high)
    return low


def _counted(evidence: Evidence, d: int) -> bool:
    return "/" in evidence.session.dimensions.names[d]


def _most(evidence: Evidence, asked: float, d: int) -> int:
    """The units that a Pod may ask for less and still ask for some."""
    return units(evidence.session.dimensions.names[d], float(asked)) - 1


def _adjustment(evidence: Evidence, tasks: Sequence[Task], d: int, guess: int) -> Adjustment:
    resource = evidence.session.dimensions.names[d]
    change = partial(_asking_less, evidence, tasks, resource, float(tasks[0].cls.request[d]))
    most, what = _most(evidence, tasks[0].cls.request[d], d), f"{tasks[0].cls.id} {resource}"
    return Adjustment(ChangeKind.REQUEST, guess, most, change, what, grain_of(resource))


def _asking_less(evidence: Evidence, tasks: Sequence[Task], resource: str, now: float, degree: int) -> Step:
    job, fewer = evidence.job, degree * unit_of(resource)
    numbers = f"{quantity(resource, now - fewer)} {resource} instead of {quantity(resource, now)}"
    who = f"Pod {tasks[0].key}" if len(tasks) == 1 else f"each of {len(tasks)} Pods of PodGroup {job.key}"
    edits = [Edit(POD, job.namespace, task.name, partial(_reduced, resource, fewer)) for task in tasks]
    announced = partial(_announced, evidence, resource, fewer * len(tasks))
    return Step(f"let {who} ask for {numbers}", (*edits, Edit(POD_GROUP, job.namespace, job.name, announced)))


# --- of a vcjob without Pods ---
def _of_templates(evidence: Evidence) -> Iterator[Plan]:
    """Let the tasks of a vcjob whose Pods are not made yet ask for no more than some node has."""
    kind, name = owner_of(evidence, evidence.job)
    raw = evidence.objects.find(VCJOB, evidence.job.namespace, name) if kind == "job" else None
    session, rows, adjustments = evidence.session, evidence.rows, []
    for place, task in enumerate((raw or {}).get("spec", {}).get("tasks") or ()):
        containers = _containers(task.get("template"))
        for resource in sorted({r for container in containers for r in _amounts(container, "requests")}):
            asked, d = sum(_asked(container, resource) for container in containers), session.dimensions.find(resource)
            most = float(session.nodes.idle[d, rows].max()) if d is not None and len(rows) else 0.0
            guess = units(resource, asked - most)
            if 0 < guess < units(resource, asked):
                change = partial(_template_asking_less, evidence, name, place, resource, asked)
                adjustments.append(
                    Adjustment(
                        ChangeKind.REQUEST,
                        guess,
                        units(resource, asked) - 1,
                        change,
                        f"{place} {resource}",
                        grain_of(resource),
                    )
                )
    if adjustments:
        yield tuple(adjustments)


def _template_asking_less(evidence: Evidence, name: str, place: int, resource: str, now: float, degree: int) -> Step:
    fewer = degree * unit_of(resource)

    def reduced(job: Raw) -> Raw:
        task = job["spec"]["tasks"][place]
        _reduced(resource, fewer, task["template"])
        return job

    numbers = f"{quantity(resource, now - fewer)} {resource} instead of {quantity(resource, now)}"
    text = f"let each Pod of task {place + 1} of job {evidence.job.namespace}/{name} ask for {numbers}"
    return Step(text, (Edit(VCJOB, evidence.job.namespace, name, reduced),))


# --- objects ---
def _reduced(resource: str, fewer: float, pod: Raw) -> Raw:
    """The Pod, or the template of one, with the container that asks for most asking for less."""
    asking = max(_containers(pod), key=lambda container: _asked(container, resource), default=None)
    if asking is not None:
        then = format_amount(resource, max(_asked(asking, resource) - fewer, 0.0))
        for part in _PARTS:
            if resource in _amounts(asking, part):
                asking["resources"] = {**asking["resources"], part: {**_amounts(asking, part), resource: then}}
    return pod


def _asked(container: Raw, resource: str) -> float:
    """In the units of vectors."""
    given = next((amounts[resource] for part in _PARTS if resource in (amounts := _amounts(container, part))), 0)
    try:
        return float(parse_quantity(given, scale_of(resource)))
    except (QuantityError, TypeError):
        return 0.0


def _containers(pod: Any) -> list[Raw]:
    """The containers of a Pod or of a template, which may be anything."""
    spec = pod.get("spec") if isinstance(pod, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    return [each for each in containers if isinstance(each, dict)] if isinstance(containers, list) else []


def _amounts(container: Raw, part: str) -> dict[str, Any]:
    resources = container.get("resources")
    amounts = resources.get(part) if isinstance(resources, dict) else None
    return amounts if isinstance(amounts, dict) else {}


def _announced(evidence: Evidence, resource: str, fewer: float, group: Raw) -> Raw:
    """The PodGroup, announcing as much less as its Pods ask for."""
    announced = group["spec"].get("minResources") or {}
    if resource in announced:
        left = max(_asked({"resources": {"requests": announced}}, resource) - fewer, 0.0)
        group["spec"]["minResources"] = {**announced, resource: format_amount(resource, left)}
    return group
