"""Refusals of queue plugins contain the requested amount, the used amount, the limit, and where."""

from scheduler.api.reasons import Shortage
from scheduler.api.resource import Dimensions
from scheduler.plugins.support.queue_accounting import not_admitted, of_queue, overused
from tests.builders import World, configuration, group, node, pod, queue


def test_the_refusal_of_a_pod_group_names_resources_queue_and_numbers() -> None:
    dimensions = Dimensions()
    asked, limit = dimensions.vector({"cpu": "3", "memory": "5"}), dimensions.vector({"cpu": "2", "memory": "4"})
    refusal = not_admitted(dimensions, "too much", "lacks", [0, 1], where="queue q", asked=asked, limit=limit)
    expected = "too much: lacks cpu, lacks memory (queue q; cpu: asked 3, limit 2; memory: asked 5, limit 4)"
    assert (refusal.reason, refusal.message) == ("Unschedulable", expected)


def test_a_refusal_has_its_numbers_as_shortages() -> None:
    dimensions = Dimensions()
    asked, used, limit = (dimensions.vector({"cpu": number}) for number in ("3", "1", "2"))
    expected = Shortage("cpu", 3000, 1000, 2000, "Queue", "q")
    refusal = not_admitted(dimensions, "no", "lacks", [0], of=of_queue("q"), asked=asked, used=used, limit=limit)
    full = overused(dimensions, "no", [0], of_queue("q"), asked=asked, used=used, deserved=limit)
    assert (refusal.shortages, full.shortages) == ((expected,), (expected,))
    assert (expected.free, expected.missing) == (1000, 2000)
    (unasked,) = overused(dimensions, "no", [0], of_queue("q"), used=used, deserved=limit).shortages
    assert (unasked.asked, unasked.used, unasked.limit, unasked.missing) == (0, 1000, 2000, 0)


def test_the_refusal_of_a_queue_that_deserves_nothing_says_so() -> None:
    refusal = overused(Dimensions(), "queue q has all that it deserves", [])
    assert refusal.message == "queue q has all that it deserves (nothing)"


def test_with_proportion_the_events_of_a_job_in_a_closed_queue_name_the_state_of_the_queue() -> None:
    world = World(
        *(node("n1"), queue("shut", state="Closing"), group("a", "shut", phase="Inqueue"), pod("a-0", "1c", "a")),
    ).run(configuration(["gang"], ["proportion"]))
    assert world.bound == {}
    expected = "queue shut is Closing: only an Open queue takes jobs"
    assert any(expected in message for message in world.events("Unschedulable"))
    assert any(expected in message for message in world.events("FailedScheduling"))
