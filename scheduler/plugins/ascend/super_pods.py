"""Which nodes a job takes in super pods: a pure function of the free nodes per super pod.

A job is divided into blocks of equal size (logical super pods). The nodes of a block are in one super pod. Some nodes
of each super pod are a reserve, which is used last. A super pod is preferred that keeps the fewest nodes beside its
reserve and holds no more blocks than the job still needs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count
from typing import NamedTuple


class BlockRequest(NamedTuple):
    """The nodes that a job needs."""

    blocks: int
    size: int
    """Nodes of a block."""
    reserve: int
    """Nodes of each super pod that are used last."""
    soft: bool = False
    """The nodes of a block may be in several super pods if it does not fit into one."""

    @property
    def nodes(self) -> int:
        return self.blocks * self.size

    def fits(self, free: Mapping[int, Sequence[int]]) -> bool:
        """Whether ``choose_blocks`` finds nodes for all blocks."""
        if self.soft:
            return sum(map(len, free.values())) >= self.nodes
        return self.room(free) >= self.blocks

    def room(self, free: Mapping[int, Sequence[int]]) -> int:
        """Returns the number of blocks for which super pods have room."""
        return sum(len(nodes) // self.size for nodes in free.values())


class _SuperPod:
    """The free nodes of a super pod, and its place in the order of preference."""

    def __init__(self, nodes: Sequence[int], request: BlockRequest) -> None:
        self.nodes = list(nodes)
        beside_reserve = len(nodes) - request.reserve
        if beside_reserve < 0:
            self.blocks, self.remainder = 0, len(nodes) % request.size
        else:
            self.blocks, self.remainder = divmod(beside_reserve, request.size)

    def take(self, number: int) -> list[int]:
        taken, self.nodes = self.nodes[:number], self.nodes[number:]
        return taken


def choose_blocks(free: Mapping[int, Sequence[int]], request: BlockRequest) -> list[list[int]]:
    """Returns the nodes of each block of the job, the first block first; fewer nodes than requested if they do not fit.

    ``free``: super pod -> its free nodes. If the request is soft, parts of blocks in different super pods are returned
    as blocks of their own.
    """
    big_enough = {each: nodes for each, nodes in sorted(free.items()) if request.soft or len(nodes) >= request.size}
    super_pods = [_SuperPod(nodes, request) for nodes in big_enough.values()]
    result: list[list[int]] = []
    for super_pod in _beside_reserve(super_pods, request, result):
        while len(result) < request.blocks and len(super_pod.nodes) - request.reserve >= request.size:
            result.append(super_pod.take(request.size))
    for super_pod in _with_reserve(super_pods, request):
        if len(result) == request.blocks:
            return result
        if len(super_pod.nodes) >= request.size:
            result.append(super_pod.take(request.size))
    if request.soft:
        for super_pod in _leftovers(super_pods, request):
            missing = request.nodes - sum(map(len, result))
            if missing > 0 and super_pod.nodes:
                result.append(super_pod.take(min(request.size, missing)))
    return result


def numbers_of_parts(super_pods: Sequence[int | None], kept: Mapping[int, int], size: int) -> dict[int, int]:
    """Returns the number of the part of a block to which each task of a soft job belongs: place in the order of ranks
    -> number.

    Frameworks take Pods with one number for neighbours, so they are in one super pod, and no more than ``size``.
    ``super_pods``: the super pod of each task; None: it has no node. ``kept``: place -> number of the tasks that run.
    """
    numbers = dict(kept)
    members = Counter(kept.values())
    for place, super_pod in enumerate(super_pods):
        if super_pod is None or place in kept:
            continue
        near = sorted(range(max(place - size, 0), min(place + size, len(super_pods))), key=lambda at: abs(at - place))
        known = (numbers[at] for at in near if at in numbers and super_pods[at] == super_pod)
        number = next((each for each in known if members[each] < size), None)
        if number is None:
            number = next(each for each in chain((place // size,), count()) if not members[each])
        numbers[place] = number
        members[number] += 1
    return numbers


def _beside_reserve(
    super_pods: Sequence[_SuperPod], request: BlockRequest, result: Sequence[object]
) -> Iterator[_SuperPod]:
    """Takes super pods that hold no more blocks than the job needs, those first that keep the fewest nodes; then those
    that hold more, the smallest first. ``result`` grows meanwhile."""
    most = max((each.blocks for each in super_pods), default=0)
    cells: dict[tuple[int, int], list[_SuperPod]] = {}
    for each in super_pods:
        cells.setdefault((each.remainder, each.blocks), []).append(each)
    for remainder in range(request.size):
        blocks = 1
        while blocks <= min(request.blocks - len(result), most):
            yield from cells.get((remainder, blocks), ())
            blocks += 1
    for blocks in range(request.blocks - len(result) + 1, most + 1):
        for remainder in range(request.size):
            yield from cells.get((remainder, blocks), ())


def _with_reserve(super_pods: Sequence[_SuperPod], request: BlockRequest) -> Iterator[_SuperPod]:
    """Takes the super pods that keep the most nodes first. They provide one block each in turn, until none has room."""
    order = sorted(super_pods, key=lambda each: (-each.remainder, each.blocks, -len(each.nodes)))
    while any(len(each.nodes) >= request.size for each in order):
        yield from order


def _leftovers(super_pods: Sequence[_SuperPod], request: BlockRequest) -> list[_SuperPod]:
    """Returns the super pods with a larger remainder than the reserve first, the largest first; then the others, the
    smallest first."""
    larger = [each for each in super_pods if each.remainder >= request.reserve]
    smaller = [each for each in super_pods if each.remainder < request.reserve]
    return [
        *sorted(larger, key=lambda each: (-each.remainder, each.blocks, -len(each.nodes))),
        *sorted(smaller, key=lambda each: (each.remainder, each.blocks, -len(each.nodes))),
    ]
