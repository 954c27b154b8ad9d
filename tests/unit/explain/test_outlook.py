"""The outlook of Pods, PodGroups and jobs."""

import re

import pytest

from scheduler.api.kinds import POD_GROUP
from scheduler.cli.explain_text import lines
from scheduler.cluster.memory import KubeletBehaviour, Simulation
from scheduler.explain import NotFoundError, Outlook, explain
from scheduler.framework.remedies.gates import GateKind
from tests.builders import Raw, configuration, group, manifests, node, pod, pods, queue
from tests.unit.explain.small_clusters import DEFAULT, PLAIN, explained

JOB: Raw = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {
        "schedulerName": "volcano-py",
        "minAvailable": 1,
        "tasks": [
            {
                "name": "worker",
                "replicas": 1,
                "template": {
                    "spec": {"containers": [{"name": "main", "image": "a:1", "resources": {"requests": {"cpu": "3"}}}]}
                },
            }
        ],
    },
}


def test_a_placed_pod_has_a_ranking_of_nodes() -> None:
    it = explained("pod", "p", node("n1"), node("n2", "8c+16Gi"), group("g"), pod("p", "1c", "g", on="n1"))
    assert (it.outlook, it.state) == (Outlook.PLACED, "it has node n1")
    assert it.ranking is not None
    assert (it.ranking.chosen, it.ranking.nodes) == ("n1", 2)
    assert {ranked.name for ranked in it.ranking.best} == {"n1", "n2"}
    assert all(set(ranked.by_plugin) == {"nodeorder"} for ranked in it.ranking.best)


def test_a_gang_that_will_be_placed_starts_with_a_ranking() -> None:
    it = explained("podgroup", "g", node("n1"), node("n2"), group("g", minimum=2), pods("p", 2, "3c", "g"))
    assert (it.outlook, it.state) == (Outlook.STARTS, "it gets its nodes in the next session")
    assert it.ranking is not None
    assert it.ranking.chosen == max(it.ranking.best, key=lambda ranked: ranked.total).name


def test_the_ranking_of_each_pod_of_a_gang_counts_the_pods_placed_before_it() -> None:
    objects = (node("n1"), node("n2"), group("g", minimum=2), pods("p", 2, "3c", "g"))
    first, second = (explained("pod", f"p-{i}", *objects).ranking for i in range(2))
    assert first is not None and second is not None
    assert (first.nodes, second.nodes) == (2, 1)
    assert first.chosen != second.chosen


@pytest.mark.parametrize("quota", [False, True])
def test_a_job_that_gets_its_nodes_when_pods_have_terminated_needs_no_change(quota: bool) -> None:
    conf = configuration(["gang", "predicates", "capacity-card"]) if quota else PLAIN
    cards = {"volcano.sh/card.quota": '{"NVIDIA-H200": 1}'}
    limited = {**queue("q"), "metadata": {"name": "q", "annotations": cards}}
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.count": "1"}
    asks, named = "4c+nvidia.com/gpu=1", {"volcano.sh/card.name": "NVIDIA-H200"}
    it = explained(
        "podgroup", "g", node("n1", "4c+4Gi+nvidia.com/gpu=1", labels), limited, group("h", "q"),
        pod("h-0", asks, "h", on="n1", deleting=True, annotations=named),
        group("g", "q"), pod("g-0", asks, "g", annotations=named),
        conf=conf, search=True,
    )  # fmt: skip
    assert it.pipelined
    assert it.state == "0 of the 1 Pods needed have a node; it gets them when Pods that terminate are gone"
    text = "\n".join(lines(it))
    if quota:
        assert not it.changes
        assert "Nothing has to change: it gets its nodes when the Pods that terminate there are gone" in text
    else:
        assert [change.text for change in it.changes] == ["1 node like n1 more"]
        assert "Smallest change found that would let it run sooner" in text


def test_a_job_that_waits_for_terminating_pods_starts_later_and_names_them() -> None:
    it = explained(
        "podgroup", "g", node("n1"), group("h"), pod("h-0", "4c", "h", on="n1", deleting=True),
        group("g"), pod("g-0", "2c", "g"),
    )  # fmt: skip
    assert it.outlook is Outlook.WAITS  # nothing in a simulation ends a Pod that terminates from the start
    (gate,) = [gate for gate in it.gates if gate.kind is GateKind.PIPELINED]
    assert gate.message == "g-0 is pipelined to node n1 and waits for default/h-0 to terminate there"


def test_a_finished_object_has_ended() -> None:
    it = explained("pod", "p", node("n1"), group("g"), pod("p", "1c", "g", on="n1", phase="Succeeded"))
    assert (it.outlook, it.state) == (Outlook.ENDED, "it is Succeeded")


def test_a_pod_of_another_scheduler_is_left_alone() -> None:
    it = explained("pod", "p", node("n1"), pod("p", "1c", scheduler="default-scheduler"))
    assert it.outlook is Outlook.LEFT_ALONE
    assert "its schedulerName is default-scheduler, and this scheduler answers to volcano-py" in it.state


def test_a_vcjob_is_explained_through_its_pod_group() -> None:
    it = explained("job", "train", node("n1", "2c+4Gi"), JOB)
    assert (it.outlook, it.kind) == (Outlook.WAITS, "job")
    assert it.group.startswith("default/train-")


def test_a_vcjob_that_is_not_admitted_has_no_pods_and_gets_a_reason() -> None:
    it = explained("job", "train", node("n1", "1c+4Gi"), JOB, conf=DEFAULT, search=True)
    assert (it.outlook, it.size, it.phase) == (Outlook.WAITS, 0, "Pending")
    assert [(gate.kind, gate.plugin) for gate in it.gates] == [
        (GateKind.ENQUEUE, "overcommit"), (GateKind.ENQUEUE, "proportion")]  # fmt: skip
    assert it.changes


def test_an_admitted_pod_group_without_pods_waits_for_its_owner() -> None:
    it = explained("podgroup", "g", node("n1"), group("g", phase="Inqueue"))
    assert (it.outlook, [gate.kind for gate in it.gates]) == (Outlook.WAITS, [GateKind.OWNER])


def test_a_pod_group_that_does_not_exist_is_named() -> None:
    it = explained("pod", "p", node("n1"), pod("p", "1c", "typo"))
    assert (it.outlook, it.state) == (Outlook.WAITS, "its PodGroup default/typo does not exist")


@pytest.mark.parametrize("kind", ["pod", "podgroup", "job"])
def test_a_missing_object_raises_not_found(kind: str) -> None:
    with pytest.raises(NotFoundError, match=f"there is no {kind} missing in namespace default"):
        explained(kind, "missing", node("n1"))


def test_a_pod_that_its_job_has_not_created_is_said_to_come_from_it() -> None:
    roles = [{"name": "worker", "replicas": 2, "template": {"spec": {"containers": []}}}]
    meta = {"name": "nightly", "namespace": "default"}
    nightly = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": {"tasks": roles}}
    with pytest.raises(NotFoundError, match="job nightly creates it once it is admitted: explain job nightly"):
        explained("pod", "nightly-worker-0", nightly)
    for name in ("nightly-worker-x", "nightly-driver-0"):
        with pytest.raises(NotFoundError, match=f"there is no pod {name} in namespace default$"):
            explained("pod", name, nightly)


def test_the_queue_position_names_the_jobs_ahead() -> None:
    it = explained(
        "podgroup", "c", node("n1", "1c"), queue("q"),
        *((group(name, "q"), pod(f"{name}-0", "2c", name)) for name in "abc"), group("d"), pod("d-0", "2c", "d"),
    )  # fmt: skip
    assert it.queue_position is not None
    assert (it.queue_position.queue, it.queue_position.position, it.queue_position.waiting) == ("q", 3, 3)
    assert it.queue_position.before == ("default/a", "default/b")


def test_further_pods_of_a_running_gang_wait_for_nodes() -> None:
    it = explained(
        "podgroup", "g", node("n1"), group("g"), pods("p", 2, "2c", "g", on="n1"), pod("p-2", "2c", "g"), search=True
    )
    assert (it.outlook, it.placed, it.size) == (Outlook.WAITS, 2, 3)
    assert it.changes[0].text == "1 node like n1 more"


def ordered(master: str = "1", work: str = "1") -> Raw:
    """A vcjob whose task work waits for task master."""

    def task(name: str, cpu: str, **spec: object) -> Raw:
        container = {"name": "main", "image": "a:1", "resources": {"requests": {"cpu": cpu}}}
        return {
            "name": name,
            "replicas": 1,
            "minAvailable": 1,
            "template": {"spec": {"containers": [container]}},
            **spec,
        }

    tasks = [task("master", master), task("work", work, dependsOn={"name": ["master"]})]
    return {**JOB, "spec": {"schedulerName": "volcano-py", "minAvailable": 2, "tasks": tasks}}


WORK_WAITS = "task work waits for task master (0 of 1 Pods ready)"


@pytest.mark.parametrize("kind", ["job", "podgroup"])
def test_a_job_that_is_not_admitted_says_which_task_waits_for_another(kind: str) -> None:
    raw = ordered(master="3", work="9")
    name = "train" if kind == "job" else f"train-{uid_of(raw)}"
    it = explained(kind, name, node("n1", "4c+8Gi"), raw, conf=DEFAULT)
    assert it.outlook is Outlook.WAITS
    assert it.state == f"0 of the 1 Pods needed have a node, and as things are that does not change; {WORK_WAITS}"
    assert any("cpu: asked 12" in gate.message for gate in it.gates)


def with_policy(action: str, timeout: str | None, cpu: str = "30") -> Simulation:
    """A cluster after two minutes, with a vcjob that has a policy for Pods that are pending."""
    policy = {"event": "PodPending", "action": action, **({"timeout": timeout} if timeout else {})}
    container = {"name": "main", "image": "a:1", "resources": {"requests": {"cpu": cpu}}}
    task = {"name": "worker", "replicas": 1, "template": {"spec": {"containers": [container]}}, "policies": [policy]}
    job = {**JOB, "spec": {"schedulerName": "volcano-py", "minAvailable": 1, "tasks": [task]}}
    simulation = Simulation(manifests(node("n1", "4c+8Gi"), job), PLAIN, ["volcano-py"])
    simulation.run(cycles=2)
    for _ in range(118):
        simulation.cluster.tick()
    return simulation


@pytest.mark.parametrize("kind", ["job", "podgroup"])
def test_a_job_that_waits_says_which_action_of_a_policy_follows_and_when(kind: str) -> None:
    simulation = with_policy("AbortJob", "10m")
    (found,) = simulation.cluster.server.of(POD_GROUP)
    it = explain(simulation, kind, "default", "train" if kind == "job" else found["metadata"]["name"])
    assert it.outlook is Outlook.WAITS
    text = re.search("; (AbortJob follows in .*)", it.state)
    assert text is not None, it.state
    assert re.fullmatch(
        r"AbortJob follows in 8m[0-5]s, when Pod train-worker-0 has been pending for 10m0s", text.group(1)
    )


@pytest.mark.parametrize(("timeout", "cpu"), [(None, "30"), ("10m", "1")], ids=["without a time-out", "it runs"])
def test_no_action_is_announced_that_does_not_follow(timeout: str | None, cpu: str) -> None:
    assert "follows in" not in explain(with_policy("AbortJob", timeout, cpu), "job", "default", "train").state


def uid_of(raw: Raw) -> str:
    """Gives an object a uid, and returns it."""
    raw["metadata"] = {**raw["metadata"], "uid": "u"}
    return "u"


def test_a_job_of_which_the_first_task_is_placed_says_that_the_next_one_waits() -> None:
    simulation = Simulation(
        manifests(node("n1", "4c+8Gi"), ordered()), DEFAULT, ["volcano-py"], kubelet=KubeletBehaviour.NONE
    )
    simulation.run()
    it = explain(simulation, "job", "default", "train")
    assert (it.outlook, it.state) == (Outlook.PLACED, f"1 Pods have a node, 1 are needed at once; {WORK_WAITS}")
    with pytest.raises(NotFoundError, match=f"job train creates it later: {re.escape(WORK_WAITS)}: explain job train"):
        explain(simulation, "pod", "default", "train-work-0")
