"""Manifests of Pods, claims and PodGroups, in cases that the records do not cover."""

from typing import Any

import pytest

from scheduler.api.kinds import CLAIM, CONFIG_MAP, POD, POD_GROUP, VCJOB
from scheduler.controllers.effects import Create, Delete, Patch
from scheduler.controllers.job.plugins import make_plugins
from tests.unit.controllers.job.world import KilledError, Raw, World, job, running, task


def priority_class(name: str, value: int) -> Raw:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def asking(name: str, replicas: int, cpu: str, **spec: Any) -> Raw:
    """A task whose Pods request and limit cpu."""
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}
    pod_class = {"priorityClassName": spec.pop("pod_class")} if "pod_class" in spec else {}
    template = {"spec": {"containers": [container], **pod_class}}
    return {"name": name, "replicas": replicas, "template": template, **spec}


def group_of(raw: Raw, *others: Raw) -> Raw:
    """The PodGroup's spec."""
    world = World()
    for other in others:
        world.create(other)
    world.create(raw)
    world.settle()
    spec: Raw = world.group()["spec"]
    return spec


# --- Pods ---
def test_pods_inherit_marks_of_the_job() -> None:
    annotations = {
        "volcano.sh/preemptable": "true",
        "volcano.sh/cooldown-time": "5m",
        "volcano.sh/revocable-zone": "*",
        "volcano.sh/jdb-max-unavailable": "1",
        "volcano.sh/jdb-min-available": "2",
        "mine": "alone",
    }
    labels = {"volcano.sh/preemptable": "false", "volcano.sh/cooldown-time": "1m", "mine": "alone"}
    world = running(job(annotations=annotations, labels=labels, tasks=[task(topologyPolicy="single-numa-node")]))

    meta = world.find(POD, "j-w-0")["metadata"]

    del annotations["mine"], annotations["volcano.sh/jdb-max-unavailable"], labels["mine"]
    assert annotations.items() <= meta["annotations"].items()
    assert labels.items() <= meta["labels"].items()
    assert meta["annotations"]["volcano.sh/numa-topology-policy"] == "single-numa-node"
    assert "mine" not in meta["annotations"]
    assert "mine" not in meta["labels"]
    assert "volcano.sh/jdb-max-unavailable" not in meta["annotations"]


def test_what_the_template_says_of_scheduler_and_priority_holds() -> None:
    own = task()
    own["template"]["spec"] |= {"schedulerName": "other", "priorityClassName": "low"}

    world = running(job(tasks=[own], priorityClassName="hi"))

    spec = world.find(POD, "j-w-0")["spec"]
    assert (spec["schedulerName"], spec["priorityClassName"]) == ("other", "low")


def test_a_queue_that_reaches_other_clusters_marks_job_and_pods() -> None:
    world = World()
    queue = {"metadata": {"name": "far"}, "spec": {"extendClusters": [{"name": "there"}]}}
    world.create({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"} | queue)
    world.create(job(queue="far"))

    world.run(3)

    assert world.find(VCJOB, "j")["metadata"]["annotations"] == {"volcano.sh/job-forwarding": "true"}
    meta = world.find(POD, "j-w-0")["metadata"]
    assert meta["annotations"]["volcano.sh/job-forwarding"] == meta["labels"]["volcano.sh/job-forwarding"] == "true"


# --- claims ---
def volume(path: str, **what: Any) -> Raw:
    return {"mountPath": path, **what}


def test_a_job_waits_for_a_claim_that_is_not_there_and_starts_when_it_comes() -> None:
    world = World()
    world.create(job(tasks=[task()], volumes=[volume("/data", volumeClaimName="late")]))
    world.run(2)
    assert (world.phase(), world.names(POD_GROUP)) == ("Pending", set())
    message = "Failed to create PVC, err: pvc late is not found, "
    message += "the job will be in the Pending state until the PVC is created"
    assert world.job_events() == [("Warning", "PVCError", message)]

    claim = {"metadata": {"name": "late", "namespace": "default"}, "spec": {}}
    world.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim"} | claim)
    world.run(3)

    assert world.phase() == "Running"


def test_a_crash_before_the_status_is_written_makes_no_second_claim() -> None:
    world = World()
    raw = job(tasks=[task()], volumes=[volume("/data", volumeClaim={"accessModes": ["ReadWriteOnce"]})])
    world.create(raw)
    world.writes_left = 1
    with pytest.raises(KilledError):
        world.settle()
    assert len(world.names(CLAIM)) == 1

    world.start()
    world.run(3)

    assert world.phase() == "Running"
    assert len(world.names(CLAIM)) == 1


def test_the_name_of_a_volume_is_one_label_though_that_of_the_job_has_dots() -> None:
    world = World()
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "default"}}
    world.create(claim)
    world.create(job("a.b", tasks=[task()], volumes=[volume("/data", volumeClaimName="c")]))
    world.run(2)

    (made,) = world.find(POD, "a.b-w-0")["spec"]["volumes"]
    assert made["name"].startswith("a-b-") and "." not in made["name"]


def test_a_claim_mounted_at_two_paths_is_one_volume() -> None:
    world = World()
    claim = {"metadata": {"name": "both", "namespace": "default"}, "spec": {}}
    world.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim"} | claim)
    volumes = [volume("/a", volumeClaimName="both"), volume("/b", volumeClaimName="both")]
    world.create(job(tasks=[task()], volumes=volumes))

    world.run(3)

    spec = world.find(POD, "j-w-0")["spec"]
    assert len(spec["volumes"]) == 1
    assert [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]] == ["/a", "/b"]


# --- PodGroups ---
def test_the_minimum_counts_requests_and_limits_in_the_words_of_quotas() -> None:
    assert group_of(job(tasks=[asking("w", 2, "500m")]))["minResources"] == {
        "count/pods": "2",
        "cpu": "1",
        "limits.cpu": "1",
        "pods": "2",
        "requests.cpu": "1",
    }


@pytest.mark.parametrize(
    ("wanted", "cpu"),
    [
        (2, "20"),  # less than the minimums 2 and 2 together: two of the important task
        (4, "22"),  # both minimums
        (5, "32"),  # and one more of the important task
        (7, "43"),  # all
    ],
)
def test_the_minimum_is_made_up_of_tasks_in_order_of_priority(wanted: int, cpu: str) -> None:
    tasks = [asking("a", 3, "1", minAvailable=2), asking("b", 4, "10", minAvailable=2, pod_class="hi")]

    spec = group_of(job(tasks=tasks, minimum=wanted), priority_class("hi", 100))

    assert spec["minResources"]["cpu"] == cpu


def test_a_task_needs_its_minimum_or_its_partitions_or_all() -> None:
    partitions = {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}
    tasks = [
        task("a", 3, minAvailable=1),
        task("b", 6, partitionPolicy=partitions),
        task("c", 6, partitionPolicy=partitions | {"minPartitions": 0}),
        task("d", 2),
    ]

    assert group_of(job(tasks=tasks))["minTaskMember"] == {"a": 1, "b": 4, "c": 6, "d": 2}


def test_the_topology_of_the_job_is_that_of_its_podgroup() -> None:
    topology = {"mode": "hard", "highestTierAllowed": 2}

    assert group_of(job(networkTopology=topology))["networkTopology"] == topology


def test_the_podgroup_follows_the_job() -> None:
    world = running(job(tasks=[task(replicas=3)], minimum=2))

    world.patch(VCJOB, "j", {"spec": {"minAvailable": 1, "priorityClassName": "hi"}})
    world.settle()

    spec = world.group()["spec"]
    assert (spec["minMember"], spec["priorityClassName"], spec["minResources"]["cpu"]) == (1, "hi", "1")


def test_a_podgroup_of_an_older_volcano_is_taken_over() -> None:
    world = World()
    raw = job()
    raw["metadata"]["uid"] = "u1"
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u1", "controller": True}
    meta = {"name": "j", "namespace": "default", "ownerReferences": [owner]}
    old = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": {}}
    world.create(old | {"status": {"phase": "Inqueue"}})
    world.create(raw)

    world.run(2)

    assert world.names(POD_GROUP) == {"j"}
    assert world.find(POD, "j-w-0")["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "j"


def test_a_task_without_a_name_is_the_task_default() -> None:
    raw = job(tasks=[task("", 2)], minimum=2)
    world = running(raw)

    meta = world.find(POD, "j--1")["metadata"]
    assert meta["labels"]["volcano.sh/task-spec"] == meta["annotations"]["volcano.sh/task-spec"] == "default"
    assert world.group()["spec"]["minTaskMember"] == {"default": 2}
    assert world.status()["taskStatusCount"] == {"default": {"phase": {"Running": 2}}}


def test_a_policy_of_a_task_without_a_name_holds() -> None:
    policies = [{"event": "PodFailed", "action": "AbortJob"}]
    world = running(job(tasks=[task("", 2, policies=policies)], minimum=1))

    world.end_pod("j--0", "Failed", 1)
    world.run(3)

    assert world.phase() == "Aborted"


def test_a_task_without_a_name_and_one_called_default_are_two_of_one_name() -> None:
    world = World()
    world.create(job(tasks=[task(""), task("default")]))
    world.settle()

    assert [text for *_, text in world.events] == ["spec.tasks: two tasks are called 'default'; ignored"]


# --- what plugins brought ---
def test_the_list_of_hosts_follows_the_job_before_new_pods_need_it() -> None:
    world = running(job(minimum=1, plugins={"svc": []}), make_plugins)
    world.writes.clear()

    world.patch(VCJOB, "j", {"spec": {"tasks": [task(replicas=3)]}})
    world.settle()

    assert world.find(CONFIG_MAP, "j-svc")["data"]["VC_W_NUM"] == "3"
    kinds = [write.kind for write in world.writes if isinstance(write, Create | Patch | Delete)]
    assert kinds.index(CONFIG_MAP) < kinds.index(POD)


def test_the_list_of_hosts_is_written_first_when_a_job_is_scaled_down() -> None:
    world = running(job(minimum=1, plugins={"svc": []}), make_plugins)
    world.writes.clear()

    world.patch(VCJOB, "j", {"spec": {"tasks": [task(replicas=1)]}})
    world.settle()

    assert world.find(CONFIG_MAP, "j-svc")["data"]["VC_W_NUM"] == "1"
    first, *others = [write.kind for write in world.writes if isinstance(write, Patch | Delete)]
    assert first is CONFIG_MAP
    assert {POD_GROUP, POD} <= set(others)


def test_the_list_of_hosts_follows_the_job_although_the_process_was_killed() -> None:
    world = running(job(minimum=1, plugins={"svc": []}), make_plugins)

    world.patch(VCJOB, "j", {"spec": {"tasks": [task(replicas=3)]}})
    world.start()
    world.run(3)

    assert world.find(CONFIG_MAP, "j-svc")["data"]["VC_W_NUM"] == "3"


def test_a_list_of_hosts_that_could_not_be_written_is_written_before_any_pod() -> None:
    world = running(job(minimum=1, plugins={"svc": []}), make_plugins)
    world.refuse = lambda effect: "try again" if effect.kind is CONFIG_MAP else ""
    world.patch(VCJOB, "j", {"spec": {"tasks": [task(replicas=3)]}})
    world.wait(2)
    assert "j-w-2" not in world.names(POD)

    world.refuse = lambda effect: ""
    world.run(3)

    assert world.find(CONFIG_MAP, "j-svc")["data"]["VC_W_NUM"] == "3"
    assert "j-w-2" in world.names(POD)
