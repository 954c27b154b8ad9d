"""A cluster in memory that follows the changes of another one decides as if it were loaded again."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory import Simulation
from scheduler.cluster.memory.server import Key, key_in
from tests.builders import Raw, group, manifests, node, pod
from tests.property.test_simulation import CONFIGURATIONS, DEFAULT, clusters
from tests.unit.cluster.kube.tables import tables

NAMES = ("volcano-py",)
LENIENT: dict[str, Any] = {"lenient": True, "more": True}


def live(objects: list[Raw], variant: int) -> dict[Key, Manifest]:
    """The objects as an API server has them. ``variant``: of Pods and PodGroups that are created again under the same
    name."""
    found = {}
    for number, manifest in enumerate(manifests(objects)):
        meta = manifest.raw["metadata"]
        if manifest.kind is not None and manifest.kind.namespaced:
            meta["namespace"] = meta.get("namespace") or "default"
        again = variant if manifest.raw["kind"] in ("Pod", "PodGroup") else 0
        meta["uid"] = f"{manifest.raw['kind']}-{meta['name']}-{again}"
        meta["creationTimestamp"] = f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"
        found[key_in(manifest.raw)] = manifest
    return found


def loaded(objects: dict[Key, Manifest], configuration: Any = DEFAULT) -> Simulation:
    return Simulation(list(objects.values()), configuration, NAMES, **LENIENT)


def follow(simulation: Simulation, before: dict[Key, Manifest], after: dict[Key, Manifest]) -> None:
    changed = [each for key, each in after.items() if key not in before or before[key].raw != each.raw]
    simulation.cluster.follow(changed, before.keys() - after.keys())


def decided(simulation: Simulation) -> list[Raw]:
    """The Pods and PodGroups when nothing changes any more."""
    simulation.cluster.load((), lenient=True)
    simulation.run()
    pods = [raw for raw in simulation.cluster.objects() if raw["kind"] in ("Pod", "PodGroup")]
    return [
        {"name": raw["metadata"]["name"], "node": raw.get("spec", {}).get("nodeName"), "phase": raw["status"]["phase"]}
        for raw in pods
    ]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters(), clusters(), CONFIGURATIONS, st.booleans(), st.booleans())
def test_a_followed_cluster_decides_as_one_that_is_loaded(
    first: list[Raw], second: list[Raw], configuration: Any, again: bool, there_and_back: bool
) -> None:
    before, after = live(first, 0), live(second, int(again))
    simulation = loaded(before, configuration)
    follow(simulation, before, after)
    if there_and_back:
        follow(simulation, after, before)
        before, after = after, before
    assert decided(simulation) == decided(loaded(after, configuration))


def test_nothing_is_kept_of_objects_that_come_and_go() -> None:
    base = live([node("n0", "8c+8Gi"), group("g", "default", 1), pod("g-0", "1c", "g")], 0)
    simulation = loaded(base)

    def come_and_go(number: int) -> None:
        more = live([group(f"h{number}", "default", 1), pod(f"h{number}-0", "1c", f"h{number}", on="n0")], 0)
        follow(simulation, base, base | more)
        follow(simulation, base | more, base)

    come_and_go(0)
    controllers = ("_operator",)  # they keep the keys of deleted objects until they run: see ``MAX_DELETED``
    before = tables(simulation, controllers)
    for number in range(1, 30):
        come_and_go(number)
    grown = {path: (number, before.get(path, 0)) for path, number in tables(simulation, controllers).items()}
    assert {path: each for path, each in grown.items() if each[0] > each[1] + 3} == {}
