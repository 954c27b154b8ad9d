"""Containers: names, images, ports, restarts. Cases and answers of Kubernetes 1.36."""

import pytest

from scheduler.webhooks.contract import Json
from tests.unit.webhooks.job.podtemplate.templates import container, pod, problems

CASES = [
    (
        container(name="A.b"),
        [
            'containers[0].name: Invalid value: "A.b": a lowercase RFC 1123 label must consist of '
            "lower case alphanumeric characters or '-', and must start and end with an "
            "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        ],
    ),
    (container(name="a.b"), ['containers[0].name: Invalid value: "a.b": must not contain dots']),
    (container(name=""), ["containers[0].name: Required value"]),
    (container(image=""), ["containers[0].image: Required value"]),
    (
        pod(containers=[{"name": "c", "image": "x"}, {"name": "c", "image": "x"}]),
        ['containers[1].name: Duplicate value: "c"'],
    ),
    (pod(initContainers=[{"name": "c", "image": "x"}]), ['initContainers[0].name: Duplicate value: "c"']),
    (
        pod(initContainers=[{"name": "i", "image": "x", "livenessProbe": {"exec": {"command": ["a"]}}}]),
        ["initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always"],
    ),
    (
        pod(
            initContainers=[
                {"name": "i", "image": "x", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["a"]}}}
            ]
        ),
        [],
    ),
    (
        pod(initContainers=[{"name": "i", "image": "x", "restartPolicy": "Never"}]),
        ['initContainers[0].restartPolicy: Unsupported value: "Never": supported values: "Always"'],
    ),
    (
        pod(ephemeralContainers=[{"name": "e", "image": "x"}]),
        ["ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"],
    ),
    (
        container(restartPolicy="Always"),
        ["containers[0].restartPolicy: Forbidden: may not be set for non-init containers"],
    ),
    (
        container(imagePullPolicy="Sometimes"),
        [
            'containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: '
            '"Always", "IfNotPresent", "Never"'
        ],
    ),
    (
        container(terminationMessagePolicy="Nope"),
        [
            'containers[0].terminationMessagePolicy: Unsupported value: "Nope": supported values: '
            '"File", "FallbackToLogsOnError"'
        ],
    ),
    (
        container(ports=[{"containerPort": 0}, {"containerPort": 65536}, {"containerPort": 1, "hostPort": -1}]),
        [
            "containers[0].ports[0].containerPort: Required value",
            "containers[0].ports[1].containerPort: Invalid value: 65536: must be between 1 and 65535, inclusive",
            "containers[0].ports[2].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
        ],
    ),
    (
        container(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]),
        ['containers[0].ports[1].name: Duplicate value: "a"'],
    ),
    (
        container(ports=[{"containerPort": 1, "name": "-A--b-long-long-long"}]),
        [
            'containers[0].ports[0].name: Invalid value: "-A--b-long-long-long": must be no more than 15 characters',
            'containers[0].ports[0].name: Invalid value: "-A--b-long-long-long": must contain only '
            "alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            'containers[0].ports[0].name: Invalid value: "-A--b-long-long-long": must not contain consecutive hyphens',
            'containers[0].ports[0].name: Invalid value: "-A--b-long-long-long": must not begin or end with a hyphen',
        ],
    ),
    (
        container(ports=[{"containerPort": 1, "name": "80"}]),
        ['containers[0].ports[0].name: Invalid value: "80": must contain at least one letter (a-z)'],
    ),
    (
        container(ports=[{"containerPort": 1, "protocol": "tcp"}]),
        ['containers[0].ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"'],
    ),
    (
        pod(
            containers=[
                {"name": "c", "image": "x", "ports": [{"containerPort": 1, "hostPort": 5}]},
                {"name": "d", "image": "x", "ports": [{"containerPort": 2, "hostPort": 5}]},
            ]
        ),
        ['containers[1].ports[0].hostPort: Duplicate value: "TCP//5"'],
    ),
    (
        container(resizePolicy=[{"resourceName": "gpu", "restartPolicy": "NotRequired"}]),
        ['containers[0].resizePolicy: Unsupported value: "gpu": supported values: "cpu", "memory"'],
    ),
]


@pytest.mark.parametrize(("template", "wanted"), CASES)
def test_it_is_said_what_kubernetes_would_say(template: Json, wanted: list[str]) -> None:
    assert problems(template) == wanted
