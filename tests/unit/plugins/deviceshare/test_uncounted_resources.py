"""Resources that only the plugin accounts for are not counted as amounts of nodes while it is enabled."""

from tests.builders import World, configuration, group, queue
from tests.unit.plugins.deviceshare.devices import ASCEND, HAMI, config_map, jobs, limited, npu_node, npus

MEMORY = f"{ASCEND}-memory"
PLAIN = configuration(["priority", "gang"])


def test_uncounted_resources_count_only_while_the_plugin_is_disabled() -> None:
    requesting = limited("p", {ASCEND: 1, MEMORY: 3000, "cpu": 1})
    world = World(npu_node("n"), jobs(requesting, asks=f"1c+{MEMORY}=3000")).run(PLAIN)
    assert world.bound == {}
    assert npus(world.run(HAMI)) == {"p": "n-0,Ascend310P,3072,0:;"}
    fresh = World(npu_node("n"), jobs(requesting, asks=f"1c+{MEMORY}=3000"))
    fresh.session(HAMI)
    assert fresh.run(PLAIN).bound == {}


def test_node_usage_and_gang_requests_are_recounted_when_the_plugin_is_enabled() -> None:
    world = World(npu_node("n"), jobs(limited("p", {ASCEND: 1, MEMORY: 3000}, on="n"), asks=f"{MEMORY}=3000"))
    counted = world.session(PLAIN)
    position = counted.dimensions.find(MEMORY)
    assert position is not None
    job = counted.jobs["default/job"]
    assert counted.nodes.used[position].tolist() == [3_000_000]
    assert job.min_resources is not None and job.min_resources[position] == 3_000_000
    left_out = world.session(HAMI)
    job = left_out.jobs["default/job"]
    assert left_out.nodes.used[position].tolist() == [0] and left_out.nodes.idle[position].tolist() == [0]
    assert job.min_resources is not None and job.min_resources[position] == 0 and job.allocated[position] == 0


def test_uncounted_names_follow_the_config_map() -> None:
    text = "vnpus: [{commonWord: B, resourceName: huawei.com/B, resourceMemoryName: huawei.com/B-mem}]"
    world = World(config_map("volcano-vgpu-device-config", {"device-config.yaml": text}))
    assert world.session(HAMI).dimensions.uncounted == {
        "huawei.com/B-mem",
        "huawei.com/B-core",
    }


def test_a_capability_of_an_uncounted_resource_does_not_limit_the_queue() -> None:
    settings = configuration(
        ["priority", "gang"],
        ["deviceshare", "capacity"],
        arguments={"deviceshare": {"deviceshare.AscendHAMiVNPUEnable": True}},
    )
    requesting = limited("p", {ASCEND: 1, MEMORY: 3000}, annotations={"scheduling.k8s.io/group-name": "g"})
    world = World(npu_node("n"), queue("q", capability=f"{MEMORY}=1000"), group("g", "q"), requesting).run(settings)
    assert world.bound == {"p": "n"}
