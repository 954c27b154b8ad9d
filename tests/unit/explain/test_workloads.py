"""Explanations of workloads by the names that ``job top`` and kubectl show."""

from typing import Any

import pytest

from scheduler.api.explained_kinds import EXPLAINED, explained_kind
from scheduler.api.names import GROUP_NAME
from scheduler.cluster.memory import Simulation
from scheduler.explain import NotFoundError, Outlook
from scheduler.explain.document import explanation_document
from tests.builders import NAME, Raw, group, manifests, node, pod
from tests.unit.explain.small_clusters import DEFAULT, explained

CONTAINER: Raw = {"name": "c", "image": "a:1", "resources": {"requests": {"cpu": "3"}}}


def template(scheduler: str = NAME, **annotations: str) -> Raw:
    meta = {"labels": {"app": "web"}, "annotations": annotations}
    return {"metadata": meta, "spec": {"schedulerName": scheduler, "containers": [CONTAINER]}}


def workload(api_version: str, kind: str, name: str, **spec: Any) -> Raw:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def deployment(replicas: int = 2, group: str = "") -> Raw:
    selector, annotations = {"matchLabels": {"app": "web"}}, {GROUP_NAME: group} if group else {}
    its_template = template(**annotations)
    return workload("apps/v1", "Deployment", "web", replicas=replicas, selector=selector, template=its_template)


def waiting_instance() -> list[Raw]:
    """An instance of a service whose scaling rule does not exist, and a node."""
    labels = {"framework": "pytorch", "mind-cluster/scaling-rule": "r", "mind-cluster/group-name": "g", "jobID": "s"}
    container = {"name": "ascend", "image": "a:1"}
    master = {"template": {"spec": {"schedulerName": NAME, "containers": [container]}}}
    raw = workload("mindxdl.gitee.com/v1", "AscendJob", "train", replicaSpecs={"Master": master})
    raw["metadata"]["labels"] = labels
    return [node("n", "4c+8Gi"), raw]


@pytest.mark.parametrize("kind", ["acjob", "podgroup"])
def test_an_ascend_job_that_waits_because_of_its_scaling_rule_says_so(kind: str) -> None:
    objects = run_first(*waiting_instance())
    (name,) = (raw["metadata"]["name"] for raw in objects if raw["kind"] == "PodGroup")
    it = explained(kind, "train" if kind == "acjob" else name, *objects)
    assert it.outlook is Outlook.WAITS
    assert "job default/train can't create pod, try later: ConfigMap r, which the label" in it.gates[0].message


def run_first(*objects: Raw) -> list[Raw]:
    """The objects of a cluster when nothing changes any more."""
    simulation = Simulation(manifests(*objects), DEFAULT, [NAME])
    simulation.run()
    return [raw for raw in simulation.cluster.objects() if raw["kind"] != "Event"]


def owned(raw: Raw, kind: str, name: str, uid: str, api_version: str = "example.com/v1") -> Raw:
    owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}
    return {**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}}


def vcjob_spec(cpu: str = "3", replicas: int = 1) -> Raw:
    container = {**CONTAINER, "resources": {"requests": {"cpu": cpu}}}
    task = {"name": "w", "replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return {"schedulerName": NAME, "minAvailable": replicas, "tasks": [task]}


def job_template(name: str, cpu: str = "3") -> Raw:
    return workload("flow.volcano.sh/v1alpha1", "JobTemplate", name, **vcjob_spec(cpu))


def flow(*steps: tuple[str, tuple[str, ...]], name: str = "nightly") -> Raw:
    flows = [{"name": step, **({"dependsOn": {"targets": [*targets]}} if targets else {})} for step, targets in steps]
    return workload("flow.volcano.sh/v1alpha1", "JobFlow", name, flows=flows)


# --- names ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("pod", ("po", "pods", "Pod")), ("podgroup", ("pg", "podgroups", "PodGroup")), ("job", ("vcjob", "vj", "Job")),
        ("acjob", ("AscendJob", "ascendjobs", "ACJOB")), ("jobflow", ("jf", "JobFlow")), ("deployment", ("deploy",)),
        ("replicaset", ("rs",)), ("statefulset", ("sts", "StatefulSet")), ("daemonset", ("ds",)),
        ("cronjob", ("cronvj",)),
    ],
)  # fmt: skip
def test_kinds_have_the_names_that_kubectl_and_job_top_show(kind: str, words: tuple[str, ...]) -> None:
    assert {explained_kind(word) for word in (kind, *words)} == {kind}


def test_no_name_means_two_kinds() -> None:
    names = [name for kind, entry in EXPLAINED.items() for name in {kind, *entry.names}]
    assert len(names) == len(set(names)) and explained_kind("queue") is None


# --- Deployments and other workloads of Kubernetes --------------------------------------------------------------------
def test_a_deployment_is_explained_through_its_replica_set() -> None:
    it = explained("deployment", "web", *run_first(node("n1"), deployment()), search=True)

    assert (it.kind, it.name, it.outlook) == ("deployment", "web", Outlook.WAITS)
    assert it.group.startswith("default/podgroup-")
    assert (it.placed, it.size) == (1, 2)
    assert "1 node like n1 more" in [change.text for change in it.changes]


def test_of_a_deployment_in_a_rollout_the_pod_group_that_waits_is_explained() -> None:
    sets = [
        owned(
            workload("apps/v1", "ReplicaSet", f"web-{end}", replicas=1, template=template()), "Deployment", "web", "d1"
        )
        for end in ("old", "new")
    ]
    for raw, uid in zip(sets, ("s1", "s2"), strict=True):
        raw["metadata"]["uid"] = uid
    objects = [
        node("n1"), *sets,
        owned(group("old"), "ReplicaSet", "web-old", "s1"),
        owned(pod("o", "2c", "old", on="n1"), "ReplicaSet", "web-old", "s1"),
        owned(group("new"), "ReplicaSet", "web-new", "s2"),
        owned(pod("n", "3c", "new"), "ReplicaSet", "web-new", "s2"),
    ]  # fmt: skip

    it = explained("deployment", "web", *objects)

    assert (it.group, it.outlook) == ("default/new", Outlook.WAITS)


def test_a_deployment_that_names_its_pod_group_is_found_through_its_pods() -> None:
    it = explained("deployment", "web", node("n1"), group("own", minimum=2), deployment(group="own"))

    assert (it.group, it.needed, it.outlook) == ("default/own", 2, Outlook.WAITS)


@pytest.mark.parametrize(
    ("objects", "outlook", "state"),
    [
        ([deployment(replicas=0)], Outlook.WAITS, "it asks for no Pods (spec.replicas is 0)"),
        (
            [workload("batch/v1", "Job", "web", suspend=True, parallelism=2, template=template())],
            Outlook.WAITS,
            "it is suspended (spec.suspend)",
        ),
        (
            [workload("apps/v1", "StatefulSet", "web", replicas=1, template=template("default-scheduler"))],
            Outlook.LEFT_ALONE,
            f"its schedulerName is default-scheduler, and this scheduler answers to {NAME}",
        ),
    ],
)
def test_a_workload_without_pods_to_schedule_says_why(objects: list[Raw], outlook: Outlook, state: str) -> None:
    kind = str(objects[0]["kind"]).lower()

    it = explained(kind, "web", node("n1"), *objects)

    assert (it.outlook, it.state) == (outlook, state)


@pytest.mark.parametrize(
    ("kind", "object_"),
    [
        ("statefulset", workload("apps/v1", "StatefulSet", "web", replicas=2, template=template())),
        ("job", workload("batch/v1", "Job", "web", parallelism=2, completions=2, template=template())),
        ("job", workload("batch.volcano.sh/v1alpha1", "Job", "web", **vcjob_spec(replicas=2))),
    ],
)
def test_other_workloads_are_explained_through_the_pod_group_that_they_own(kind: str, object_: Raw) -> None:
    it = explained(kind, "web", node("n1", "1c"), object_)

    assert (
        it.outlook is Outlook.WAITS and it.group and "Insufficient cpu" in " ".join(gate.message for gate in it.gates)
    )


def test_of_a_vcjob_that_can_never_start_the_tasks_that_wait_for_each_other_are_the_reason() -> None:
    """Admission refuses such a job; without admission, the job is stored."""
    container = {"containers": [CONTAINER]}
    tasks = [
        {"name": name, "replicas": 1, "minAvailable": 1, "template": {"spec": container}, "dependsOn": {"name": [on]}}
        for name, on in (("a", "b"), ("b", "a"))
    ]
    waits = [tasks[0] | {"name": "master", "dependsOn": {"name": ["worker"]}}, tasks[1] | {"name": "worker"}]
    del waits[1]["dependsOn"]
    by_plugin = {"plugins": {"pytorch": ["--wait-master-enabled"]}, "tasks": waits, "minAvailable": 2}
    for spec, reason in (
        ({"tasks": tasks, "minAvailable": 2}, "tasks depend on each other, so none of them can start: a, b, a"),
        (by_plugin, "the job can never start: task master waits for a ready Pod of task worker (dependsOn)"),
    ):
        stored = workload("batch.volcano.sh/v1alpha1", "Job", "train", schedulerName=NAME, **spec)
        stored["metadata"]["uid"] = "u"

        it = explained("job", "train", node("n1"), stored)

        assert it.outlook is Outlook.WAITS
        assert it.state.startswith(f"has no PodGroup, so there is nothing to schedule; spec.tasks: {reason}")


def test_a_job_is_an_ascend_job_where_there_is_no_other_of_the_name() -> None:
    spec = {"containers": [{"name": "ascend", "image": "a:1", "resources": {"requests": {"cpu": "9"}}}]}
    roles = {role: {"replicas": 1, "template": {"spec": spec}} for role in ("Master", "Worker")}
    policy = {"schedulingPolicy": {"minAvailable": 2, "queue": "default"}}
    acjob = workload(
        "mindxdl.gitee.com/v1", "AscendJob", "train", schedulerName=NAME, runPolicy=policy, replicaSpecs=roles
    )
    acjob["metadata"]["labels"] = {"framework": "pytorch"}

    for kind in ("acjob", "job"):
        it = explained(kind, "train", node("n1"), acjob)
        assert it.outlook is Outlook.WAITS and it.group.startswith("default/train")


# --- owners of other kinds --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("word", ["RayCluster", "raycluster", "rayclusters.example.com"])
def test_an_owner_of_a_kind_that_is_not_read_is_found_through_its_pod_group(word: str) -> None:
    theirs = owned(group("ray"), "RayCluster", "llm", "r1")

    it = explained(word, "llm", node("n1", "1c"), theirs, pod("p", "3c", "ray"))

    assert (it.group, it.outlook) == ("default/ray", Outlook.WAITS)


def test_an_owner_of_owners_is_found() -> None:
    job = owned(workload("batch/v1", "Job", "set-w", parallelism=2, template=template()), "JobSet", "set", "j1")

    it = explained("JobSet", "set", node("n1", "1c"), job)

    assert it.outlook is Outlook.WAITS and it.size == 2


def test_what_others_own_in_another_namespace_is_not_theirs() -> None:
    foreign = owned(group("ray"), "RayCluster", "llm", "r1")
    foreign["metadata"]["namespace"] = "other"

    with pytest.raises(NotFoundError, match="there is no RayCluster llm in namespace default"):
        explained("RayCluster", "llm", foreign)


# --- JobFlows ---------------------------------------------------------------------------------------------------------
def test_of_a_job_flow_the_first_job_that_waits_is_explained_and_what_the_other_steps_wait_for() -> None:
    steps = flow(("prepare", ()), ("train", ("prepare",)), ("report", ("train", "prepare")))

    it = explained("jobflow", "nightly", node("n1", "1c"), *map(job_template, ("prepare", "train", "report")), steps)

    assert (it.outlook, it.subject) == (Outlook.WAITS, ("Job", "nightly-prepare"))
    assert it.group.startswith("default/nightly-prepare-")
    assert it.state.endswith("; step train waits for prepare (Pending); step report waits for train, prepare (Pending)")
    assert explanation_document(it)["subject"] == {"kind": "Job", "name": "nightly-prepare"}


def test_a_job_flow_whose_first_jobs_run_names_the_job_that_waits() -> None:
    steps = flow(("a", ()), ("b", ()), ("c", ("a", "b")))

    it = explained("jobflow", "nightly", node("n1"), job_template("a", "2"), job_template("b", "9"),
                   job_template("c"), steps)  # fmt: skip

    assert (it.subject, it.outlook) == (("Job", "nightly-b"), Outlook.WAITS)
    assert "step c waits for a (" in it.state and "b (Pending)" in it.state


def test_a_step_without_its_template_is_named() -> None:
    it = explained("jobflow", "nightly", node("n1"), flow(("prepare", ())))

    assert it.outlook is Outlook.WAITS
    assert it.state == (
        "has no job, so there is nothing to schedule; "
        "step prepare waits for JobTemplate default/prepare, which does not exist"
    )


def test_of_a_job_flow_whose_steps_wait_for_each_other_that_is_the_reason() -> None:
    """Admission refuses such a flow; without admission, the flow is stored."""
    stored = flow(("a", ("b",)), ("b", ("a",)))
    stored["metadata"]["uid"] = "u"

    it = explained("jobflow", "nightly", node("n1"), job_template("a"), job_template("b"), stored)

    assert it.outlook is Outlook.WAITS
    assert it.state == (
        "has no job, so there is nothing to schedule; "
        "spec.flows: steps b, a wait for each other, so none of them can start"
    )


def test_of_many_steps_the_first_are_named() -> None:
    steps = flow(("first", ()), *((f"s{i}", ("first",)) for i in range(9)))

    it = explained("jobflow", "nightly", node("n1", "1c"), job_template("first"), steps)

    assert it.state.endswith("step s2 waits for first (Pending) and 6 more steps wait")


def test_a_job_flow_whose_jobs_run_is_placed() -> None:
    steps = flow(("a", ()), ("b", ("a",)))

    it = explained("jobflow", "nightly", *run_first(node("n1"), job_template("a"), job_template("b"), steps))

    assert (it.outlook, it.subject) == (Outlook.PLACED, ("Job", "nightly-a"))
    assert it.state.endswith("step b waits for a (Running)")


@pytest.mark.parametrize("phase", ["Succeed", "Failed"])
def test_a_job_flow_that_has_ended_has_ended(phase: str) -> None:
    ended = {**flow(("a", ())), "status": {"state": {"phase": phase}}}

    it = explained("jobflow", "nightly", node("n1"), ended)

    assert it.outlook is Outlook.ENDED and it.state.startswith(f"it is {phase}")


@pytest.mark.parametrize("kind", [*EXPLAINED, "RayCluster"])
def test_an_object_that_does_not_exist_is_not_found(kind: str) -> None:
    with pytest.raises(NotFoundError, match=f"there is no {kind} missing in namespace default"):
        explained(kind, "missing", node("n1"))
