"""Admission of AscendJobs."""

import json
from typing import Any

import pytest

from scheduler.api.kinds import ACJOB
from scheduler.webhooks.ascendjob import validate
from scheduler.webhooks.contract import AdmissionRequest, Operation, ValidationResult, WebhookSettings
from scheduler.webhooks.routes import admit
from tests.unit.controllers.acjob.jobs import acjob, role
from tests.unit.webhooks.clusters import Cluster, queue

VALID = acjob({"Master": role(), "Worker": role(3)}, run_policy={"schedulingPolicy": {"queue": "default"}})


def refusal(new: dict[str, Any], old: dict[str, Any] | None = None) -> str:
    operation = Operation.CREATE if old is None else Operation.UPDATE
    request = AdmissionRequest(operation, ACJOB, "default", "train", new, old or {})
    return admit(request, Cluster(queue("default")), WebhookSettings(), ["/ascendjobs/validate"]).refusal


def scheduled(**policy: Any) -> dict[str, Any]:
    return acjob({"Master": role(), "Worker": role(3)}, run_policy={"schedulingPolicy": policy})


def running(**policy: Any) -> dict[str, Any]:
    return acjob({"Master": role()}, run_policy=policy)


def test_a_valid_job_is_admitted() -> None:
    assert refusal(VALID) == ""
    assert refusal(running(ttlSecondsAfterFinished=0, backoffLimit=-1, cleanPodPolicy="None", suspend=True)) == ""


def test_a_job_may_be_scaled_unless_it_would_have_fewer_pods_than_it_needs() -> None:
    def scaled(workers: int, master: int = 1) -> dict[str, Any]:
        policy = {"schedulingPolicy": {"minAvailable": 3}}
        return acjob({"Master": role(master), "Worker": role(workers)}, run_policy=policy)

    assert refusal(scaled(5), scaled(3)) == ""
    assert refusal(scaled(2), scaled(3)) == ""
    assert "minAvailable is 3, not 1 to the number of Pods, 2" in refusal(scaled(1), scaled(3))
    assert "replicas of Master is 2, it must be only 1" in refusal(scaled(3, master=2), scaled(3))


def test_the_api_server_validates_the_templates_of_the_roles_with_the_restart_policy_that_pods_get() -> None:
    master = role(restartPolicy="ExitCode") | {"restartPolicy": "ExitCode"}
    job = acjob({"Master": master, "Worker": role(3)})
    request = AdmissionRequest(Operation.CREATE, ACJOB, "default", "train", job, {})
    found = validate(request, Cluster(), WebhookSettings())
    assert isinstance(found, ValidationResult)
    assert [json.loads(template)["spec"]["restartPolicy"] for template in found.templates] == ["Never"]
    missing = "template.spec.containers[0].image: Required value. "
    assert found.text([missing]) == f"spec.replicaSpecs[Master].{missing}spec.replicaSpecs[Worker].{missing}".strip()
    assert found.field_of(0) == "spec.replicaSpecs[Master]"


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (
            acjob({"Worker": role(2)}),
            "InvalidReplicaType: replicaType is not valid: a pytorch job needs the role ",
        ),
        (
            acjob({"Master": role()}, labels={"mind-cluster/scaling-rule": "rule", "jobID": "service"}),
            "InvalidScalingConfig: job train has no group name, please set label of mind-cluster/group-name=<the group",
        ),
        (
            acjob({"Master": role()}, labels={"mind-cluster/scaling-rule": "rule", "mind-cluster/group-name": "g"}),
            "InvalidScalingConfig: job train has no jobID, please set label of jobID=<the jobID of job>",
        ),
        (scheduled(queue="nowhere"), "InvalidQueue: queue nowhere does not exist"),
        (scheduled(minAvailable=5), "InvalidSpecs: schedulingPolicy.minAvailable is 5, not 1 to the number of Pods, 4"),
        (scheduled(minAvailable=0), "InvalidSpecs: schedulingPolicy.minAvailable is 0, not 1 to the number of Pods, 4"),
        (running(ttlSecondsAfterFinished=-1), "InvalidSpecs: runPolicy.ttlSecondsAfterFinished is -1, less than 0"),
        (running(activeDeadlineSeconds=0), "InvalidSpecs: runPolicy.activeDeadlineSeconds is 0, less than 1"),
        (
            running(cleanPodPolicy="Some"),
            "InvalidSpecs: runPolicy.cleanPodPolicy is 'Some', none of All, Running, None",
        ),
        (
            acjob({"Master": role() | {"restartPolicy": "Seldom"}}),
            "InvalidReplicaSpec: restartPolicy of Master is 'Seldom', none of Always, OnFailure, Never, ExitCode",
        ),
        (acjob({"Master": role(nodeName="\ud800")}), "InvalidReplicaSpec: template of Master: "),
    ],
)
def test_an_invalid_job_is_refused_with_the_reason(job: dict[str, Any], text: str) -> None:
    assert text in refusal(job)


def test_a_scheduling_policy_need_not_name_a_queue() -> None:
    assert refusal(scheduled(minAvailable=4)) == ""


def test_other_changes_of_a_stored_invalid_job_pass() -> None:
    invalid = acjob({"Worker": role(2)})
    changed = {**invalid, "metadata": {**invalid["metadata"], "finalizers": []}}
    assert refusal(changed, invalid) == ""
    assert refusal(acjob({"Worker": role(3)}), invalid)
