"""Objects that controllers create in memory pass the webhooks, as on a cluster."""

from typing import Any

import pytest

from scheduler.api.kinds import CRON_JOB, JOB_FLOW, JOB_TEMPLATE, POD, VCJOB, Kind
from scheduler.cluster.memory import ManifestError, Simulation
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, Raw, manifests, node, queue

CONFIGURATION = parse_configuration(DEFAULT_CONFIGURATION)
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
SPEC: Raw = {
    "plugins": {"pytorch": []},
    "tasks": [
        {"name": "master", "replicas": 1, "template": {"spec": {"containers": [CONTAINER]}}},
        {"name": "worker", "replicas": 2, "template": {"spec": {"containers": [CONTAINER]}}},
    ],
}


def made(kind: Kind, name: str, **spec: Any) -> Raw:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata, "spec": spec}


def creators(spec: Raw) -> dict[str, list[Raw]]:
    """The objects that create a vcjob of that spec, by the name of their controller."""
    return {
        "jobflow": [made(JOB_TEMPLATE, "a", **spec), made(JOB_FLOW, "f", flows=[{"name": "a"}])],
        "cronjob": [made(CRON_JOB, "f", schedule="* * * * *", jobTemplate={"spec": spec})],
    }


def simulated(*objects: Any, cycles: int = 70) -> Simulation:
    """A cluster after a minute."""
    simulation = Simulation(manifests(node("n", "8c+16Gi"), *objects), CONFIGURATION, [NAME])
    simulation.run(cycles)
    return simulation


def jobs(simulation: Simulation) -> list[Raw]:
    return simulation.cluster.server.of(VCJOB)


@pytest.mark.parametrize("controller", ["jobflow", "cronjob"])
def test_a_job_of_a_controller_has_the_defaults_of_one_that_a_user_creates(controller: str) -> None:
    (of_user,) = jobs(simulated(made(VCJOB, "j", **SPEC), cycles=1))

    simulation = simulated(*creators(SPEC)[controller])

    (of_controller, *_) = jobs(simulation)
    assert of_controller["spec"] == of_user["spec"]
    assert of_controller["spec"]["schedulerName"] == NAME
    assert of_controller["spec"]["minAvailable"] == 3
    assert set(of_controller["spec"]["plugins"]) == {"pytorch", "svc"}
    name = of_controller["metadata"]["name"]
    pods = [pod for pod in simulation.cluster.server.of(POD) if pod["metadata"]["name"].startswith(name)]
    assert [pod["spec"].get("nodeName") for pod in pods] == ["n"] * 3


@pytest.mark.parametrize("controller", ["jobflow", "cronjob"])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"queue": "gone"}, "unable to find job queue"),
        ({"queue": "closed"}, "can only submit job to queue with state `Open`, queue `closed` status is `Closed`"),
    ],
)
def test_a_job_of_a_controller_is_refused_as_one_that_a_user_creates(controller: str, change: Raw, reason: str) -> None:
    simulation = simulated(queue("closed", state="Closed"), *creators(SPEC | change)[controller])

    assert jobs(simulation) == []
    messages = [raw["message"] for raw in simulation.cluster.objects() if raw["kind"] == "Event"]
    refusals = [text for text in messages if 'admission webhook "validatejob.volcano.sh" denied the request: ' in text]
    assert refusals and all(reason in text for text in refusals)


@pytest.mark.parametrize(("controller", "kind"), [("jobflow", "JobTemplate a"), ("cronjob", "CronJob f")])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"minAvailable": 4}, "job 'minAvailable' should not be greater than total replicas in tasks"),
        ({"plugins": {"pytroch": []}}, "unable to find job plugin: pytroch"),
        ({"plugins": {"pytorch": ["--prot=1"]}}, "spec.plugins: plugin pytorch: argument '--prot' is unknown"),
    ],
)
def test_what_creates_jobs_that_can_never_start_is_refused(
    controller: str, kind: str, change: Raw, reason: str
) -> None:
    with pytest.raises(ManifestError) as refusal:
        simulated(*creators(SPEC | change)[controller])
    assert kind.replace(" ", " default/") in str(refusal.value)
    assert reason in str(refusal.value)


def test_a_job_that_a_change_replaces_has_the_defaults_again() -> None:
    simulation = simulated(made(VCJOB, "j", **SPEC), cycles=3)
    (before,) = jobs(simulation)
    tasks = [SPEC["tasks"][0], SPEC["tasks"][1] | {"replicas": 3}]

    simulation.change(manifests(made(VCJOB, "j", **(SPEC | {"tasks": tasks}))))

    (after,) = jobs(simulation)
    assert after["spec"]["minAvailable"] == 4
    assert after["spec"].keys() == before["spec"].keys()
