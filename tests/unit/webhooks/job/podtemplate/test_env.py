"""Environment variables and what they refer to. Cases and answers of Kubernetes 1.36."""

import pytest

from scheduler.webhooks.contract import Json
from tests.unit.webhooks.job.podtemplate.templates import container, problems

CASES = [
    (container(env=[{"name": ""}]), ["containers[0].env[0].name: Required value"]),
    (
        container(env=[{"name": "1a"}]),
        [
            'containers[0].env[0].name: Invalid value: "1a": a valid environment variable name '
            "must consist of alphabetic characters, digits, '_', '-', or '.', and must not start "
            "with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for "
            "validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')"
        ],
    ),
    (container(env=[{"name": "a.b-c_D"}]), []),
    (container(env=[{"name": ".."}]), ["containers[0].env[0].name: Invalid value: \"..\": must not be '..'"]),
    (
        container(env=[{"name": "A", "valueFrom": {}}]),
        [
            'containers[0].env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, '
            "`resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        ],
    ),
    (
        container(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        ['containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
    ),
    (
        container(
            env=[
                {
                    "name": "A",
                    "valueFrom": {
                        "fieldRef": {"fieldPath": "metadata.name"},
                        "secretKeyRef": {"name": "s", "key": "k"},
                    },
                }
            ]
        ),
        ['containers[0].env[0].valueFrom: Invalid value: "": may not have more than one field specified at a time'],
    ),
    (
        container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": ""}}}]),
        ["containers[0].env[0].valueFrom.fieldRef.fieldPath: Required value"],
    ),
    (
        container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nope"}}}]),
        [
            'containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.nope": error '
            "converting fieldPath: field label not supported: spec.nope"
        ],
    ),
    (
        container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]),
        [
            'containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": '
            'supported values: "metadata.name", "metadata.namespace", "metadata.uid", '
            '"spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", '
            '"status.podIP", "status.podIPs"'
        ],
    ),
    (container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}}]), []),
    (
        container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x['a']"}}}]),
        [
            "containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.x['a']\": "
            "error converting fieldPath: field label does not support subscript: spec.x['a']"
        ],
    ),
    (
        container(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}]),
        [
            "containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "
            '"limits.gpu": supported values: "limits.cpu", "limits.ephemeral-storage", '
            '"limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"'
        ],
    ),
    (
        container(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}]),
        [
            'containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": '
            "only divisor's values 1m and 1 are supported with the cpu resource"
        ],
    ),
    (
        container(
            env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1m"}}}]
        ),
        [
            "containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "
            '"requests.memory": only divisor\'s values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, '
            "1Ti, 1Pi, 1Ei are supported with the memory resource"
        ],
    ),
    (
        container(env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "n", "key": ""}}}]),
        ["containers[0].env[0].valueFrom.configMapKeyRef.key: Required value"],
    ),
    (
        container(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "n", "key": ".."}}}]),
        ["containers[0].env[0].valueFrom.secretKeyRef.key: Invalid value: \"..\": must not be '..'"],
    ),
    (
        container(envFrom=[{}]),
        ['containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`'],
    ),
    (
        container(envFrom=[{"configMapRef": {"name": "a"}, "secretRef": {"name": ""}}]),
        [
            "containers[0].envFrom[0].secretRef.name: Required value",
            'containers[0].envFrom: Invalid value: "": may not have more than one field specified at a time',
        ],
    ),
]


@pytest.mark.parametrize(("template", "wanted"), CASES)
def test_it_is_said_what_kubernetes_would_say(template: Json, wanted: list[str]) -> None:
    assert problems(template) == wanted
