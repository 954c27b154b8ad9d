"""One wording for what queues refuse: asked, used, limit, where."""

from scheduler.api.reasons import Shortage
from scheduler.api.resource import Dimensions
from scheduler.plugins.queues.refusals import in_use, not_let_in, of_queue
from tests.builders import World, configuration, group, node, pod, queue


def test_a_refusal_at_the_gate_names_resources_place_and_numbers() -> None:
    dimensions = Dimensions()
    asked, limit = dimensions.vector({"cpu": "3", "memory": "5"}), dimensions.vector({"cpu": "2", "memory": "4"})
    refusal = not_let_in(dimensions, "too much", "lacks", [0, 1], where="queue q", asked=asked, limit=limit)
    told = "too much: lacks cpu, lacks memory (queue q; cpu: asked 3, limit 2; memory: asked 5, limit 4)"
    assert (refusal.reason, refusal.message) == ("Unschedulable", told)


def test_the_numbers_come_as_data_too() -> None:
    dimensions = Dimensions()
    asked, used, limit = (dimensions.vector({"cpu": number}) for number in ("3", "1", "2"))
    expected = Shortage("cpu", 3000, 1000, 2000, "Queue", "q")
    not_in = not_let_in(dimensions, "no", "lacks", [0], of=of_queue("q"), asked=asked, used=used, limit=limit)
    full = in_use(dimensions, "no", [0], of_queue("q"), asked=asked, used=used, deserved=limit)
    assert (not_in.shortages, full.shortages) == ((expected,), (expected,))
    assert (expected.free, expected.missing) == (1000, 2000)
    (unasked,) = in_use(dimensions, "no", [0], of_queue("q"), used=used, deserved=limit).shortages
    assert (unasked.asked, unasked.used, unasked.limit, unasked.missing) == (0, 1000, 2000, 0)


def test_a_queue_that_deserves_nothing_says_so() -> None:
    refusal = in_use(Dimensions(), "queue q has all that it deserves", [])
    assert refusal.message == "queue q has all that it deserves (nothing)"


def test_under_proportion_jobs_of_a_closed_queue_are_told_why_their_pods_wait() -> None:
    world = World(
        *(node("n1"), queue("shut", state="Closing"), group("a", "shut", phase="Inqueue"), pod("a-0", "1c", "a")),
    ).run(configuration(["gang"], ["proportion"]))
    assert world.bound == {}
    told = "queue shut is Closing: only an Open queue takes jobs"
    assert any(told in message for message in world.events("Unschedulable"))
    assert any(told in message for message in world.events("FailedScheduling"))
