"""Groups the nodes that refuse a Pod by their reasons, with the numbers behind each reason, and ranks those that accept
it by their scores.

Pods that are resized in place hold more than they request. They are named, because otherwise the free amounts of their
nodes do not add up.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.kinds import POD
from scheduler.api.node import Column, Rows
from scheduler.api.objects import ENDED_PHASES, Pod
from scheduler.api.pod_amounts import pod_request
from scheduler.api.pod_resize import held_spec
from scheduler.api.quantity import QuantityError
from scheduler.api.reasons import Shortage
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.selectors import ignore_field
from scheduler.api.task import Task, TaskClass
from scheduler.cluster.memory.server import MemoryServer
from scheduler.explain.explanation import RankedNode, Ranking, RefusingNodes, ResizedPod
from scheduler.framework.columns import Filter, MeasuringFilter, Scope
from scheduler.framework.extension import SCORE
from scheduler.framework.remedies.nodes import accepting_rows, compared_resources
from scheduler.framework.session import Session

INSUFFICIENT: Final = "Insufficient {}"


def groups(session: Session, job: Job, cls: TaskClass) -> list[RefusingNodes]:
    """The nodes that refuse a task of the class now, largest group first."""
    names, nodes = session.nodes.names, session.nodes
    reasons: dict[int, list[str]] = {}
    short: dict[int, list[int]] = {}
    for d in compared_resources(cls):
        for row in np.flatnonzero(nodes.idle[d] < cls.request[d]).tolist():
            reasons.setdefault(row, []).append(INSUFFICIENT.format(session.dimensions.names[d]))
            short.setdefault(row, []).append(d)
    measured: dict[int, list[MeasuringFilter]] = {}
    for condition in session.filters(cls, job):
        for row, texts in _refused(condition, len(nodes)):
            reasons.setdefault(row, []).extend(texts)
            if isinstance(condition, MeasuringFilter):
                measured.setdefault(row, []).append(condition)
    by_reason: dict[tuple[str, ...], list[int]] = {}
    for row in sorted(reasons):
        by_reason.setdefault(tuple(dict.fromkeys(reasons[row])), []).append(row)
    found = [
        RefusingNodes(
            tuple(names[row] for row in rows),
            texts,
            (
                *(_most(session, cls, d, rows) for d in short.get(rows[0], ())),
                *(s for condition in measured.get(rows[0], ()) for s in condition.shortages(np.array(rows))),
            ),
        )
        for texts, rows in by_reason.items()
    ]
    return sorted(found, key=lambda group: (-len(group.names), group.names))


def _refused(condition: Filter, number: int) -> list[tuple[int, list[str]]]:
    """The rows that a filter refuses, each with the filter's reasons."""
    rows: Rows = np.arange(number)
    refused = rows[condition.room(rows) < 1]
    if not len(refused):
        return []
    texts = [text for text, _ in condition.reasons(refused)]
    if len(texts) == 1:
        return [(row, texts) for row in refused.tolist()]
    return [(int(row), [text for text, _ in condition.reasons(np.array([row]))]) for row in refused]


def _most(session: Session, cls: TaskClass, d: int, rows: list[int]) -> Shortage:
    best = max(rows, key=lambda row: (session.nodes.idle[d, row], -row))
    free, names = float(session.nodes.idle[d, best]), session.nodes.names
    return Shortage(session.dimensions.names[d], float(cls.request[d]), 0.0, free, "Node", names[best])


_REFUSING_SHOWN: Final = 10


def resized_pods(server: MemoryServer, groups: Iterable[RefusingNodes]) -> list[ResizedPod]:
    """The Pods on nodes that lack a resource of which they hold more than they request, the largest difference first;
    at most ten."""
    lacking: dict[str, set[str]] = {}
    for group in groups:
        for shortage in group.shortages:
            if shortage.kind == "Node":
                for name in group.names:
                    lacking.setdefault(name, set()).add(shortage.resource)
    if not lacking:
        return []
    dimensions, found = Dimensions(), list[ResizedPod]()
    for pod in server.structs(POD):
        resources = lacking.get(pod.spec.node_name)
        if resources is not None and pod.status.phase not in ENDED_PHASES:
            found += _of(pod, sorted(resources), dimensions)
    return sorted(found, key=lambda each: (each.requested - each.held, each.pod, each.resource))[:_REFUSING_SHOWN]


def _of(pod: Pod, resources: Sequence[str], dimensions: Dimensions) -> list[ResizedPod]:
    held_by_it = held_spec(pod, ignore_field)
    if held_by_it is pod.spec:
        return []
    try:
        requested, held = pod_request(pod.spec, dimensions), pod_request(held_by_it, dimensions)
    except QuantityError:
        return []
    key, node = f"{pod.metadata.namespace}/{pod.metadata.name}", pod.spec.node_name
    amounts = {name: (_amount(requested, name, dimensions), _amount(held, name, dimensions)) for name in resources}
    return [ResizedPod(key, node, name, asked, holds) for name, (asked, holds) in amounts.items() if holds > asked]


def _amount(vector: Vector, resource: str, dimensions: Dimensions) -> float:
    position = dimensions.find(resource)
    return 0.0 if position is None or position >= len(vector) else float(vector[position])


SHOWN: Final = 3


def rank(
    session: Session, job: Job, task: Task, *, chosen: str = "", ahead: Mapping[int, int] | None = None
) -> Ranking:
    """The nodes that accept a pending task now, with the best ones by score.

    ``ahead``: row -> number of tasks of this class that are placed there first and are not yet allocated.
    ``chosen``: a node that is always included.
    """
    cls = task.cls
    ahead = ahead or {}
    rows = accepting_rows(session, job, cls, ahead)
    by_plugin = _scores(session, job, cls, rows, ahead)
    total: Column = np.zeros(len(rows))
    for column in by_plugin.values():
        total += column
    order = np.argsort(-total, kind="stable").tolist()
    names = session.nodes.names
    shown = order[:SHOWN]
    shown += [i for i in order[SHOWN:] if names[rows[i]] == chosen]
    best = tuple(
        RankedNode(names[rows[i]], float(total[i]), {plugin: float(column[i]) for plugin, column in by_plugin.items()})
        for i in shown
    )
    return Ranking(task.key, len(rows), best, chosen)


def _scores(session: Session, job: Job, cls: TaskClass, rows: Rows, ahead: Mapping[int, int]) -> dict[str, Column]:
    """Plugin -> its score for each row. Plugins without a score for the class are left out."""
    result: dict[str, Column] = {}
    counts = np.array([ahead.get(int(row), 0) for row in rows], dtype=np.int64)
    for tier in session.functions(SCORE):
        for function in tier:
            plugin = session.plugin_of(function)
            for score in session.call(SCORE, function, cls, job):
                values = score.values(rows, counts if score.scope is Scope.NODE else None)
                result[plugin] = result.get(plugin, np.zeros(len(rows))) + values
    return result
