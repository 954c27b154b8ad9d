"""The simulated kubelet: bound Pods run, and evicted Pods are removed at the end of the next cycle."""

from scheduler.api.decisions import Decisions, Evict
from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject, Pod
from scheduler.cluster.memory import Simulation
from tests.builders import NAME, Raw, World, configuration, group, manifests, node, pod


def pod_exists(world: World) -> bool:
    return any(o["kind"] == "Pod" and o["metadata"]["name"] == "p" for o in world.cluster.objects())


def evict(world: World) -> None:
    cache = world.cluster.cache
    task = cache.snapshot(0).jobs["default/a"].tasks()
    world.cluster.carry_out(Decisions(evictions=[Evict(next(task), "preempt")]), [])


def test_an_evicted_pod_exists_for_one_more_cycle_and_has_an_event() -> None:
    world = World(node("n"), group("a"), pod("p", "1c", "a", on="n"))
    evict(world)
    assert world.cluster.run_kubelet() is False and pod_exists(world)
    assert world.get("Pod", "p")["metadata"]["deletionTimestamp"]
    assert world.cluster.cache.snapshot(0).nodes.releasing[0].tolist() == [1000]
    assert world.cluster.run_kubelet() is True and not pod_exists(world)
    assert world.cluster.cache.snapshot(0).nodes.used[0].tolist() == [0]
    assert world.events("Evict") == ["Pod is evicted, because of preempt"]


def test_a_bound_pod_runs_unless_it_is_terminating() -> None:
    bound: Raw = pod("p", "1c", "a", on="n", phase="Pending")
    world = World(node("n"), group("a"), bound)
    assert world.cluster.run_kubelet() is True and world.get("Pod", "p")["status"]["phase"] == "Running"
    assert world.cluster.run_kubelet() is False
    world = World(
        node("n"), group("a"), {**bound, "metadata": {**bound["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}}
    )
    assert world.cluster.run_kubelet() is False and world.get("Pod", "p")["status"]["phase"] == "Pending"


def test_a_pod_that_does_not_tolerate_a_no_execute_taint_of_its_node_terminates() -> None:
    taints = [{"key": "down", "effect": "NoExecute"}]
    world = World(
        node("n", taints=taints),
        pod("p", "1c", on="n"),
        pod("stays", "1c", on="n", tolerations=[{"key": "down", "operator": "Exists"}]),
    )
    world.cluster.run_kubelet()
    assert world.get("Pod", "p")["metadata"]["deletionTimestamp"]
    assert "deletionTimestamp" not in world.get("Pod", "stays")["metadata"]


def test_a_pod_bound_and_started_in_one_cycle_causes_one_notification() -> None:
    simulation = Simulation(manifests(node("n"), group("a"), pod("p", "1c", "a")), configuration(), (NAME,))
    phases: list[str] = []

    def changed(kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        if isinstance(new, Pod):
            phases.append(new.status.phase)

    simulation.cluster.server.watch(changed)

    simulation.cycle()

    assert phases == ["Running"]
    assert simulation.cluster.cache.snapshot(0).nodes.used[0].tolist() == [1000]
