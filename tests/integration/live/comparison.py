"""Compares a simulation of a case's dump, and the output of ``explain`` about it, with the behaviour of the real
cluster."""

from typing import Final

import yaml

from scheduler.api.kinds import POD_GROUP
from scheduler.cluster.memory import Simulation
from scheduler.explain import explain
from scheduler.explain.explanation import Explanation, Outlook
from tests.integration.live.case import Case
from tests.integration.live.dump import Aliases, state
from tests.integration.live.history import History, manifests
from tests.integration.live.situations import SEED

_RUNS: Final = (Outlook.PLACED, Outlook.STARTS)
_OVER: Final = ("Aborted", "Completed", "Failed", "Terminated")
_KINDS: Final = {"Pod": "pod", "PodGroup": "podgroup", "Job": "job"}
"""The kinds that ``explain`` explains."""


def assert_goes_on_as_it_did(history: History, case: Case) -> None:
    """The dump, simulated, comes to the state in which the real cluster was; so it does after the changes."""
    simulation = history.simulation(case)

    _run(simulation, case)

    assert state(simulation.cluster.objects()) == history.afterwards[case.name], described(history, case)

    simulation.change(manifests(history.changes[case.name]))
    _run(simulation, case)

    assert state(simulation.cluster.objects()) == history.changed[case.name], described(history, case)


def assert_predictions_came_true(history: History, case: Case) -> None:
    """Asserts that the outlook that ``explain`` gives for each Pod, PodGroup and job in the dump came true without the
    changes."""
    real, names = history.afterwards[case.name], Aliases(history.dumps[case.name])
    for raw in history.dumps[case.name]:
        kind = _KINDS.get(raw["kind"])
        after = set(real.get(names.of(raw), ()))
        if kind is None or len(after) != 1:
            continue
        if case.lasts and any(phase in text for phase in _OVER for text in after):
            continue  # a time-out has ended it
        simulation = history.simulation(case)
        found = explain(simulation, kind, case.name, raw["metadata"]["name"], search=False)
        if found.outlook is Outlook.ENDED:
            continue
        predicted = found.outlook in _RUNS or found.pipelined
        runs = "Running" in after.pop()
        if runs and not predicted and _started(simulation, found):
            runs = not any("no node" in text for texts in real.values() for text in texts)
        assert predicted == runs, f"{names.of(raw)}: {found.state}\n{described(history, case)}"


def assert_advice_helped(history: History, case: Case) -> None:
    """The first change that ``explain`` suggested let the object run."""
    kind, name = case.waiting
    key = f"{next(each for each, word in _KINDS.items() if word == kind)} {name}"

    assert history.changes[case.name], described(history, case)
    assert all("Running" in text for text in history.changed[case.name][key]), described(history, case)


def _run(simulation: Simulation, case: Case) -> None:
    """Runs cycles until nothing changes, and for at least the seconds of the case."""
    simulation.run()
    if case.lasts:
        simulation.run(cycles=case.lasts)
        simulation.run()


def described(history: History, case: Case) -> str:
    """The dump and the changes of a case, as files for ``simulate``."""
    dump = yaml.safe_dump_all(history.dumps[case.name])
    changes = yaml.safe_dump_all(history.changes[case.name])
    return f"seed {SEED}, case {case.name}\n{dump}\nwhat if:\n{changes}"


def _started(simulation: Simulation, found: Explanation) -> bool:
    """Whether a gang has its minimum: it is explained why others of its Pods wait."""
    namespace, _, name = found.group.partition("/")
    group = simulation.cluster.server.find(POD_GROUP, namespace, name)
    return found.kind != "pod" and group is not None and found.placed >= group["spec"]["minMember"]
