"""The device plugin of a node with a kubelet: what containers get, what Pods and the Node show, and restarts."""

import asyncio
import json
import random
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from scheduler.api.names import (
    ASCEND_310P,
    ASCEND_910,
    ASCEND_910_CONFIGURATION,
    ASCEND_REAL,
    NPU_CORE,
    NVIDIA_GPU,
    PREDICATE_TIME,
)
from scheduler.cluster.kube.playground.device_plugin import messages
from scheduler.cluster.kube.playground.device_plugin.role import NodeDevicePlugin
from scheduler.cluster.kube.process.waiting import cancel
from scheduler.playground.families import PLUGIN_FAMILIES
from scheduler.playground.objects import CONSUMED, FAULTS, KUBELET_DEVICES, PLUGIN_FAMILY
from tests.fake_kubelet import FakeKubelet, RejectedError
from tests.unit.cluster.kube.fake_api import FakeApi, serving
from tests.unit.cluster.kube.playground.stored_objects import StoredObjects

NODE = "/api/v1/nodes/n"
INFO = "/api/v1/namespaces/kube-system/configmaps/mindx-dl-deviceinfo-n"
VISIBLE = "ASCEND_VISIBLE_DEVICES"
Raw = dict[str, Any]


class World:
    """A node: its kubelet, its device plugin, and the API server. Pods are in the namespace ``x``."""

    def __init__(self, api: FakeApi, client: Any, kubelet: FakeKubelet, family: str, division: str) -> None:
        self.api = api
        self.objects = StoredObjects(api)
        self.kubelet = kubelet
        self.news: list[str] = []
        self._client = client
        self._family = PLUGIN_FAMILIES[family]
        self._division = division
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Starts the device plugin, and waits until the kubelet knows its devices."""
        seen = len(self.kubelet.registrations)
        ready = asyncio.Event()
        self._tasks.append(asyncio.create_task(self._run(ready)))
        await ready.wait()
        await until(lambda: len(self.kubelet.registrations) > seen and self.known())

    async def _run(self, ready: asyncio.Event) -> None:
        plugin = NodeDevicePlugin(
            self._client, "n", self.kubelet.directory, self.kubelet.root,
            lambda kind, node, text: self.news.append(text), correction_seconds=0.1,
        )  # fmt: skip
        async with plugin.watching():
            await plugin.announce(self._family, self._division)
            ready.set()
            await plugin.run()

    async def stop(self) -> None:
        await cancel(*self._tasks)
        self._tasks.clear()

    def known(self, resource: str = "") -> list[str]:
        return self.kubelet.healthy(resource or next(iter(self.kubelet.endpoints), ""))

    async def bind(self, name: str, requests: dict[str, int], annotations: dict[str, str]) -> None:
        """A Pod that the scheduler has just bound."""
        amounts = {key: str(amount) for key, amount in requests.items()}
        pod = {
            "metadata": {"name": name, "namespace": "x", "uid": f"uid-{name}", "annotations": annotations},
            "spec": {"nodeName": "n", "containers": [{"name": "main", "resources": {"limits": amounts}}]},
            "status": {"phase": "Pending"},
        }
        await self.objects.put(pod_path(name), pod)

    async def admit(self, name: str, amount: int, resource: str = ASCEND_910, **options: bool) -> dict[str, str]:
        return await asyncio.to_thread(self.kubelet.admit, f"x/{name}", resource, amount, **options)

    async def runs(self, name: str) -> None:
        await self.objects.change(pod_path(name), {"status": {"phase": "Running"}})

    def annotation(self, name: str, key: str) -> Any:
        return self.objects.get(pod_path(name))["metadata"]["annotations"].get(key)

    def devices(self) -> Any:
        """The lists of the ConfigMap of the device plugin."""
        config = json.loads(self.objects.get(INFO)["data"]["DeviceInfoCfg"])
        return config["DeviceInfo"]["DeviceList"]

    async def break_chips(self, *chips: int) -> None:
        faults = json.dumps({"chips": {str(chip): {} for chip in chips}})
        await self.objects.change(NODE, {"metadata": {"annotations": {FAULTS: faults}}})


def pod_path(name: str) -> str:
    return f"/api/v1/namespaces/x/pods/{name}"


def chosen(chips: str, time: int, resource: str = ASCEND_910) -> dict[str, str]:
    return {resource: chips, PREDICATE_TIME: str(time)}


async def until(condition: Callable[[], Any]) -> None:
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("not within 20 s")


def on_a_node(
    scenario: Callable[[World], Awaitable[None]], family: str = "910b-8", division: str = "", *, follows: bool = True
) -> None:
    """Runs a scenario on a node with a kubelet and a device plugin. ``follows``: whether the kubelet assigns the
    devices that the device plugin prefers."""

    async def run() -> None:
        with tempfile.TemporaryDirectory(prefix="k") as root:  # short: the path of a socket has 107 bytes at most
            kubelet = FakeKubelet(Path(root), follows_preferences=follows)
            kubelet.start()
            async with serving() as (api, client):
                world = World(api, client, kubelet, family, division)
                address = {"type": "InternalIP", "address": "10.1.2.3"}
                meta = {"name": "n", "uid": "uid-n", "labels": {"kubernetes.io/hostname": "n"}}
                await world.objects.put(NODE, {"metadata": meta, "status": {"addresses": [address]}})
                try:
                    await world.start()
                    await scenario(world)
                finally:
                    await world.stop()
                    await asyncio.to_thread(kubelet.stop)

    asyncio.run(run())


@pytest.mark.parametrize("follows", [True, False])
def test_a_container_gets_the_chips_of_the_annotation_whatever_the_kubelet_assigns(follows: bool) -> None:
    async def scenario(world: World) -> None:
        await world.bind("a", {ASCEND_910: 2}, chosen("Ascend910-5,Ascend910-4", 1))
        assert await world.admit("a", 2) == {VISIBLE: "5,4"}
        assert world.annotation("a", PREDICATE_TIME) == CONSUMED
        assert world.annotation("a", ASCEND_REAL) == "Ascend910-5,Ascend910-4"
        kubelet = "Ascend910-4,Ascend910-5" if follows else "Ascend910-0,Ascend910-1"
        assert world.annotation("a", KUBELET_DEVICES) == kubelet
        configuration = json.loads(world.annotation("a", ASCEND_910_CONFIGURATION))
        assert configuration["server_ip"] == "10.1.2.3"
        assert [each["device_id"] for each in configuration["devices"]] == ["5", "4"]
        await until(lambda: world.devices()[ASCEND_910] == ",".join(f"Ascend910-{chip}" for chip in (0, 1, 2, 3, 6, 7)))

    on_a_node(scenario, follows=follows)


def test_the_node_shows_what_its_device_plugin_offers() -> None:
    async def scenario(world: World) -> None:
        node = world.objects.get(NODE)["metadata"]
        assert node["labels"]["accelerator-type"] == "module-910b-8"
        assert node["labels"][PLUGIN_FAMILY] == "910b-8"
        assert json.loads(node["annotations"]["baseDeviceInfos"])["Ascend910-7"]["IP"].endswith(".8")
        assert world.known() == [f"Ascend910-{chip}" for chip in range(8)]
        await until(lambda: world.devices()[ASCEND_910].count(",") == 7)

    on_a_node(scenario)


@pytest.mark.parametrize("follows", [True, False])
def test_pods_that_the_kubelet_starts_in_another_order_swap_their_chips_and_annotations_follow(follows: bool) -> None:
    async def scenario(world: World) -> None:
        await world.bind("later", {ASCEND_910: 1}, chosen("Ascend910-7", 20))
        await world.bind("earlier", {ASCEND_910: 1}, chosen("Ascend910-3", 10))
        assert await world.admit("later", 1) == {VISIBLE: "3"}
        assert await world.admit("earlier", 1) == {VISIBLE: "7"}
        await until(lambda: world.annotation("later", ASCEND_REAL) == "Ascend910-3")
        await until(lambda: world.annotation("earlier", ASCEND_REAL) == "Ascend910-7")
        for pod, chip in (("later", "3"), ("earlier", "7")):
            (device,) = json.loads(world.annotation(pod, ASCEND_910_CONFIGURATION))["devices"]
            assert device["device_id"] == chip
        message = "Ascend910-3 of Pod x/earlier is mounted: its predicate-time is smaller"
        await until(lambda: any(message in text for text in world.news))

    on_a_node(scenario, follows=follows)


def test_annotations_follow_the_kubelet_after_a_restart_of_the_device_plugin_between_two_swapped_pods() -> None:
    async def scenario(world: World) -> None:
        await world.bind("later", {ASCEND_910: 1}, chosen("Ascend910-7", 20))
        await world.bind("earlier", {ASCEND_910: 1}, chosen("Ascend910-3", 10))
        await world.admit("later", 1)
        await world.admit("earlier", 1)
        await world.stop()
        await world.start()
        await until(lambda: world.annotation("later", ASCEND_REAL) == "Ascend910-3")
        await until(lambda: world.annotation("earlier", ASCEND_REAL) == "Ascend910-7")

    on_a_node(scenario, follows=False)


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        (chosen("Ascend910-0", 1), "no Pod of the node has 2 of huawei.com/Ascend910"),
        ({ASCEND_910: "Ascend910-0,Ascend910-1"}, "no annotation waits"),
        (chosen("Ascend910-0,Ascend910-9", 1), "n has no chip Ascend910-9"),
        ({ASCEND_910: "Ascend910-0,Ascend910-1", PREDICATE_TIME: CONSUMED}, "no annotation waits"),
    ],
)
def test_a_pod_without_a_usable_annotation_is_rejected(annotations: dict[str, str], problem: str) -> None:
    async def scenario(world: World) -> None:
        await world.bind("a", {ASCEND_910: 2}, annotations)
        with pytest.raises(RejectedError, match="Allocate failed due to rpc error") as error:
            await world.admit("a", 2)
        assert problem in str(error.value)

    on_a_node(scenario)


def test_chips_that_another_pod_has_are_not_mounted_twice() -> None:
    async def scenario(world: World) -> None:
        await world.bind("a", {ASCEND_910: 2}, chosen("Ascend910-5,Ascend910-4", 1))
        await world.admit("a", 2)
        await world.bind("b", {ASCEND_910: 1}, chosen("Ascend910-5", 2))
        with pytest.raises(RejectedError, match="Ascend910-5 is mounted in Pod x/a already"):
            await world.admit("b", 1)

    on_a_node(scenario)


def test_a_broken_chip_is_unhealthy_for_kubelet_and_scheduler_until_it_recovers() -> None:
    async def scenario(world: World) -> None:
        await world.break_chips(3)
        await until(lambda: len(world.known()) == 7 and "Ascend910-3" not in world.known())
        await until(lambda: world.devices()[f"{ASCEND_910}-Unhealthy"] == "Ascend910-3")
        assert "Ascend910-3" not in world.devices()[ASCEND_910]
        await world.break_chips()
        await until(lambda: len(world.known()) == 8)
        await until(lambda: world.devices()[f"{ASCEND_910}-Unhealthy"] == "")

    on_a_node(scenario)


def test_malformed_faults_are_set_aside_with_a_warning_and_the_last_ones_stay() -> None:
    async def scenario(world: World) -> None:
        await world.break_chips(3)
        await until(lambda: len(world.known()) == 7)
        await world.objects.change(NODE, {"metadata": {"annotations": {FAULTS: "{"}}})
        await until(lambda: any(FAULTS in text for text in world.news))
        assert len(world.known()) == 7

    on_a_node(scenario)


def test_a_kubelet_that_restarts_gets_the_devices_again_and_pods_keep_theirs() -> None:
    async def scenario(world: World) -> None:
        await world.bind("a", {ASCEND_910: 2}, chosen("Ascend910-5,Ascend910-4", 1))
        await world.admit("a", 2)
        await world.runs("a")
        await asyncio.to_thread(world.kubelet.stop)
        world.kubelet.start()
        await until(lambda: len(world.kubelet.registrations) == 2 and len(world.known()) == 8)
        await world.bind("b", {ASCEND_910: 2}, chosen("Ascend910-6,Ascend910-7", 2))
        assert await world.admit("b", 2) == {VISIBLE: "6,7"}
        assert world.annotation("a", ASCEND_REAL) == "Ascend910-5,Ascend910-4"

    on_a_node(scenario)


def test_a_pod_gets_its_chips_from_a_kubelet_that_ended_before_it_stored_them() -> None:
    async def scenario(world: World) -> None:
        await world.bind("a", {ASCEND_910: 2}, chosen("Ascend910-5,Ascend910-4", 1))
        await world.admit("a", 2, dies=True)
        await asyncio.to_thread(world.kubelet.stop)
        world.kubelet.start()
        await until(lambda: len(world.kubelet.registrations) == 2 and len(world.known()) == 8)
        await world.bind("b", {ASCEND_910: 2}, chosen("Ascend910-6,Ascend910-7", 2))
        assert await world.admit("a", 2) == {VISIBLE: "5,4"}
        assert await world.admit("b", 2) == {VISIBLE: "6,7"}

    on_a_node(scenario)


def test_a_second_container_of_a_pod_gets_no_chips() -> None:
    """The annotation is used up, as with the real device plugin."""

    async def scenario(world: World) -> None:
        await world.bind("a", {ASCEND_910: 2}, chosen("Ascend910-5,Ascend910-4", 1))
        await world.admit("a", 2, dies=True)
        with pytest.raises(RejectedError, match="no annotation waits"):
            await world.admit("a", 2)

    on_a_node(scenario)


def test_a_device_plugin_that_restarts_goes_on_with_what_annotations_say() -> None:
    async def scenario(world: World) -> None:
        await world.bind("a", {ASCEND_910: 2}, chosen("Ascend910-5,Ascend910-4", 1))
        await world.admit("a", 2)
        await world.stop()
        await until(lambda: not world.known())
        await world.bind("b", {ASCEND_910: 1}, chosen("Ascend910-6", 2))
        await world.start()
        assert len(world.known()) == 8
        assert await world.admit("b", 1) == {VISIBLE: "6"}
        await until(lambda: world.devices()[ASCEND_910] == ",".join(f"Ascend910-{chip}" for chip in (0, 1, 2, 3, 7)))
        assert world.annotation("a", ASCEND_REAL) == "Ascend910-5,Ascend910-4"

    on_a_node(scenario)


def test_a_socket_that_is_removed_is_replaced() -> None:
    async def scenario(world: World) -> None:
        (world.kubelet.directory / "volcano-py-Ascend910.sock").unlink()
        await until(lambda: len(world.kubelet.registrations) == 2 and len(world.known()) == 8)

    on_a_node(scenario)


def test_all_chips_of_a_node_need_no_annotation_and_the_pod_is_annotated_afterwards() -> None:
    async def scenario(world: World) -> None:
        await world.bind("a", {ASCEND_910: 8}, {})
        assert await world.admit("a", 8) == {VISIBLE: "0,1,2,3,4,5,6,7"}
        await until(lambda: world.annotation("a", ASCEND_REAL) == ",".join(f"Ascend910-{chip}" for chip in range(8)))
        await until(lambda: world.devices()[ASCEND_910] == "")

    on_a_node(scenario)


def test_a_node_that_is_created_again_gets_its_labels_again() -> None:
    async def scenario(world: World) -> None:
        await world.objects.delete(NODE)
        await world.objects.put(NODE, {"metadata": {"name": "n", "uid": "another"}, "status": {}})
        await until(lambda: PLUGIN_FAMILY in world.objects.get(NODE)["metadata"].get("labels", {}))

    on_a_node(scenario)


def test_a_pod_whose_watch_event_has_not_arrived_is_read() -> None:
    async def scenario(world: World) -> None:
        world.objects.delayed = True
        await world.bind("a", {ASCEND_910: 1}, chosen("Ascend910-5", 1))
        assert await world.admit("a", 1) == {VISIBLE: "5"}

    on_a_node(scenario)


def test_310p_chips_are_mounted_by_number() -> None:
    async def scenario(world: World) -> None:
        await world.bind("a", {ASCEND_310P: 2}, chosen("Ascend310P-1,Ascend310P-6", 1, ASCEND_310P))
        assert await world.admit("a", 2, ASCEND_310P) == {VISIBLE: "1,6"}
        assert world.annotation("a", ASCEND_910_CONFIGURATION) is None

    on_a_node(scenario, family="310p-8")


def test_a_virtual_npu_is_created_on_the_chip_of_the_annotation() -> None:
    async def scenario(world: World) -> None:
        await until(lambda: len(world.known(NPU_CORE)) == 64)
        await world.bind("a", {NPU_CORE: 2}, chosen("3-vir02_1c", 1, NPU_CORE))
        expected = {VISIBLE: "100", "ASCEND_RUNTIME_OPTIONS": "VIRTUAL"}
        assert await world.admit("a", 2, NPU_CORE) == expected
        assert world.annotation("a", ASCEND_REAL) == "Ascend310P-2c.1cpu-100-3_0"
        await world.stop()
        await world.start()
        await asyncio.sleep(0.3)  # several corrections
        assert world.annotation("a", ASCEND_REAL) == "Ascend310P-2c.1cpu-100-3_0"

    on_a_node(scenario, family="310p-8", division="dynamic")


def test_virtual_npus_that_were_created_beforehand_are_those_that_the_kubelet_assigns() -> None:
    resource = f"{ASCEND_910}-2c"

    async def scenario(world: World) -> None:
        assert world.known(resource)[:2] == ["Ascend910-2c-100-0", "Ascend910-2c-101-0"]
        await world.bind("a", {resource: 1}, {})
        assert await world.admit("a", 1, resource) == {VISIBLE: "100", "ASCEND_RUNTIME_OPTIONS": "VIRTUAL"}
        await until(lambda: world.annotation("a", ASCEND_REAL) == "Ascend910-2c-100-0")
        await until(lambda: world.devices()[resource].startswith("Ascend910-2c-101-0,"))

    on_a_node(scenario, family="910-8", division="2c")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_chip_is_mounted_twice_whatever_starts_ends_and_restarts(seed: int) -> None:
    """Pods start in any order, and device plugin and kubelet restart at any time. In the end, annotations are right."""
    dice = random.Random(seed)

    async def scenario(world: World) -> None:
        waiting: dict[str, list[int]] = {}
        live: dict[str, list[int]] = {}
        names: dict[str, list[int]] = {}
        """The chips of the annotation of each Pod that exists."""

        async def admit(name: str, *, dies: bool = False) -> None:
            environment = await world.admit(name, len(names[name]), dies=dies)
            chips = [int(chip) for chip in environment[VISIBLE].split(",")]
            taken = [chip for each in live.values() for chip in each]
            assert not set(chips) & set(taken), (name, chips, live)
            if not dies:
                live[name] = chips
                del waiting[name]

        async def restart_kubelet() -> None:
            seen = len(world.kubelet.registrations)
            await asyncio.to_thread(world.kubelet.stop)
            world.kubelet.start()
            await until(lambda: len(world.kubelet.registrations) > seen and world.known())

        for number in range(40):
            action = dice.choice(
                ["bind", "bind", "bind", "admit", "admit", "admit", "end", "plugin", "kubelet", "dies"]
            )
            used = {chip for chips in (*names.values(), *live.values()) for chip in chips}
            free = [chip for chip in range(8) if chip not in used]
            if action == "bind" and len(free) > 1:
                name = f"p{number}"
                names[name] = waiting[name] = dice.sample(free, dice.choice([1, 1, 2]))
                text = ",".join(f"Ascend910-{chip}" for chip in names[name])
                await world.bind(name, {ASCEND_910: len(names[name])}, chosen(text, number + 1))
            elif action == "admit" and waiting:
                await admit(dice.choice(list(waiting)))
            elif action == "dies" and waiting:
                name = dice.choice(list(waiting))
                await admit(name, dies=True)
                await restart_kubelet()
                await admit(name)
            elif action == "end" and live:
                name = dice.choice(list(live))
                await asyncio.sleep(0.3)  # the device plugin has seen what the kubelet stored
                world.kubelet.end(f"x/{name}")
                await world.objects.delete(pod_path(name))
                del live[name], names[name]
            elif action == "plugin":
                await world.stop()
                await world.start()
            elif action == "kubelet":
                await restart_kubelet()
        for name in list(waiting):
            await admit(name)

        def shown(name: str) -> list[int]:
            """The chips that the annotations of a Pod say."""
            devices = world.annotation(name, ASCEND_REAL) or ""
            return sorted(int(device.removeprefix("Ascend910-")) for device in devices.split(",") if device)

        await until(lambda: {name: shown(name) for name in live} == {name: sorted(live[name]) for name in live})

    on_a_node(scenario, follows=seed % 2 == 0)


def test_gpus_are_those_that_the_kubelet_assigns() -> None:
    async def scenario(world: World) -> None:
        assert len(world.known(NVIDIA_GPU)) == 8
        await world.bind("a", {NVIDIA_GPU: 2}, {})
        environment = await world.admit("a", 2, NVIDIA_GPU)
        assert environment["NVIDIA_VISIBLE_DEVICES"].split(",") == world.known(NVIDIA_GPU)[:2]
        await world.break_chips(0)
        await until(lambda: len(world.known(NVIDIA_GPU)) == 7)
        await world.bind("b", {NVIDIA_GPU: 1}, {})
        assert await world.admit("b", 1, NVIDIA_GPU) == {"NVIDIA_VISIBLE_DEVICES": world.known(NVIDIA_GPU)[1]}
        assert world.objects.get(NODE)["metadata"]["labels"]["nvidia.com/gpu.count"] == "8"

    on_a_node(scenario, family="gpu-8")


def test_the_chips_of_swapped_pods_stay_theirs_until_both_have_started() -> None:
    async def scenario(world: World) -> None:
        await world.bind("later", {ASCEND_910: 1}, chosen("Ascend910-7", 20))
        await world.bind("earlier", {ASCEND_910: 1}, chosen("Ascend910-3", 10))
        await world.admit("later", 1)
        await asyncio.sleep(0.5)  # several corrections
        assert world.annotation("earlier", ASCEND_REAL) == "Ascend910-3"
        assert world.annotation("later", ASCEND_REAL) is None
        await world.objects.delete(pod_path("earlier"))
        await until(lambda: world.annotation("later", ASCEND_REAL) == "Ascend910-3")

    on_a_node(scenario)


def test_a_pod_that_cannot_be_annotated_gets_no_devices() -> None:
    async def scenario(world: World) -> None:
        await world.bind("a", {ASCEND_910: 1}, chosen("Ascend910-7", 20))
        world.api.answer("PATCH", pod_path("a"), {"code": 403, "reason": "Forbidden", "message": "no right"}, 403)
        with pytest.raises(RejectedError, match=r"the Pod was not annotated: .*no right"):
            await world.admit("a", 1)

    on_a_node(scenario)


def test_a_device_that_the_node_does_not_have_is_refused() -> None:
    async def scenario(world: World) -> None:
        endpoint = world.kubelet.endpoints[ASCEND_910]
        endpoint.health["Ascend910-8"] = "Healthy"
        with pytest.raises(RejectedError, match=r"n has no device .Ascend910-8. of huawei\.com/Ascend910"):
            await world.admit("a", 9)
        request = messages.PreStartContainerRequest(devices_ids=["Ascend910-8"])
        with pytest.raises(grpc.RpcError, match="has no device Ascend910-8"):
            await asyncio.to_thread(endpoint.call, "PreStartContainer", request, messages.PreStartContainerResponse)

    on_a_node(scenario)
