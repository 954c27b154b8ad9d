"""Names the Pods that hold more than they request because they are resized in place: otherwise the free amounts of
their nodes do not add up."""

from collections.abc import Iterable, Sequence
from typing import Final, cast

from scheduler.api.kinds import POD
from scheduler.api.objects import ENDED_PHASES, Pod
from scheduler.api.pod_amounts import pod_request
from scheduler.api.pod_resize import held_spec
from scheduler.api.quantity import QuantityError
from scheduler.api.resource import Dimensions, Vector
from scheduler.api.selectors import ignore_field
from scheduler.cluster.memory.server import MemoryServer
from scheduler.explain.explanation import NodeGroup, ResizedPod

_SHOWN: Final = 10


def resized_pods(server: MemoryServer, groups: Iterable[NodeGroup]) -> list[ResizedPod]:
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
    for pod in cast("list[Pod]", server.structs(POD)):
        resources = lacking.get(pod.spec.node_name)
        if resources is not None and pod.status.phase not in ENDED_PHASES:
            found += _of(pod, sorted(resources), dimensions)
    return sorted(found, key=lambda each: (each.requested - each.held, each.pod, each.resource))[:_SHOWN]


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
