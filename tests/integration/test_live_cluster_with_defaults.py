"""``simulate``, ``explain`` and what-if changes on dumps of a real control plane that schedules with the built-in
configuration.

Its overcommit and proportion plugins consider the whole cluster, so only one case runs at a time. Jobs that
wait for admission have a PodGroup and no Pods.
"""

from collections.abc import Callable, Iterator
from random import Random

import pytest

from controlplane.run import ControlPlane
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.integration.live.case import Case
from tests.integration.live.cluster import live_cluster
from tests.integration.live.comparison import (
    assert_advice_helped,
    assert_goes_on_as_it_did,
    assert_predictions_came_true,
)
from tests.integration.live.history import History
from tests.integration.live.job_situations import (
    gang_waits_as_explain_says,
    gang_waits_for_another_job,
    waiting_job_is_aborted,
)
from tests.integration.live.situations import SEED
from tests.integration.live.workload_situations import bare_gang_waits, deployment_waits

pytestmark = pytest.mark.controlplane

SITUATIONS: tuple[Callable[[Case], None], ...] = (
    gang_waits_as_explain_says,
    gang_waits_for_another_job,
    waiting_job_is_aborted,
    bare_gang_waits,
    deployment_waits,
)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with live_cluster(tmp_path_factory.mktemp("logs"), DEFAULT_CONFIGURATION) as started:
        yield started


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_a_dump_goes_on_as_the_real_cluster_does(plane: ControlPlane, situation: Callable[[Case], None]) -> None:
    name = situation.__name__.replace("_", "-")
    case = Case(name, Random(f"{SEED}/{name}"))
    situation(case)
    history = History(plane.admin, [case], parse_configuration(DEFAULT_CONFIGURATION), quiet=1.0)
    history.run()
    history.remove()

    assert_goes_on_as_it_did(history, case)
    assert_predictions_came_true(history, case)
    if case.advised:
        assert_advice_helped(history, case)
