"""Probes and hooks. Cases and answers of Kubernetes 1.36."""

import pytest

from scheduler.webhooks.contract import Json
from tests.unit.webhooks.job.podtemplate.templates import container, problems

CASES = [
    (container(livenessProbe={}), ["containers[0].livenessProbe: Required value: must specify a handler type"]),
    (container(livenessProbe={"exec": {}}), ["containers[0].livenessProbe.exec.command: Required value"]),
    (
        container(readinessProbe={"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}),
        ["containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"],
    ),
    (
        container(livenessProbe={"httpGet": {"port": 0}}),
        ["containers[0].livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive"],
    ),
    (
        container(livenessProbe={"httpGet": {"port": "", "scheme": "FTP"}}),
        [
            'containers[0].livenessProbe.httpGet.port: Invalid value: "": must contain only '
            "alpha-numeric characters (a-z, 0-9), and hyphens (-)",
            'containers[0].livenessProbe.httpGet.port: Invalid value: "": must contain at least one letter (a-z)',
            'containers[0].livenessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS"',
        ],
    ),
    (
        container(livenessProbe={"httpGet": {"port": 80, "httpHeaders": [{"name": "a b"}]}}),
        [
            'containers[0].livenessProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP '
            "header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex "
            "used for validation is '[-A-Za-z0-9]+')"
        ],
    ),
    (
        container(startupProbe={"grpc": {"port": 1}, "successThreshold": 2, "periodSeconds": -1}),
        [
            "containers[0].startupProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
            "containers[0].startupProbe.successThreshold: Invalid value: 2: must be 1",
        ],
    ),
    (
        container(readinessProbe={"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 5}),
        [
            "containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must "
            "not be set for readinessProbes"
        ],
    ),
    (
        container(livenessProbe={"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 0}),
        ["containers[0].livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0"],
    ),
    (
        container(lifecycle={"preStop": {"sleep": {"seconds": 31}}}),
        [
            "containers[0].lifecycle.preStop.sleep: Invalid value: 31: must be greater than 0 and "
            "less than terminationGracePeriodSeconds (30). Enable "
            "AllowPodLifecycleSleepActionZeroValue feature gate for zero sleep."
        ],
    ),
    (
        container(lifecycle={"postStart": {}}),
        ["containers[0].lifecycle.postStart: Required value: must specify a handler type"],
    ),
    (
        container(lifecycle={"stopSignal": "SIGTERM"}),
        ["containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"],
    ),
]


@pytest.mark.parametrize(("template", "wanted"), CASES)
def test_it_is_said_what_kubernetes_would_say(template: Json, wanted: list[str]) -> None:
    assert problems(template) == wanted
