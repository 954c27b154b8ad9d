"""nodegroup: restricts queues to the node groups in their affinity (Volcano's nodegroup plugin).

The label ``volcano.sh/nodegroup-name`` sets the group of a node. An annotation of a queue can limit its resources in
each group.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar, Final, NamedTuple

import msgspec
import numpy as np

from scheduler.api.job import Job
from scheduler.api.json_texts import NODE_GROUP_LIMITS, JsonTextError
from scheduler.api.names import NODEGROUP_NAME, NODEGROUP_RESOURCE_LIMITS
from scheduler.api.node import Codes, Rows
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.queue import Queue, ancestors
from scheduler.api.reasons import Malformed
from scheduler.api.resource import SMALLEST, Vector, scale_of
from scheduler.api.scheduling import QueueAffinity
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import (
    UNBOUNDED,
    CodedFilter,
    Counts,
    Filter,
    PinUse,
    RefusingFilter,
    Scope,
    Score,
    StaticScore,
)
from scheduler.framework.extension import ENABLE_HIERARCHY
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin

NO_LABEL: Final = "node group label not found"
NO_AFFINITY: Final = "node group affinity not specified"
OTHER_GROUP: Final = "node does not satisfy the node group affinity"
LIMIT_INVALID: Final = "node group resource limit annotation invalid"
LIMIT_EXCEEDED: Final = "node group resource limit exceeded"
_BEST: Final = 100.0


class Groups(msgspec.Struct, frozen=True):
    """The node groups in the affinity of a queue."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    """The preferred groups, the most preferred first."""
    anti_required: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred or self.anti_required or self.anti_preferred)

    def admits(self, group: str) -> bool:
        """Whether the queue can use a group. Groups that the affinity does not name are not admitted; groups with
        preferred anti-affinity are."""
        if group in self.anti_preferred:
            return True
        return (group in self.required or group in self.preferred) and group not in self.anti_required

    def score(self, group: str, ordered: bool) -> float:
        """The score of a group, from 0 to 150; -1 for preferred anti-affinity."""
        if group in self.anti_preferred:
            return -1.0
        score = _BEST if group in self.required else 0.0
        if group in self.preferred:
            number = len(self.preferred)
            score += _BEST / 2 * ((number - self.preferred.index(group)) / number if ordered else 1.0)
        return score


NO_GROUPS: Final = Groups()


@register_plugin
class NodeGroup:
    """Arguments: ``strict`` (default true; if false, queues without affinity can use nodes without a group) and
    ``enablePreferredOrder`` (default false; if true, earlier preferred groups score higher). Flag ``enableHierarchy``
    (default false): a queue without affinity inherits that of the nearest ancestor that has one."""

    name: ClassVar[str] = "nodegroup"

    def __init__(self, arguments: Arguments) -> None:
        self.strict = arguments.boolean("strict", True)
        self._ordered = arguments.boolean("enablePreferredOrder", False)

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._codes, self._names = session.nodes.facts.label_column(NODEGROUP_NAME)
        self._inherit = session.option(ENABLE_HIERARCHY)
        self.groups = {name: _groups(session.queues[self.affinity_owner(name)].affinity) for name in session.queues}
        """Queue -> its groups."""
        self.limits: dict[str, GroupLimits | None] = {}
        """Queue -> its limits, for queues with the annotation; None if the annotation is invalid."""
        for name, queue in session.queues.items():
            if queue.annotations.get(NODEGROUP_RESOURCE_LIMITS):
                self.limits[name] = self._read_limits(queue)
        self._count_allocated()
        session.add_filter(self._filters, per_queue=self._view_of, pin=PinUse.IGNORED)
        session.add_score(self._scores, per_queue=self._view_of)
        if self.limits:
            session.add_handlers(partial(self._charge, 1), partial(self._charge, -1))

    def affinity_owner(self, name: str) -> str:
        """Returns the queue whose affinity applies to a queue: the queue itself or, with the hierarchy, the nearest
        ancestor that has one."""
        queues = self._session.queues
        above = ancestors(queues, name) if self._inherit else []
        return next((at for at in (name, *above) if queues[at].affinity is not None), name)

    def _view_of(self, queue: Queue) -> tuple[Groups, str]:
        """The groups of a queue, and its name if it has limits. Queues with the same groups and without limits share
        class views."""
        return self.groups[queue.name], queue.name if queue.name in self.limits else ""

    # --- nodes ---
    def _filters(self, cls: TaskClass, view: tuple[Groups, str]) -> list[Filter]:
        groups, limited = view
        limits = self.limits[limited] if limited else NO_LIMITS
        if limits is None:
            return [RefusingFilter(LIMIT_INVALID)]
        if groups:
            by_group = [-1 if groups.admits(name) else 2 for name in self._names]
        else:
            by_group = [1] * len(self._names)
        unlabelled = 0 if self.strict or groups else -1
        codes: Codes = np.array([*by_group, unlabelled], dtype=np.int32)[self._codes]
        filters: list[Filter] = [CodedFilter(codes, (NO_LABEL, NO_AFFINITY, OTHER_GROUP))]
        if limits.of:
            filters.append(LimitFilter(self._codes, self._names, limits, cls.request))
        return filters

    def _scores(self, cls: TaskClass, view: tuple[Groups, str]) -> list[Score]:
        groups, _ = view
        by_group = np.array([*(groups.score(name, self._ordered) for name in self._names), 0.0])
        return [StaticScore(by_group[self._codes])] if by_group.any() else []

    # --- limits ---
    def _read_limits(self, queue: Queue) -> "GroupLimits | None":
        dimensions = self._session.dimensions
        field = f"metadata.annotations[{NODEGROUP_RESOURCE_LIMITS}]"
        try:
            listed = NODE_GROUP_LIMITS.decode(queue.annotations[NODEGROUP_RESOURCE_LIMITS])
            limits = {}
            for group, amounts in listed.items():
                limits[group] = np.full(dimensions.width, np.inf)
                for name, quantity in (amounts or {}).items():
                    position = dimensions.find(name)
                    amount = parse_quantity(quantity, scale_of(name))
                    if position is not None:  # other resources are not requested by any Pod
                        limits[group][position] = amount
        except (JsonTextError, QuantityError) as error:
            consequence = "the Pods of this queue wait"
            self._session.malformed_field(Malformed("Queue", "", queue.name, field, str(error), consequence))
            return None
        return GroupLimits(limits, {group: dimensions.zeros() for group in limits})

    def _count_allocated(self) -> None:
        index = self._session.nodes.index
        for job in self._session.jobs.values() if self.limits else ():
            if self.limits.get(job.queue) is not None:
                for status in ALLOCATED_STATUSES:
                    for task in job.of(status).values():
                        if task.node in index:
                            self._charge(1, job, (task,), (index[task.node],))

    def _charge(self, sign: int, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool = False) -> None:
        limits = self.limits.get(job.queue)
        if limits is None:
            return
        for task, row in zip(tasks, rows, strict=True):
            code = self._codes[row]
            group = self._names[code] if code >= 0 else None
            if group in limits.used:
                limits.used[group] = limits.used[group] + task.cls.request * sign


class GroupLimits(NamedTuple):
    """The limits of a queue per group, and its used resources."""

    of: dict[str, Vector]
    """Group -> limit; infinity for resources without a limit."""
    used: dict[str, Vector]

    def room(self, group: str, request: Vector) -> int:
        """The number of tasks with the request that the queue can still have in the group."""
        if group not in self.of:
            return UNBOUNDED
        left = self.of[group] - self.used[group] + SMALLEST
        if (left <= 0).any():
            return 0
        requested = request > 0
        return int(
            (np.minimum(left[requested], UNBOUNDED * request[requested]) // request[requested]).min(initial=UNBOUNDED)
        )


NO_LIMITS: Final = GroupLimits({}, {})


class LimitFilter(msgspec.Struct, eq=False):
    """Rejects nodes in groups whose limit is reached. It has scope CLUSTER because each placement can exhaust a
    limit."""

    codes: Codes
    """The group of each node, as its position in ``names``; -1 for none."""
    names: Sequence[str]
    limits: GroupLimits
    request: Vector
    scope = Scope.CLUSTER
    unresolvable = True

    def room(self, rows: Rows) -> Counts:
        by_group = [self.limits.room(name, self.request) for name in self.names]
        result: Counts = np.array([*by_group, UNBOUNDED], dtype=np.int64)[self.codes[rows]]
        return result

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((LIMIT_EXCEEDED, len(rows)),)


def _groups(affinity: QueueAffinity | None) -> Groups:
    near = affinity.node_group_affinity if affinity else None
    away = affinity.node_group_anti_affinity if affinity else None
    return Groups(
        required=tuple((near and near.required_during_scheduling_ignored_during_execution) or ()),
        preferred=tuple((near and near.preferred_during_scheduling_ignored_during_execution) or ()),
        anti_required=tuple((away and away.required_during_scheduling_ignored_during_execution) or ()),
        anti_preferred=tuple((away and away.preferred_during_scheduling_ignored_during_execution) or ()),
    )
