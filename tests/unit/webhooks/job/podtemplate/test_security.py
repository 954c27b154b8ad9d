"""Security contexts. Cases and answers of Kubernetes 1.36."""

import pytest

from scheduler.webhooks.contract import Json
from tests.unit.webhooks.job.podtemplate.templates import container, pod, problems

CASES = [
    (
        container(securityContext={"runAsUser": -1, "runAsGroup": 2147483648}),
        [
            "containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            "containers[0].securityContext.runAsGroup: Invalid value: 2147483648: must be between "
            "0 and 2147483647, inclusive",
        ],
    ),
    (
        container(securityContext={"procMount": "X"}),
        ['containers[0].securityContext.procMount: Unsupported value: "X": supported values: "Default", "Unmasked"'],
    ),
    (
        container(securityContext={"procMount": "Unmasked"}),
        [
            'containers[0].securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must '
            "be false to use `Unmasked`"
        ],
    ),
    (
        container(securityContext={"seccompProfile": {}}),
        [
            "containers[0].securityContext.seccompProfile.type: Required value: type is required "
            "when seccompProfile is set"
        ],
    ),
    (
        container(securityContext={"seccompProfile": {"type": "Localhost"}}),
        [
            "containers[0].securityContext.seccompProfile.localhostProfile: Required value: must "
            "be set when seccomp type is Localhost"
        ],
    ),
    (
        container(securityContext={"seccompProfile": {"type": "Unconfined", "localhostProfile": "p"}}),
        [
            "containers[0].securityContext.seccompProfile.localhostProfile: Invalid value: "
            '{"Type":"Unconfined","LocalhostProfile":"p"}: can only be set when seccomp type is '
            "Localhost"
        ],
    ),
    (
        container(securityContext={"appArmorProfile": {"type": "Localhost", "localhostProfile": " p"}}),
        [
            'containers[0].securityContext.appArmorProfile.localhostProfile: Invalid value: " p": '
            "must not be padded with whitespace"
        ],
    ),
    (
        container(securityContext={"appArmorProfile": {"type": "X"}}),
        [
            'containers[0].securityContext.appArmorProfile.type: Unsupported value: "X": supported '
            'values: "Localhost", "RuntimeDefault", "Unconfined"'
        ],
    ),
    (
        pod(securityContext={"fsGroup": -1, "supplementalGroups": [-1], "fsGroupChangePolicy": "X"}),
        [
            "securityContext.fsGroup: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            "securityContext.supplementalGroups[0]: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            'securityContext.fsGroupChangePolicy: Unsupported value: "X": supported values: "Always", "OnRootMismatch"',
        ],
    ),
    (
        pod(hostPID=True, shareProcessNamespace=True),
        [
            "securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and "
            "HostPID cannot both be enabled"
        ],
    ),
    (
        pod(securityContext={"sysctls": [{"name": "A"}, {"name": "net.x"}, {"name": "net.x"}, {"name": ""}]}),
        [
            'securityContext.sysctls[0].name: Invalid value: "A": must have at most 253 characters '
            "and match regex "
            "^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
            'securityContext.sysctls[2].name: Duplicate value: "net.x"',
            "securityContext.sysctls[3].name: Required value",
        ],
    ),
    (
        pod(hostNetwork=True, securityContext={"sysctls": [{"name": "net/x"}]}),
        ["securityContext.sysctls[0].name: Invalid value: \"net/x\": may not be specified when 'hostNetwork' is true"],
    ),
    (
        pod(hostIPC=True, securityContext={"sysctls": [{"name": "kernel.shmmax"}]}),
        [
            'securityContext.sysctls[0].name: Invalid value: "kernel.shmmax": may not be specified '
            "when 'hostIPC' is true"
        ],
    ),
    (
        pod(hostUsers=False, hostNetwork=True, hostPID=True),
        ["hostNetwork: Forbidden: when `hostUsers` is false", "HostPID: Forbidden: when `hostUsers` is false"],
    ),
]


@pytest.mark.parametrize(("template", "wanted"), CASES)
def test_it_is_said_what_kubernetes_would_say(template: Json, wanted: list[str]) -> None:
    assert problems(template) == wanted
