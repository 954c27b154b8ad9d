"""Short builders of clusters: the builders of ``scheduler.testing``, and some that only the tests of this repository
use."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from scheduler.api.snapshot import Memory
from scheduler.cache import ClusterCache
from scheduler.cluster.manifests import decode
from scheduler.testing import World as PluginWorld
from scheduler.testing import amounts, configuration, gang, group, hyper_node, node, only, pod, pods, queue
from scheduler.testing.objects import NAME, Raw, manifests

__all__ = [
    "NAME",
    "Raw",
    "World",
    "amounts",
    "configuration",
    "feed",
    "forgotten",
    "gang",
    "group",
    "hyper_node",
    "manifests",
    "node",
    "only",
    "pod",
    "pods",
    "queue",
]


def feed(cache: ClusterCache, *objects: Raw | Sequence[Raw]) -> None:
    """Delivers objects to a cache like a watch; missing uids are derived from names."""
    for manifest in manifests(*objects):
        assert manifest.kind is not None
        meta = manifest.raw["metadata"]
        raw = {**manifest.raw, "metadata": {"uid": f"uid-{manifest.raw['kind']}-{meta['name']}", **meta}}
        cache.upsert(manifest.kind, decode(manifest.kind, raw, manifest.where))


@contextmanager
def forgotten(world: PluginWorld) -> Iterator[None]:
    """Within the block, sessions use nothing of the sessions before."""
    cache = world.cluster.cache
    kept, cache.memory = cache.memory, Memory()
    try:
        yield
    finally:
        cache.memory = kept


class World(PluginWorld):
    """A World with questions about single Pods."""

    def message_of(self, name: str) -> str:
        """Returns why a Pod waits, according to the last cycle; "" if there is no message."""
        return self.waiting.get(name, "")
