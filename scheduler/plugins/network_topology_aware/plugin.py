"""network-topology-aware: keeps jobs with a network topology within HyperNodes of low tiers, and close together there;
packs all other tasks into HyperNodes that are in use (Volcano's network-topology-aware plugin)."""

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from scheduler.api.hypernode import HyperNode
from scheduler.api.job import Job
from scheduler.api.names import CARD_GANGS
from scheduler.api.node import Codes, Column
from scheduler.api.resource import Vector
from scheduler.api.sub_job import SubJob
from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Score
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.plugins.network_topology_aware.gradients import Gradients, SubJobPlacements
from scheduler.plugins.network_topology_aware.scores import Closeness, ClosenessScore, Packing, PackingScore
from scheduler.plugins.support.utilization import resource_weights

FULL = 100.0
MAX_FOR_EVICTION = 8
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
        self._packing_enabled = arguments.boolean("hypernode.binpack.normal-pod.enable", True)
        self._fading = arguments.number("hypernode.binpack.normal-pod.fading", FADING, least=0)
        self._max_for_eviction = arguments.integer("hypernode.gradient.evict.max-hypernodes", MAX_FOR_EVICTION, least=1)

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._placements = SubJobPlacements(session)
        self._closeness = Closeness(session.hyper_nodes)
        # A job without Pods has no tier limit yet, and enqueue may try its alternatives with Pods on trial.
        if any(job.has_tier_limit or CARD_GANGS in job.annotations for job in session.active_jobs.values()):
            session.add_hyper_node_gradient(Gradients(session, self._placements, self._max_for_eviction).of)
        session.add_hyper_node_order(self._hyper_node_scores)
        session.add_score(self._scores, per_job=_topology_requests)

    @cached_property
    def _packing(self) -> Packing:
        session = self._session
        found = ((session.dimensions.find(name), float(weight)) for name, weight in self._weights.items())
        weights = {position: weight for position, weight in found if position is not None}
        return Packing(session.nodes, session.hyper_nodes, weights)

    # --- HyperNodes ---
    def _hyper_node_scores(self, sub_job: SubJob, hyper_nodes: Sequence[HyperNode]) -> Column:
        """The utilization of each HyperNode with all tasks of the sub-job. Among equal ones, HyperNodes that already
        have more of its tasks score higher."""
        request: Vector = self._session.dimensions.zeros()
        for task in sub_job.tasks.values():
            request += task.cls.request
        scores: Column = self._packing.scores(request)[[hn.index for hn in hyper_nodes]]
        best = np.flatnonzero(scores == scores.max(initial=-1.0)).tolist()
        placed = self._placements.of(sub_job)
        if len(best) > 1 and placed.rows:
            scores[best] += [placed.within(hyper_nodes[i]) / len(sub_job.tasks) for i in best]
        return scores * self._scale

    # --- nodes ---
    def _scores(self, cls: TaskClass, requests: frozenset[bool]) -> list[Score]:
        scores: list[Score] = []
        if True in requests:
            scores.append(ClosenessScore(self._session, self._placements, self._closeness, self._scale))
        if False in requests and self._packing_enabled and self._tiers:
            scores.append(PackingScore(self._session, self._tiers, self._packing, cls, self._scale))
        return scores

    @cached_property
    def _tiers(self) -> dict[int, tuple[float, Codes]]:
        """Tier -> (its weight, the HyperNode of each node). The highest tier, which has all nodes, and tiers without
        HyperNodes are left out, because they do not differ between nodes."""
        tree = self._session.hyper_nodes
        low, high = tree.tiers[0], tree.tiers[-1]
        return {tier: (_tier_weight(self._fading, tier, low, high), tree.codes_of(tier)) for tier in tree.tiers[:-1]}


def _topology_requests(job: Job) -> frozenset[bool]:
    """Whether the sub-jobs of a job have a network topology: {True} for all, {False} for none, both for some."""
    return frozenset(sub_job.topology is not None for sub_job in job.sub_jobs.values()) or frozenset({False})


def _tier_weight(fading: float, tier: int, low: int, high: int) -> float:
    """The weight of a tier, if each tier from ``low`` to ``high`` weighs ``fading`` times as much as the one below and
    all weights add up to 1."""
    if fading == 0:
        return float(tier == 1)
    factor, steps = (fading, tier - low) if fading <= 1 else (1 / fading, high - tier)
    number = high - low + 1
    total = number if factor == 1 else (1 - factor**number) / (1 - factor)
    weight: float = factor**steps / total
    return weight
