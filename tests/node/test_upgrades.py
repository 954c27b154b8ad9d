"""Each role is replaced while jobs come and run: no request is refused, no job is lost, no Pod starts twice."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from controlplane.manifests import CHART, NAMESPACE, RELEASE
from tests.node.stage import Stage

pytestmark = pytest.mark.node

JOBS = 8


def in_flight(stage: Stage) -> list[str]:
    """Creates jobs, one every two seconds, that take longer than that; returns their names."""
    names = []
    for number in range(JOBS):
        name = f"job-{number}"
        stage.submit(name, stage.task("worker", 'echo . >> "/marks/$HOSTNAME"; sleep 4', 2))
        names.append(name)
        time.sleep(2)
    return names


def completed_once(stage: Stage, names: list[str]) -> None:
    for name in names:
        stage.reaches(name, "Completed")
    assert {stage.marked(f"{name}-worker-{number}") for name in names for number in range(2)} == {".\n"}


@pytest.mark.parametrize("role", ["webhooks", "controllers", "scheduler"])
def test_a_role_is_replaced_with_jobs_in_flight(stage: Stage, role: str) -> None:
    deployment = f"deployment/{RELEASE}-{role}"
    with ThreadPoolExecutor(1) as pool:
        jobs = pool.submit(in_flight, stage)
        time.sleep(3)
        for _ in range(2):
            stage.cluster.plane.kubectl("rollout", "restart", deployment, "--namespace", NAMESPACE)
            options = ("--namespace", NAMESPACE, "--timeout=120s")
            stage.cluster.plane.kubectl("rollout", "status", deployment, *options)
        completed_once(stage, jobs.result())


def test_an_upgrade_of_the_chart_replaces_all_roles_with_jobs_in_flight(stage: Stage) -> None:
    with ThreadPoolExecutor(1) as pool:
        jobs = pool.submit(in_flight, stage)
        time.sleep(3)
        options = [
            f"--set={role}.podLabels.upgraded={stage.namespace}" for role in ("scheduler", "controllers", "webhooks")
        ]
        stage.cluster.helm("upgrade", RELEASE, CHART, "--reuse-values", *options, "--wait", "--timeout=180s")
        completed_once(stage, jobs.result())
