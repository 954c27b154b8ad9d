"""The families of simulated nodes and those of the plugin ``ascend`` are the same hardware: each family of the plugin
has a node on which its jobs run, and each simulated node has jobs. The playground is a reading of its own of the
formats and imports no plugin, so a test ties the two."""

from functools import cache
from typing import Final

from scheduler.api.kinds import POD
from scheduler.api.names import ACCELERATOR_TYPE, SCHEDULE_POLICY, SP_BLOCK
from scheduler.cluster.memory import Simulation
from scheduler.framework.configuration_file import parse_configuration
from scheduler.playground.families import FAMILIES as SIMULATED
from scheduler.playground.kubelet import ready_conditions
from scheduler.playground.node import new_machines, node_manifest
from scheduler.plugins.ascend.families import FAMILIES
from scheduler.plugins.ascend.family import ChipFamily
from tests.builders import NAME, Raw, group, manifests, pod

CONFIGURATION: Final = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: ascend}, {name: predicates}]
"""


def job(family: ChipFamily, resource: str) -> list[Raw]:
    """One Pod that requests as few chips as the family allows, with the fields that choose the family."""
    chips = family.chips if family.super_pods else min(family.sizes)
    traits = {trait: values[0].replace("*", "") for trait, values in (family.traits or {}).items() if values[0]}
    selector = {key: traits.pop(key) for key in (ACCELERATOR_TYPE,) if key in traits}
    annotations = {SCHEDULE_POLICY: min(family.policies)} if family.policies else {}
    if family.super_pods:
        annotations[SP_BLOCK] = str(chips)
    request = f"1c+1Gi+{resource}={chips}"
    return [
        group(family.name, annotations=annotations, labels=traits),
        pod(family.name, request, family.name, selector=selector, annotations=annotations, labels=traits),
    ]


@cache
def runs_on(simulated: str) -> frozenset[str]:
    """The families of the plugin whose jobs run on simulated nodes of a kind; there are enough for all of them."""
    kind = SIMULATED[simulated]
    families = [family for family in FAMILIES if kind.resource in family.resources]
    nodes = [node_manifest(it, ready_conditions(0)) for it in new_machines([kind], 2 * len(families), "npu", "", 4, {})]
    jobs = [job(family, kind.resource) for family in families]
    simulation = Simulation(manifests(*nodes, *jobs), parse_configuration(CONFIGURATION, "test"), [NAME])
    simulation.run()
    return frozenset(
        pod["metadata"]["name"] for pod in simulation.cluster.server.of(POD) if pod["status"].get("phase") == "Running"
    )


def test_jobs_of_each_family_of_the_plugin_run_on_a_simulated_node() -> None:
    """A new family needs a node in ``scheduler/playground/families.py``, unless an existing one is its hardware."""
    without = {family.name for family in FAMILIES} - {name for kind in SIMULATED for name in runs_on(kind)}
    assert without == set()


def test_each_simulated_node_runs_jobs_of_a_family_of_the_plugin() -> None:
    assert {kind for kind in SIMULATED if not runs_on(kind)} == set()
