"""The actions reclaim and allocate do not repeat a failed search for equal jobs, and make the same decisions."""

from random import Random
from typing import Any

import pytest

from scheduler.actions.eviction.policy import Preemptor
from scheduler.actions.eviction.solver import Solver
from scheduler.actions.failed_jobs import FailedJobs
from scheduler.actions.placement.placer import Placer
from scheduler.explain.traced_session import TracedSession
from scheduler.framework.cycle import run_cycle
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.gang import Gang
from tests.builders import World, configuration, group, node, pod, pods, queue

CONF = configuration(
    {"priority": {}, "gang": {"enablePreemptable": False}, "conformance": {}},
    ["predicates", "proportion", "nodeorder"],
    actions="enqueue, allocate, reclaim, backfill",
)


def full(waiting: list[list[Any]], cpus: int = 8) -> list[Any]:
    """A node that queue q1 fills, and jobs that wait in q2, which deserves half of it."""
    holders = [pod(f"a-{i}", "1c+1Gi", "a", on="n1") for i in range(cpus)]
    return [node("n1", f"{cpus}c+64Gi"), queue("q1"), queue("q2"), group("a", "q1", phase="Inqueue"), holders, *waiting]


def gang(name: str, minimum: int, number: int, **rest: Any) -> list[Any]:
    return [group(name, "q2", minimum, phase="Inqueue", **rest), *pods(name, number, "1c+1Gi", name)]


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs for whose tasks reclaim looks for nodes, without repetitions."""
    jobs: dict[str, None] = {}
    found: list[str] = []
    original = Solver.make_room

    def make_room(self: Solver, preemptor: Preemptor, *rest: Any) -> bool:
        if preemptor.job.key not in jobs:
            jobs[preemptor.job.key] = None
            found.append(preemptor.job.name)
        return original(self, preemptor, *rest)

    monkeypatch.setattr(Solver, "make_room", make_room)
    return found


def test_equal_gangs_that_cannot_have_their_minimum_are_searched_once(searched: list[str]) -> None:
    world = World(*full([gang(f"g{i}", 5, 5) for i in range(6)])).run(CONF)
    assert world.evicted == set()
    assert searched == ["g0"]


def test_gangs_with_another_minimum_or_annotation_are_searched(searched: list[str]) -> None:
    other = [gang("g0", 5, 6), gang("g1", 6, 6), gang("g2", 5, 6, annotations={"a": "b"})]
    World(*full(other)).run(CONF)
    assert searched == ["g0", "g1", "g2"]


def test_each_gang_is_searched_if_a_plugin_may_look_at_the_job_itself(
    searched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Gang.open

    def opened(self: Gang, session: PluginSession) -> None:
        original(self, session)
        session.add_job_starving(lambda job: True)

    monkeypatch.setattr(Gang, "open", opened)
    World(*full([gang(f"g{i}", 5, 5) for i in range(3)])).run(CONF)
    assert searched == ["g0", "g1", "g2"]


def test_the_job_that_is_explained_is_searched(searched: list[str]) -> None:
    world = World(*full([gang(f"g{i}", 5, 5) for i in range(3)]))
    snapshot = world.cluster.cache.snapshot(world.cluster.now)
    run_cycle(snapshot, CONF, make_session=lambda *given, **rest: TracedSession(*given, about="default/g2", **rest))
    assert searched == ["g0", "g2"]


def random_cluster(random: Random) -> list[Any]:
    waiting = []
    for i in range(random.randint(3, 9)):
        minimum = random.choice([1, 3, 5, 6])
        waiting.append(gang(f"g{i}", minimum, minimum + random.choice([0, 0, 1])))
    return full(waiting, random.choice([6, 8, 10]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_evictions_bindings_and_messages_are_those_of_separate_searches(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = random_cluster(Random(seed))

    def outcome() -> list[Any]:
        found = []
        world = World(*objects)
        for _ in range(4):
            world.run(CONF, kubelet=True)
            found.append((world.evicted, world.bound, world.waiting))
        return found

    together = outcome()
    monkeypatch.setattr(FailedJobs, "demand", lambda *given: None)
    assert together == outcome()


# --- allocate ---
QUOTAS = configuration(
    {"priority": {}, "gang": {"enablePreemptable": False}},
    ["predicates", "capacity", "nodeorder", "binpack"],
    actions="enqueue, allocate, backfill",
)


@pytest.fixture
def placed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs whose tasks allocate tries to place, without repetitions."""
    found: list[str] = []
    original = Placer.place

    def place(self: Placer, scope: Any, *rest: Any) -> Any:
        found.append(scope.job.name)
        return original(self, scope, *rest)

    monkeypatch.setattr(Placer, "place", place)
    return found


def four_places(*waiting: list[Any], **limits: Any) -> list[Any]:
    return [node("n1", "2c+64Gi"), node("n2", "2c+64Gi"), queue("q2", **limits), *waiting]


def test_equal_gangs_that_do_not_fit_are_tried_once_and_have_the_same_reasons(placed: list[str]) -> None:
    world = World(*four_places(*[gang(f"g{i}", 5, 5) for i in range(4)])).run(QUOTAS)
    assert placed == ["g0"]
    reasons = [{name.partition("-")[2]: text.replace(f"g{i}-", "") for name, text in world.waiting.items()
                if name.startswith(f"g{i}-")} for i in range(4)]  # fmt: skip
    assert reasons[0] and all(each == reasons[0] for each in reasons)


def test_a_gang_is_tried_again_after_another_was_placed(placed: list[str]) -> None:
    waiting = gang("g0", 3, 3), gang("g1", 3, 3), gang("g2", 1, 1), gang("g3", 3, 3)
    world = World(*four_places(*waiting)).run(QUOTAS)
    assert len(world.bound) == 4
    assert placed == ["g0", "g1", "g2", "g3"]


def test_equal_gangs_over_the_quota_are_refused_once_with_the_same_numbers(placed: list[str]) -> None:
    waiting = [gang(f"g{i}", 2, 2) for i in range(3)]
    world = World(*four_places(*waiting, capability="1c")).run(QUOTAS)
    assert placed == ["g0"]
    texts = {text for name, text in world.waiting.items() if name.endswith("-1")}
    assert len(texts) == 1 and "(cpu: asked 1, used 1, limit 1)" in texts.pop()


def test_each_gang_is_tried_if_a_quota_may_look_at_the_job_itself(
    placed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Gang.open

    def opened(self: Gang, session: PluginSession) -> None:
        original(self, session)
        session.add_allocatable(lambda queue, job, cls: 9)

    monkeypatch.setattr(Gang, "open", opened)
    World(*four_places(*[gang(f"g{i}", 5, 5) for i in range(3)])).run(QUOTAS)
    assert placed == ["g0", "g1", "g2"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_placements_and_messages_are_those_of_separate_searches(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    objects: list[Any] = [node(f"n{i}", f"{random.randint(1, 4)}c+8Gi") for i in range(3)]
    limits = [f"{random.randint(2, 9)}c" if random.random() < 0.5 else "" for _ in range(2)]
    objects += [queue(f"q{i}", capability=limit) for i, limit in enumerate(limits, 1)]
    for i in range(random.randint(4, 12)):
        minimum, name = random.choice([1, 2, 3, 5]), f"g{i}"
        objects.append(group(name, random.choice(["q1", "q2"]), minimum, phase=random.choice(["", "Inqueue"])))
        objects.append(pods(name, minimum + random.choice([0, 0, 1]), random.choice(["1c+1Gi", "2c+1Gi"]), name))

    def outcome() -> list[Any]:
        found = []
        world = World(*objects)
        for _ in range(3):
            world.run(QUOTAS, kubelet=True)
            events = sorted(world.decisions.events, key=repr)
            found.append((world.bound, world.waiting, events, world.decisions.pod_groups))
        return found

    together = outcome()
    monkeypatch.setattr(FailedJobs, "demand", lambda *given: None)
    assert together == outcome()
