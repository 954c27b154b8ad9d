"""The rest of the Pod. Cases and answers of Kubernetes 1.36."""

import pytest

from scheduler.webhooks.contract import Json
from tests.unit.webhooks.job.podtemplate.templates import metadata, pod, problems

CASES = [
    (
        pod(restartPolicy="X"),
        ['restartPolicy: Unsupported value: "X": supported values: "Always", "OnFailure", "Never"'],
    ),
    (
        pod(dnsPolicy="X"),
        [
            'dnsPolicy: Unsupported value: "X": supported values: "ClusterFirstWithHostNet", '
            '"ClusterFirst", "Default", "None"'
        ],
    ),
    (pod(dnsPolicy="None"), ["dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"]),
    (
        pod(dnsPolicy="None", dnsConfig={}),
        ["dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None"],
    ),
    (
        pod(dnsConfig={"nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3", "x"]}),
        [
            'dnsConfig.nameservers: Invalid value: ["1.1.1.1","2.2.2.2","3.3.3.3","x"]: must not '
            "have more than 3 nameservers",
            'dnsConfig.nameservers[3]: Invalid value: "x": must be a valid IP address, (e.g. '
            "10.9.8.7 or 2001:db8::ffff)",
        ],
    ),
    (
        pod(dnsConfig={"nameservers": ["01.2.3.4", "::ffff:1.2.3.4"], "options": [{}]}),
        [
            'dnsConfig.nameservers[0]: Invalid value: "01.2.3.4": must not have leading 0s',
            'dnsConfig.nameservers[1]: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address',
            "dnsConfig.options[0]: Required value: must not be empty",
        ],
    ),
    (
        pod(activeDeadlineSeconds=0),
        ["activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
    ),
    (pod(hostname="a.b"), ['hostname: Invalid value: "a.b": must not contain dots']),
    (
        pod(hostAliases=[{"ip": "x"}]),
        ['hostAliases[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'],
    ),
    (
        pod(preemptionPolicy="X"),
        ['preemptionPolicy: Unsupported value: "X": supported values: "PreemptLowerPriority", "Never"'],
    ),
    (pod(os={"name": "plan9"}), ['os: Unsupported value: "plan9": supported values: "linux", "windows"']),
    (
        pod(hostNetwork=True, containers=[{"name": "c", "image": "x", "ports": [{"containerPort": 1, "hostPort": 2}]}]),
        ["containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true"],
    ),
    (
        pod(hostnameOverride="h", hostNetwork=True),
        ["hostnameOverride: Forbidden: may not be specified when hostNetwork is true"],
    ),
    (
        metadata({"annotations": {"controller.kubernetes.io/pod-deletion-cost": "+1"}}),
        ['annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": must be a 32bit integer'],
    ),
    (
        metadata({"annotations": {"kubernetes.io/config.mirror": "x"}}),
        [
            'annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName '
            "if mirror pod annotation is set"
        ],
    ),
    (
        metadata({"labels": {"a/b/c": "x"}}),
        [
            'labels: Invalid value: "a/b/c": a valid label key must consist of alphanumeric '
            "characters, '-', '_' or '.', and must start and end with an alphanumeric character "
            "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and "
            "'/' (e.g. 'example.com/MyName')"
        ],
    ),
    (
        metadata({"labels": {"/a": "-"}}),
        [
            'labels: Invalid value: "/a": prefix part must be non-empty',
            'labels: Invalid value: "-": a valid label must be an empty string or consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
            "character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ],
    ),
    (
        metadata({"annotations": {"a b": "x"}}),
        [
            'annotations: Invalid value: "a b": name part must consist of alphanumeric characters, '
            "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
            "'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ],
    ),
]


@pytest.mark.parametrize(("template", "wanted"), CASES)
def test_it_is_said_what_kubernetes_would_say(template: Json, wanted: list[str]) -> None:
    assert problems(template) == wanted
