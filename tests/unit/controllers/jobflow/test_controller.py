"""The controller jobflow-controller over a cluster in memory."""

from typing import Any

import msgspec
import pytest

from scheduler.api.batch import MAX_FLOW_STEPS, Job, JobFlow, JobTemplate
from scheduler.api.kinds import JOB_FLOW, JOB_TEMPLATE, VCJOB, Kind
from scheduler.controllers.effects import Create, Effect, Patch, Plan, RecordEvent
from scheduler.controllers.jobflow import JobFlowController
from scheduler.controllers.jobflow.steps import plan_steps
from scheduler.controllers.store import Store
from tests.unit.controllers.clusters import Controlled
from tests.unit.controllers.jobs import Raw, in_phase, job, owner

TASKS = [{"name": "main", "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}]
PATCH = {"jobSpec": {"queue": "other"}}
PROBE = {"taskStatusList": [{"taskName": "main", "phase": "Running"}]}


def template(name: str) -> Raw:
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobTemplate",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"queue": f"q-{name}", "tasks": TASKS},
    }


def flow(policy: str = "retain", name: str = "f", uid: str = "uid-f", **steps: list[str] | Raw) -> Raw:
    """``steps``: the targets of each step, or the whole step."""
    flows = [{"name": step, **(rest if isinstance(rest, dict) else depends(*rest))} for step, rest in steps.items()]
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": name, "namespace": "default", "uid": uid},
        "spec": {"jobRetainPolicy": policy, "flows": flows},
    }


def depends(*targets: str) -> Raw:
    return {"dependsOn": {"targets": list(targets)}} if targets else {}


def controlled(*manifests: Raw) -> Controlled:
    cluster = Controlled(lambda store: [JobFlowController(store)])
    cluster.create(*manifests)
    return cluster


def set_phase(cluster: Controlled, name: str, *phases: str) -> None:
    for phase in phases:
        cluster.patch(VCJOB, name, in_phase(phase))


def jobs(cluster: Controlled) -> list[str]:
    return sorted(raw["metadata"]["name"] for raw in cluster.cluster.server.of(VCJOB))


def status(cluster: Controlled, name: str = "f") -> Raw:
    raw = cluster.find(JOB_FLOW, name)
    assert raw is not None
    found: Raw = raw.get("status") or {}
    return found


def phase(cluster: Controlled) -> str:
    found: str = status(cluster)["state"]["phase"]
    return found


def events(cluster: Controlled) -> set[tuple[str, str, str]]:
    return {(type_, reason, text) for _, _, type_, reason, text in cluster.events()}


# --- the way through a flow ---
def test_a_job_is_made_of_its_template_when_the_flow_comes() -> None:
    cluster = controlled(template("a"), flow(a=[]))
    made = cluster.find(VCJOB, "f-a")
    assert made is not None
    marks = {"volcano.sh/createdByJobTemplate": "default.a", "volcano.sh/createdByJobFlow": "default.f"}
    assert made["metadata"]["labels"] == marks
    assert made["metadata"]["annotations"] == marks
    assert made["metadata"]["ownerReferences"] == [owner(JOB_FLOW, "f")]
    assert made["spec"] == {"queue": "q-a", "tasks": TASKS}
    assert events(cluster) == {("Normal", "Created", "create a job named f-a!")}


def test_a_job_is_made_when_all_its_targets_have_completed() -> None:
    cluster = controlled(*map(template, "abc"), flow(a=[], b=[], c=["a", "b"]))
    assert jobs(cluster) == ["f-a", "f-b"]
    set_phase(cluster, "f-a", "Running", "Completed")
    assert jobs(cluster) == ["f-a", "f-b"]
    set_phase(cluster, "f-b", "Running", "Completing")
    assert jobs(cluster) == ["f-a", "f-b"]
    set_phase(cluster, "f-b", "Completed")
    assert jobs(cluster) == ["f-a", "f-b", "f-c"]


def test_the_phase_goes_from_pending_over_running_to_succeed() -> None:
    cluster = controlled(*map(template, "ab"), flow(a=[], b=["a"]))
    cluster.wait(2)
    assert phase(cluster) == "Pending"
    set_phase(cluster, "f-a", "Pending")
    assert phase(cluster) == "Pending"
    set_phase(cluster, "f-a", "Running")
    assert phase(cluster) == "Running"
    set_phase(cluster, "f-a", "Completed")
    assert phase(cluster) == "Running"
    set_phase(cluster, "f-b", "Completed")
    assert phase(cluster) == "Succeed"
    assert status(cluster)["completedJobs"] == ["f-a", "f-b"]


@pytest.mark.parametrize("end", ["Failed", "Terminated"])
@pytest.mark.parametrize("before", [[], ["Running"]])
def test_a_flow_fails_with_any_of_its_jobs_and_stays_so(end: str, before: list[str]) -> None:
    cluster = controlled(*map(template, "abc"), flow(a=[], b=["a"], c=[]))
    set_phase(cluster, "f-a", *before, end)
    assert phase(cluster) == "Failed"
    written = status(cluster)
    set_phase(cluster, "f-c", "Running", "Completed")
    assert status(cluster) == written
    assert jobs(cluster) == ["f-a", "f-c"]


def test_a_flow_without_steps_is_pending() -> None:
    cluster = controlled(flow())
    cluster.wait(2)
    assert phase(cluster) == "Pending"


def test_the_first_status_of_a_flow_leaves_its_creator_time_to_update_it() -> None:
    cluster = controlled(flow(a=[]), template("a"), flow(name="g", uid="uid-g", a=[]))
    assert jobs(cluster) == ["f-a", "g-a"]
    cluster.wait(1)
    assert status(cluster) == status(cluster, "g") == {}
    cluster.wait(1)
    assert phase(cluster) == "Pending"
    assert status(cluster, "g")["unKnowJobs"] == ["g-a"]


def test_a_flow_of_which_a_job_runs_has_its_status_at_once() -> None:
    cluster = controlled(template("a"), flow(a=[]))
    set_phase(cluster, "f-a", "Running")
    assert phase(cluster) == "Running"


def test_a_step_written_twice_is_done_once() -> None:
    raw = flow(a=[])
    raw["spec"]["flows"] *= 2
    cluster = controlled(template("a"), raw)
    set_phase(cluster, "f-a", "Running", "Completed")
    assert phase(cluster) == "Succeed"


def test_jobs_are_deleted_after_success_if_the_flow_says_so_and_are_not_made_again() -> None:
    cluster = controlled(*map(template, "ab"), flow("delete", a=[], b=["a"]))
    set_phase(cluster, "f-a", "Running", "Completed")
    assert jobs(cluster) == ["f-a", "f-b"]
    set_phase(cluster, "f-b", "Running", "Completed")
    assert jobs(cluster) == []
    cluster.wait(5)
    assert jobs(cluster) == []
    assert phase(cluster) == "Succeed"
    assert status(cluster)["completedJobs"] == ["f-a", "f-b"]


def test_a_completed_job_that_was_cleaned_up_is_neither_made_again_nor_waited_for() -> None:
    cluster = controlled(*map(template, "abc"), flow(a=[], b=["a"], c=["a", "b"]))
    set_phase(cluster, "f-a", "Running", "Completed")
    cluster.delete(VCJOB, "f-a")
    set_phase(cluster, "f-b", "Running", "Completed")
    assert jobs(cluster) == ["f-b", "f-c"]
    cluster.delete(VCJOB, "f-b")
    set_phase(cluster, "f-c", "Completed")
    assert phase(cluster) == "Succeed"
    assert jobs(cluster) == ["f-c"]


def test_a_job_that_is_deleted_before_it_completed_is_made_again() -> None:
    cluster = controlled(template("a"), flow(a=[]))
    set_phase(cluster, "f-a", "Running")
    cluster.delete(VCJOB, "f-a")
    assert jobs(cluster) == ["f-a"]


def test_a_flow_that_is_being_deleted_makes_nothing() -> None:
    raw = flow(a=[])
    raw["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    assert jobs(controlled(template("a"), raw)) == []


def test_a_step_added_to_a_running_flow_is_done() -> None:
    cluster = controlled(*map(template, "ab"), flow(a=[]))
    cluster.patch(JOB_FLOW, "f", {"spec": {"flows": [{"name": "a"}, {"name": "b"}]}})
    assert jobs(cluster) == ["f-a", "f-b"]


def test_a_name_too_long_for_a_label_is_in_the_annotations_alone() -> None:
    name = "f" * 60
    cluster = controlled(template("a"), flow(name=name, a=[]))
    made = cluster.find(VCJOB, f"{name}-a")
    assert made is not None
    assert made["metadata"]["labels"] == {"volcano.sh/createdByJobTemplate": "default.a"}
    assert made["metadata"]["annotations"]["volcano.sh/createdByJobFlow"] == f"default.{name}"


# --- what does not fit ---
def test_a_template_that_is_not_there_is_reported_once_and_holds_up_only_its_own_step() -> None:
    cluster = controlled(template("b"), flow(a=[], b=[], c=["a"]))
    assert jobs(cluster) == ["f-b"]
    cluster.wait(2)
    assert phase(cluster) == "Pending"
    missing = (
        "Warning",
        "SyncJobFlow",
        'SyncJobFlow JobFlow failed for sync jobflow f failed for jobtemplate.flow.volcano.sh "a" not found, '
        "event is OutOfSync, action is SyncJobFlow",
    )
    assert events(cluster) == {missing, ("Normal", "Created", "create a job named f-b!")}
    set_phase(cluster, "f-b", "Pending", "Running")
    assert [raw["count"] for raw in cluster.cluster.objects() if raw.get("reason") == "SyncJobFlow"] == [1]

    cluster.create(template("a"))
    assert jobs(cluster) == ["f-a", "f-b"]


def test_the_job_of_an_earlier_flow_of_that_name_counts_for_nothing_and_is_waited_for() -> None:
    old = job("f-a", "Completed", owner(JOB_FLOW, "f", "uid-before"))
    cluster = controlled(old, *map(template, "ab"), flow(a=[], b=["a"]))
    assert jobs(cluster) == ["f-a"]
    assert events(cluster) == {
        ("Warning", "ForeignJob", "Job f-a exists but is not owned by this JobFlow (current owner: f)")
    }
    cluster.delete(VCJOB, "f-a")
    made = cluster.find(VCJOB, "f-a")
    assert made is not None
    assert made["metadata"]["ownerReferences"] == [owner(JOB_FLOW, "f")]


def test_patches_and_probes_which_volcano_does_not_act_on_are_reported() -> None:
    steps: dict[str, Any] = {"a": {"patch": PATCH}, "b": {"dependsOn": {"targets": [], "probe": PROBE}}}
    cluster = controlled(*map(template, "ab"), flow(**steps))
    made = cluster.find(VCJOB, "f-a")
    assert made is not None
    assert made["spec"]["queue"] == "q-a"
    assert {text for _, reason, text in events(cluster) if reason == "Malformed"} == {
        "spec.flows[0].patch: job f-a is made of its JobTemplate as it is; ignored",
        "spec.flows[1].dependsOn.probe: job f-b waits for its targets alone; ignored",
    }


def test_the_status_names_the_templates_that_are_not_there_until_they_come() -> None:
    cluster = controlled(template("a"), flow(a=[], b=["a"], x=[], y=[], z=["x"]))
    cluster.wait(2)
    assert status(cluster)["state"] == {
        "phase": "Pending",
        "message": '2 jobtemplates.flow.volcano.sh: "x", "y" not found',
    }
    cluster.create(template("x"))
    assert status(cluster)["state"]["message"] == 'jobtemplate.flow.volcano.sh "y" not found'
    set_phase(cluster, "f-a", "Running", "Completed")
    assert status(cluster)["state"] == {
        "phase": "Running",
        "message": '2 jobtemplates.flow.volcano.sh: "b", "y" not found',
    }
    cluster.create(template("y"), template("b"))
    assert status(cluster)["state"] == {"phase": "Running"}


def test_a_message_is_not_written_again_where_the_api_server_does_not_store_it() -> None:
    """Volcano's resource definition has no such field."""
    raw = flow(a=[])
    raw["status"] = {"state": {"phase": "Pending"}}
    controller, plan = look(raw)
    (patch,) = written(plan)
    assert isinstance(patch, Patch)
    assert patch.body == {"status": {"state": {"message": 'jobtemplate.flow.volcano.sh "a" not found'}}}

    assert written(controller.plan(("default", "f"), 3)) == []


def test_a_long_message_is_cut() -> None:
    steps: dict[str, Any] = {letter * 253: [] for letter in "abcdef"}
    cluster = controlled(flow(**steps))
    cluster.wait(2)
    message = status(cluster)["state"]["message"]
    assert len(message) == 1024 and message.endswith("...")


# --- steps that cannot be ordered, of flows that no webhook has refused ---
IMPOSSIBLE = [
    ({"a": ["b"], "b": ["c"], "c": ["a"], "d": []}, "steps c, b, a wait for each other, so none of them can start"),
    ({"a": ["a"], "d": []}, "step a waits for itself"),
    ({"d": [], "a": ["d", "x"]}, 'step a waits for "x", which is no step of the flow'),
]


@pytest.mark.parametrize(("steps", "why"), IMPOSSIBLE)
def test_of_a_flow_whose_steps_cannot_be_ordered_event_and_status_say_so_and_no_job_is_created(
    steps: Any, why: str
) -> None:
    cluster = controlled(*map(template, "abcd"), flow(**steps))
    cluster.wait(2)
    for number in range(3):
        cluster.patch(JOB_FLOW, "f", {"metadata": {"labels": {"number": str(number)}}})
        cluster.wait(60)

    assert jobs(cluster) == []
    assert status(cluster) == {"state": {"phase": "Pending", "message": f"spec.flows: {why}"}}
    assert events(cluster) == {("Warning", "Malformed", f"spec.flows: {why}; no more jobs are created")}
    assert [raw["count"] for raw in cluster.cluster.objects() if raw["kind"] == "Event"] == [1]


def test_a_flow_goes_on_when_its_steps_can_be_ordered_again() -> None:
    cluster = controlled(*map(template, "ab"), flow(a=[]))
    set_phase(cluster, "f-a", "Running")
    cluster.patch(JOB_FLOW, "f", {"spec": {"flows": [{"name": "a"}, {"name": "b", **depends("a", "c")}]}})
    set_phase(cluster, "f-a", "Completed")
    assert jobs(cluster) == ["f-a"]
    assert status(cluster)["completedJobs"] == ["f-a"]
    assert status(cluster)["state"] == {
        "phase": "Running",
        "message": 'spec.flows: step b waits for "c", which is no step of the flow',
    }

    cluster.patch(JOB_FLOW, "f", {"spec": {"flows": [{"name": "a"}, {"name": "b", **depends("a")}]}})
    assert jobs(cluster) == ["f-a", "f-b"]
    assert status(cluster)["state"] == {"phase": "Running"}


def test_the_same_mistake_made_again_is_reported_again() -> None:
    cluster = controlled(*map(template, "ab"), flow(a=["b"], b=["a"]))
    for targets in ({}, depends("b")):
        cluster.patch(JOB_FLOW, "f", {"spec": {"flows": [{"name": "a", **targets}, {"name": "b", **depends("a")}]}})
    assert [raw["count"] for raw in cluster.cluster.objects() if raw.get("reason") == "Malformed"] == [2]


# --- flows with many steps ---
def test_steps_to_which_the_same_happens_are_one_event_with_the_first_names_and_their_number() -> None:
    names = [f"s{number:04}" for number in range(1000)]
    steps: dict[str, Any] = {name: {"patch": PATCH, "dependsOn": {"probe": PROBE}} for name in names}
    cluster = controlled(*map(template, names), flow(**steps, x=[], y=[]))
    assert len(jobs(cluster)) == 1000
    first = "f-s0000, f-s0001, f-s0002, f-s0003 and 996 more"
    assert events(cluster) == {
        ("Normal", "Created", f"create 1000 jobs named {first}!"),
        (
            "Warning",
            "Malformed",
            f"spec.flows[*].patch: 1000 jobs are made of their JobTemplates as they are: {first}; ignored",
        ),
        (
            "Warning",
            "Malformed",
            f"spec.flows[*].dependsOn.probe: 1000 jobs wait for their targets alone: {first}; ignored",
        ),
        (
            "Warning",
            "SyncJobFlow",
            'SyncJobFlow JobFlow failed for sync jobflow f failed for 2 jobtemplates.flow.volcano.sh: "x", "y" not '
            "found, event is OutOfSync, action is SyncJobFlow",
        ),
    }


def test_many_jobs_of_others_are_one_event() -> None:
    cluster = controlled(job("f-a"), job("f-b"), flow(a=[], b=[]))
    assert events(cluster) == {
        ("Warning", "ForeignJob", "2 Jobs exist but are not owned by this JobFlow: f-a, f-b"),
    }


def test_of_a_flow_with_too_many_steps_no_job_is_created() -> None:
    steps: dict[str, Any] = {f"s{number}": [] for number in range(MAX_FLOW_STEPS + 1)}
    cluster = controlled(template("s0"), flow(**steps))
    cluster.wait(3)
    assert jobs(cluster) == []
    assert events(cluster) == {
        ("Warning", "Malformed", "spec.flows: 2001 steps, at most 2000 are run for one flow; ignored")
    }
    cluster.patch(JOB_FLOW, "f", {"spec": {"flows": [{"name": "s0"}]}})
    assert jobs(cluster) == ["f-s0"]


def test_a_step_that_thousands_wait_for_is_looked_up_once() -> None:
    store = Store()
    asked: list[str] = []

    def find_job(name: str) -> Job | None:
        asked.append(name)
        return store.get(VCJOB, "default", name)

    steps: dict[str, Any] = {f"s{number}": ["a"] * 50 for number in range(50)}
    read = msgspec.convert(flow(a=[], **steps), JobFlow)
    found = plan_steps(read, frozenset({"f-a"}), find_job, lambda name: None)
    assert len(found.missing) == 50
    assert asked.count("f-a") == 2, "as a step and as a target"


# --- writes that fail, processes that are killed ---
STRUCTS: dict[str, tuple[Kind, Any]] = {
    "JobFlow": (JOB_FLOW, JobFlow),
    "JobTemplate": (JOB_TEMPLATE, JobTemplate),
    "Job": (VCJOB, Job),
}


def look(*manifests: Raw) -> tuple[JobFlowController, Plan]:
    """The plan of a controller that has been the leader for a while."""
    store = Store()
    for raw in manifests:
        kind, struct = STRUCTS[raw["kind"]]
        store.upsert(kind, msgspec.convert(raw, struct))
    controller = JobFlowController(store)
    for kind, obj in store:
        controller.observe(kind, None, obj, 0)
    return controller, controller.plan(("default", "f"), 2)


def written(plan: Plan) -> list[Effect]:
    return [effect for stage in plan.stages for effect in stage if not isinstance(effect, RecordEvent)]


def test_a_job_made_before_a_crash_is_not_made_again() -> None:
    _, plan = look(template("a"), template("b"), flow(a=[], b=[]), job("f-a", owner=owner(JOB_FLOW, "f")))
    patch, create = written(plan)
    assert isinstance(patch, Patch)
    assert patch.body["status"]["unKnowJobs"] == ["f-a"]
    assert isinstance(create, Create)
    assert create.manifest["metadata"]["name"] == "f-b"


def test_a_job_that_cannot_be_made_is_reported_and_tried_again() -> None:
    controller, plan = look(template("a"), flow(a=[]))
    create = written(plan)[-1]
    controller.failed(("default", "f"), create, "queue q-a is closed", 0)
    again = controller.plan(("default", "f"), 1)
    assert create in written(again)
    assert isinstance(again.stages[0][0], RecordEvent)
    assert again.stages[0][0].event.message == (
        "SyncJobFlow JobFlow failed for sync jobflow f failed for queue q-a is closed, "
        "event is OutOfSync, action is SyncJobFlow"
    )


def test_a_status_that_cannot_be_read_is_replaced() -> None:
    raw = flow(a=[])
    raw["status"] = {"state": "Running", "jobStatusList": 7}
    _, plan = look(template("a"), raw)
    [patch, _] = written(plan)
    assert isinstance(patch, Patch)
    assert patch.body["status"] == {"state": {"phase": "Pending"}, "jobStatusList": None}
