"""Affinity, tolerations, spreading and gates. Cases and answers of Kubernetes 1.36."""

import pytest

from scheduler.webhooks.contract import Json
from tests.unit.webhooks.job.podtemplate.templates import node_term, pod, problems

CASES = [
    (
        pod(tolerations=[{"operator": "Equal"}]),
        [
            'tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` '
            'is empty, which means "match all values and all keys"'
        ],
    ),
    (
        pod(tolerations=[{"key": "a b", "operator": "Exists"}]),
        [
            'tolerations[0].key: Invalid value: "a b": name part must consist of alphanumeric '
            "characters, '-', '_' or '.', and must start and end with an alphanumeric character "
            "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ],
    ),
    (
        pod(tolerations=[{"key": "a", "operator": "Exists", "value": "x"}]),
        ["tolerations[0].operator: Invalid value: \"x\": value must be empty when `operator` is 'Exists'"],
    ),
    (
        pod(tolerations=[{"key": "a", "operator": "Nope"}]),
        ['tolerations[0].operator: Unsupported value: "Nope": supported values: "Equal", "Exists"'],
    ),
    (
        pod(tolerations=[{"key": "a", "operator": "Gt", "value": "1"}]),
        ['tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"'],
    ),
    (
        pod(tolerations=[{"key": "a", "effect": "Nope"}]),
        [
            'tolerations[0].effect: Unsupported value: "Nope": supported values: "NoSchedule", '
            '"PreferNoSchedule", "NoExecute"'
        ],
    ),
    (
        pod(tolerations=[{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}]),
        [
            "tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when "
            "`tolerationSeconds` is set"
        ],
    ),
    (
        pod(nodeSelector={"k": "a b"}),
        [
            'nodeSelector: Invalid value: "a b": a valid label must be an empty string or consist '
            "of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
            "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        ],
    ),
    (
        pod(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}),
        ["affinity.nodeAffinity.required....terms: Required value: must have at least one node selector term"],
    ),
    (
        node_term({"key": "k", "operator": "In"}),
        [
            "affinity.nodeAffinity.required....terms[0].matchExpressions[0].values: Required "
            "value: must be specified when `operator` is 'In' or 'NotIn'"
        ],
    ),
    (
        node_term({"key": "k", "operator": "Exists", "values": ["a"]}),
        [
            "affinity.nodeAffinity.required....terms[0].matchExpressions[0].values: Forbidden: may "
            "not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        ],
    ),
    (
        node_term({"key": "k", "operator": "Gt", "values": ["1", "2"]}),
        [
            "affinity.nodeAffinity.required....terms[0].matchExpressions[0].values: Required "
            "value: must be specified single value when `operator` is 'Lt' or 'Gt'"
        ],
    ),
    (
        node_term({"key": "", "operator": "Exists"}),
        [
            "affinity.nodeAffinity.required....terms[0].matchExpressions[0].key: Invalid value: "
            '"": name part must be non-empty',
            "affinity.nodeAffinity.required....terms[0].matchExpressions[0].key: Invalid value: "
            "\"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must "
            "start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
            "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ],
    ),
    (
        node_term({"key": "k", "operator": "Nope"}),
        [
            "affinity.nodeAffinity.required....terms[0].matchExpressions[0].operator: Invalid "
            'value: "Nope": not a valid selector operator'
        ],
    ),
    (
        pod(
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 0, "preference": {"matchFields": [{"key": "x", "operator": "Exists"}]}}
                    ]
                }
            }
        ),
        [
            "affinity.nodeAffinity.preferred...[0].weight: Invalid value: 0: must be in the range 1-100",
            "affinity.nodeAffinity.preferred...[0].preference.matchFields[0].operator: Invalid "
            'value: "Exists": not a valid selector operator',
            "affinity.nodeAffinity.preferred...[0].preference.matchFields[0].key: Invalid value: "
            '"x": not a valid field selector key',
        ],
    ),
    (
        pod(
            affinity={
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "", "namespaces": ["A.b"]}]
                }
            }
        ),
        [
            'affinity.podAffinity.required...[0].namespace: Invalid value: "A.b": a lowercase RFC '
            "1123 label must consist of lower case alphanumeric characters or '-', and must start "
            "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for "
            "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            "affinity.podAffinity.required...[0].topologyKey: Required value: can not be empty",
            'affinity.podAffinity.required...[0].topologyKey: Invalid value: "": name part must be non-empty',
            'affinity.podAffinity.required...[0].topologyKey: Invalid value: "": name part must '
            "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
            "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ],
    ),
    (
        pod(
            affinity={
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 101, "podAffinityTerm": {"topologyKey": "t", "matchLabelKeys": ["a"]}}
                    ]
                }
            }
        ),
        [
            "affinity.podAntiAffinity.preferred...[0].weight: Invalid value: 101: must be in the range 1-100",
            "affinity.podAntiAffinity.preferred...[0].podAffinityTerm.matchLabelKeys: Forbidden: "
            "must not be specified when labelSelector is not set",
        ],
    ),
    (
        pod(topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}]),
        [
            "topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            "topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
            'topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "X": supported '
            'values: "DoNotSchedule", "ScheduleAnyway"',
        ],
    ),
    (
        pod(
            topologySpreadConstraints=[
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1},
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway", "nodeTaintsPolicy": "X"},
            ]
        ),
        [
            'topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, ScheduleAnyway}"',
            "topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if "
            "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            'topologySpreadConstraints[1].nodeTaintsPolicy: Unsupported value: "X": supported '
            'values: "Honor", "Ignore"',
        ],
    ),
    (pod(schedulingGates=[{"name": "a"}, {"name": "a"}]), ['schedulingGates[1]: Duplicate value: "a"']),
]


@pytest.mark.parametrize(("template", "wanted"), CASES)
def test_it_is_said_what_kubernetes_would_say(template: Json, wanted: list[str]) -> None:
    assert problems(template) == wanted
