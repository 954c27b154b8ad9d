"""Valid and invalid AscendJobs, and their roles."""

from typing import Any

import pytest

from scheduler.api.acjob import InvalidJobError, roles_of
from tests.unit.controllers.acjob.jobs import acjob, decoded, role

SINGLE = "when scheduler not found, the req num must be 1"


def test_the_leader_comes_first_and_names_of_roles_may_have_any_case() -> None:
    found = roles_of(decoded(acjob({"worker": role(3), "MASTER": role(None)})))
    assert [(each.type, each.replicas, each.chips) for each in found.roles] == [("Master", 1, 8), ("Worker", 3, 8)]
    assert (found.total, found.workers, found.chip_pods) == (4, 3, 4)


def test_workers_follow_a_leader_that_has_chips() -> None:
    found = roles_of(decoded(acjob({"Master": role(), "Worker": role(2)})))
    assert [found.rank(each, i) for each in found.roles for i in range(each.replicas)] == [0, 1, 2]


def test_workers_begin_with_rank_zero_where_the_leader_has_no_chips() -> None:
    found = roles_of(decoded(acjob({"Scheduler": role(chips=0), "Worker": role(2)}, "mindspore")))
    assert [found.rank(each, i) for each in found.roles for i in range(each.replicas)] == [0, 0, 1]


def test_a_mindspore_job_of_one_chip_needs_no_scheduler() -> None:
    assert roles_of(decoded(acjob({"Worker": role(chips=1)}, "mindspore"))).leader is None


@pytest.mark.parametrize("network", ["", "roce", "UBoE"])
def test_a_job_may_choose_its_network_in_any_case(network: str) -> None:
    assert roles_of(decoded(acjob({"Master": role()}, labels={"scaleout-type": network}))).total == 1


def test_a_job_may_have_no_chips_and_no_workers() -> None:
    found = roles_of(decoded(acjob({"Master": role(chips=0), "Worker": role(0, chips=0)})))
    assert (found.total, found.chip_pods) == (1, 0)


NO_CONTAINER = {"template": {"spec": {"containers": [{"name": "other", "image": "x"}]}}}
NO_IMAGE = {"template": {"spec": {"containers": [{"name": "ascend"}]}}}


def named(name: str, job: dict[str, Any]) -> dict[str, Any]:
    return {**job, "metadata": {**job["metadata"], "name": name}}


@pytest.mark.parametrize(
    ("raw", "name"),
    [(acjob({"Master": role()}), "a" * 54), (acjob({"Worker": role(chips=1)}, "mindspore"), f"7b.{'a' * 60}")],
)
def test_a_name_may_be_as_long_as_the_objects_of_the_job_allow(raw: dict[str, Any], name: str) -> None:
    assert roles_of(decoded(named(name, raw))).total == 1


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (acjob({}), "InvalidSpecs: replicaSpecs is empty"),
        (acjob({"Master": role()}, "caffe"), "InvalidFramework: label framework=caffe is none of mindspore, "),
        (acjob({"Master": role()}, successPolicy="Some"), "InvalidSuccessPolicy: "),
        (
            acjob({"Master": role()}, labels={"scaleout-type": "IB"}),
            "InvalidScaleOutConfig: the value of label scaleout",
        ),
        (acjob({"Chief": role()}), "InvalidReplicaType: replicaType is Chief but must be one of Master, Worker"),
        (acjob({"Master": role(), "master": role()}), "InvalidReplicaType: a role is given twice"),
        (acjob({"Master": role(0)}), "InvalidReplicaSpec: replicas of Master is 0, it must be only 1"),
        (acjob({"Master": role(2)}), "InvalidReplicaSpec: replicas of Master is 2, it must be only 1"),
        (acjob({"Master": role(), "Worker": role(-1)}), "InvalidReplicaSpec: Worker has -1 replicas, not 0 to 20000"),
        (
            acjob({"Worker": role(0, chips=1)}, "mindspore"),
            "InvalidReplicaSpec: replicaSpec is not valid: the job has ",
        ),
        (acjob({"Worker": role(2)}), "InvalidReplicaType: replicaType is not valid: a pytorch job needs the role Mast"),
        (acjob({"Worker": role(chips=4)}, "mindspore"), f"InvalidReplicaSpec: replicaSpec is not valid: {SINGLE}"),
        (acjob({"Master": NO_CONTAINER}), "InvalidContainer: there is no container named ascend in Master"),
        (acjob({"Master": NO_IMAGE}), "InvalidContainer: a container of Master has no image"),
        (acjob({"Master": {"template": {"spec": {"containers": 5}}}}), "InvalidContainer: Master: template.spec: "),
        (
            named("a" * 55, acjob({"Master": role()})),
            f"InvalidSpecs: metadata.name has 55 characters; for its Service {'a' * 55}-master-0 it can have 54",
        ),
        (
            named("a" * 64, acjob({"Worker": role(chips=1)}, "mindspore")),
            "InvalidSpecs: metadata.name has 64 characters; for a label of its Pods it can have 63",
        ),
        (named("7b.v2", acjob({"Master": role()})), "InvalidSpecs: metadata.name is 7b.v2: its Service 7b.v2-master-0"),
    ],
)
def test_an_invalid_job_is_refused_with_a_reason(raw: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJobError) as refused:
        roles_of(decoded(raw))
    assert str(refused.value).startswith(message)
