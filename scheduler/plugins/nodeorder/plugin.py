"""nodeorder: the scores of kube-scheduler 1.36, each from 0 to 100, multiplied by Volcano's weights.

A score that is equal on all nodes is left out, because it changes no decision. The scores that follow from Node objects
are here, those that depend on other Pods in ``pod_scores``.
"""

from collections.abc import Iterable, Iterator
from itertools import compress
from operator import is_not
from typing import ClassVar, Final

import msgspec
import numpy as np

from scheduler.api.node import Column, NodeFacts, Rows
from scheduler.api.objects import Node, Taint
from scheduler.api.pod_rules import PREFER_NO_SCHEDULE, tolerates
from scheduler.api.selectors import FieldReporter, nodes_of_term
from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Counts, Scope, Score, StaticScore
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.plugins.nodeorder.pod_scores import pod_affinity, topology_spread
from scheduler.plugins.support.pod_counts import PodCounts
from scheduler.plugins.support.utilization import BalancedAllocation, LeastAllocated, MostAllocated

FULL = 100
MEBIBYTE = 1024 * 1024
SMALL_IMAGE = 23 * MEBIBYTE
LARGE_IMAGE = 1000 * MEBIBYTE
"""Total sizes up to SMALL_IMAGE score 0, and from LARGE_IMAGE per container 100."""
MAX_COLUMNS: Final = 1024
"""Sets of images whose sizes on the nodes are kept: a user can write any number of sets."""


@register_plugin
class NodeOrder:
    """Arguments, all integers: ``leastrequested.weight`` 1, ``mostrequested.weight`` 0, ``nodeaffinity.weight`` 2,
    ``podaffinity.weight`` 2, ``balancedresource.weight`` 1, ``tainttoleration.weight`` 3, ``imagelocality.weight`` 1,
    ``podtopologyspread.weight`` 2. Weight 0 disables a score."""

    name: ClassVar[str] = "nodeorder"

    def __init__(self, arguments: Arguments) -> None:
        self._least_requested = arguments.integer("leastrequested.weight", 1)
        self._most_requested = arguments.integer("mostrequested.weight", 0)
        self._node_affinity = arguments.integer("nodeaffinity.weight", 2)
        self._pod_affinity = arguments.integer("podaffinity.weight", 2)
        self._balanced = arguments.integer("balancedresource.weight", 1)
        self._taints = arguments.integer("tainttoleration.weight", 3)
        self._images = arguments.integer("imagelocality.weight", 1)
        self._spread = arguments.integer("podtopologyspread.weight", 2)

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._counts = session.once(PodCounts)
        session.add_score(self._scores)

    def _scores(self, cls: TaskClass) -> list[Score]:
        session, nodes = self._session, self._session.nodes
        report = session.field_reporter(cls)
        scores: list[Score] = []
        if self._least_requested:
            scores.append(LeastAllocated(nodes, cls, self._least_requested))
        if self._most_requested:
            scores.append(MostAllocated(nodes, cls, self._most_requested))
        if self._balanced and not cls.best_effort:
            scores.append(BalancedAllocation(nodes, cls, self._balanced, session.dimensions))
        if self._node_affinity:
            scores += node_affinity(nodes.facts, cls, self._node_affinity, report)
        if self._taints:
            scores += taint_toleration(nodes.facts, cls, self._taints)
        if self._images:
            scores += image_locality(session, cls, self._images)
        if self._pod_affinity:
            scores += pod_affinity(session, self._counts, cls, self._pod_affinity, report)
        if self._spread:
            scores += topology_spread(session, self._counts, cls, self._spread, report)
        return scores


class NormalizedScore(msgspec.Struct, eq=False):
    """Scales raw values so that the largest among the candidate nodes becomes 100 (``reverse``: becomes 0)."""

    raw: Column
    weight: int
    reverse: bool = False
    scope = Scope.CLUSTER
    moves = False

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        raw = self.raw[rows]
        largest = raw.max() if len(raw) else 0
        scaled = np.floor(raw * FULL / largest) if largest > 0 else np.zeros(len(rows))
        result: Column = (FULL - scaled if self.reverse else scaled) * self.weight
        return result

    def of_groups(self, rows: Rows, sizes: Counts) -> Column:
        return self.values(rows, None)

    def traits(self, rows: Rows) -> list[Column]:
        return [self.raw[rows]]

    def place(self, row: int, number: int) -> None:
        """Does nothing: placements change no raw value."""


def node_affinity(facts: NodeFacts, cls: TaskClass, weight: int, report: FieldReporter) -> list[Score]:
    """Scores a node by the sum of the weights of the preferred terms that it matches."""
    affinity = cls.affinity.node_affinity if cls.affinity else None
    preferred = (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()
    if not preferred:
        return []
    raw = np.zeros(len(facts))
    for term in preferred:
        raw += term.weight * nodes_of_term(facts, term.preference, report)
    return _normalized(raw, weight)


def taint_toleration(facts: NodeFacts, cls: TaskClass, weight: int) -> list[Score]:
    """Scores a node by the number of PreferNoSchedule taints that are not tolerated; fewer are better."""
    tolerations = [t for t in cls.spec.tolerations or () if t.effect in ("", PREFER_NO_SCHEDULE)]

    def untolerated(taints: Iterable[tuple[str, str, str]]) -> int:
        return sum(
            effect == PREFER_NO_SCHEDULE and not tolerates(tolerations, Taint(key=key, value=value, effect=effect))
            for key, value, effect in taints
        )

    per_set = np.array([untolerated(taints) for taints in facts.taint_sets], dtype=np.float64)
    if not per_set.any():
        return []
    return _normalized(per_set[facts.taint_codes], weight, reverse=True)


def image_locality(session: PluginSession, cls: TaskClass, weight: int) -> list[Score]:
    """Scores a node by the sizes of the Pod's images that it has. Empty if no node has any of them."""
    containers = [*cls.spec.containers, *(cls.spec.init_containers or ())]
    mounted = [volume.image.reference for volume in cls.spec.volumes or () if volume.image is not None]
    images = [*(container.image for container in containers), *mounted]
    facts = session.nodes.facts
    index = session.memo(ImageIndex, (facts,), lambda before: (before or ImageIndex()).follow(facts))
    raw = index.column(tuple(sorted(map(full_name, images))))
    if raw is None:
        return []
    maximum = LARGE_IMAGE * len(containers)
    clipped = np.clip(raw, SMALL_IMAGE, maximum)
    return [StaticScore(np.floor(FULL * (clipped - SMALL_IMAGE) / (maximum - SMALL_IMAGE)) * weight)]


class ImageIndex:
    """An index of the images of all nodes.

    Nodes report about fifty images each, so building an index of them in every session would cost too much. Sessions
    keep one index, and read only Node objects that were replaced.
    """

    def __init__(self) -> None:
        self._facts = NodeFacts([])
        self._nodes: dict[str, Node] = {}
        self._sizes: dict[str, dict[str, int]] = {}
        """Image -> node name -> bytes."""
        self._columns: dict[tuple[str, ...], Column] = {}

    def column(self, images: tuple[str, ...]) -> Column | None:
        """Returns the bytes of the images on each node, each image multiplied by the fraction of nodes that have it.
        Shape (nodes,); None if no node has any of the images. Callers must not change the column."""
        column = self._columns.get(images)
        if column is None:
            column = self._sum(self._facts, images)
            if column is not None:
                if len(self._columns) >= MAX_COLUMNS:
                    del self._columns[next(iter(self._columns))]
                self._columns[images] = column
        return column

    def follow(self, facts: NodeFacts) -> "ImageIndex":
        """Reads the nodes that have changed, and returns the index itself."""
        before, self._facts = self._facts, facts
        self._columns.clear()
        nodes: Iterable[Node] = facts.objects
        if before.names is facts.names:
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
        return self

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


def _normalized(raw: Column, weight: int, *, reverse: bool = False) -> list[Score]:
    values = np.unique(raw)
    if len(values) < 2:
        return []
    score = NormalizedScore(raw, weight, reverse=reverse)
    if len(values) == 2 and values[0] >= 0:
        # Two values have the same scores for any candidates that have both. If all candidates have the same value, the
        # scale differs, but changes no decision.
        return [StaticScore(score.values(np.arange(len(raw)), None))]
    return [score]
