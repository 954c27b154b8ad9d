"""What scheduler.testing offers to tests of plugins."""

from dataclasses import replace

import pytest

from scheduler.testing import World, configuration, gang, node

OBJECTS = (node("n", "1c+8Gi"), gang("train", 2, "1c"))


@pytest.mark.parametrize("method", ["run", "session"])
def test_a_plugin_that_is_not_registered_is_an_error(method: str) -> None:
    with pytest.raises(LookupError, match="no plugin 'team' is registered: is its module imported"):
        getattr(World(*OBJECTS), method)(configuration(["gang", "team"]))
    with pytest.raises(LookupError, match="no plugin 'team' is registered"):
        World(*OBJECTS).changes("train", configuration(["team"]))


def test_an_action_that_is_not_registered_is_an_error() -> None:
    with pytest.raises(LookupError, match="no action 'drain' is registered"):
        World(*OBJECTS).run(configuration(["gang"], actions="allocate, drain"))


def test_problems_are_invalid_and_unknown_arguments() -> None:
    arguments = {"binpack": {"binpack.weight": "much", "binpack.wait": 3}}
    problems = World(*OBJECTS).run(configuration(["gang", "binpack"], arguments=arguments)).problems
    assert problems == [
        "plugin binpack: argument binpack.weight: 'much' is not an integer; using 1",
        "plugin binpack: argument binpack.wait is not known; it is ignored; known: binpack.cpu, binpack.memory, "
        "binpack.resources, binpack.weight",
    ]


def test_an_unknown_argument_of_an_action_is_a_problem() -> None:
    plan = replace(configuration(["gang"]), action_arguments={"allocate": {"predicateErrorCache": False}})
    assert World(*OBJECTS).run(plan).problems == [
        "action allocate: argument predicateErrorCache is not known; it is ignored; known: predicateErrorCacheEnable"
    ]


def test_changes_are_what_explain_finds() -> None:
    plan = configuration(["priority", "gang", "predicates", "nodeorder"])
    assert "1 node like n more" in World(*OBJECTS).changes("train", plan)
