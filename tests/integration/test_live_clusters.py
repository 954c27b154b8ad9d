"""``simulate``, ``explain`` and what-if changes on dumps of clusters that ran on a real control plane.

A hundred cases run beside each other, each with a namespace, nodes and a queue of its own. The dump of each case is
simulated, and compared with the next states of the real cluster: when the terminating Pods are deleted, and when the
change of the case is made on the cluster, too.
"""

from collections.abc import Iterator
from random import Random

import pytest

from scheduler.framework.configuration_file import parse_configuration
from tests.integration.live.case import Case
from tests.integration.live.cluster import live_cluster
from tests.integration.live.comparison import (
    assert_advice_helped,
    assert_goes_on_as_it_did,
    assert_predictions_came_true,
)
from tests.integration.live.history import History
from tests.integration.live.situations import cases, title

pytestmark = pytest.mark.controlplane

CONFIGURATION = """
actions: "enqueue, allocate, backfill, reclaim, preempt"
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
  - name: network-topology-aware
"""
"""A configuration without overcommit and proportion, with which the amounts of a queue depend on the nodes of other
cases."""
ELSEWHERE = Case("elsewhere", Random()).node("n1", 10_000)
"""No queue is limited by the sum of all nodes, because it differs from the sum of the nodes of one case."""
CASES = cases(110)
EVERY = [pytest.param(i, id=f"{i:03d}-{title(i)}") for i in range(len(CASES))]
ADVISED = [pytest.param(i, id=f"{i:03d}-{title(i)}") for i in range(len(CASES)) if CASES[i].advised]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    with live_cluster(tmp_path_factory.mktemp("logs"), CONFIGURATION) as plane:
        made = History(plane.admin, CASES, parse_configuration(CONFIGURATION), nodes=[ELSEWHERE])
        made.run()
    yield made


@pytest.mark.parametrize("index", EVERY)
def test_a_dump_goes_on_as_the_real_cluster_does(history: History, index: int) -> None:
    assert_goes_on_as_it_did(history, CASES[index])


@pytest.mark.parametrize("index", EVERY)
def test_what_explain_predicts_comes_true(history: History, index: int) -> None:
    assert_predictions_came_true(history, CASES[index])


@pytest.mark.parametrize("index", ADVISED)
def test_the_first_change_that_explain_suggests_lets_the_job_run(history: History, index: int) -> None:
    assert_advice_helped(history, CASES[index])
