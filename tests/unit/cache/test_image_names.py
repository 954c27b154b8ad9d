"""The names of images on nodes are kept once for all nodes."""

import msgspec

from scheduler.api.kinds import NODE
from scheduler.api.objects import Node
from scheduler.cache import ClusterCache


def test_nodes_share_the_names_of_their_images() -> None:
    cache = ClusterCache(["s"])
    raw = b'{"metadata":{"name":"%s"},"status":{"images":[{"names":["registry.example/train:1"]},{}]}}'
    nodes = [msgspec.json.decode(raw % name, type=Node) for name in (b"a", b"b")]
    for node in nodes:
        cache.upsert(NODE, node)
    first, second = (node.status.images or [] for node in nodes)
    assert first[0].names and second[0].names and first[0].names[0] is second[0].names[0]
    assert first[1].names is None
