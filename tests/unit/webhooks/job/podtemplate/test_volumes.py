"""Volumes and their sources. Cases and answers of Kubernetes 1.36."""

import pytest

from scheduler.webhooks.contract import Json
from tests.unit.webhooks.job.podtemplate.templates import problems, volumes

CASES = [
    (volumes(*[{}]), []),
    (
        volumes(*[{"name": "A"}]),
        [
            'volumes[0].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower '
            "case alphanumeric characters or '-', and must start and end with an alphanumeric "
            "character (e.g. 'my-name',  or '123-abc', regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        ],
    ),
    (volumes(*[{"name": ""}]), ["volumes[0].name: Required value"]),
    (volumes(*[{}, {"name": "v0"}]), ['volumes[1].name: Duplicate value: "v0"']),
    (
        volumes(*[{"emptyDir": {}, "secret": {"secretName": "s"}}]),
        ["volumes[0].secret: Forbidden: may not specify more than 1 volume type"],
    ),
    (
        volumes(*[{"emptyDir": {"sizeLimit": "-1"}}]),
        ["volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"],
    ),
    (volumes(*[{"hostPath": {}}]), ["volumes[0].hostPath.path: Required value"]),
    (
        volumes(*[{"hostPath": {"path": "/a/../b", "type": "Nope"}}]),
        [
            "volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            'volumes[0].hostPath.type: Unsupported value: "Nope": supported values: "", '
            '"BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", '
            '"FileOrCreate", "Socket"',
        ],
    ),
    (volumes(*[{"secret": {}}]), ["volumes[0].secret.secretName: Required value"]),
    (
        volumes(*[{"secret": {"secretName": "s", "defaultMode": 512}}]),
        [
            "volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and "
            "0777 (octal), both inclusive"
        ],
    ),
    (
        volumes(*[{"configMap": {"items": [{"key": "", "path": "../x"}]}}]),
        [
            "volumes[0].configMap.name: Required value",
            "volumes[0].configMap.items[0].key: Required value",
            "volumes[0].configMap.items[0].path: Invalid value: \"../x\": must not contain '..'",
        ],
    ),
    (
        volumes(*[{"configMap": {"name": "c", "items": [{"key": "k", "path": "..x", "mode": -1}]}}]),
        [
            "volumes[0].configMap.items[0].path: Invalid value: \"..x\": must not start with '..'",
            "volumes[0].configMap.items[0].mode: Invalid value: -1: must be a number between 0 and "
            "0777 (octal), both inclusive",
        ],
    ),
    (volumes(*[{"persistentVolumeClaim": {}}]), ["volumes[0].persistentVolumeClaim.claimName: Required value"]),
    (
        volumes(*[{"nfs": {"server": "", "path": "p"}}]),
        ["volumes[0].nfs.server: Required value", 'volumes[0].nfs.path: Invalid value: "p": must be an absolute path'],
    ),
    (
        volumes(*[{"downwardAPI": {"items": [{"path": "p"}]}}]),
        ["volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"],
    ),
    (
        volumes(*[{"downwardAPI": {"items": [{"path": "p", "resourceFieldRef": {"resource": "limits.cpu"}}]}}]),
        ["volumes[0].downwardAPI.resourceFieldRef.containerName: Required value"],
    ),
    (
        volumes(
            *[
                {
                    "projected": {
                        "sources": [
                            {"secret": {"name": "a", "items": [{"key": "k", "path": "x"}]}},
                            {"configMap": {"name": "b", "items": [{"key": "k", "path": "x"}]}},
                        ]
                    }
                }
            ]
        ),
        ['volumes[0].projected: Invalid value: "b": conflicting duplicate paths'],
    ),
    (
        volumes(*[{"projected": {"sources": [{"secret": {"name": "a"}, "configMap": {"name": "b"}}]}}]),
        ["volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source"],
    ),
    (
        volumes(*[{"projected": {"sources": [{"serviceAccountToken": {"path": "/t", "expirationSeconds": 5}}]}}]),
        [
            "volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: "
            "5: may not specify a duration less than 10 minutes",
            'volumes[0].projected.path: Invalid value: "/t": must be a relative path',
        ],
    ),
    (volumes(*[{"csi": {"driver": ""}}]), ["volumes[0].csi.driver: Required value"]),
    (
        volumes(*[{"csi": {"driver": "d", "nodePublishSecretRef": {}}}]),
        ["volumes[0].csi.nodePublishSecretRef.name: Required value"],
    ),
    (volumes(*[{"ephemeral": {}}]), ["volumes[0].ephemeral.volumeClaimTemplate: Required value"]),
    (
        volumes(*[{"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]),
        [
            "volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 "
            "access mode is required",
            "volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
        ],
    ),
    (
        volumes(
            *[
                {
                    "ephemeral": {
                        "volumeClaimTemplate": {
                            "spec": {
                                "accessModes": ["ReadWriteOncePod", "ReadWriteMany", "X"],
                                "volumeMode": "X",
                                "resources": {"requests": {"storage": "0"}},
                            }
                        }
                    }
                }
            ]
        ),
        [
            'volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Unsupported value: "X": '
            'supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", '
            '"ReadWriteOncePod"',
            "volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Forbidden: may not use "
            "ReadWriteOncePod with other access modes",
            'volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Invalid value: "0": '
            "must be greater than zero",
            'volumes[0].ephemeral.volumeClaimTemplate.spec.volumeMode: Unsupported value: "X": '
            'supported values: "Block", "Filesystem"',
        ],
    ),
    (
        volumes(*[{"iscsi": {}}]),
        ["volumes[0].iscsi.targetPortal: Required value", "volumes[0].iscsi.iqn: Required value"],
    ),
    (volumes(*[{"cephfs": {}}]), ["volumes[0].cephfs.monitors: Required value"]),
    (
        volumes(*[{"image": {"pullPolicy": "X"}}]),
        ['volumes[0].image.pullPolicy: Unsupported value: "X": supported values: "Always", "IfNotPresent", "Never"'],
    ),
]


@pytest.mark.parametrize(("template", "wanted"), CASES)
def test_it_is_said_what_kubernetes_would_say(template: Json, wanted: list[str]) -> None:
    assert problems(template) == wanted
