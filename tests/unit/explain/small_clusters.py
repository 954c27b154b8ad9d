"""Builds explanations of small clusters."""

from typing import Any

from scheduler.cluster.memory import Simulation
from scheduler.explain import Explanation, explain
from scheduler.framework.configuration import Configuration
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, group, manifests, node, pod

DEFAULT = parse_configuration(DEFAULT_CONFIGURATION)
PLAIN = parse_configuration(
    "actions: enqueue, allocate, backfill\n"
    "tiers:\n- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}]\n"
)

LARGE = (
    node("large", "64c+64Gi"), group("full"), pod("full-0", "64c+64Gi", "full", on="large", priority=9),
)  # fmt: skip
"""A large node that is full: a machine of its size exists."""


def explained(kind: str, name: str, *objects: Any, conf: Configuration = PLAIN, search: bool = False) -> Explanation:
    simulation = Simulation(manifests(*objects), conf, [NAME])
    return explain(simulation, kind, "default", name, search=search)


def changes(name: str, *objects: Any, conf: Configuration = PLAIN) -> list[str]:
    """The texts of the changes that would let a PodGroup run."""
    return [change.text for change in explained("podgroup", name, *objects, conf=conf, search=True).changes]
