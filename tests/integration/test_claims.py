"""The experiments that were published for Volcano have the published results with our scheduler, on a real API server.

``make bench-claims`` runs them more slowly, and beside kube-scheduler.
"""

from collections.abc import Mapping

import pytest
import uvloop

from benchmarks.claim_cluster import OURS, Pace
from benchmarks.claims import Outcome, run
from controlplane import build
from tests.integration.stage import or_skipped

pytestmark = pytest.mark.controlplane

QUICK = Pace(training=1, pod=1, settle=0.5, rounds=1)
Outcomes = Mapping[str, Outcome]


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    with or_skipped():
        build.ensure()
    names = ("gang-5", "binpack-16", "binpack-24", "topology", "jobs", "namespaces")
    return uvloop.run(run(OURS, names, QUICK))


def test_jobs_for_which_there_is_no_room_at_once_all_finish(outcomes: Outcomes) -> None:
    assert outcomes["gang-5"].figures["finished"] == 5


def test_few_pods_take_one_node_and_many_pods_fill_it_first(outcomes: Outcomes) -> None:
    assert (outcomes["binpack-16"].text, outcomes["binpack-24"].text) == ("16", "20 + 4")


def test_parameter_servers_and_workers_have_the_least_traffic_between_nodes(outcomes: Outcomes) -> None:
    """The ps of a job are on two nodes, and all its workers are with one of them."""
    assert outcomes["topology"].figures == {"traffic": 4, "most": 4}


def test_jobs_get_equal_shares_at_first_and_over_time(outcomes: Outcomes) -> None:
    figures = outcomes["jobs"].figures
    assert (figures["large"], figures["small"]) == (30, 30)
    assert figures["mean"] == pytest.approx(0.5, abs=0.1)


def test_namespaces_get_pods_in_proportion_to_their_weights(outcomes: Outcomes) -> None:
    assert outcomes["namespaces"].text == "30 and 10"
