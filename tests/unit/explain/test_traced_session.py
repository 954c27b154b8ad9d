"""A traced session decides as an ordinary one, and attributes refusals to plugins."""

from random import Random
from typing import Any

import pytest

from scheduler.explain.traced_session import TracedSession
from scheduler.framework.cycle import run_cycle
from scheduler.framework.extension import JOB_ENQUEUEABLE
from tests.builders import Raw, World, group, node, pods, queue
from tests.unit.explain.small_clusters import DEFAULT


def objects(random: Random) -> list[Raw]:
    made: list[Raw] = [node(f"n{i}", f"{random.choice([2, 4])}c+8Gi") for i in range(4)]
    made += [queue("q", 2, "4c")]
    for i in range(6):
        asks = random.choice([None, "2c", "9c"])
        made.append(group(f"g{i}", random.choice(["q", "default"]), random.randint(1, 3), asks=asks))
        made += pods(f"g{i}", 3, f"{random.choice([1, 2])}c", f"g{i}")
    return made


@pytest.mark.parametrize("seed", range(10))
def test_a_traced_session_decides_as_an_ordinary_session(seed: int) -> None:
    given = objects(Random(seed))

    def decided(**settings: Any) -> list[tuple[str, str]]:
        world = World(*given)
        snapshot = world.cluster.cache.snapshot(world.cluster.now)
        outcome = run_cycle(snapshot, DEFAULT, **settings)
        return [(bind.task.key, bind.node) for bind in outcome.decisions.binds]

    plain = decided()
    assert plain
    assert decided(make_session=lambda *given, **rest: TracedSession(*given, about="default/g0", **rest)) == plain


def test_a_refusal_is_attributed_to_its_plugin_and_extension_point() -> None:
    world = World(node("n1"), group("g", asks="99c"), pods("p", 1, "1c", "g"))
    snapshot = world.cluster.cache.snapshot(world.cluster.now)
    outcome = run_cycle(
        snapshot, DEFAULT, make_session=lambda *given, **rest: TracedSession(*given, about="default/g", **rest)
    )
    session = outcome.session
    assert isinstance(session, TracedSession)
    refusals = session.jobs["default/g"].refusals
    sources = [source for refusal in refusals if (source := session.source_of(refusal)) is not None]
    assert {(source.plugin, source.point) for source in sources} == {("overcommit", JOB_ENQUEUEABLE)}
