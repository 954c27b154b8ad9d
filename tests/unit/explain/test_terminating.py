"""Explanations of jobs whose Pods terminate: their controllers create Pods again afterwards."""

from typing import Any

from scheduler.api.kinds import VCJOB
from scheduler.cluster.memory import Simulation
from scheduler.explain import explain
from scheduler.explain.explanation import Explanation, Outlook
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, Raw, manifests, node

CONTAINER = {"name": "w", "image": "x", "resources": {"requests": {"cpu": "1"}}}
AFTERWARDS = "it gets its nodes when Pods that terminate are gone"


def explained(objects: list[Raw]) -> Explanation:
    simulation = Simulation(manifests(*objects), parse_configuration(DEFAULT_CONFIGURATION), [NAME])
    return explain(simulation, "job", "default", "train", search=True)


def dump(*, finalizers: list[str] | None = None, action: str = "", deleted: str = "") -> list[Raw]:
    """The objects on the API server for a job of two Pods shortly after an action on the job, or the deletion of a
    Pod."""
    task = {"name": "w", "replicas": 2, "template": {"spec": {"containers": [CONTAINER]}}}
    job: Raw = {
        "apiVersion": VCJOB.api_version,
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"schedulerName": NAME, "minAvailable": 2, "tasks": [task]},
    }
    first = Simulation(manifests(node("n", "4c"), job), parse_configuration(DEFAULT_CONFIGURATION), [NAME])
    first.run()
    if action:
        target = {"apiVersion": VCJOB.api_version, "kind": "Job", "name": "train", "uid": ""}
        command: dict[str, Any] = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": "c", "namespace": "default"},
            "action": action,
            "target": target,
        }
        first.change(manifests(command))
    if deleted:
        meta = {"name": deleted, "namespace": "default", "annotations": {"volcano-py/what-if": "delete"}}
        first.change(manifests({"apiVersion": "v1", "kind": "Pod", "metadata": meta}))
    first.run_controllers()
    return [raw for raw in first.cluster.objects() if raw["kind"] != "Event"]


def test_a_job_that_restarts_needs_no_change() -> None:
    it = explained(dump(action="RestartJob"))

    assert (it.outlook, it.pipelined, it.changes) == (Outlook.WAITS, True, [])
    assert it.state.endswith(AFTERWARDS)


def test_a_job_whose_pod_is_deleted_gets_another_one() -> None:
    it = explained(dump(deleted="train-w-1"))

    assert it.pipelined
    assert it.state == f"1 of the 2 Pods needed have a node; {AFTERWARDS}"


def test_a_job_that_is_aborted_does_not_start_when_its_pods_are_gone() -> None:
    it = explained(dump(action="AbortJob"))

    assert (it.outlook, it.pipelined) == (Outlook.WAITS, False)
