"""The network topology that a job, a partition or a PodGroup asks for."""

from typing import Final

from scheduler.api.scheduling import NetworkTopology

_BOTH_TIERS: Final = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"


def topology_problem(topology: NetworkTopology | None) -> str:
    """That it names its highest tier in two ways, or ""."""
    both = topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name
    return _BOTH_TIERS if both else ""
