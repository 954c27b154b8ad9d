"""Every object that the controllers and the scheduler have written is admitted again.

The test submits each object unchanged, with a label, with each allowed change, and as a new object, as if it was
restored from a backup while its queue is open.

``RESUBMISSIONS`` in the environment sets the number of random clusters.
"""

import json
import os
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import pytest

from scheduler.api.kinds import (
    ACJOB,
    COMMAND,
    CRON_JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    POD,
    POD_GROUP,
    QUEUE,
    VCJOB,
    Kind,
)
from scheduler.api.objects import KubeObject
from scheduler.cluster.memory.admission import MemoryView
from scheduler.cluster.memory.simulation import Simulation
from scheduler.controllers.job.plugins import PLUGIN_NAMES
from scheduler.framework.configuration_file import parse_configuration
from scheduler.webhooks.contract import AdmissionRequest, Operation, WebhookSettings
from scheduler.webhooks.routes import admit, routes
from tests.builders import NAME, Raw, manifests, node
from tests.schemas import problems

CLUSTERS = int(os.environ.get("RESUBMISSIONS", "12"))
STEPS = 60
CONFIGURATION = parse_configuration(
    "actions: enqueue, allocate, backfill\n"
    "tiers:\n- plugins: [{name: priority}, {name: gang}]\n- plugins: [{name: predicates}, {name: capacity}]\n"
)
KINDS = (QUEUE, POD_GROUP, VCJOB, JOB_FLOW, CRON_JOB, ACJOB)
SETTINGS = WebhookSettings(scheduler_names=(NAME,), job_plugins=PLUGIN_NAMES)
POLICIES = [
    [],
    [{"event": "PodFailed", "action": "RestartJob"}],
    [{"events": ["PodEvicted", "PodFailed"], "action": "RestartTask"}],
    [{"event": "*", "action": "TerminateJob"}],
    [{"exitCode": 3, "action": "AbortJob"}, {"event": "TaskCompleted", "action": "CompleteJob"}],
]
ACTIONS = ["AbortJob", "ResumeJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob"]
QUEUES = {"team": "root", "team-a": "team", "team-b": "team", "solo": "root", "default": "root"}
LEAVES = ["team-a", "team-b", "solo", "default"]
Change = Callable[[Raw], object]


class Open:
    """A view of a cluster in which all Queues are open."""

    def __init__(self, view: MemoryView) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def queue(self, name: str) -> Any:
        queue = deepcopy(self._view.queue(name))
        if queue is not None:
            queue.status.state = "Open"
        return queue


class Objects:
    """A cluster in which random things happen, and all versions of the objects that were written in it."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._number = 0
        nodes = [node(f"n{i}", "8c+16Gi+huawei.com/Ascend910=8") for i in range(3)]
        self.simulation = Simulation(manifests(*nodes), CONFIGURATION, [NAME])
        self.server = self.simulation.cluster.server
        self.view = MemoryView(self.server)
        self.written: dict[str, tuple[Kind, Raw]] = {}
        """The versions of all objects, by their content."""
        self.server.watch(self._collect)
        for name, parent in QUEUES.items():
            if name != "default":
                self._admitted(QUEUE, {"metadata": {"name": name}, "spec": {"weight": 1, "parent": parent}})
        for name in ("a", "b", "c"):
            self._admitted(JOB_TEMPLATE, {"metadata": self._metadata(name), "spec": self._job_spec()})

    def _collect(self, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        if kind in KINDS and new is not None:
            raw = self.server.find(kind, new.metadata.namespace, new.metadata.name)
            assert raw is not None
            self.written.setdefault(json.dumps([raw.get("spec"), raw.get("status")], sort_keys=True), (kind, raw))

    def _admitted(self, kind: Kind, body: Raw) -> None:
        """Creates an object that admission accepts."""
        raw = {"apiVersion": kind.api_version, "kind": kind.name, **body}
        decision = admit(creation(kind, raw), self.view, SETTINGS, routes())
        if not decision.refusal:
            assert kind is POD or problems(kind, decision.object) == []
            self.server.create(kind, decision.object)

    def _name(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    @staticmethod
    def _metadata(name: str) -> Raw:
        return {"name": name, "namespace": "default"}

    # --- what may happen ---
    def step(self) -> None:
        steps = [
            *(self.job, self.job, self.flow, self.cron_job, self.ascend_job, self.pod, self.command, self.command),
            *(self.queue_command, self.queue_command, self.change, self.change, self.end_pod, self.end_pod),
            *(self.end_pod, self.end_pod, self.delete_pod, self.delete, self.pass_minutes, self.unknown_state),
        ]
        self._random.choice(steps)()
        for _ in range(self._random.choice([0, 1, 1, 2])):
            self.simulation.cycle()

    def _template(self) -> Raw:
        spec = {"restartPolicy": "Never", "schedulerName": NAME}
        return {"spec": {**spec, "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}}

    def _job_spec(self) -> Raw:
        choose = self._random.choice
        tasks: list[Raw] = []
        for number in range(choose([1, 1, 2, 3])):
            task: Raw = {"name": f"t{number}", "replicas": choose([1, 2, 3, 20]), "template": self._template()}
            if number and choose([True, False]):
                task["dependsOn"] = {"name": [f"t{number - 1}"]}
            if choose([True, False]):
                task["policies"] = choose(POLICIES)
            if choose([True, False, False]):
                task |= {"replicas": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}
            tasks.append(task)
        spec: Raw = {"schedulerName": NAME, "queue": choose(LEAVES), "tasks": tasks, "policies": choose(POLICIES)}
        spec |= choose([{}, {"minAvailable": 1}, {"maxRetry": 1}, {"minSuccess": 1}])
        spec |= choose([{}, {"ttlSecondsAfterFinished": 5}, {"plugins": {"svc": [], "env": []}}])
        volume = {"mountPath": "/v", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}
        return spec | choose([{}, {}, {"volumes": [volume]}])

    def job(self) -> None:
        self._admitted(VCJOB, {"metadata": self._metadata(self._name("j")), "spec": self._job_spec()})

    def flow(self) -> None:
        targets: Raw = {"dependsOn": {"targets": ["a"]}}
        flows = [{"name": "a"}, {"name": "b", **targets}, {"name": "c", **self._random.choice([{}, targets])}]
        flows = self._random.choice([flows, flows[:1]])
        spec = {"flows": flows, "jobRetainPolicy": self._random.choice(["retain", "delete"])}
        self._admitted(JOB_FLOW, {"metadata": self._metadata(self._name("f")), "spec": spec})

    def cron_job(self) -> None:
        spec = {"schedule": "* * * * *", "jobTemplate": {"spec": self._job_spec()}}
        spec |= {"concurrencyPolicy": self._random.choice(["Allow", "Forbid", "Replace"])}
        self._admitted(CRON_JOB, {"metadata": self._metadata(self._name("c")), "spec": spec})

    def ascend_job(self) -> None:
        amounts = {"huawei.com/Ascend910": self._random.choice(["1", "8"])}
        container = {"name": "ascend", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
        role = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
        policy: Raw = {"schedulingPolicy": {"queue": self._random.choice(LEAVES)}}
        policy |= self._random.choice([{}, {"suspend": True}, {"backoffLimit": 1}, {"ttlSecondsAfterFinished": 5}])
        spec = {"schedulerName": NAME, "runPolicy": policy, "replicaSpecs": {"Master": role, "Worker": deepcopy(role)}}
        labels = {"framework": "pytorch", "fault-scheduling": "force", "fault-retry-times": "2"}
        self._admitted(ACJOB, {"metadata": {**self._metadata(self._name("a")), "labels": labels}, "spec": spec})

    def pod(self) -> None:
        self._admitted(POD, {"metadata": self._metadata(self._name("p")), **self._template()})

    def command(self) -> None:
        self._command(VCJOB, ACTIONS)

    def queue_command(self) -> None:
        self._command(QUEUE, ["OpenQueue", "CloseQueue"])

    def _command(self, kind: Kind, actions: list[str]) -> None:
        targets = self.server.of(kind)
        if targets:
            name = self._random.choice(targets)["metadata"]["name"]
            target = {"apiVersion": kind.api_version, "kind": kind.name, "name": name, "uid": ""}
            body = {"metadata": self._metadata(self._name("o")), "action": self._random.choice(actions)}
            self._admitted(COMMAND, {**body, "target": target})

    def unknown_state(self) -> None:
        """Another program writes the state Unknown, which the controllers keep."""
        self.server.patch(QUEUE, "", self._random.choice(LEAVES), {"status": {"state": "Unknown"}})

    def change(self) -> None:
        """A change that a user makes."""
        kind = self._random.choice(KINDS)
        objects = self.server.of(kind)
        if objects:
            old = self._random.choice(objects)
            new = deepcopy(old)
            self._random.choice([*changes(kind, new)])(new)
            meta = old["metadata"]
            if refusal(kind, old, new, self.view) == "":
                self.server.update(kind, meta.get("namespace") or "", meta["name"], new)

    def end_pod(self) -> None:
        pods = [pod for pod in self.server.of(POD) if pod["spec"].get("nodeName")]
        if pods:
            name = self._random.choice(pods)["metadata"]["name"]
            code = self._random.choice([0, 0, 1, 3])
            containers = [{"name": "c", "state": {"terminated": {"exitCode": code}}}]
            status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": containers}
            self.server.patch(POD, "default", name, {"status": status})

    def delete_pod(self) -> None:
        self._delete(POD)

    def delete(self) -> None:
        self._delete(self._random.choice([VCJOB, POD_GROUP, JOB_FLOW, CRON_JOB, ACJOB]))

    def _delete(self, kind: Kind) -> None:
        objects = self.server.of(kind)
        if objects:
            self.server.delete(kind, "default", self._random.choice(objects)["metadata"]["name"])

    def pass_minutes(self) -> None:
        self.server.clock += timedelta(seconds=self._random.choice([61, 130]))


# --- admission ---
def creation(kind: Kind, raw: Raw) -> AdmissionRequest:
    meta = raw["metadata"]
    return AdmissionRequest(Operation.CREATE, kind, meta.get("namespace") or "", meta["name"], raw)


def refusal(kind: Kind, old: Raw, new: Raw, view: Any) -> str:
    """Returns why the webhooks or the resource definition refuse an update; "" if they accept it."""
    meta = old["metadata"]
    request = AdmissionRequest(Operation.UPDATE, kind, meta.get("namespace") or "", meta["name"], new, old)
    decision = admit(request, view, SETTINGS, routes())
    return decision.refusal or "; ".join(problems(kind, decision.object))


def changes(kind: Kind, raw: Raw) -> Iterator[Change]:
    """Returns each single change that a user may make."""
    yield lambda raw: None
    yield lambda raw: raw["metadata"].setdefault("labels", {}).update(team="x")
    yield lambda raw: raw["metadata"].setdefault("annotations", {}).update(note="x")
    yield lambda raw: raw["metadata"].update(finalizers=["example.com/hold"])
    spec: Raw = raw["spec"]
    if kind is QUEUE and raw["metadata"]["name"] != "root":
        yield lambda raw: raw["spec"].update(capability={"cpu": "64"})
        yield lambda raw: raw["spec"].update(weight=7)
        yield lambda raw: raw["spec"].update(reclaimable=False)
        yield lambda raw: raw["spec"].update(priority=5)
    elif kind is VCJOB:
        yield lambda raw: raw["spec"].update(priorityClassName="high")
        yield lambda raw: raw["spec"].update(minAvailable=1)
        for index, task in enumerate(spec["tasks"]):
            if not task.get("partitionPolicy"):
                yield partial(_resize, index, "replicas", task.get("replicas", 0) + 1)
                yield partial(_resize, index, "minAvailable", 0)
    elif kind is JOB_FLOW:
        yield lambda raw: raw["spec"]["flows"].append({"name": "d", "dependsOn": {"targets": ["a"]}})
        yield lambda raw: raw["spec"].update(jobRetainPolicy="delete")
    elif kind is CRON_JOB:
        yield lambda raw: raw["spec"].update(suspend=True)
        yield lambda raw: raw["spec"].update(schedule="*/5 * * * *")
        yield lambda raw: raw["spec"].update(concurrencyPolicy="Forbid", successfulJobsHistoryLimit=0)
    elif kind is ACJOB:
        yield lambda raw: raw["spec"].setdefault("runPolicy", {}).update(suspend=True)
        yield lambda raw: raw["spec"]["replicaSpecs"]["Worker"].update(replicas=3)
    elif kind is POD_GROUP:
        yield lambda raw: raw["spec"].update(priorityClassName="high")
        yield lambda raw: raw["spec"].update(minMember=1)


def _resize(task: int, field: str, number: int, raw: Raw) -> None:
    raw["spec"]["tasks"][task][field] = number


# --- the property ---
@pytest.fixture(scope="module")
def clusters() -> list[Objects]:
    made = [Objects(Random(seed)) for seed in range(CLUSTERS)]
    for objects in made:
        for _ in range(STEPS):
            objects.step()
    return made


def test_what_the_controllers_wrote_is_admitted_again_with_every_allowed_change(clusters: list[Objects]) -> None:
    for objects in clusters:
        for kind, raw in objects.written.values():
            text = f"{kind.name} {raw['metadata']['name']}: {json.dumps([raw['spec'], raw.get('status')])}"
            assert problems(kind, raw) == [], text
            for change in changes(kind, raw):
                new = deepcopy(raw)
                change(new)
                assert refusal(kind, raw, new, objects.view) == "", f"{text}\nto {json.dumps(new['spec'])}"


def test_what_the_controllers_wrote_is_admitted_as_a_new_object_while_its_queue_is_open(
    clusters: list[Objects],
) -> None:
    for objects in clusters:
        for kind, raw in objects.written.values():
            copy = {**raw, "metadata": {key: value for key, value in raw["metadata"].items() if key != "uid"}}
            restored = admit(creation(kind, copy), Open(objects.view), SETTINGS, routes())
            assert restored.refusal == "", f"{kind.name}: {json.dumps([raw['spec'], raw.get('status')])}"


def test_the_clusters_reach_the_states_that_queues_and_jobs_can_be_in(clusters: list[Objects]) -> None:
    found: set[tuple[str, str]] = set()
    for objects in clusters:
        for kind, raw in objects.written.values():
            status = raw.get("status") or {}
            state = status.get("state") or {}
            if kind is ACJOB:
                found |= {(kind.name, condition["type"]) for condition in status.get("conditions") or ()}
            else:
                found.add((kind.name, state if isinstance(state, str) else state.get("phase", status.get("phase", ""))))
    assert {("Queue", state) for state in ("Open", "Closing", "Closed", "Unknown")} <= found
    assert {("Job", phase) for phase in ("Pending", "Running", "Aborted", "Restarting", "Completed", "Failed")} <= found
    assert {("JobFlow", phase) for phase in ("Pending", "Running", "Succeed", "Failed")} <= found
    assert {("PodGroup", phase) for phase in ("Pending", "Inqueue", "Running", "Unknown", "Completed")} <= found
    assert {("AscendJob", phase) for phase in ("Created", "Running", "Restarting", "Suspended")} <= found
