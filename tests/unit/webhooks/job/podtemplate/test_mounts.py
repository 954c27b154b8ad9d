"""Mounts and block devices. Cases and answers of Kubernetes 1.36."""

import pytest

from scheduler.webhooks.contract import Json
from tests.unit.webhooks.job.podtemplate.templates import container, mounting, problems

CASES = [
    (
        container(volumeMounts=[{"name": "nope", "mountPath": "/a"}]),
        ['containers[0].volumeMounts[0].name: Not found: "nope"'],
    ),
    (
        mounting(volumeMounts=[{"name": "v", "mountPath": ""}]),
        ["containers[0].volumeMounts[0].mountPath: Required value"],
    ),
    (
        mounting(volumeMounts=[{"name": "v", "mountPath": "/a"}, {"name": "w", "mountPath": "/a"}]),
        ['containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique'],
    ),
    (
        mounting(volumeMounts=[{"name": "v", "mountPath": "/a", "subPath": "../x"}]),
        ["containers[0].volumeMounts.subPath: Invalid value: \"../x\": must not contain '..'"],
    ),
    (
        mounting(volumeMounts=[{"name": "v", "mountPath": "/a", "subPath": "/x"}]),
        ['containers[0].volumeMounts.subPath: Invalid value: "/x": must be a relative path'],
    ),
    (
        mounting(volumeMounts=[{"name": "v", "mountPath": "/a", "subPath": "x", "subPathExpr": "y"}]),
        [
            'containers[0].volumeMounts[0].subPathExpr: Invalid value: "y": subPathExpr and '
            "subPath are mutually exclusive"
        ],
    ),
    (
        mounting(volumeMounts=[{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}]),
        [
            "containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount "
            "propagation is available only to privileged containers"
        ],
    ),
    (
        mounting(
            securityContext={"privileged": True},
            volumeMounts=[{"name": "v", "mountPath": "/a", "mountPropagation": "Bidirectional"}],
        ),
        [],
    ),
    (
        mounting(volumeMounts=[{"name": "v", "mountPath": "/a", "recursiveReadOnly": "Enabled"}]),
        ["containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"],
    ),
    (
        mounting(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}]),
        [
            'containers[0].volumeDevices[0].name: Invalid value: "v": can only use volume source '
            "type of PersistentVolumeClaim or Ephemeral for block mode"
        ],
    ),
    (
        mounting(volumeDevices=[{"name": "w", "devicePath": "/dev/x"}, {"name": "w", "devicePath": "/dev/x"}]),
        [
            'containers[0].volumeDevices[1].name: Invalid value: "w": must be unique',
            'containers[0].volumeDevices[1].devicePath: Invalid value: "/dev/x": must be unique',
        ],
    ),
    (
        mounting(volumeDevices=[{"name": "w", "devicePath": "/a"}], volumeMounts=[{"name": "w", "mountPath": "/a"}]),
        [
            'containers[0].volumeMounts[0].name: Invalid value: "w": must not already exist in volumeDevices',
            'containers[0].volumeMounts[0].mountPath: Invalid value: "/a": must not already exist '
            "as a path in volumeDevices",
            'containers[0].volumeDevices[0].name: Invalid value: "w": must not already exist in volumeMounts',
            'containers[0].volumeDevices[0].devicePath: Invalid value: "/a": must not already '
            "exist as a path in volumeMounts",
        ],
    ),
]


@pytest.mark.parametrize(("template", "wanted"), CASES)
def test_it_is_said_what_kubernetes_would_say(template: Json, wanted: list[str]) -> None:
    assert problems(template) == wanted
