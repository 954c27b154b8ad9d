"""Claims whose devices take long to choose: only their Pods wait, and results are kept."""

import re
from pathlib import Path

import pytest

from scheduler.framework.cycle import run_cycle
from scheduler.plugins.predicates.dynamic_resources.budget import MAX_PAUSE, NAMESPACE_STEPS, POD_STEPS
from scheduler.plugins.predicates.dynamic_resources.cel_selectors import Selectors
from scheduler.record.replay import replay
from tests.builders import Raw, World, configuration, group, node, pods
from tests.device_builders import alternatives, claim, device_class, gpus, named, request, resource_slice
from tests.unit.record.test_recording import Recorded

CONF = configuration(["priority", "gang"], ["predicates", "nodeorder"])
TWENTY = f"[{','.join(map(str, range(20)))}]"
INDEX = 'device.attributes["gpu.example.com"].index'


def nested(bound: int) -> str:
    """An expression that visits 8,000 combinations for each device; it selects all devices."""
    return f"{TWENTY}.all(a, {TWENTY}.all(b, {TWENTY}.all(c, a + b + c + {INDEX} + {bound} >= 0)))"


def costly(requests: int, selectors: int) -> list[Raw]:
    return [request(f"r{r}", "gpu", *(nested(r * selectors + s) for s in range(selectors))) for r in range(requests)]


def machines(number: int, devices: int) -> list[Raw]:
    made: list[Raw] = []
    for i in range(number):
        made += [node(f"n{i}", "64c+256Gi"), resource_slice(gpus(devices), f"n{i}")]
    return made


def waiting_for(name: str, *claims: str) -> list[Raw]:
    return [group(name, "default", 1), *pods(name, 1, "1c", name, resourceClaims=named(*claims))]


class Sessions:
    """Sessions whose decisions are assumed and not carried out, at times that the test chooses."""

    def __init__(self, *objects: Raw | list[Raw]) -> None:
        self.cache = World(device_class(), *objects).cluster.cache
        self.now = 1000.0
        self.bound: set[str] = set()
        self.reasons: dict[str, str] = {}

    def run(self, seconds: float = 0.0) -> None:
        self.now += seconds
        outcome = run_cycle(self.cache.snapshot(self.now), CONF)
        self.cache.assume(outcome.decisions)
        self.bound |= {bind.task.name for bind in outcome.decisions.binds}
        self.reasons |= {task.name: update.message for update in outcome.decisions.pods for task in update.tasks}

    def run_until_bound(self, name: str, sessions: int) -> int:
        """Runs sessions, each after all pauses. Returns their number."""
        for number in range(1, sessions + 1):
            self.run(MAX_PAUSE + 1)
            if name in self.bound:
                return number
        raise AssertionError(self.reasons[name])


def evaluations(reason: str) -> int:
    found = re.search(r"with (\d+) evaluations of CEL expressions", reason)
    assert found is not None, reason
    return int(found[1])


def test_a_claim_beyond_the_budget_waits_with_the_numbers_and_other_pods_are_placed() -> None:
    plain = [group("plain", "default", 1), *pods("plain", 1, "1c", "plain")]
    sessions = Sessions(
        *machines(2, 128),
        claim("costly", *costly(32, 32)),
        claim("cheap", request("gpu", "gpu", f"{INDEX} == 5")),
        waiting_for("costly", "costly"),
        waiting_for("cheap", "cheap"),
        plain,
    )

    sessions.run()

    assert sessions.bound == {"cheap-0", "plain-0"}
    reason = sessions.reasons["costly-0"]
    assert "choosing devices takes more than one session" in reason
    assert f"the limit is {POD_STEPS} steps for one Pod; next attempt after 1 s" in reason
    assert 10 < evaluations(reason) < 1000


def test_what_is_known_is_kept_so_that_a_costly_claim_is_allocated_after_some_sessions() -> None:
    sessions = Sessions(*machines(1, 16), claim("costly", *costly(2, 8)), waiting_for("costly", "costly"))

    assert 2 < sessions.run_until_bound("costly-0", 30) <= 30


def test_a_pod_is_placed_on_the_nodes_for_which_the_budget_suffices() -> None:
    names = [f"n{i}" for i in range(200)]
    nodes = [node(name, "64c+256Gi") for name in names]
    slices = [resource_slice(gpus(1, serial=i), name) for i, name in enumerate(names)]
    serial = 'device.attributes["gpu.example.com"].serial >= 0'
    sessions = Sessions(
        nodes, slices, claim("c", request("r", "gpu", f"{nested(0)} && {serial}")), waiting_for("c", "c")
    )

    sessions.run()

    assert sessions.bound == {"c-0"}


def test_the_pause_between_attempts_doubles_up_to_a_limit() -> None:
    sessions = Sessions(*machines(1, 128), claim("costly", *costly(32, 32)), waiting_for("costly", "costly"))
    sessions.run()
    for pause in (1, 2, 4, 8, 16, 16):
        reason = sessions.reasons["costly-0"]
        assert reason.endswith(f"next attempt after {pause} s.")
        selectors = sessions.cache.memory.memo(Selectors, (), lambda _: Selectors())
        kept = len(selectors)

        sessions.run(pause - 0.5)
        assert (sessions.reasons["costly-0"], len(selectors)) == (reason, kept)

        sessions.run(1)


def test_the_claims_of_a_namespace_share_a_budget_and_take_turns() -> None:
    costly_ones = [claim(f"c{i}", *costly(1, 32)) for i in range(4)]
    sessions = Sessions(*machines(1, 128), costly_ones, *(waiting_for(f"c{i}", f"c{i}") for i in range(4)))

    sessions.run()
    first = dict(sessions.reasons)
    sessions.run(0.5)

    assert f"the limit is {POD_STEPS} steps for one Pod" in first["c0-0"]
    assert f"the limit is {NAMESPACE_STEPS} steps for all Pods of namespace default" in first["c1-0"]
    assert evaluations(first["c0-0"]) + evaluations(first["c1-0"]) > 0
    assert [evaluations(first[name]) for name in ("c2-0", "c3-0")] == [0, 0]
    assert evaluations(sessions.reasons["c2-0"]) > 0, "c0 and c1 pause"


def test_constraints_that_no_combination_satisfies_end_at_the_budget() -> None:
    hard = [request(f"r{i}", "gpu") for i in range(16)]
    unsatisfiable = [{"matchAttribute": "gpu.example.com/index", "requests": ["r14", "r15"]}]
    sessions = Sessions(*machines(1, 64), claim("hard", *hard, constraints=unsatisfiable), waiting_for("hard", "hard"))

    sessions.run()

    assert f"the limit is {POD_STEPS} steps for one Pod" in sessions.reasons["hard-0"]


def test_later_nodes_have_their_turn_when_a_search_takes_the_whole_budget() -> None:
    pairs = [{"matchAttribute": "gpu.example.com/group", "requests": [f"r{i}" for i in range(12)]}]
    hopeless = [node("a", "64c+256Gi"), resource_slice([*gpus_of("x", 11), *gpus_of("y", 11), *gpus_of("z", 11)], "a")]
    fitting = [node("b", "64c+256Gi"), resource_slice(gpus_of("x", 12), "b")]
    sessions = Sessions(
        hopeless,
        fitting,
        claim("c", *(request(f"r{i}", "gpu") for i in range(12)), constraints=pairs),
        waiting_for("c", "c"),
    )

    assert sessions.run_until_bound("c-0", 3) <= 3


def gpus_of(name: str, number: int) -> list[Raw]:
    return [{**each, "name": f"{name}-{each['name']}"} for each in gpus(number, group=name)]


def test_an_expression_that_no_budget_covers_is_refused_with_its_steps() -> None:
    patterns = f"{TWENTY}.all(a, {TWENTY}.all(b, 'x'.matches('(a{{500}}){{2}}' + string(a))))"
    sessions = Sessions(*machines(1, 1), claim("c", request("r", "gpu", patterns)), waiting_for("c", "c"))

    sessions.run()

    assert re.search(r"CEL expression is too complex: up to \d+ steps for one device", sessions.reasons["c-0"])


def test_alternatives_with_many_selectors_share_the_budget() -> None:
    choice = alternatives("r", *((f"a{i}", request("x", "gpu", nested(i))) for i in range(8)))
    sessions = Sessions(*machines(1, 128), claim("c", choice), waiting_for("c", "c"))

    sessions.run()

    assert f"the limit is {POD_STEPS} steps for one Pod" in sessions.reasons["c-0"]


@pytest.mark.parametrize("limit", [1 << 30, 1])
def test_a_replay_of_sessions_beyond_the_budget_decides_the_same(tmp_path: Path, limit: int) -> None:
    """With ``limit`` 1, each session begins a new file, which is replayed without the results of earlier sessions."""
    recorded = Recorded(
        tmp_path,
        device_class(),
        *machines(1, 16),
        claim("costly", *costly(2, 4)),
        waiting_for("costly", "costly"),
        limit=limit,
        plan=CONF,
    )
    for _ in range(6):
        recorded.run()

    sessions = [session for file in recorded.files for session in replay(file)]

    assert sessions and all(session.same for session in sessions), [session.differences for session in sessions]
