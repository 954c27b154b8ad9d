"""Functions of plugins are found by extension point."""

from scheduler.framework.combining import Functions
from scheduler.framework.extension import JOB_ORDER


def test_a_function_that_is_added_after_a_point_was_asked_is_asked_as_well() -> None:
    functions = Functions(2)
    functions.add(JOB_ORDER, 1, lambda job: "second")
    assert functions.ask(JOB_ORDER, None) == ("second",)
    functions.add(JOB_ORDER, 0, lambda job: "first")
    assert functions.ask(JOB_ORDER, None) == ("first", "second")
