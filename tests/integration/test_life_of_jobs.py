"""The life of jobs on a real API server: Pods that are evicted while the controllers are killed, jobs that are
suspended and resumed, and tasks that start one after another.

The test takes the role of the kubelets of evicted Pods: it ends their containers and deletes the Pods.
"""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import ApiError
from controlplane.run import ControlPlane
from scheduler.api.times import format_timestamp
from tests.integration.programs import print_end
from tests.integration.rights import account
from tests.integration.stage import Role, a_control_plane, running, wait

pytestmark = pytest.mark.controlplane

Raw = dict[str, Any]
LAB = "lab"
BATCH = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{LAB}/jobs"
ACJOBS = f"/apis/mindxdl.gitee.com/v1/namespaces/{LAB}/ascendjobs"
COMMANDS = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{LAB}/commands"
FLOW = {"apiVersion": "flow.volcano.sh/v1alpha1"}
FLOWS = f"/apis/flow.volcano.sh/v1alpha1/namespaces/{LAB}"
PODS = f"/api/v1/namespaces/{LAB}/pods"
TERMINATE_OR_RESTART = [
    {"event": "PodFailed", "action": "TerminateJob"},
    {"event": "PodEvicted", "action": "RestartJob"},
]
NEVER_STOPS = {"volcano-py.test/terminates-for": "3600s"}
"""The fake kubelet does not delete the Pod."""


def template(name: str = "main") -> Raw:
    container = {"name": name, "image": "busybox", "resources": {"requests": {"cpu": "10m"}}}
    return {
        "metadata": {"annotations": NEVER_STOPS},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }


def job_spec(*tasks: str, **spec: Any) -> Raw:
    """Each task has a Pod."""
    each = [{"name": name, "replicas": 1, "minAvailable": 1, "template": template()} for name in tasks]
    return {"schedulerName": "volcano-py", "minAvailable": len(tasks), "maxRetry": 3, "tasks": each, **spec}


class Lab:
    """Jobs in one namespace, the controllers that run them, and simulated kubelets."""

    def __init__(self, plane: ControlPlane, logs: Path) -> None:
        self.api = plane.admin
        self._plane = plane
        self._logs = logs
        self.controllers = self._start()

    def _start(self) -> Role:
        return Role("controllers", account(self._plane, "controllers"), self._logs, "--leader-elect=false")

    def kill(self) -> None:
        self.controllers.kill()
        print_end(self.controllers.log)

    def restart(self) -> None:
        self.controllers = self._start()

    def job(self, name: str, *tasks: str, **spec: Any) -> str:
        body = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}}
        self.api.create(BATCH, {**body, "spec": job_spec(*tasks, **spec)})
        return name

    def status(self, name: str) -> Raw:
        try:
            return self.api.get(f"{BATCH}/{name}").get("status") or {}
        except ApiError:
            return {}

    def phase(self, name: str) -> str:
        return str((self.status(name).get("state") or {}).get("phase", ""))

    def has_restarted(self, name: str, times: int = 1) -> bool:
        return bool(self.status(name).get("retryCount") == times)

    def runs(self, name: str, pods: int) -> bool:
        return self.phase(name) == "Running" and self.status(name).get("running") == pods

    def command(self, action: str, name: str) -> None:
        uid = self.api.get(f"{BATCH}/{name}")["metadata"]["uid"]
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": uid}
        meta = {"generateName": "order-"}
        kind = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": meta}
        self.api.create(COMMANDS, {**kind, "action": action, "target": target})

    # --- the kubelet ---
    def evict(self, pod: str) -> None:
        self.api.delete(f"{PODS}/{pod}")
        assert self.pod(pod)["metadata"]["deletionGracePeriodSeconds"] == 30

    def end(self, pod: str, phase: str, code: int, container: str = "main", finished: float | None = None) -> None:
        moment = format_timestamp(time.time() if finished is None else finished)
        ended = {"exitCode": code, "finishedAt": moment, "startedAt": moment}
        state = {"name": container, "image": "busybox", "imageID": "", "ready": False, "restartCount": 0}
        status = {"phase": phase, "containerStatuses": [{**state, "state": {"terminated": ended}}]}
        self.api.patch(f"{PODS}/{pod}/status", {"status": status})

    def gone(self, pod: str) -> None:
        self.api.delete(f"{PODS}/{pod}?gracePeriodSeconds=0")

    def release(self, pod: str) -> None:
        """Removes the Pod if it is being deleted."""
        if self.pod(pod).get("metadata", {}).get("deletionTimestamp"):
            self.gone(pod)

    def pod(self, name: str) -> Raw:
        """The Pod; empty if it does not exist."""
        try:
            return self.api.get(f"{PODS}/{name}") or {}
        except ApiError as error:
            assert error.status == 404
            return {}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    logs = tmp_path_factory.mktemp("logs")
    with a_control_plane() as plane:
        plane.start_kwok()
        plane.admin.create("/api/v1/namespaces", {"metadata": {"name": LAB}})
        plane.admin.create("/api/v1/nodes", {"metadata": {"name": "n", "labels": {"kubernetes.io/hostname": "n"}}})
        with running("scheduler", account(plane, "scheduler"), logs, "--leader-elect=false", "--schedule-period=200ms"):
            made = Lab(plane, logs)
            yield made
            made.controllers.stop()
            print_end(made.controllers.log)


def test_a_pod_that_ends_while_it_is_being_deleted_was_evicted_whenever_the_controllers_are_killed(lab: Lab) -> None:
    """Kills the controllers between the steps of the eviction of each job: the deletion of its first Pod, the end of
    its containers, and the removal of the Pod. ``early``: its container had failed before the deletion."""
    jobs = ["lives", "deleted", "ended", "away", "late", "exits", "early"]
    for name in jobs:
        lab.job(name, "a", "b", policies=TERMINATE_OR_RESTART)
    for name in jobs:
        wait(partial(lab.runs, name, 2), 60)

    for name in ("lives", "exits", "deleted", "ended"):
        lab.evict(f"{name}-a-0")
    for name in ("lives", "ended"):
        lab.end(f"{name}-a-0", "Failed", 137)
    lab.end("exits-a-0", "Succeeded", 0)
    lab.gone("lives-a-0")

    wait(lambda: lab.has_restarted("lives"), 30, lambda: (lab.status("lives"), lab.pod("lives-a-0")))
    lab.gone("exits-a-0")
    wait(lambda: lab.has_restarted("exits"))
    wait(lambda: all(lab.status(name).get("terminating") == 1 for name in ("deleted", "ended")))
    lab.kill()
    lab.end("deleted-a-0", "Failed", 137)
    finished = time.time() - 5
    for name in ("away", "late", "early"):
        lab.evict(f"{name}-a-0")
    lab.end("away-a-0", "Failed", 1)
    lab.end("early-a-0", "Failed", 1, finished=finished)
    for name in ("deleted", "ended", "away"):
        lab.gone(f"{name}-a-0")
    assert {lab.phase(name) for name in ("deleted", "ended", "away", "late", "early")} == {"Running"}
    lab.restart()
    lab.end("late-a-0", "Failed", 137)
    lab.gone("late-a-0")

    wait(lambda: lab.phase("early") in ("Terminating", "Terminated"))
    for name in jobs[:-1]:
        wait(partial(lab.has_restarted, name), 30, partial(lab.status, name))
        for task in ("a", "b"):
            lab.release(f"{name}-{task}-0")  # the restart deletes it
        wait(partial(lab.runs, name, 2), 60, partial(lab.status, name))
        status = lab.status(name)
        assert (status["retryCount"], status["uncountedRestarts"]) == (1, 1), name


def test_a_step_of_a_flow_that_is_preempted_and_exits_with_0_has_not_completed(lab: Lab) -> None:
    for name in ("first", "then"):
        body = {**FLOW, "kind": "JobTemplate", "metadata": {"name": name}}
        lab.api.create(f"{FLOWS}/jobtemplates", {**body, "spec": job_spec("a")})
    steps = [{"name": "first"}, {"name": "then", "dependsOn": {"targets": ["first"]}}]
    lab.api.create(
        f"{FLOWS}/jobflows", {**FLOW, "kind": "JobFlow", "metadata": {"name": "f"}, "spec": {"flows": steps}}
    )
    wait(lambda: lab.runs("f-first", 1), 60)
    before = lab.api.get(f"{PODS}/f-first-a-0")["metadata"]["uid"]

    lab.evict("f-first-a-0")
    lab.end("f-first-a-0", "Succeeded", 0)
    wait(lambda: lab.status("f-first").get("terminating") == 1)
    lab.gone("f-first-a-0")
    wait(lambda: lab.runs("f-first", 1), 30, lambda: (lab.status("f-first"), lab.pod("f-first-a-0")))
    assert lab.api.get(f"{PODS}/f-first-a-0")["metadata"]["uid"] != before
    assert lab.status("f-then") == {}

    lab.end("f-first-a-0", "Succeeded", 0)
    wait(lambda: lab.phase("f-first") == "Completed")
    wait(lambda: lab.runs("f-then", 1))


def test_a_preempted_acjob_whose_pods_exit_with_0_restarts_and_keeps_its_retries(lab: Lab) -> None:
    role = {"replicas": 1, "restartPolicy": "Never", "template": template("ascend")}
    spec = {
        "schedulerName": "volcano-py",
        "runPolicy": {"backoffLimit": 1, "schedulingPolicy": {"minAvailable": 2, "queue": "default"}},
        "replicaSpecs": {"Master": role, "Worker": role},
    }
    head = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob"}
    meta = {"name": "npu", "labels": {"framework": "pytorch"}}
    lab.api.create(ACJOBS, {**head, "metadata": meta, "spec": spec})
    pods = ["npu-master-0", "npu-worker-0"]

    def state() -> str:
        conditions = lab.api.get(f"{ACJOBS}/npu").get("status", {}).get("conditions") or [{"type": ""}]
        return str(conditions[-1]["type"])

    def restarts() -> list[str | None]:
        """The number of restarts, and the number of restarts that do not count."""
        groups = lab.api.get(f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{LAB}/podgroups")["items"]
        found = (each["metadata"] for each in groups if each["metadata"]["name"].startswith("npu-"))
        annotations = next(found).get("annotations") or {}
        return [annotations.get(f"volcano-py/{name}") for name in ("restarts", "uncounted-restarts")]

    def run(version: int) -> bool:
        """Whether all Pods of a restart run."""
        found = [lab.pod(pod) for pod in pods]
        return all(
            each and each["status"]["phase"] == "Running" and each["metadata"]["labels"]["version"] == str(version)
            for each in found
        )

    for version in range(3):
        wait(partial(run, version), 60)
        wait(lambda: state() == "Running", 60)
        for pod in pods:
            lab.evict(pod)
        for pod in pods:
            lab.end(pod, "Succeeded", 0, "ascend")
        if version == 1:
            lab.kill()
        time.sleep(1.5)  # in which a job that has succeeded would say so
        assert state() == "Running"
        for pod in pods:
            lab.gone(pod)
        if version == 1:
            lab.restart()
        wait(partial(run, version + 1), 60)
        assert restarts() == [str(version + 1)] * 2


def test_a_job_resumes_every_time_and_fails_when_failures_have_used_up_its_retries(lab: Lab) -> None:
    name = lab.job("st", "a", policies=[{"event": "PodFailed", "action": "RestartJob"}])
    wait(lambda: lab.runs(name, 1), 60)
    for number in range(1, 5):
        lab.command("AbortJob", name)
        wait(lambda: lab.phase(name) == "Aborting")
        if number == 2:
            lab.kill()
        lab.gone("st-a-0")
        if number == 2:
            lab.restart()
        wait(lambda: lab.phase(name) == "Aborted")
        lab.command("ResumeJob", name)
        wait(lambda: lab.runs(name, 1), 60, lambda: lab.status(name))
        status = lab.status(name)
        assert (status["retryCount"], status["uncountedRestarts"]) == (number, number)
    for failures in range(1, 4):
        lab.end("st-a-0", "Failed", 1)
        if failures < 3:
            wait(partial(lab.has_restarted, name, 4 + failures))
            wait(lambda: lab.runs(name, 1), 60, lambda: lab.status(name))
    wait(lambda: lab.phase(name) == "Failed")


def test_a_task_starts_after_the_one_it_depends_on_although_the_gang_needs_both(lab: Lab) -> None:
    tasks = job_spec("first", "then")["tasks"]
    tasks[1]["dependsOn"] = {"name": ["first"]}
    name = lab.job("ordered", tasks=tasks, minAvailable=2)
    wait(lambda: lab.runs(name, 2), 60, lambda: lab.status(name))
    created = [lab.pod(f"ordered-{task}-0")["metadata"]["creationTimestamp"] for task in ("first", "then")]
    assert created == sorted(created)


def test_an_acjob_whose_scheduler_name_nobody_serves_has_an_event_that_names_what_was_meant(lab: Lab) -> None:
    def acjob(name: str, scheduler: str, of_worker: str) -> None:
        worker = {**template("ascend"), "spec": {**template("ascend")["spec"], "schedulerName": of_worker}}
        roles = {
            "Master": {"replicas": 1, "template": template("ascend")},
            "Worker": {"replicas": 1, "template": worker},
        }
        head = {"apiVersion": "mindxdl.gitee.com/v1", "kind": "AscendJob"}
        meta = {"name": name, "labels": {"framework": "pytorch"}}
        spec = {
            "schedulerName": scheduler,
            "replicaSpecs": roles,
            "runPolicy": {"schedulingPolicy": {"minAvailable": 2}},
        }
        lab.api.create(ACJOBS, {**head, "metadata": meta, "spec": spec})

    def warnings(name: str) -> list[str]:
        fields = f"involvedObject.kind=AscendJob,involvedObject.name={name},type=Warning"
        items = lab.api.get(f"/api/v1/namespaces/{LAB}/events?fieldSelector={fields}")["items"]
        assert {(event["reason"], event.get("count", 1)) for event in items} <= {("Malformed", 1)}
        return sorted(event["message"] for event in items)

    hint = "is not a name of this scheduler (volcano-py); did you mean 'volcano-py'?"
    acjob("misspelt", "vulcano-py", "volcano-py")
    wait(lambda: warnings("misspelt") == [f"spec.schedulerName: 'vulcano-py' {hint}"])
    acjob("misspelt-role", "volcano-py", "volcano-pi")
    path = "spec.replicaSpecs[Worker].template.spec.schedulerName"
    wait(lambda: warnings("misspelt-role") == [f"{path}: 'volcano-pi' {hint}"])
    lab.api.patch(f"{ACJOBS}/misspelt", {"metadata": {"labels": {"looked": "at"}}})
    acjob("right", "volcano-py", "volcano-py")
    wait(lambda: lab.pod("right-worker-0") != {})
    assert warnings("right") == []
    assert warnings("misspelt") == [f"spec.schedulerName: 'vulcano-py' {hint}"]
    for name in "misspelt", "misspelt-role", "right":
        lab.api.delete(f"{ACJOBS}/{name}?propagationPolicy=Background")
