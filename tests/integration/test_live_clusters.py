"""``simulate``, ``explain`` and what-if changes on dumps of clusters that ran on a real control plane.

A hundred cases run beside each other, each with a namespace, nodes and a queue of its own. The dump of each is
simulated, and compared with what the real cluster does next: when the Pods that terminate are gone, and when the change
of the case is made there, too.
"""

from collections.abc import Iterator

import pytest
import yaml

from scheduler.api.kinds import POD_GROUP
from scheduler.api.names import DEFAULT_SCHEDULER_NAME
from scheduler.cluster.memory import Simulation
from scheduler.explain import explain
from scheduler.explain.explanation import Explanation, Outlook
from scheduler.framework.configuration_file import parse_configuration
from tests.integration.live.case import Case
from tests.integration.live.dump import alias, state
from tests.integration.live.history import History, manifests
from tests.integration.live.situations import SEED, SITUATIONS, cases, title
from tests.integration.stage import a_control_plane, running

pytestmark = pytest.mark.controlplane

NUMBER = 2 * len(SITUATIONS)
CONFIGURATION = """
actions: "enqueue, allocate, backfill, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: ascend
- plugins:
  - name: predicates
  - name: capacity
  - name: nodeorder
"""
"""Without overcommit and proportion, by which what a queue gets depends on the nodes of other cases."""
CASES = cases(NUMBER)
EVERY = [pytest.param(i, id=f"{i:03d}-{title(i)}") for i in range(NUMBER)]
ADVISED = [pytest.param(i, id=f"{i:03d}-{title(i)}") for i in range(NUMBER) if CASES[i].advised]
RUNS = (Outlook.PLACED, Outlook.STARTS)
KINDS = {"Pod": "pod", "PodGroup": "podgroup", "Job": "job"}
"""The kinds that ``explain`` explains."""


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    logs = tmp_path_factory.mktemp("logs")
    conf = logs / "scheduler.conf"
    conf.write_text(CONFIGURATION)
    alone = "--leader-elect=false"
    with a_control_plane() as plane:
        plane.start_kwok()
        plane.start_controller_manager()
        schedules = ("--schedule-period=200ms", f"--scheduler-conf={conf}", alone)
        with (
            running("controllers", plane.kubeconfig, logs, alone),
            running("scheduler", plane.kubeconfig, logs, *schedules),
        ):
            made = History(plane.admin, CASES, parse_configuration(CONFIGURATION))
            made.run()
    yield made


@pytest.mark.parametrize("index", EVERY)
def test_a_dump_goes_on_as_the_real_cluster_does(history: History, index: int) -> None:
    case = CASES[index]
    simulation = history.simulation(case)

    simulation.run()

    assert state(simulation.cluster.objects()) == history.afterwards[case.name], described(history, case)

    simulation.change(manifests(history.changes[case.name]))
    simulation.run()

    assert state(simulation.cluster.objects()) == history.changed[case.name], described(history, case)


@pytest.mark.parametrize("index", EVERY)
def test_what_explain_predicts_comes_true(history: History, index: int) -> None:
    case = CASES[index]
    real = history.afterwards[case.name]
    for raw in history.dumps[case.name]:
        kind = KINDS.get(raw["kind"])
        after = set(real.get(alias(raw), ()))
        if kind is None or len(after) != 1:
            continue
        simulation = history.simulation(case)
        found = explain(simulation, kind, case.name, raw["metadata"]["name"], search=False)
        if found.outlook is Outlook.ENDED:
            continue
        predicted = found.outlook in RUNS or found.pipelined
        runs = "Running" in after.pop()
        if runs and not predicted and started(simulation, found):
            runs = not any("no node" in text for texts in real.values() for text in texts)
        assert predicted == runs, f"{alias(raw)}: {found.state}\n{described(history, case)}"


def started(simulation: Simulation, found: Explanation) -> bool:
    """Whether a gang has its minimum: it is explained why others of its Pods wait."""
    namespace, _, name = found.group.partition("/")
    group = simulation.cluster.server.find(POD_GROUP, namespace, name)
    return found.kind != "pod" and group is not None and found.placed >= group["spec"]["minMember"]


@pytest.mark.parametrize("index", ADVISED)
def test_the_first_change_that_explain_suggests_lets_the_job_run(history: History, index: int) -> None:
    case = CASES[index]
    kind, name = case.waiting
    key = f"{next(name for name, word in KINDS.items() if word == kind)} {name}"

    assert history.changes[case.name], described(history, case)
    assert all("Running" in text for text in history.changed[case.name][key]), described(history, case)


def described(history: History, case: Case) -> str:
    """The dump and the changes of a case, as files for ``simulate``."""
    dump = yaml.safe_dump_all(history.dumps[case.name])
    changes = yaml.safe_dump_all(history.changes[case.name])
    return f"seed {SEED}, case {case.name} of {DEFAULT_SCHEDULER_NAME}\n{dump}\nwhat if:\n{changes}"
