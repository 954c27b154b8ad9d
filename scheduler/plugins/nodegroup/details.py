"""Details for explain: the node groups that a queue can use, and its limits in them."""

from collections.abc import Iterator

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import NODEGROUP_NAME
from scheduler.api.task import Task
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import pod_details
from scheduler.framework.session import Session
from scheduler.plugins.nodegroup.plugin import LIMIT_EXCEEDED, NO_AFFINITY, NO_GROUPS, NO_LABEL, OTHER_GROUP, NodeGroup


@pod_details(NodeGroup)
def node_groups(session: Session, plugin: NodeGroup, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    codes, names = session.nodes.facts.label_column(NODEGROUP_NAME)
    own, limits = plugin.groups.get(job.queue, NO_GROUPS), plugin.limits.get(job.queue)
    if not reasons.isdisjoint((NO_LABEL, NO_AFFINITY, OTHER_GROUP)):
        numbers = [f"{name}: {number}" for code, name in enumerate(names) if (number := int((codes == code).sum()))]
        admitted = ", ".join(name for name in names if own.admits(name)) or "none"
        groups = ", ".join([*numbers, f"without: {int((codes < 0).sum())}"])
        text = f"of the node groups that are there queue {job.queue} may use {admitted} (nodes by group: {groups})"
        yield Gate(GateKind.NODES, text, plugin.name)
    if LIMIT_EXCEEDED in reasons and limits is not None:
        for group in limits.of:
            asked = [d for d in np.flatnonzero(task.cls.request).tolist() if np.isfinite(limits.of[group][d])]
            amounts = "; ".join(
                session.dimensions.numbers(
                    d, asked=task.cls.request[d], used=limits.used[group][d], limit=limits.of[group][d]
                )
                for d in asked
            )
            yield Gate(GateKind.NODES, f"queue {job.queue} in node group {group}: {amounts}", plugin.name)
