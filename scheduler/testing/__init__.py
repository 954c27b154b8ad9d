"""Builds clusters for tests of plugins and actions: objects in a few words, and a World that schedules them.

    from scheduler.testing import World, configuration, gang, node, queue

    world = World(node("n1", "4c+8Gi"), queue("research"), gang("train", 2, "1c", "research"))
    world.run(configuration(["gang", "my-plugin"], ["predicates"], arguments={"my-plugin": {"limit": 3}}))
    assert world.bound == {"train-0": "n1", "train-1": "n1"}

``docs/writing-plugins.md`` is the guide.
"""

from scheduler.testing.objects import amounts, gang, group, hyper_node, node, pod, pods, queue
from scheduler.testing.world import World, configuration, only

__all__ = [
    "World",
    "amounts",
    "configuration",
    "gang",
    "group",
    "hyper_node",
    "node",
    "only",
    "pod",
    "pods",
    "queue",
]
