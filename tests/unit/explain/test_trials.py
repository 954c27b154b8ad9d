"""A trial ends as soon as its result is certain."""

from typing import Any

from scheduler.api.kinds import QUEUE
from scheduler.cluster.memory import Simulation
from scheduler.explain.target import Goal
from scheduler.explain.trials import TrialRunner
from scheduler.framework.configuration import Configuration
from scheduler.framework.remedies.adjustments import Edit, Step
from tests.builders import NAME, Raw, configuration, group, manifests, node, pod, queue

PLUGINS = ["gang", "predicates", "capacity"]
WORLD: list[Any] = [
    node("n1", "8c+8Gi"), queue("q", capability="2c"), group("full", "q"), pod("full-0", "2c", "full", on="n1"),
    group("g", "q"), pod("g-0", "4c", "g"),
]  # fmt: skip
GOAL = Goal("default/g", "", 0)


def raised(cpu: str) -> list[Step]:
    def edited(raw: Raw) -> Raw:
        return {**raw, "spec": {**raw["spec"], "capability": {"cpu": cpu}}}

    return [Step("raise the limit", (Edit(QUEUE, "", "q", edited),))]


def trial(cpu: str, conf: Configuration) -> tuple[bool, Simulation]:
    settled = Simulation(manifests(*WORLD), conf, [NAME])
    settled.run()
    before = settled.cycles
    trials = TrialRunner(settled, GOAL, "")
    after = trials.after(raised(cpu))
    assert after is not None
    after.cycles -= before
    return trials.works(raised(cpu)), after


def node_of(simulation: Simulation) -> str | None:
    raw = simulation.cluster.get("v1", "Pod", "default", "g-0")
    assert raw is not None
    node: str | None = raw["spec"].get("nodeName")
    return node


def test_a_goal_that_stays_reached_ends_the_trial_before_binding() -> None:
    works, after = trial("6", configuration(PLUGINS))
    assert works
    assert node_of(after) is None


def test_with_evicting_actions_the_trial_runs_until_nothing_changes() -> None:
    works, after = trial("6", configuration(PLUGINS, actions="enqueue, allocate, preempt"))
    assert works
    assert node_of(after) == "n1"
    assert not after.cycle()


def test_sessions_that_only_record_reasons_are_not_run() -> None:
    works, after = trial("5", configuration(PLUGINS))
    assert not works
    assert after.cycles == 1
    assert not after.cluster_changed
