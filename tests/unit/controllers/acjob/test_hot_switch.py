"""Hot switches of AscendJobs: a backup Pod is created, and replaces a Pod.

ClusterD requests the steps with annotations; the tests write these annotations.
"""

import json
from typing import Any

import msgspec
import pytest

from scheduler.api.acjob import AscendJob, roles_of
from scheduler.api.kinds import ACJOB, CONFIG_MAP, POD, POD_GROUP
from scheduler.api.objects import Pod
from scheduler.controllers.acjob import AscendJobController
from scheduler.controllers.acjob.hot_switch import next_steps, places
from scheduler.controllers.effects import Create, Delete, Effect, Patch
from scheduler.controllers.ranktable import RankTableController
from tests.unit.controllers.acjob.jobs import acjob, decoded, role
from tests.unit.controllers.acjob.killable import KillableControllers
from tests.unit.controllers.clusters import Controlled

Raw = dict[str, Any]
OLD = "train-worker-1"
HOT = {"subHealthyStrategy": "hotSwitch"}
REQUEST = {"inHotSwitchFlow": "true", "needOperatorOpe": "create"}
GROUP = "train-uid-train"


class World(Controlled):
    """A running job of a master and two workers."""

    def __init__(self) -> None:
        super().__init__(lambda store: [AscendJobController(store, ("volcano",)), RankTableController(store)])
        self.create(acjob({"Master": role(), "Worker": role(2)}, labels=HOT))
        self.patch(POD_GROUP, GROUP, {"status": {"phase": "Inqueue"}})
        for number, name in enumerate(sorted(self.pods())):
            self.run(name, f"node-{number}")

    def pods(self) -> dict[str, Raw]:
        return {raw["metadata"]["name"]: raw for raw in self.cluster.server.of(POD)}

    def wait(self, seconds: int) -> None:
        """The controllers have a turn in each second."""
        for _ in range(seconds):
            super().wait(1)

    def run(self, name: str, node: str) -> None:
        self.patch(POD, name, {"spec": {"nodeName": node}, "status": {"phase": "Running", "podIP": "10.9.0.1"}})
        self.wait(5)

    def annotate(self, name: str, **annotations: str | None) -> None:
        self.patch(POD, name, {"metadata": {"annotations": annotations}})
        self.wait(5)

    def remove(self, name: str) -> None:
        """The Pod is deleted, and its kubelet has stopped it."""
        assert self.cluster.server.delete(POD, "default", name, force=True)
        self.wait(5)

    def backup(self) -> str:
        """The name of the Pod that is not as the job names it."""
        (name,) = (name for name in self.pods() if "-hot-" in name)
        return name

    def annotations(self, name: str) -> dict[str, str]:
        """The annotations of a Pod about hot switches."""
        found = self.pods()[name]["metadata"]["annotations"]
        marks = ("needOperatorOpe", "inHotSwitchFlow", "backupNewPodName", "backupSourcePodName", "podType")
        return {key: found[key] for key in marks if key in found}

    def switching(self) -> str:
        """Lets ClusterD request a backup, and the backup run. Returns its name."""
        self.annotate(OLD, **REQUEST)
        name = self.backup()
        self.run(name, "node-9")
        return name

    def status(self) -> Raw:
        raw = self.find(ACJOB, "train")
        assert raw is not None
        status: Raw = raw["status"]
        return status

    def restarts(self) -> str | None:
        group = self.find(POD_GROUP, GROUP)
        assert group is not None
        restarts: str | None = (group["metadata"].get("annotations") or {}).get("volcano-py/restarts")
        return restarts


# --- the backup ---
def test_a_requested_backup_has_the_identity_of_its_pod_and_avoids_its_node() -> None:
    world = World()
    world.annotate(OLD, **REQUEST)
    name = world.backup()
    old, new = world.pods()[OLD], world.pods()[name]
    assert name.startswith("train-worker-1-hot-") and len(name) == len("train-worker-1-hot-0000")
    assert new["metadata"]["labels"] == old["metadata"]["labels"]
    assert new["metadata"]["annotations"]["hccl/rankIndex"] == old["metadata"]["annotations"]["hccl/rankIndex"] == "2"
    assert new["spec"]["containers"] == old["spec"]["containers"]
    assert world.annotations(name) == {
        "inHotSwitchFlow": "true",
        "podType": "backup",
        "backupSourcePodName": OLD,
    }
    assert world.annotations(OLD) == {"inHotSwitchFlow": "true", "backupNewPodName": name}
    terms = new["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    node = old["spec"]["nodeName"]
    excluded = {"key": "metadata.name", "operator": "NotIn", "values": [node]}
    assert terms == {"nodeSelectorTerms": [{"matchFields": [excluded]}]}
    assert ("AscendJob", "train", "Normal", "HotSwitch", f"Pod {name} is created as the backup of Pod {OLD}.") in (
        world.events()
    )


def test_each_term_of_a_node_affinity_excludes_the_node_and_an_empty_one_stays() -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    zone = {"key": "zone", "operator": "In", "values": ["x"]}
    terms: list[Raw] = [{"matchExpressions": [zone]}, {}]
    affinity = {"podAffinity": {}, "nodeAffinity": {required: {"nodeSelectorTerms": terms}}}
    job = acjob({"Master": role(), "Worker": role(2, affinity=affinity)}, labels=HOT)
    (created,) = (each for each in effects(job, old=REQUEST) if isinstance(each, Create))
    excluded = {"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}
    given = created.manifest["spec"]["affinity"]
    assert given["podAffinity"] == {}
    assert given["nodeAffinity"][required]["nodeSelectorTerms"] == [
        {"matchExpressions": [zone], "matchFields": [excluded]},
        {},
    ]


def test_a_backup_does_not_count_as_a_pod_of_the_job() -> None:
    world = World()
    name = world.switching()
    assert world.status()["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {"active": 2}}
    world.patch(POD, name, {"status": {"phase": "Failed"}})
    world.wait(5)
    assert world.status()["conditions"][-1]["type"] == "Running"


def test_the_leader_gets_no_backup() -> None:
    world = World()
    world.annotate("train-master-0", **REQUEST)
    assert sorted(world.pods()) == ["train-master-0", "train-worker-0", OLD]
    assert world.annotations("train-master-0") == {}
    text = "Pod train-master-0 gets no backup: it leads the job, and the Service of the job would select both."
    assert ("AscendJob", "train", "Warning", "HotSwitch", text) in world.events()


# --- the switch ---
def test_a_backup_takes_the_place_of_its_pod_when_that_is_gone() -> None:
    world = World()
    name = world.switching()
    world.remove(OLD)
    assert sorted(world.pods()) == ["train-master-0", "train-worker-0", name]
    assert world.annotations(name) == {"inHotSwitchFlow": "true"}
    assert world.status()["replicaStatuses"] == {"Master": {"active": 1}, "Worker": {"active": 2}}
    assert world.restarts() is None
    assert "Restarting" not in [each["type"] for each in world.status()["conditions"]]


def test_a_backup_waits_while_its_pod_terminates() -> None:
    world = World()
    name = world.switching()
    world.cluster.server.delete(POD, "default", OLD)
    world.settle()
    assert world.pods()[OLD]["metadata"]["deletionTimestamp"]
    assert world.annotations(name)["podType"] == "backup"


def test_a_pod_that_took_a_place_is_replaced_by_one_of_the_usual_name() -> None:
    world = World()
    name = world.switching()
    world.remove(OLD)
    world.remove(name)
    assert sorted(world.pods()) == ["train-master-0", "train-worker-0", OLD]
    assert world.restarts() == "1"


def test_a_pod_that_took_a_place_can_be_replaced_by_another_backup() -> None:
    world = World()
    first = world.switching()
    world.remove(OLD)
    world.annotate(first, **REQUEST)
    (second,) = (name for name in world.pods() if "-hot-" in name and name != first)
    assert second.startswith("train-worker-1-hot-") and second.count("-hot-") == 1
    world.run(second, "node-8")
    world.remove(first)
    assert sorted(world.pods()) == ["train-master-0", "train-worker-0", second]
    assert world.annotations(second) == {"inHotSwitchFlow": "true"}


# --- a switch that fails ---
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_backup_that_ended_is_deleted_and_its_pod_stays(phase: str) -> None:
    world = World()
    name = world.switching()
    world.patch(POD, name, {"status": {"phase": phase}})
    world.wait(5)
    assert sorted(world.pods()) == ["train-master-0", "train-worker-0", OLD]
    assert world.annotations(OLD) == {}
    assert world.restarts() is None


def test_a_pod_whose_backup_was_deleted_is_in_no_hot_switch() -> None:
    world = World()
    world.remove(world.switching())
    assert world.annotations(OLD) == {}
    assert world.restarts() is None


def test_another_backup_can_be_requested_after_one_was_deleted() -> None:
    world = World()
    world.remove(world.switching())
    world.annotate(OLD, **REQUEST)
    assert world.annotations(OLD) == {"inHotSwitchFlow": "true", "backupNewPodName": world.backup()}


def test_a_backup_is_deleted_at_once_when_clusterd_requests_it() -> None:
    world = World()
    name = world.switching()
    world.annotate(name, needOperatorOpe="delete")
    assert name not in world.pods()
    assert world.annotations(OLD) == {}


def test_a_backup_that_its_pod_does_not_name_is_deleted() -> None:
    """ClusterD cancels a hot switch with two writes, and may be killed between them."""
    world = World()
    name = world.switching()
    world.annotate(OLD, inHotSwitchFlow=None, backupNewPodName=None)
    assert name not in world.pods()


def test_a_suspended_job_loses_its_backups_too() -> None:
    world = World()
    world.switching()
    world.patch(ACJOB, "train", {"spec": {"runPolicy": {"suspend": True}}})
    world.wait(5)
    assert all(pod["metadata"].get("deletionTimestamp") for pod in world.pods().values())


# --- rank tables ---
def test_a_rank_table_has_the_backup_only_after_the_switch() -> None:
    world = World()
    metadata = {"name": "rings-config-train", "namespace": "default"}
    data = {"hccl.json": '{"status":"initializing"}'}
    world.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    backup = world.switching()
    for number, name in enumerate(sorted(world.pods())):
        devices = [{"device_id": str(chip), "device_ip": f"10.0.{number}.{chip}"} for chip in range(8)]
        text = json.dumps({"pod_name": name, "server_id": "", "host_ip": "10.0.0.1", "devices": devices})
        world.annotate(name, **{"ascend.kubectl.kubernetes.io/ascend-910-configuration": text})
    world.wait(5)
    assert sorted(world.pods()) == ["train-master-0", "train-worker-0", OLD, backup]
    assert pods_of_the_table(world) == ["0", "1", "2"]
    world.remove(OLD)
    world.wait(5)
    assert pods_of_the_table(world) == ["0", "1", "3"]


def pods_of_the_table(world: World) -> list[str]:
    """The number in the addresses of each Pod."""
    found = world.find(CONFIG_MAP, "rings-config-train")
    assert found is not None
    table = json.loads(found["data"]["hccl.json"])
    assert table["status"] == "completed"
    return sorted({each["device_ip"].split(".")[2] for server in table["server_list"] for each in server["device"]})


# --- killed between two writes ---
class KillableWorld(KillableControllers, World):
    """A World whose controllers can be killed."""


@pytest.mark.parametrize("writes, succeeds", [(0, True), (1, True), (2, True), *((n, False) for n in range(4))])
def test_a_hot_switch_ends_the_same_whenever_the_controllers_are_killed(writes: int, succeeds: bool) -> None:
    world = KillableWorld()
    world.kill_after(writes)
    uids = {name: raw["metadata"]["uid"] for name, raw in world.pods().items()}
    world.annotate(OLD, **REQUEST)
    world.wait(15)
    backup = world.backup()
    world.run(backup, "node-9")
    if succeeds:
        world.remove(OLD)
    else:
        world.annotate(backup, needOperatorOpe="delete")
    world.wait(15)
    last = backup if succeeds else OLD
    assert sorted(world.pods()) == ["train-master-0", "train-worker-0", last]
    assert world.annotations(last) == ({"inHotSwitchFlow": "true"} if succeeds else {})
    assert world.restarts() is None
    assert all(world.pods()[name]["metadata"]["uid"] == uid for name, uid in uids.items() if name in world.pods())
    assert world.killed


def pod(name: str, annotations: dict[str, str], index: int = 1) -> Pod:
    labels = {"replica-type": "worker", "replica-index": str(index)}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels, "annotations": annotations}
    raw = {"metadata": meta, "spec": {"nodeName": f"node-{index}"}, "status": {"phase": "Running"}}
    return msgspec.convert(raw, Pod)


def effects(raw: Raw, *others: Pod, old: dict[str, str] | None = None) -> list[Effect]:
    """The first effect of the controller for the second worker with these annotations, and other Pods."""
    job: AscendJob = decoded(raw)
    roles = roles_of(job)
    named = [*others, *([pod(OLD, old)] if old is not None else [])]
    pods = {each.metadata.name: each for each in named}

    def manifest_of(role: Any, index: int) -> Raw:
        return {"metadata": {"name": OLD, "annotations": {}}, "spec": role.template["spec"]}

    return list(next_steps(job, roles, places(job, roles, pods), pods, manifest_of))


JOB = acjob({"Master": role(), "Worker": role(2)}, labels=HOT)
BACKUP = {"podType": "backup", "backupSourcePodName": OLD, "inHotSwitchFlow": "true"}


def test_a_backup_that_was_created_before_its_pod_was_annotated_is_not_created_again() -> None:
    (effect,) = effects(JOB, pod("train-worker-1-hot-0001", BACKUP), old=REQUEST)
    changed = {"needOperatorOpe": None, "inHotSwitchFlow": "true", "backupNewPodName": "train-worker-1-hot-0001"}
    assert isinstance(effect, Patch)
    assert (effect.name, effect.body) == (OLD, {"metadata": {"annotations": changed}})


def test_the_name_of_a_backup_is_the_same_each_time() -> None:
    first, second = ([e for e in effects(JOB, old=REQUEST) if isinstance(e, Create)] for _ in range(2))
    assert [e.manifest["metadata"]["name"] for e in first] == [e.manifest["metadata"]["name"] for e in second] != []


def test_a_backup_whose_pod_was_deleted_while_no_controller_ran_takes_its_place() -> None:
    (effect,) = effects(JOB, pod("train-worker-1-hot-0001", BACKUP))
    assert isinstance(effect, Patch)
    assert effect.body == {"metadata": {"annotations": {"podType": None, "backupSourcePodName": None}}}


def test_a_failed_backup_of_a_pod_that_was_not_annotated_yet_is_deleted() -> None:
    backup = pod("train-worker-1-hot-0001", BACKUP)
    backup.status.phase = "Failed"
    (effect,) = effects(JOB, backup, old=REQUEST)
    assert isinstance(effect, Delete)
    assert (effect.name, effect.grace_period) == ("train-worker-1-hot-0001", 0)


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({"podType": "backup", "backupSourcePodName": "train-worker-1-hot-0001"}, id="of itself"),
        pytest.param({"podType": "backup", "backupSourcePodName": "train-worker-0"}, id="of another Pod"),
    ],
)
def test_a_backup_that_no_pod_requested_is_deleted(annotations: dict[str, str]) -> None:
    (effect,) = effects(
        JOB, pod("train-worker-1-hot-0001", annotations), pod("train-worker-0", {}, 0), old={"mine": "yes"}
    )
    assert isinstance(effect, Delete) and effect.name == "train-worker-1-hot-0001"
