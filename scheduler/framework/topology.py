"""How far jobs may spread over the network, as a tier of the HyperNodes.

When a session opens, ``networkTopology`` of a PodGroup becomes one number: the highest tier its tasks may spread over.
``hard`` names this tier by number or name. ``soft`` allows the highest tier that exists, since lower tiers are tried
first in any case; a soft sub-group of a job with a limit stays within that limit.
"""

from collections.abc import Iterable, Iterator

from scheduler.api.hypernode import HyperNodes
from scheduler.api.job import Job
from scheduler.api.names import HARD, SOFT
from scheduler.api.reasons import Malformed
from scheduler.api.scheduling import NetworkTopology

NO_LIMIT = "the job is placed as if it asked for no tier"


def set_tier_limits(jobs: Iterable[Job], hyper_nodes: HyperNodes) -> Iterator[Malformed]:
    """Sets the limits of jobs with sub-jobs. Reports tier names that no HyperNode has."""
    for job in jobs:
        highest = hyper_nodes.top.tier
        job.tier_limit = _limit(job.topology, hyper_nodes, highest)
        for sub_job in job.sub_jobs.values():
            within = highest if job.tier_limit is None else job.tier_limit
            sub_job.tier_limit = _limit(sub_job.topology, hyper_nodes, within)
        topologies = [job.topology, *(sub_job.topology for sub_job in job.sub_jobs.values())]
        unknown = {t.highest_tier_name for t in topologies if t is not None and _names_nothing(t, hyper_nodes)}
        for name in sorted(filter(None, unknown)):
            problem = f"no HyperNode has the tier name {name[:64]!r}"
            field = "spec.networkTopology.highestTierName"
            yield Malformed("PodGroup", job.namespace, job.name, field, problem, NO_LIMIT)


def _limit(topology: NetworkTopology | None, hyper_nodes: HyperNodes, soft: int) -> int | None:
    """Returns the highest tier of a topology; None: there is no limit. ``soft``: the limit in the mode soft."""
    if topology is None or topology.mode not in (None, HARD, SOFT):
        return None
    if topology.mode == SOFT:
        return soft
    if topology.highest_tier_allowed is not None:
        return topology.highest_tier_allowed
    return hyper_nodes.tier_names.get(topology.highest_tier_name or "")


def _names_nothing(topology: NetworkTopology, hyper_nodes: HyperNodes) -> bool:
    return bool(
        topology.mode != SOFT
        and topology.highest_tier_allowed is None
        and topology.highest_tier_name
        and topology.highest_tier_name not in hyper_nodes.tier_names
    )
