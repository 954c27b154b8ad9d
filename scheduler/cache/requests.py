"""What a Pod takes from a node, from its spec: Kubernetes' resource calculation, as Volcano's GetPodResourceRequest."""

import numpy as np

from scheduler.api.containers import at_once
from scheduler.api.node import NONZERO_CPU, NONZERO_MEMORY
from scheduler.api.objects import Container, PodSpec
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, PODS_INDEX, Dimensions, Vector


def pod_request(spec: PodSpec, dimensions: Dimensions) -> Vector:
    """The greater of what the containers (with sidecars) and each init container (with the sidecars started before it)
    ask for, pod-level requests in their place where given, plus overhead, plus one Pod.

    Raises QuantityError naming container and resource.
    """

    def request(container: Container) -> Vector:
        return _request(container, dimensions)

    def add(left: Vector, right: Vector) -> Vector:
        return dimensions.fit(left) + dimensions.fit(right)

    def greater(left: Vector, right: Vector) -> Vector:
        return np.maximum(dimensions.fit(left), dimensions.fit(right))

    total = at_once(spec.containers, spec.init_containers, request, dimensions.zeros(), add, greater)
    if spec.resources is not None and spec.resources.requests:
        level = dimensions.vector(spec.resources.requests)
        total = np.where(level > 0, level, dimensions.fit(total))
    if spec.overhead:
        overhead = dimensions.vector(spec.overhead)
        total = dimensions.fit(total) + overhead
    total[PODS_INDEX] = 1
    return total


def nonzero_request(spec: PodSpec, request: Vector) -> tuple[float, float]:
    """cpu (milli) and memory (bytes) as kube-scheduler's scores count them: a container that asks for none of one
    counts with a default."""
    bare_cpu = bare_memory = 0
    for container in spec.containers:
        asked = (container.resources.requests if container.resources else None) or {}
        bare_cpu += "cpu" not in asked
        bare_memory += "memory" not in asked
    return (
        float(request[CPU_INDEX]) + bare_cpu * NONZERO_CPU,
        float(request[MEMORY_INDEX]) + bare_memory * NONZERO_MEMORY,
    )


def _request(container: Container, dimensions: Dimensions) -> Vector:
    """The container's requests; a limit stands for a request that is not given (as the API server defaults it). One
    beside a request has to be sound as well: plugins read it."""
    resources = container.resources
    if resources is None:
        return dimensions.zeros()
    limits, requests = resources.limits or {}, resources.requests or {}
    beside = {name: limit for name, limit in limits.items() if requests.get(name, limit) != limit}
    if beside:
        dimensions.vector(beside)
    return dimensions.vector({**limits, **requests})
