"""A hot switch from end to end in memory: the scheduler places the backup of a Pod with a sub-healthy chip, and deletes
the Pod once ClusterD, which the tests play, requests it."""

import json

from scheduler.api.kinds import POD
from tests.builders import NAME
from tests.unit.controllers.acjob.jobs import acjob, role
from tests.unit.plugins.ascend.rescheduling.faulty import Cluster

SUB_HEALTH = json.dumps([{"npu_name": "Ascend910-2", "fault_handling": "SubHealthFault", "fault_code": "1"}])
OLD = "train-worker-0"
LABELS = {"subHealthyStrategy": "hotSwitch", "fault-scheduling": "force", "fault-retry-times": "3"}


def annotate(cluster: Cluster, pod: str, **annotations: str) -> None:
    assert cluster.server.patch(POD, "default", pod, {"metadata": {"annotations": annotations}})


def sub_healthy() -> tuple[Cluster, str]:
    """A job of a master and a worker runs, and a chip of the worker is sub-healthy. Returns the worker's node too."""
    cluster = Cluster(acjob({"Master": role(), "Worker": role()}, labels=LABELS, schedulerName=NAME)).run(12)
    assert sorted(cluster.placed()) == ["train-master-0", OLD]
    node = cluster.placed()[OLD]
    cluster.chips(node, Fault=SUB_HEALTH)
    return cluster.run(6), node


def switching() -> tuple[Cluster, str]:
    """The backup runs. Returns its name too."""
    cluster, node = sub_healthy()
    annotate(cluster, OLD, inHotSwitchFlow="true", needOperatorOpe="create")
    cluster.run(12)
    (backup,) = cluster.placed().keys() - {"train-master-0", OLD}
    assert cluster.placed()[backup] not in (node, cluster.placed()["train-master-0"])
    return cluster, backup


def test_a_sub_healthy_pod_runs_until_its_backup_has_its_place() -> None:
    cluster, backup = switching()
    before = cluster.uids()
    assert cluster.evicted() == {}
    annotate(cluster, OLD, needVolcanoOpe="delete")
    cluster.run(12)
    assert cluster.evicted() == {OLD: 0}
    assert cluster.uids() == {name: uid for name, uid in before.items() if name != OLD}
    assert cluster.ranks() == {"train-master-0": "0", backup: "1"}


def test_the_pod_is_deleted_also_if_only_its_label_reports_the_fault() -> None:
    """The fault may be known to ClusterD alone, which labels the Pod whose deletion it requests."""
    cluster, backup = switching()
    cluster.chips(cluster.placed()[OLD])
    cluster.run(2)
    cluster.label(OLD, fault_type="SubHealth")
    cluster.run(4)
    assert cluster.evicted() == {}
    annotate(cluster, OLD, needVolcanoOpe="delete")
    cluster.run(12)
    assert sorted(cluster.placed()) == ["train-master-0", backup]


def test_the_whole_job_restarts_when_clusterd_gives_up_and_no_backup_remains() -> None:
    cluster, backup = switching()
    annotate(cluster, backup, needOperatorOpe="delete")
    cluster.run(4)
    cluster.label("train-master-0", fault_type="SubHealth")
    annotate(cluster, "train-master-0", needVolcanoOpe="delete")
    before = cluster.uids()
    cluster.run(20)
    assert sorted(cluster.placed()) == ["train-master-0", OLD]
    assert not {*before.values()} & {*cluster.uids().values()}
    assert cluster.ranks() == {"train-master-0": "0", OLD: "1"}
