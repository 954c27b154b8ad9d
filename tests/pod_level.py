"""Pods with pod-level resources, and these resources as the API server of Kubernetes 1.36 completes them."""

from typing import Any, Final, NamedTuple

import yaml

_TEXT: Final = """
limits only:
  level: {limits: {cpu: "6", memory: 1Gi}}
  containers: [{}]
  completed: {limits: {cpu: "6", memory: 1Gi}, requests: {cpu: "6", memory: 1Gi}}
containers request one of two limited resources:
  level: {limits: {cpu: "6", memory: 1Gi}}
  containers: [{requests: {cpu: 500m}}, {requests: {cpu: 1500m}}]
  completed: {limits: {cpu: "6", memory: 1Gi}, requests: {cpu: "2", memory: 1Gi}}
containers request what has no limit at this level:
  level: {limits: {cpu: "6"}}
  containers: [{requests: {memory: 512Mi}}, {requests: {memory: 512Mi}}]
  completed: {limits: {cpu: "6"}, requests: {cpu: "6", memory: 1Gi}}
a container requests zero:
  level: {limits: {cpu: "6"}}
  containers: [{requests: {cpu: "0"}}]
  completed: {limits: {cpu: "6"}, requests: {cpu: "0"}}
limits of containers are their requests:
  level: {limits: {cpu: "6"}}
  containers: [{limits: {cpu: "1"}}, {limits: {cpu: "2"}, requests: {cpu: "1"}}]
  completed: {limits: {cpu: "6"}, requests: {cpu: "2"}}
an init container requests more than the containers:
  level: {limits: {cpu: "6"}}
  containers: [{requests: {cpu: "1"}}]
  init: [{requests: {cpu: "4"}}]
  completed: {limits: {cpu: "6"}, requests: {cpu: "4"}}
a sidecar adds to the containers:
  level: {limits: {cpu: "6"}}
  containers: [{requests: {cpu: "1"}}]
  sidecars: [{requests: {cpu: "2"}}]
  completed: {limits: {cpu: "6"}, requests: {cpu: "3"}}
requests are given:
  level: {limits: {cpu: "6"}, requests: {cpu: "5"}}
  containers: [{requests: {cpu: "1", memory: 64Mi}}]
  completed: {limits: {cpu: "6"}, requests: {cpu: "5", memory: 64Mi}}
requests without limits:
  level: {requests: {cpu: "5"}}
  containers: [{requests: {cpu: "1", memory: 64Mi}}]
  completed: {requests: {cpu: "5"}}
extended resources stay with their container:
  level: {limits: {cpu: "6"}}
  containers: [{limits: {example.com/gpu: "1"}, requests: {example.com/gpu: "1"}}]
  completed: {limits: {cpu: "6"}, requests: {cpu: "6"}}
huge pages of containers:
  level: {limits: {cpu: "6", memory: 1Gi}}
  containers:
  - {limits: {hugepages-2Mi: 4Mi}, requests: {cpu: "1"}}
  - {limits: {hugepages-2Mi: 6Mi}, requests: {cpu: "1"}}
  completed:
    limits: {cpu: "6", memory: 1Gi, hugepages-2Mi: 10Mi}
    requests: {cpu: "2", memory: 1Gi, hugepages-2Mi: 10Mi}
huge pages of containers, and requests only:
  level: {requests: {cpu: "1", memory: 1Gi}}
  containers: [{limits: {hugepages-2Mi: 4Mi}, requests: {cpu: "1"}}]
  completed:
    limits: {hugepages-2Mi: 4Mi}
    requests: {cpu: "1", memory: 1Gi, hugepages-2Mi: 4Mi}
huge pages at both levels:
  level: {limits: {memory: 1Gi, hugepages-2Mi: 20Mi}}
  containers: [{limits: {hugepages-2Mi: 4Mi}, requests: {cpu: "1"}}]
  completed:
    limits: {memory: 1Gi, hugepages-2Mi: 20Mi}
    requests: {cpu: "1", memory: 1Gi, hugepages-2Mi: 20Mi}
no resources at this level:
  level: {}
  containers: [{limits: {cpu: "1"}}]
  completed: {}
"""


class Case(NamedTuple):
    """A Pod spec."""

    name: str
    spec: dict[str, Any]
    completed: dict[str, Any]
    """The ``spec.resources`` that the API server stores."""


def cases() -> list[Case]:
    """Returns all cases, with new objects."""
    return [Case(name, _spec(case), case["completed"]) for name, case in yaml.safe_load(_TEXT).items()]


def _spec(case: dict[str, Any]) -> dict[str, Any]:
    sidecars = [{**each, "restartPolicy": "Always"} for each in _containers("sidecar", case.get("sidecars", ()))]
    init = [*sidecars, *_containers("init", case.get("init", ()))]
    spec = {"resources": case["level"], "containers": _containers("main", case["containers"])}
    return {**spec, "initContainers": init} if init else spec


def _containers(name: str, resources: Any) -> list[dict[str, Any]]:
    return [{"name": f"{name}-{i}", "image": "x", "resources": each} for i, each in enumerate(resources)]
