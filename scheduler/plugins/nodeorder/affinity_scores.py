"""Scores by what a Pod would rather have of a node: preferred labels, no soft taints, its images already there."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from scheduler.api.node import Column, NodeFacts, Rows
from scheduler.api.objects import Taint
from scheduler.api.task import TaskClass
from scheduler.api.tolerations import PREFER_NO_SCHEDULE, tolerates
from scheduler.framework.columns import Counts, Scope, Score, StaticScore
from scheduler.plugins.selectors import Complain, nodes_of_term

FULL = 100
MEBIBYTE = 1024 * 1024
SMALL_IMAGE = 23 * MEBIBYTE
LARGE_IMAGE = 1000 * MEBIBYTE
"""Images below the one say nothing, above the other (per container) no more."""


class NormalisedScore:
    """Raw values scaled so that the largest among the candidates becomes 100 (``reverse``: so that it becomes 0)."""

    scope = Scope.CLUSTER

    def __init__(self, raw: Column, weight: int, *, reverse: bool = False) -> None:
        self._raw = raw
        self._weight = weight
        self._reverse = reverse

    def values(self, rows: Rows, ahead: Counts | None) -> Column:
        raw = self._raw[rows]
        largest = raw.max() if len(raw) else 0
        scaled = np.floor(raw * FULL / largest) if largest > 0 else np.zeros(len(rows))
        result: Column = (FULL - scaled if self._reverse else scaled) * self._weight
        return result


def node_affinity(facts: NodeFacts, cls: TaskClass, weight: int, complain: Complain) -> list[Score]:
    """The sum of the weights of the preferred terms that a node meets."""
    affinity = cls.affinity.node_affinity if cls.affinity else None
    raw = np.zeros(len(facts))
    for term in (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ():
        raw += term.weight * nodes_of_term(facts, term.preference, complain)
    return _normalised(raw, weight)


def taint_toleration(facts: NodeFacts, cls: TaskClass, weight: int) -> list[Score]:
    """The number of PreferNoSchedule taints that are not tolerated; none is best."""
    tolerations = [t for t in cls.spec.tolerations or () if t.effect in ("", PREFER_NO_SCHEDULE)]

    def bad(taints: Iterable[tuple[str, str, str]]) -> int:
        return sum(
            effect == PREFER_NO_SCHEDULE and not tolerates(tolerations, Taint(key=key, value=value, effect=effect))
            for key, value, effect in taints
        )

    per_set = np.array([bad(taints) for taints in facts.taint_sets], dtype=np.float64)
    if not per_set.any():
        return []
    return _normalised(per_set[facts.taint_codes], weight, reverse=True)


def _normalised(raw: Column, weight: int, *, reverse: bool = False) -> list[Score]:
    if not len(raw) or (raw == raw[0]).all():
        return []
    return [NormalisedScore(raw, weight, reverse=reverse)]


def image_locality(facts: NodeFacts, cls: TaskClass, weight: int, shared: dict[object, Any]) -> list[Score]:
    """How much of the Pod's images is on a node already, each discounted by how few nodes have it."""
    images = shared.get("images")
    if images is None:
        images = shared["images"] = _images(facts)
    raw = np.zeros(len(facts))
    containers = [*cls.spec.containers, *(cls.spec.init_containers or ())]
    for container in containers:
        for row, size in images.get(_full_name(container.image), {}).items():
            raw[row] += int(size * (len(images[_full_name(container.image)]) / len(facts)))
    if not raw.any():
        return []
    most = LARGE_IMAGE * max(len(containers), 1)
    clipped = np.clip(raw, SMALL_IMAGE, most)
    return [StaticScore(np.floor(FULL * (clipped - SMALL_IMAGE) / (most - SMALL_IMAGE)) * weight)]


def _images(facts: NodeFacts) -> dict[str, dict[int, int]]:
    """Image name -> row -> bytes."""
    images: dict[str, dict[int, int]] = {}
    for row, node in enumerate(facts.objects):
        for image in node.status.images or ():
            for name in image.names or ():
                images.setdefault(_full_name(name), {})[row] = image.size_bytes
    return images


def _full_name(image: str) -> str:
    """The image with ``:latest`` where it has neither tag nor digest."""
    return image if "@" in image or image.rfind(":") > image.rfind("/") else f"{image}:latest"
