"""Admission of PodGroups: sets the queue of the namespace, and validates the queue and the network topology."""

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.api.names import DEFAULT_QUEUE, QUEUE_NAME_ANNOTATION, ROOT_QUEUE
from scheduler.api.objects import KubeObject, Wire
from scheduler.api.queue import OPEN
from scheduler.api.scheduling import NetworkTopology
from scheduler.webhooks.cards import request_problems
from scheduler.webhooks.contract import AdmissionRequest, ClusterView, Json, WebhookSettings
from scheduler.webhooks.decoding import validator
from scheduler.webhooks.queue.hierarchy import children_of, names_of, queue_not_found

_TWO_TIERS: Final = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"


class _SubGroup(Wire):
    name: str = ""
    network_topology: NetworkTopology | None = None


class _Spec(Wire):
    queue: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_policy: list[_SubGroup] = msgspec.field(default_factory=list)


class _PodGroup(KubeObject):
    spec: _Spec = msgspec.field(default_factory=_Spec)


def mutate(request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> Json:
    """Puts a new PodGroup of the default queue into the queue of its namespace's annotation (Volcano's
    /podgroups/mutate)."""
    group = request.object
    spec = group.get("spec")
    if not isinstance(spec, dict) or spec.get("queue") != DEFAULT_QUEUE:
        return group
    namespace = cluster.namespace(request.namespace)
    queue = (namespace.metadata.annotations or {}).get(QUEUE_NAME_ANNOTATION) if namespace else None
    return group if not queue else {**group, "spec": {**spec, "queue": queue}}


@validator(_PodGroup)
def validate(group: _PodGroup, request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> str:
    """All problems of a new PodGroup in one text, or "" (Volcano's /podgroups/validate)."""
    problems = [
        *_queue_problems(group.spec.queue, cluster),
        " ".join(_topology_problems(group.spec)),
        *request_problems(group.metadata.annotations),
    ]
    return "; ".join(filter(None, problems))


def topology_problem(topology: NetworkTopology | None) -> str:
    """The problem of the network topology of a job, a partition or a PodGroup, or ""."""
    both = topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name
    return _TWO_TIERS if both else ""


def _queue_problems(name: str, cluster: ClusterView) -> Iterator[str]:
    if not name:
        return
    queue = cluster.queue(name)
    if queue is None:
        yield f"unable to find queue: {queue_not_found(name)}"
        return
    state = queue.status.state
    if state not in (OPEN, ""):  # "": a new queue, which the controller has not opened yet
        yield f"can only submit PodGroup to queue with state `{OPEN}`, queue `{name}` status is `{state}`."
    children = children_of(name, cluster)
    if name == ROOT_QUEUE:
        yield f"can not submit PodGroup to root queue: set spec.queue to one below it, such as `{DEFAULT_QUEUE}`"
    elif children:
        yield (
            f"can only submit PodGroup to leaf queue, queue `{name}` has {len(children)} child queues: set spec.queue "
            f"to a queue without children (those of `{name}` are {names_of(children)})"
        )


def _topology_problems(spec: _Spec) -> Iterator[str]:
    problem = topology_problem(spec.network_topology)
    if problem:
        yield f"{problem}."
    for policy in spec.sub_group_policy:
        problem = topology_problem(policy.network_topology)
        if problem:
            yield f"in subGroupPolicy '{policy.name}': {problem}."
            return
