"""Reduces the requests of Pods that no node accepts."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from scheduler.api.kinds import POD, POD_GROUP, VCJOB
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.resource import PODS_INDEX, format_amount, scale_of
from scheduler.api.task import Task
from scheduler.api.written_amounts import grain_of, quantity, unit_of, units
from scheduler.explain.changes.nodes import fix_adjustment, node_fixes
from scheduler.explain.changes.workloads import vcjob_of, workload_of
from scheduler.framework.columns import Filter
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Edit, Plan, Raw, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import GateKind

_PARTS: Final = ("requests", "limits")


def reduce_requests(evidence: Evidence) -> Iterator[Plan]:
    """Reduces the requests of one task class for what is short on the node with the smallest shortage."""
    by_class: dict[int, list[Task]] = {}
    for task in evidence.wanted:
        by_class.setdefault(task.cls.id, []).append(task)
    for tasks in by_class.values():
        fixes, short = _short(evidence, tasks)
        if short:
            yield (*fixes, *(_adjustment(evidence, tasks, d, estimate) for d, estimate in short.items()))
    if not evidence.job.size:
        yield from _template_plans(evidence)
    yield from _lower_min_resources(evidence)


def _short(evidence: Evidence, tasks: Sequence[Task]) -> tuple[list[Adjustment], dict[int, int]]:
    """The changes that make a node suitable, if none is, and resource -> units by which each task requests too much."""
    session, cls = evidence.session, tasks[0].cls
    asked = [d for d in np.flatnonzero(cls.request > 0).tolist() if d != PODS_INDEX]
    if any(gate.kind is GateKind.VALIDITY and gate.plugin != "gang" for gate in evidence.gates):
        # The request may be a number of devices that no node allocates.
        devices = [d for d in asked if _most(evidence, cls.request[d], d) > 0 and _is_extended(evidence, d)]
        return [], dict.fromkeys(devices[:1], 1)
    rows = evidence.rows
    if not asked or not len(rows):
        return [], {}
    idle = session.nodes.idle[asked][:, rows]
    missing = np.maximum(cls.request[asked][:, np.newaxis] - idle, 0)
    passes = _accepting(session.filters(cls, evidence.job), rows) & (idle > 0).all(axis=0)
    fixes = {} if passes.any() else node_fixes(evidence, tasks[0])
    if fixes:
        passes = np.isin(rows, list(fixes)) & (idle > 0).all(axis=0)
    if not passes.any():
        return [], {}
    weighed = np.where(passes, (missing / cls.request[asked][:, np.newaxis]).sum(axis=0), np.inf)
    best = int(weighed.argmin())
    fix = fixes.get(int(rows[best]))
    if fix is not None:
        passes = np.arange(len(rows)) == best
    found = {}
    for place, d in enumerate(asked):
        estimate = units(session.dimensions.names[d], float(missing[place, best]))
        if len(tasks) > 1:
            together = _reduction_for_all(
                idle[place, passes], float(cls.request[d]), len(tasks), session.dimensions.names[d]
            )
            estimate = max(estimate, together)
        if estimate > _most(evidence, cls.request[d], d):
            return [], {}
        if estimate:
            found[d] = estimate
    return [] if fix is None else [fix_adjustment([fix], 1, fix.node)], found


def _accepting(filters: Sequence[Filter], rows: Any) -> Any:
    """Shape (rows,): whether all filters accept one task, whatever it requests."""
    passes = np.ones(len(rows), dtype=bool)
    for condition in filters:
        passes &= condition.room(rows) > 0
    return passes


def _reduction_for_all(idle: Any, asked: float, number: int, resource: str) -> int:
    """Units by which each of ``number`` tasks must reduce its request so that the nodes hold all; 0: they already
    do, or cannot."""
    low, high, unit = 0, units(resource, asked) - 1, unit_of(resource)
    if high < 1 or (idle // (asked - high * unit)).sum() < number:
        return 0
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if (idle // (asked - middle * unit)).sum() >= number else (middle + 1, high)
    return low


def _is_extended(evidence: Evidence, d: int) -> bool:
    return "/" in evidence.session.dimensions.names[d]


def _most(evidence: Evidence, asked: float, d: int) -> int:
    """The maximum number of units by which a Pod can reduce its request and still request some."""
    return units(evidence.session.dimensions.names[d], float(asked)) - 1


def _adjustment(evidence: Evidence, tasks: Sequence[Task], d: int, estimate: int) -> Adjustment:
    resource = evidence.session.dimensions.names[d]
    change = partial(_with_smaller_request, evidence, tasks, resource, float(tasks[0].cls.request[d]))
    most, what = _most(evidence, tasks[0].cls.request[d], d), f"{tasks[0].cls.id} {resource}"
    return Adjustment(ChangeKind.REQUEST, estimate, most, change, what, grain_of(resource))


def _with_smaller_request(evidence: Evidence, tasks: Sequence[Task], resource: str, now: float, amount: int) -> Step:
    job, fewer = evidence.job, amount * unit_of(resource)
    numbers = f"{quantity(resource, now - fewer)} {resource} instead of {quantity(resource, now)}"
    workload = workload_of(evidence, job)
    owner = f"{workload.kind} {job.namespace}/{workload.name}"
    who = f"each of {len(tasks)} Pods of {owner}"
    if len(tasks) == 1:
        who = f"Pod {tasks[0].key}" + (f" of {owner}" if workload.has_template else "")
    edits = [Edit(POD, job.namespace, task.name, partial(_with_reduction, resource, fewer)) for task in tasks]
    min_resources = partial(_with_min_resources, resource, fewer * len(tasks))
    return Step(f"let {who} ask for {numbers}", (*edits, Edit(POD_GROUP, job.namespace, job.name, min_resources)))


# --- announced requests ---
def _lower_min_resources(evidence: Evidence) -> Iterator[Plan]:
    """Lowers what a PodGroup that is not admitted announces, down to what its Pods request. The announcement of a
    workload follows its Pods."""
    job, announced = evidence.job, evidence.job.min_resources
    if announced is None or not job.waiting_for_queue or workload_of(evidence, job).kind != POD_GROUP.name:
        return
    requested = sum((task.cls.request for task in job.tasks()), evidence.session.dimensions.zeros())
    missing: dict[str, float] = {}
    for shortage in (shortage for gate in evidence.gates for shortage in gate.shortages):
        missing[shortage.resource] = max(shortage.missing, missing.get(shortage.resource, 0.0))
    adjustments = []
    for d in np.flatnonzero(announced > requested).tolist():
        resource, asked = evidence.session.dimensions.names[d], float(announced[d])
        estimate = units(resource, missing.get(resource, 0.0))
        most = min(units(resource, asked) - 1, int((asked - float(requested[d])) // unit_of(resource)))
        if 0 < estimate <= most:
            change = partial(_with_lower_min_resources, evidence, resource, asked)
            what = f"minResources {resource}"
            adjustments.append(Adjustment(ChangeKind.REQUEST, estimate, most, change, what, grain_of(resource)))
    if adjustments:
        yield tuple(adjustments)


def _with_lower_min_resources(evidence: Evidence, resource: str, asked: float, amount: int) -> Step:
    job, fewer = evidence.job, amount * unit_of(resource)
    numbers = f"from {quantity(resource, asked)} to {quantity(resource, asked - fewer)}"
    text = f"lower minResources {resource} of PodGroup {job.key} {numbers}"
    return Step(text, (Edit(POD_GROUP, job.namespace, job.name, partial(_with_min_resources, resource, fewer)),))


# --- vcjobs without Pods ---
def _template_plans(evidence: Evidence) -> Iterator[Plan]:
    """Reduces the requests of vcjob tasks without Pods to what some node has."""
    name = vcjob_of(evidence, evidence.job)
    raw = evidence.objects.find(VCJOB, evidence.job.namespace, name) if name is not None else None
    if name is None or raw is None:
        return
    session, rows, adjustments = evidence.session, evidence.rows, []
    for place, task in enumerate(raw.get("spec", {}).get("tasks") or ()):
        template = task.get("template")
        stated = {r for container in _containers(template) for r in _amounts(container, "requests")}
        for resource in sorted({*stated, *(r for part in _PARTS for r in _amounts(_level(template), part))}):
            asked, d = _asked_by_pod(template, resource), session.dimensions.find(resource)
            most = float(session.nodes.idle[d, rows].max()) if d is not None and len(rows) else 0.0
            estimate = units(resource, asked - most)
            if 0 < estimate < units(resource, asked):
                change = partial(_with_smaller_template, evidence, name, place, resource, asked)
                adjustments.append(
                    Adjustment(
                        ChangeKind.REQUEST,
                        estimate,
                        units(resource, asked) - 1,
                        change,
                        f"{place} {resource}",
                        grain_of(resource),
                    )
                )
    if adjustments:
        yield tuple(adjustments)


def _with_smaller_template(evidence: Evidence, name: str, place: int, resource: str, now: float, amount: int) -> Step:
    fewer = amount * unit_of(resource)

    def reduced(job: Raw) -> Raw:
        task = job["spec"]["tasks"][place]
        _with_reduction(resource, fewer, task["template"])
        return job

    numbers = f"{quantity(resource, now - fewer)} {resource} instead of {quantity(resource, now)}"
    text = f"let each Pod of task {place + 1} of job {evidence.job.namespace}/{name} ask for {numbers}"
    return Step(text, (Edit(VCJOB, evidence.job.namespace, name, reduced),))


# --- objects ---
def _with_reduction(resource: str, fewer: float, pod: Raw) -> Raw:
    """The Pod or template with a reduced request: at the level of the Pod if it is given there, and in the container
    that requests most, so that the containers fit."""
    level = _level(pod)
    if _states(level, resource):
        left = max(_asked(level, resource) - fewer, 0.0)
        level["resources"] = _with_amount(level, resource, left)
        fewer = sum(_asked(container, resource) for container in _containers(pod)) - left
        if fewer <= 0:
            return pod
    asking = max(_containers(pod), key=lambda container: _asked(container, resource), default=None)
    if asking is not None and _states(asking, resource):
        asking["resources"] = _with_amount(asking, resource, max(_asked(asking, resource) - fewer, 0.0))
    return pod


def _with_amount(container: Raw, resource: str, amount: float) -> Raw:
    """The ``resources`` of a container, or of a Pod at its level, with another amount."""
    then = format_amount(resource, amount)
    parts = {part: {**stated, resource: then} for part in _PARTS if resource in (stated := _amounts(container, part))}
    return {**container["resources"], **parts}


def _asked_by_pod(pod: Any, resource: str) -> float:
    """The requested amount of a Pod or template, in the units of vectors."""
    level = _level(pod)
    if _states(level, resource):
        return _asked(level, resource)
    return sum(_asked(container, resource) for container in _containers(pod))


def _level(pod: Any) -> Raw:
    """The spec of a Pod or template of any shape, whose ``resources`` are those at the level of the Pod."""
    spec = pod.get("spec") if isinstance(pod, dict) else None
    return spec if isinstance(spec, dict) else {}


def _states(container: Raw, resource: str) -> bool:
    """Whether a container, or a Pod at its level, has a request or limit of a resource."""
    return any(resource in _amounts(container, part) for part in _PARTS)


def _asked(container: Raw, resource: str) -> float:
    """The requested amount of a container, in the units of vectors."""
    given = next((amounts[resource] for part in _PARTS if resource in (amounts := _amounts(container, part))), 0)
    try:
        return float(parse_quantity(given, scale_of(resource)))
    except (QuantityError, TypeError):
        return 0.0


def _containers(pod: Any) -> list[Raw]:
    """The containers of a Pod or template of any shape."""
    containers = _level(pod).get("containers")
    return [each for each in containers if isinstance(each, dict)] if isinstance(containers, list) else []


def _amounts(container: Raw, part: str) -> dict[str, Any]:
    resources = container.get("resources")
    amounts = resources.get(part) if isinstance(resources, dict) else None
    return amounts if isinstance(amounts, dict) else {}


def _with_min_resources(resource: str, fewer: float, group: Raw) -> Raw:
    """The PodGroup with ``minResources`` reduced as much as the requests of its Pods."""
    announced = group["spec"].get("minResources") or {}
    if resource in announced:
        left = max(_asked({"resources": {"requests": announced}}, resource) - fewer, 0.0)
        group["spec"]["minResources"] = {**announced, resource: format_amount(resource, left)}
    return group
