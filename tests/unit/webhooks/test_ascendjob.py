"""Admission of AscendJobs."""

from typing import Any

import pytest

from scheduler.api.kinds import ACJOB
from scheduler.webhooks.contract import Operation, Request, Settings
from scheduler.webhooks.routes import admit
from tests.unit.controllers.acjob.jobs import acjob, role
from tests.unit.webhooks.clusters import Cluster, queue

VALID = acjob({"Master": role(), "Worker": role(3)}, run_policy={"schedulingPolicy": {"queue": "default"}})


def refusal(new: dict[str, Any], old: dict[str, Any] | None = None) -> str:
    operation = Operation.CREATE if old is None else Operation.UPDATE
    request = Request(operation, ACJOB, "default", "train", new, old or {})
    return admit(request, Cluster(queue("default")), Settings(), ["/ascendjobs/validate"]).refusal


def scheduled(**policy: Any) -> dict[str, Any]:
    return acjob({"Master": role(), "Worker": role(3)}, run_policy={"schedulingPolicy": policy})


def test_a_valid_job_is_admitted() -> None:
    assert refusal(VALID) == ""


@pytest.mark.parametrize(
    ("job", "text"),
    [
        (
            acjob({"Worker": role(2)}),
            "InvalidReplicaType: replicaType is not valid: a pytorch job needs the role ",
        ),
        (scheduled(queue="nowhere"), "InvalidQueue: queue nowhere does not exist"),
        (scheduled(minAvailable=5), "InvalidSpecs: schedulingPolicy.minAvailable is 5, not 1 to the number of Pods, 4"),
        (scheduled(minAvailable=0), "InvalidSpecs: schedulingPolicy.minAvailable is 0, not 1 to the number of Pods, 4"),
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
