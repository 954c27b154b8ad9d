"""Requests, limits and claims. Cases and answers of Kubernetes 1.36."""

import pytest

from scheduler.webhooks.contract import Json
from tests.unit.webhooks.job.podtemplate.templates import pod, problems, resources

CASES = [
    (
        resources({"requests": {"cpu": "1500m"}, "limits": {"cpu": 1}}),
        ['containers[0].resources.requests: Invalid value: "1500m": must be less than or equal to cpu limit of 1'],
    ),
    (resources({"requests": {"memory": "1024Mi"}, "limits": {"memory": "1Gi"}}), []),
    (
        resources({"requests": {"memory": "20Ti"}, "limits": {"memory": "10Ti"}}),
        ['containers[0].resources.requests: Invalid value: "20Ti": must be less than or equal to memory limit of 10Ti'],
    ),
    (
        resources({"requests": {"cpu": "-1"}}),
        ['containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
    ),
    (
        resources({"requests": {"gpu": 1}}),
        [
            'containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard '
            "resource type or fully qualified",
            'containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers',
        ],
    ),
    (
        resources({"requests": {"pods": 1}}),
        ['containers[0].resources.requests[pods]: Invalid value: "pods": must be a standard resource for containers'],
    ),
    (
        resources({"limits": {"nvidia.com/gpu": "0.5"}}),
        ['containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer'],
    ),
    (
        resources({"requests": {"nvidia.com/gpu": 1}}),
        ["containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources"],
    ),
    (
        resources({"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}}),
        ['containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2'],
    ),
    (
        resources({"limits": {"requests.x.y/z": 1}}),
        [
            'containers[0].resources.limits[requests.x.y/z]: Invalid value: "requests.x.y/z": '
            "doesn't follow extended resource name standard"
        ],
    ),
    (
        resources({"limits": {"a b": 1}}),
        [
            'containers[0].resources.limits[a b]: Invalid value: "a b": name part must consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
            "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
            'containers[0].resources.limits[a b]: Invalid value: "a b": must be a standard resource for containers',
        ],
    ),
    (
        resources({"requests": {"hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}}),
        ["containers[0].resources: Forbidden: HugePages require cpu or memory"],
    ),
    (
        resources({"requests": {"cpu": 1, "hugepages-2Mi": "3Mi"}, "limits": {"hugepages-2Mi": "3Mi"}}),
        [
            'containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not '
            "positive integer multiple of hugepages-2Mi",
            'containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not '
            "positive integer multiple of hugepages-2Mi",
        ],
    ),
    (resources({"limits": {"cpu": "0.0001"}, "requests": {"cpu": "0.0005"}}), []),
    (
        resources({"claims": [{"name": "a"}]}),
        [
            'containers[0].resources.claims[0]: Not found: "a": must be one of the names in '
            "pod.spec.resourceClaims which is empty"
        ],
    ),
    (
        pod(resourceClaims=[{"name": "a"}]),
        [
            "resourceClaims[0]: Invalid value: "
            '{"Name":"a","ResourceClaimName":null,"ResourceClaimTemplateName":null}: must specify '
            "one of: `resourceClaimName`, `resourceClaimTemplateName`"
        ],
    ),
    (
        pod(resourceClaims=[{"name": "a", "resourceClaimName": "x"}, {"name": "a", "resourceClaimName": "A"}]),
        [
            'resourceClaims[1].name: Duplicate value: "a"',
            'resourceClaims[1].resourceClaimName: Invalid value: "A": a lowercase RFC 1123 '
            "subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'example.com', regex used for "
            "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ],
    ),
    (
        pod(resources={"requests": {"nvidia.com/gpu": 1}}),
        [
            'resources.requests[nvidia.com/gpu]: Unsupported value: "nvidia.com/gpu": supported '
            'values: "cpu", "hugepages-", "memory"',
            "resources.limits: Required value: Limit must be set for non overcommitable resources",
        ],
    ),
    (
        pod(resources={"requests": {"cpu": 2}, "limits": {"cpu": 1}}),
        ['resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
    ),
    (pod(overhead={"cpu": "-1"}), ['overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
]


@pytest.mark.parametrize(("template", "wanted"), CASES)
def test_it_is_said_what_kubernetes_would_say(template: Json, wanted: list[str]) -> None:
    assert problems(template) == wanted
