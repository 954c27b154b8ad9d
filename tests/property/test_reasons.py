"""The numbers of every reason explain the refusal: no message says that 8 of 8 are free if 8 are requested."""

from random import Random

import pytest

from tests.builders import World
from tests.contradictions import contradictions
from tests.property.clusters import CONFIGURATIONS, cluster


@pytest.mark.parametrize("conf", CONFIGURATIONS)
def test_no_message_about_random_clusters_contradicts_itself(conf: str) -> None:
    for seed in range(15):
        world = World(cluster(Random(seed), conf))
        for _ in range(2):
            world.run(CONFIGURATIONS[conf])
            for reason in ("FailedScheduling", "Unschedulable"):
                assert [bad for text in world.events(reason) for bad in contradictions(text)] == [], f"seed {seed}"
            for pod, text in world.waiting.items():
                assert list(contradictions(text)) == [], f"seed {seed}, {pod}: {text}"


@pytest.mark.parametrize(
    "text",
    [
        "5 Insufficient huawei.com/Ascend910. (huawei.com/Ascend910: asked 8, most free on one node 8)",
        "cpu: asked 1500m, most free 2, in HyperNode left",
        "2 node(s) had 8 of 8 chips free, all 8 are needed",
        "requested <1>, total would be <2>, but capability is <2>",
        "(cpu: asked 1, used 3, limit 4)",
    ],
)
def test_a_contradiction_is_found(text: str) -> None:
    assert len(list(contradictions(text))) == 1
