"""Scores nodes by the images of a Pod that they already have (Kubernetes' ImageLocality).

Nodes report about fifty images each, so building an index of them in every session would cost too much. The process
keeps one index and updates it from session to session: it reads only Node objects that were replaced.
"""

from collections.abc import Iterable, Iterator
from itertools import compress
from operator import is_not
from threading import Lock

import numpy as np

from scheduler.api.node import Column, NodeFacts, Rows
from scheduler.api.objects import Node
from scheduler.api.task import TaskClass
from scheduler.framework.columns import Score, StaticScore

FULL = 100
MEBIBYTE = 1024 * 1024
SMALL_IMAGE = 23 * MEBIBYTE
LARGE_IMAGE = 1000 * MEBIBYTE
"""Total sizes up to SMALL_IMAGE score 0, and from LARGE_IMAGE per container 100."""


class ImageIndex:
    """An index of the images of all nodes."""

    def __init__(self) -> None:
        self._facts: NodeFacts | None = None
        self._nodes: dict[str, Node] = {}
        self._sizes: dict[str, dict[str, int]] = {}
        """Image -> node name -> bytes."""
        self._columns: dict[tuple[str, ...], Column | None] = {}
        self._lock = Lock()

    def column(self, facts: NodeFacts, images: tuple[str, ...]) -> Column | None:
        """The bytes of the images on each node, each image multiplied by the fraction of nodes that have it. Shape
        (nodes,); None if no node has any of the images. Callers must not change the column."""
        with self._lock:
            self._update(facts)
            if images not in self._columns:
                self._columns[images] = self._sum(facts, images)
            return self._columns[images]

    def _update(self, facts: NodeFacts) -> None:
        if self._facts is facts:
            return
        before, self._facts = self._facts, facts
        self._columns.clear()
        nodes: Iterable[Node] = facts.objects
        if before is not None and before.names is facts.names:
            nodes = compress(facts.objects, map(is_not, before.objects, facts.objects))
        else:
            for name in self._nodes.keys() - facts.index.keys():
                self._remove(self._nodes.pop(name))
        for node in nodes:
            name = node.metadata.name
            known = self._nodes.get(name)
            if known is node:
                continue
            if known is not None:
                self._remove(known)
            self._nodes[name] = node
            for image, size in _images(node):
                self._sizes.setdefault(image, {})[name] = size

    def _remove(self, node: Node) -> None:
        for image, _ in _images(node):
            holders = self._sizes.get(image)
            if holders is not None:
                holders.pop(node.metadata.name, None)
                if not holders:
                    del self._sizes[image]

    def _sum(self, facts: NodeFacts, images: tuple[str, ...]) -> Column | None:
        total: Column | None = None
        for image in images:
            holders = self._sizes.get(image)
            if not holders:
                continue
            rows: Rows = np.fromiter((facts.index[name] for name in holders), dtype=np.intp, count=len(holders))
            sizes = np.fromiter(holders.values(), dtype=np.float64, count=len(holders))
            if total is None:
                total = np.zeros(len(facts))
            total[rows] += np.trunc(sizes * (len(holders) / len(facts)))
        return total


def _images(node: Node) -> Iterator[tuple[str, int]]:
    for image in node.status.images or ():
        for name in image.names or ():
            yield full_name(name), image.size_bytes


def full_name(image: str) -> str:
    """The image name, with ``:latest`` appended if it has neither a tag nor a digest."""
    return image if "@" in image or image.rfind(":") > image.rfind("/") else f"{image}:latest"


_index = ImageIndex()


def image_locality(facts: NodeFacts, cls: TaskClass, weight: int) -> list[Score]:
    """Scores a node by the sizes of the Pod's images that it has. Empty if no node has any of them."""
    containers = [*cls.spec.containers, *(cls.spec.init_containers or ())]
    mounted = [volume.image.reference for volume in cls.spec.volumes or () if volume.image is not None]
    images = [*(container.image for container in containers), *mounted]
    raw = _index.column(facts, tuple(sorted(map(full_name, images))))
    if raw is None:
        return []
    maximum = LARGE_IMAGE * len(containers)
    clipped = np.clip(raw, SMALL_IMAGE, maximum)
    return [StaticScore(np.floor(FULL * (clipped - SMALL_IMAGE) / (maximum - SMALL_IMAGE)) * weight)]
