"""A tenant with the ClusterRole `edit` in one namespace submits jobs with key pairs whose Secrets cannot be created.
The jobs of another tenant start meanwhile."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controlplane.run import ControlPlane
from tests.integration.rights import account
from tests.integration.stage import GROUPS, Namespace, running
from tests.integration.tenant import tenant

pytestmark = pytest.mark.controlplane

BATCH = "/apis/batch.volcano.sh/v1alpha1"
JOBS = 200


def vcjob(name: str, queue: str, ssh: list[str]) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "volcano-py",
            "minAvailable": 1,
            "queue": queue,
            "plugins": {"ssh": ssh},
            "tasks": [{"name": "w", "replicas": 1, "template": template}],
        },
    }


def test_keys_whose_secrets_a_quota_forbids_hold_up_no_other_tenant(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    stage, victim = Namespace(control_plane), Namespace(control_plane)
    attacker = tenant(control_plane, stage.name)
    queue = {"metadata": {"name": stage.name}, "spec": {"weight": 1}}
    victim.api.create(f"{GROUPS}/queues", {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", **queue})
    forbid_secrets(stage)
    for number in range(JOBS):
        job = vcjob(f"ssh-{number}", stage.name, ["--ssh-key-type=rsa"])
        attacker.create(f"{BATCH}/namespaces/{stage.name}/jobs", job)
    with running("controllers", account(control_plane, "controllers"), tmp_path, "--leader-elect=false") as controllers:
        for number in range(3):
            victim.api.create(f"{BATCH}/namespaces/{victim.name}/jobs", vcjob(f"train-{number}", stage.name, []))
            victim.wait(partial(has_group, victim, f"train-{number}-"))
        attacker_has = stage.api.get(f"{stage.path}/secrets")["items"]
        assert (groups(stage), attacker_has) == ([], [])
        secrets = victim.api.get(f"{victim.path}/secrets")["items"]
        assert sorted(secret["metadata"]["name"] for secret in secrets) == [f"train-{n}-ssh" for n in range(3)]
        assert controllers.process.poll() is None


def forbid_secrets(stage: Namespace) -> None:
    """Makes the API server refuse each Secret in the namespace. It compares with the status of a quota."""
    hard = {"count/secrets": "0"}
    quota = f"{stage.path}/resourcequotas"
    stage.api.create(quota, {"metadata": {"name": "no-secrets"}, "spec": {"hard": hard}})
    stage.api.patch(f"{quota}/no-secrets/status", {"status": {"hard": hard, "used": {"count/secrets": "0"}}})


def groups(stage: Namespace) -> list[str]:
    """The names of the PodGroups."""
    found = stage.api.get(f"{GROUPS}/namespaces/{stage.name}/podgroups")["items"]
    return [each["metadata"]["name"] for each in found]


def has_group(stage: Namespace, prefix: str) -> bool:
    return any(name.startswith(prefix) for name in groups(stage))
