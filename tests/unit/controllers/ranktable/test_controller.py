"""The controller rank-table-controller over a cluster in memory."""

import json
from typing import Any

import msgspec
import pytest

from scheduler.api.kinds import CONFIG_MAP, DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET, VCJOB
from scheduler.api.names import ASCEND_910_CONFIGURATION
from scheduler.api.objects import Pod
from scheduler.controllers.effects import NOT_OURS, Patch, RecordEvent, RemoveFile, WriteFile
from scheduler.controllers.ranktable import RankTableController
from scheduler.controllers.ranktable import controller as ranktable
from scheduler.controllers.ranktable.servers import RankedChip, RankedServer, read_server
from scheduler.controllers.ranktable.table import completed
from scheduler.controllers.ranktable.workloads import Layout
from scheduler.controllers.store import Store
from tests.unit.controllers.clusters import Controlled, owner, pod, reference

ATLAS = {"ring-controller.atlas": "ascend-910"}
NPUS = {"huawei.com/Ascend910": "2"}


class Recording(RankTableController):
    """Keeps the effects of every plan."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.effects: list[Any] = []

    def plan(self, key: tuple[str, str], now: float) -> Any:
        plan = super().plan(key, now)
        self.effects += [effect for stage in plan.stages for effect in stage]
        return plan


class World:
    """A cluster with the controller, and the objects of a job ``train`` in a few words."""

    def __init__(self) -> None:
        self.controllers: list[Recording] = []
        self.cluster = Controlled(self._make)

    def _make(self, store: Store) -> list[Recording]:
        self.controllers.append(Recording(store))
        return self.controllers

    @property
    def effects(self) -> list[Any]:
        return self.controllers[0].effects

    def config_map(
        self, name: str = "train", labels: dict[str, str] | None = None, text: str = '{"status":"initializing"}'
    ) -> None:
        self.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": f"rings-config-{name}", "namespace": "default", "labels": labels},
                "data": {"hccl.json": text},
            }
        )

    def vcjob(self, replicas: int = 2, labels: dict[str, str] | None = None) -> None:
        body = {"tasks": [{"name": "worker", "replicas": replicas, "template": {}}]}
        job = owner(VCJOB, "train") | {"spec": body}
        job["metadata"]["labels"] = ATLAS if labels is None else labels
        self.cluster.create(job)

    def deployment(self, *replica_sets: str) -> None:
        """A Deployment ``web`` with its ConfigMap and ReplicaSets of these names."""
        self.config_map("web")
        deployment = owner(DEPLOYMENT, "web", replicas=2)
        deployment["metadata"]["labels"] = ATLAS
        self.cluster.create(deployment)
        for name in replica_sets:
            replica_set = owner(REPLICA_SET, name, replicas=2)
            replica_set["metadata"]["ownerReferences"] = [reference(DEPLOYMENT, "web")]
            self.cluster.create(replica_set)

    def pods(
        self, *ranks: int, of: dict[str, Any] | None = None, node: str = "n{}", uid: str = "uid-p-{}", **more: Any
    ) -> None:
        for rank in ranks:
            raw = pod(f"p-{rank}", of or reference(VCJOB, "train"), requests=NPUS, nodeName=node.format(rank), **more)
            raw["metadata"]["uid"] = uid.format(rank)
            raw["metadata"]["annotations"] = {"hccl/rankIndex": str(rank), ASCEND_910_CONFIGURATION: devices(rank)}
            raw["status"] = {"phase": "Running", "podIP": f"10.9.0.{rank}"}
            self.cluster.create(raw)
        self.cluster.wait(2)

    def annotate(self, name: str, annotations: dict[str, str | None]) -> None:
        self.cluster.patch(POD, name, {"metadata": {"annotations": annotations}})
        self.cluster.wait(2)

    def table(self, name: str = "train") -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.data(name)["hccl.json"])
        return document

    def data(self, name: str = "train") -> dict[str, str]:
        raw = self.cluster.find(CONFIG_MAP, f"rings-config-{name}")
        assert raw is not None
        data: dict[str, str] = raw["data"]
        return data

    def warnings(self) -> list[tuple[str, str]]:
        return [(name, message) for _, name, type, _, message in self.cluster.events() if type == "Warning"]


def devices(rank: int) -> str:
    chips = [{"device_id": str(c), "device_ip": f"10.0.{rank}.{c}", "super_device_id": str(c)} for c in range(2)]
    return json.dumps({"pod_name": f"p-{rank}", "server_id": "", "host_ip": f"192.168.1.{rank}", "devices": chips})


@pytest.fixture
def world() -> World:
    return World()


def ranks(table: dict[str, Any]) -> list[str]:
    return [chip["rank_id"] for server in table["server_list"] for chip in server["device"]]


# --- from initializing to completed ---
def test_the_table_is_completed_when_all_pods_have_chips_and_addresses(world: World) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0)
    assert world.table() == {"status": "initializing"}  # as the user wrote it

    world.pods(1)

    table = world.table()
    assert (table["status"], table["server_count"], ranks(table)) == ("completed", "2", ["0", "1", "2", "3"])
    assert [server["server_id"] for server in table["server_list"]] == ["192.168.1.0", "192.168.1.1"]
    assert world.data()["version"] == "0"


def test_a_config_map_that_is_created_last_gets_the_table(world: World) -> None:
    world.vcjob()
    world.pods(0, 1)
    world.config_map(labels=ATLAS)
    world.cluster.wait(2)
    assert world.table()["status"] == "completed"


def test_two_pods_on_one_node_are_named_by_their_uids(world: World) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0, 1, node="n")
    assert [server["server_id"] for server in world.table()["server_list"]] == ["uid-p-0", "uid-p-1"]


@pytest.mark.parametrize("missing", ["hccl/rankIndex", ASCEND_910_CONFIGURATION])
def test_a_pod_without_rank_or_chips_keeps_the_table_initializing(world: World, missing: str) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0, 1)
    world.annotate("p-1", {missing: None})
    assert world.table() == {"status": "initializing", "version": "1.0"}


def test_a_pod_without_chips_needs_a_node_only(world: World) -> None:
    world.config_map()
    world.vcjob(replicas=3)
    world.pods(0, 1)
    world.cluster.create(pod("launcher", reference(VCJOB, "train")))
    world.cluster.wait(2)
    assert world.table()["status"] == "initializing"

    world.cluster.patch(POD, "launcher", {"spec": {"nodeName": "n0"}})
    world.cluster.wait(2)

    assert world.table()["server_count"] == "2"
    assert world.table()["server_list"][0]["server_id"] == "uid-p-0"  # it shares a node with the launcher


# --- rescheduling ---
def test_a_pod_that_goes_makes_the_table_initializing_and_its_successor_completes_a_new_version(world: World) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0, 1)
    before = world.data()

    world.cluster.delete(POD, "p-1")
    world.cluster.wait(2)
    assert world.table() == {"status": "initializing", "version": "1.0"}

    world.cluster.delete(POD, "p-1") if world.cluster.find(POD, "p-1") else None
    for _ in range(2):
        world.cluster.cluster.run_kubelet()
        world.cluster.wait(1)
    world.pods(1, node="other", uid="successor")
    after = world.data()
    assert world.table()["status"] == "completed"
    assert int(after["version"]) > int(before["version"])


def test_a_terminating_pod_is_missing(world: World) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0, 1)
    world.cluster.patch(POD, "p-0", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    world.cluster.wait(2)
    assert world.table()["status"] == "initializing"


def test_a_pod_that_fails_keeps_its_place_until_it_is_deleted(world: World) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0, 1)
    written = world.data()
    fail(world, "p-0")
    assert world.data() == written
    world.cluster.delete(POD, "p-0")
    world.cluster.wait(2)
    assert world.table()["status"] == "initializing"


def test_no_table_is_completed_with_a_pod_that_has_failed(world: World) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0)
    fail(world, "p-0")
    world.pods(1)
    assert world.table()["status"] == "initializing"


def test_a_table_with_a_pod_that_has_failed_does_not_follow_other_changes(world: World) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0, 1)
    fail(world, "p-0")
    world.annotate("p-1", {ASCEND_910_CONFIGURATION: devices(7)})
    assert world.table()["status"] == "initializing"


def test_pods_and_replica_sets_of_another_namespace_have_no_place(world: World) -> None:
    world.deployment("web-1")
    forged = owner(REPLICA_SET, "web-2", replicas=1)
    forged["metadata"] |= {"namespace": "evil", "ownerReferences": [reference(DEPLOYMENT, "web")]}
    pods = [pod(f"evil-{of}", reference(REPLICA_SET, of), requests=NPUS, nodeName="n9") for of in ("web-1", "web-2")]
    for raw in pods:
        raw["metadata"] |= {"namespace": "evil"}
        raw["metadata"]["annotations"] = {"hccl/rankIndex": "2", ASCEND_910_CONFIGURATION: devices(2)}
        raw["status"] = {"phase": "Running", "podIP": "10.9.0.9"}
    world.cluster.create(forged, *pods)
    world.pods(0, 1, of=reference(REPLICA_SET, "web-1"))
    table = world.table("web")
    assert (table["status"], table["server_count"]) == ("completed", "2")


def test_the_failed_pod_of_a_deployment_has_no_place(world: World) -> None:
    world.deployment("web-1")
    world.pods(0, 1, of=reference(REPLICA_SET, "web-1"))
    fail(world, "p-0")
    assert world.table("web")["status"] == "initializing"
    world.pods(2, of=reference(REPLICA_SET, "web-1"))
    assert ranks(world.table("web")) == ["2", "3", "4", "5"]


def fail(world: World, pod: str) -> None:
    world.cluster.patch(POD, pod, {"status": {"phase": "Failed"}})
    world.cluster.wait(2)


def test_a_job_that_ended_keeps_its_table(world: World) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0, 1)
    world.cluster.patch(VCJOB, "train", {"status": {"state": {"phase": "Completed"}}})
    world.cluster.delete(POD, "p-0")
    world.cluster.wait(2)
    assert world.table()["status"] == "completed"


def test_restarted_controllers_do_not_write_a_table_that_stands(world: World) -> None:
    world.config_map(labels=ATLAS)
    world.vcjob()
    world.pods(0, 1)
    written = world.data()

    fresh = Recording(world.controllers[0]._store)
    for raw_kind, obj in world.controllers[0]._store:
        fresh.observe(raw_kind, None, obj, 0.0)
    fresh.plan(("default", "train"), 10_000.0)

    assert fresh.effects == []
    assert world.data() == written


# --- how often ---
def test_a_job_is_planned_once_a_second_however_many_of_its_pods_change(world: World) -> None:
    world.config_map()
    world.vcjob(replicas=50)
    world.pods(*range(49))
    world.effects.clear()
    for n in range(40):
        world.cluster.patch(POD, f"p-{n}", {"metadata": {"annotations": {"other": "value"}}})
    world.pods(49)
    assert len([effect for effect in world.effects if getattr(effect, "kind", None) is CONFIG_MAP]) == 1


def test_the_last_pod_completes_the_table_without_a_pause(world: World) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0)
    controller = world.controllers[0]
    start = world.cluster.cluster.now
    controller.plan(("default", "train"), start + 10)
    assert (controller.plan(("default", "train"), start + 10.05).after or 0) <= 0.1


def test_two_writes_of_a_table_are_a_second_apart(world: World) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0, 1)
    key, start = ("default", "train"), world.cluster.cluster.now + 10
    store = world.controllers[0]._store
    moment = start
    writes = []
    for number in range(20):  # the table changes ten times a second
        pod = store.get(POD, "default", "p-1")
        assert pod is not None
        status = msgspec.structs.replace(pod.status, pod_ip=f"10.9.1.{number}")
        meta = msgspec.structs.replace(pod.metadata, resource_version=str(10**6 + number))
        store.upsert(POD, msgspec.structs.replace(pod, metadata=meta, status=status))
        moment = start + number * 0.11
        if world.controllers[0].plan(key, moment).stages:
            writes.append(round(moment - start, 2))
    assert writes == [0.0, 1.1]


def test_only_a_pod_that_changed_is_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.config_map()
    world.vcjob(replicas=50)
    world.pods(*range(50))
    read: list[str] = []

    def noted(pod: Pod) -> RankedServer | None:
        read.append(pod.metadata.name)
        return read_server(pod)

    monkeypatch.setattr(ranktable, "read_server", noted)
    world.annotate("p-7", {"other": "value"})
    assert read == ["p-7"]


# --- other workloads ---
def test_a_deployment_has_the_table_of_the_pods_of_its_replica_sets(world: World) -> None:
    world.deployment("web-1")
    world.pods(0, 1, of=reference(REPLICA_SET, "web-1"))
    assert ranks(world.table("web")) == ["0", "1", "2", "3"]


def test_while_a_deployment_has_pods_of_two_replica_sets_the_table_is_not_completed(world: World) -> None:
    world.deployment("web-1", "web-2")
    world.pods(0, 1, of=reference(REPLICA_SET, "web-1"))
    world.pods(2, of=reference(REPLICA_SET, "web-2"))
    assert world.table("web")["status"] == "initializing"

    world.cluster.delete(POD, "p-0")
    world.cluster.wait(2)
    assert world.table("web")["status"] == "completed"


def test_a_stateful_set_whose_pods_read_the_table_from_a_file_gets_one(world: World) -> None:
    world.config_map("sts")
    world.cluster.create(owner(STATEFUL_SET, "sts", replicas=1))
    world.pods(0, of=reference(STATEFUL_SET, "sts"), volumes=[{"name": "ranktable"}])

    files = {effect.name: effect for effect in world.effects if isinstance(effect, WriteFile)}
    assert {effect.directory for effect in files.values()} == {"default.sts"}
    assert files["hccl.json"].text == world.data("sts")["hccl.json"]
    assert files["version"].text == "0"

    world.cluster.delete(STATEFUL_SET, "sts")
    world.cluster.wait(2)
    assert {effect.name for effect in world.effects if isinstance(effect, RemoveFile)} == {"hccl.json", "version"}


def test_a_job_without_label_and_volume_has_no_table(world: World) -> None:
    world.config_map()
    world.vcjob(labels={})
    world.pods(0, 1)
    assert world.effects == []


def test_of_two_workloads_of_one_name_the_vcjob_has_the_config_map_and_the_other_a_warning(world: World) -> None:
    world.config_map()
    deployment = owner(DEPLOYMENT, "train", replicas=1)
    deployment["metadata"]["labels"] = ATLAS
    world.cluster.create(deployment)
    world.vcjob()
    world.pods(0, 1)
    assert world.table()["server_count"] == "2"
    message = "it has no rank table: rings-config-train is that of the Job with this name"
    assert ("train", message) in world.warnings()


# --- hostile input ---
def test_a_table_of_a_user_that_is_not_json_is_reported_with_the_position_and_replaced(world: World) -> None:
    world.config_map(text='{"status": "initializing"')
    world.vcjob()
    world.pods(0)
    message = "data[hccl.json]: not JSON: expecting ',' delimiter (line 1, column 26); the text ends there; ignored"
    assert world.warnings() == [("rings-config-train", message)]
    world.pods(1)
    assert world.table()["status"] == "completed"
    assert world.warnings() == [("rings-config-train", message)]


@pytest.mark.parametrize(
    ("annotation", "value", "problem"),
    [
        ("hccl/rankIndex", "-1", "'-1' is not a rank from 0 to 1000000"),
        ("hccl/rankIndex", "9" * 40, "is not a rank"),
        (ASCEND_910_CONFIGURATION, "{", "double quotes (line 1, column 2); the text ends there"),
        (ASCEND_910_CONFIGURATION, "[" * 100_000, "nested too deeply"),
        (ASCEND_910_CONFIGURATION, "[]", "Expected `object`"),
        (ASCEND_910_CONFIGURATION, '{"devices": []}', "0 devices, not 1 to 64"),
        (ASCEND_910_CONFIGURATION, '{"devices": [{"device_id": 1}]}', "Expected `str`"),
    ],
)
def test_a_malformed_annotation_is_reported_with_pod_and_field(
    world: World, annotation: str, value: str, problem: str
) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0, 1)
    world.annotate("p-1", {annotation: value})
    assert world.table()["status"] == "initializing"
    (name, message), *others = world.warnings()
    assert name == "p-1"
    assert f"metadata.annotations[{annotation}]" in message
    assert problem in message
    assert others == []


def test_an_annotation_of_ten_megabytes_is_not_decoded(world: World) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0, 1)
    world.annotate("p-1", {ASCEND_910_CONFIGURATION: devices(1) + " " * 10_000_000})
    assert world.table()["status"] == "initializing"
    ((name, message),) = world.warnings()
    assert name == "p-1"
    assert f"{10_000_000 + len(devices(1))} characters, more than 262144" in message


@pytest.mark.parametrize(
    "devices",
    [
        '{"devices": [{"device_id": "0", "device_ip": "10.0.0.1", "levelList": 5}]}',
        '{"devices": [{"device_id": "0", "levelList": [{"level": "0", "info": {}}]}]}',
        '{"devices": [{"device_id": "0", "levelList": [{"level": 0, "info": {"UB": {}}}]}]}',
        '{"devices": null}',
        "null",
        '"' + "\\u0000" * 100 + '"',
    ],
)
def test_malformed_devices_are_reported_and_the_other_workload_gets_its_table(world: World, devices: str) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0, 1)
    world.annotate("p-1", {ASCEND_910_CONFIGURATION: devices})
    world.config_map("sts", labels=ATLAS)
    world.cluster.create(owner(STATEFUL_SET, "sts", replicas=1) | {"metadata": meta("sts", ATLAS)})
    world.pods(5, of=reference(STATEFUL_SET, "sts"))
    assert world.table()["status"] == "initializing"
    assert world.table("sts")["status"] == "completed"
    assert "p-1" in [name for name, _ in world.warnings()]


def meta(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}


def test_a_config_map_that_is_used_for_something_else_is_left_alone_with_a_warning(world: World) -> None:
    raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rings-config-train", "namespace": "default"}}
    world.cluster.create(raw | {"data": {"mine": "1"}})
    world.vcjob()
    world.pods(0, 1)
    assert world.data() == {"mine": "1"}
    ((name, message),) = world.warnings()
    assert name == "train"
    assert "neither the label ring-controller.atlas nor the key hccl.json" in message

    world.cluster.patch(CONFIG_MAP, "rings-config-train", {"metadata": {"labels": ATLAS}})
    world.cluster.wait(2)
    assert (world.table()["status"], world.data()["mine"]) == ("completed", "1")


def test_a_refused_write_is_reported_and_not_repeated(world: World) -> None:
    world.vcjob()
    world.pods(0, 1)
    controller, key, now = world.controllers[0], ("default", "train"), world.cluster.cluster.now
    (patch,) = [effect for effect in world.effects if isinstance(effect, Patch)]
    assert patch.data_key == "hccl.json"
    controller.failed(key, patch, f"409 {NOT_OURS}: the ConfigMap has no key hccl.json", now)
    again = [effect for stage in controller.plan(key, now + 10).stages for effect in stage]
    assert [type(effect) for effect in again] == [RecordEvent]
    assert controller.plan(key, now + 20).stages == []


BIG = 64
"""The number of chips of a Pod in a table that is too large."""


def big(world: World, name: str = "train", **more: Any) -> None:
    """A job whose table does not fit into a ConfigMap."""
    chips = [{"device_id": str(c), "device_ip": "10.0.0.1" + "0" * 1000, "super_device_id": ""} for c in range(BIG)]
    world.config_map(name)
    world.vcjob(replicas=20)
    world.pods(*range(20), **more)
    for rank in range(20):
        configuration = json.dumps({"host_ip": f"192.168.1.{rank}", "devices": chips})
        world.cluster.patch(POD, f"p-{rank}", {"metadata": {"annotations": {ASCEND_910_CONFIGURATION: configuration}}})
    world.cluster.wait(3)


def test_a_table_that_is_too_large_for_a_config_map_is_only_written_into_the_file(world: World) -> None:
    big(world, volumes=[{"name": "ranktable"}])
    assert world.table()["status"] == "initializing"
    text = [effect.text for effect in world.effects if isinstance(effect, WriteFile) and effect.name == "hccl.json"][-1]
    assert json.loads(text)["server_count"] == "20"
    assert len(text) > 1_048_576
    message = next(message for name, message in world.warnings() if name == "train")
    assert "rings-config-train stays initializing: the rank table makes it" in message
    assert "at most 1,048,576; it is only in the file" in message

    world.effects.clear()
    world.annotate("p-0", {"other": "value"})
    assert [effect for effect in world.effects if not isinstance(effect, RecordEvent)] == []

    world.cluster.delete(POD, "p-3")
    world.cluster.wait(2)
    texts = [effect.text for effect in world.effects if isinstance(effect, WriteFile) and effect.name == "hccl.json"]
    assert json.loads(texts[-1])["status"] == "initializing"


def test_a_table_that_is_too_large_and_has_no_file_is_refused_with_advice(world: World) -> None:
    big(world)
    assert world.table()["status"] == "initializing"
    assert any("Pods can read it from a volume ranktable" in message for _, message in world.warnings())


def test_a_thousand_servers_of_eight_chips_fit_into_a_config_map() -> None:
    chips = tuple(RankedChip(str(c), "100.100.100.100", "100000000") for c in range(8))
    servers = [
        RankedServer(f"p-{r}", "u" * 36, r, "100.100.100.100", "100.100.100.100", chips, "") for r in range(1024)
    ]
    assert len(completed(servers, Layout("1.0"), own_nodes=False)) < 900_000
    assert len(completed(servers, Layout("1.2", 64), own_nodes=False)) < 1_000_000


def test_two_pods_with_the_address_of_one_host_are_reported(world: World) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0, 1)
    world.annotate("p-1", {ASCEND_910_CONFIGURATION: devices(0)})
    assert world.table()["status"] == "completed"
    text = "the rank table is doubtful: Pods p-0 and p-1 both have the server_id 192.168.1.0"
    assert ("train", text) in world.warnings()


def test_a_pod_that_goes_before_the_table_is_completed_keeps_it_initializing(world: World) -> None:
    world.config_map()
    world.vcjob(replicas=3)
    world.pods(0, 1)
    world.cluster.delete(POD, "p-0")
    world.pods(2)
    assert world.table()["status"] == "initializing"
    for _ in range(2):
        world.cluster.cluster.run_kubelet()
        world.cluster.wait(1)
    world.pods(0, uid="successor")
    assert (world.table()["status"], world.data()["version"]) == ("completed", "0")


def test_equal_ranks_are_reported_on_the_job_once(world: World) -> None:
    world.config_map()
    world.vcjob()
    world.pods(0, 1)
    world.annotate("p-1", {"hccl/rankIndex": "0"})
    world.cluster.wait(5)
    assert world.table()["status"] == "initializing"
    assert world.warnings() == [("train", "the rank table is not completed: Pods p-0 and p-1 both have chip rank 0")]
