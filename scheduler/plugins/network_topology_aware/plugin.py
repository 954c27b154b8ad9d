"""The plugin: gangs that ask for a network topology are kept within HyperNodes of low tiers, and close together there;
all others fill HyperNodes that are in use before they begin another (Volcano's network-topology-aware plugin)."""

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job
from scheduler.api.node import Codes, Column
from scheduler.api.resource import Vector
from scheduler.api.subjob import SubJob
from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Score
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session
from scheduler.plugins.network_topology_aware.gradients import Gradients
from scheduler.plugins.network_topology_aware.packing import Packing
from scheduler.plugins.network_topology_aware.scores import Closeness, ClosenessScore, PackingScore
from scheduler.plugins.network_topology_aware.whereabouts import Whereabouts
from scheduler.plugins.support.utilization import resource_weights

FULL = 100.0
MOST_FOR_EVICTION = 8
FADING = 0.8


@register_plugin
class NetworkTopologyAware:
    """Arguments: ``weight`` (1), with the prefix ``hypernode.binpack`` those of ``resource_weights``,
    ``hypernode.binpack.normal-pod.enable`` (true), ``hypernode.binpack.normal-pod.fading`` (0.8),
    ``hypernode.gradient.evict.max-hypernodes`` (8)."""

    name: ClassVar[str] = "network-topology-aware"

    def __init__(self, arguments: Arguments) -> None:
        self._scale = FULL * arguments.integer("weight", 1, least=0)
        self._weights = resource_weights(arguments, "hypernode.binpack")
        self._packs = arguments.boolean("hypernode.binpack.normal-pod.enable", True)
        self._fading = arguments.number("hypernode.binpack.normal-pod.fading", FADING, least=0)
        self._most = arguments.integer("hypernode.gradient.evict.max-hypernodes", MOST_FOR_EVICTION, least=1)

    def open(self, session: Session) -> None:
        self._session = session
        self._whereabouts = Whereabouts(session)
        self._closeness = Closeness(session.hyper_nodes)
        if any(job.confined for job in session.jobs.values()):
            session.add_hyper_node_gradient(Gradients(session, self._whereabouts, self._most).of)
        session.add_hyper_node_order(self._hyper_node_scores)
        session.add_score(self._scores, per_job=_topologies_asked)

    @cached_property
    def _packing(self) -> Packing:
        session = self._session
        found = ((session.dimensions.find(name), float(weight)) for name, weight in self._weights.items())
        weights = {position: weight for position, weight in found if position is not None}
        return Packing(session.nodes, session.hyper_nodes, weights)

    # --- HyperNodes ---
    def _hyper_node_scores(self, sub_job: SubJob, hyper_nodes: Sequence[HyperNode]) -> Column:
        """How full each would be with all tasks of the sub-job; of the fullest, how much of it is there already."""
        request: Vector = self._session.dimensions.zeros()
        for task in sub_job.tasks.values():
            request += task.cls.request
        scores: Column = self._packing.scores(request)[[hn.index for hn in hyper_nodes]]
        best = np.flatnonzero(scores == scores.max(initial=-1.0)).tolist()
        spread = self._whereabouts.of(sub_job)
        if len(best) > 1 and spread.rows:
            scores[best] += [spread.within(hyper_nodes[i]) / len(sub_job.tasks) for i in best]
        return scores * self._scale

    # --- nodes ---
    def _scores(self, cls: TaskClass, asked: frozenset[bool]) -> list[Score]:
        scores: list[Score] = []
        if True in asked:
            scores.append(ClosenessScore(self._session, self._whereabouts, self._closeness, self._scale))
        if False in asked and self._packs and self._tiers:
            scores.append(PackingScore(self._session, self._tiers, self._packing, cls, self._scale))
        return scores

    @cached_property
    def _tiers(self) -> dict[int, tuple[float, Codes]]:
        """Tier -> (what it counts, the HyperNode that each node is in). The top, where all nodes are, is left out, and
        so are numbers between the tiers that no HyperNode has: they make no difference between nodes."""
        tree = self._session.hyper_nodes
        low, high = tree.tiers[0], tree.tiers[-1]
        return {tier: (_share(self._fading, tier, low, high), tree.codes_of(tier)) for tier in tree.tiers[:-1]}


def _topologies_asked(job: Job) -> frozenset[bool]:
    """Whether its sub-jobs ask for a topology: all do, none does, or some do."""
    return frozenset(sub_job.topology is not None for sub_job in job.sub_jobs.values()) or frozenset({False})


def _share(fading: float, tier: int, low: int, high: int) -> float:
    """What a tier counts of all from ``low`` to ``high``, each counting ``fading`` times the one below."""
    if fading == 0:
        return float(tier == 1)
    factor, steps = (fading, tier - low) if fading <= 1 else (1 / fading, high - tier)
    number = high - low + 1
    total = number if factor == 1 else (1 - factor**number) / (1 - factor)
    share: float = factor**steps / total
    return share
