"""Whether jobs would run if they were submitted now: verdicts, numbers, and reasons as the scheduler words them."""

import json
from typing import Any

import pytest

from scheduler.api.kinds import CLAIM
from scheduler.api.names import CARD_NAME, CARD_REQUEST
from scheduler.cluster.manifests import ManifestError
from scheduler.cluster.memory import Simulation
from scheduler.explain.can_run import RunAnswer, Verdict, can_run
from scheduler.explain.document import run_document
from scheduler.explain.submitted import number_of_pods, submitted
from scheduler.framework.configuration import Configuration
from scheduler.framework.configuration_file import parse_configuration
from tests.builders import NAME, Raw, group, manifests, node, pod, pods, queue
from tests.unit.explain.small_clusters import DEFAULT
from tests.unit.explain.test_workloads import deployment, flow, job_template, template, vcjob_spec, workload
from tests.unit.plugins.capacity_card.cards import GPU, H200, card_pod, gpu_node, quota_queue

RUNS, WAITS, NEVER = Verdict.RUNS, Verdict.WAITS, Verdict.NEVER
CAPACITY = parse_configuration(
    "actions: enqueue, allocate, backfill\n"
    "tiers:\n- plugins: [{name: priority}, {name: gang}]\n"
    "- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]\n"
)
CARDS = parse_configuration(
    "actions: enqueue, allocate, backfill\n"
    "tiers:\n- plugins: [{name: priority}, {name: gang}]\n"
    "- plugins: [{name: predicates}, {name: capacity-card, arguments: {cardUnlimitedCpuMemory: true}}]\n"
)


def vcjob(name: str = "train", cpu: str = "1", replicas: int = 2, minimum: int | None = None, **spec: Any) -> Raw:
    its = {**vcjob_spec(cpu, replicas), "minAvailable": replicas if minimum is None else minimum, **spec}
    return workload("batch.volcano.sh/v1alpha1", "Job", name, **its)


def answers(cluster: list[Any], *objects: Raw, conf: Configuration = DEFAULT) -> list[RunAnswer]:
    simulation = Simulation(manifests(*cluster), conf, [NAME])
    beside, jobs = submitted(manifests(*objects), "default")
    return can_run(simulation, beside, jobs)


def answer(cluster: list[Any], *objects: Raw, conf: Configuration = DEFAULT) -> RunAnswer:
    (only,) = answers(cluster, *objects, conf=conf)
    return only


def full(cpu: str = "4c") -> list[Any]:
    """A node of 4 cpu, some of which a running Pod holds."""
    return [node("n1", "4c+8Gi"), group("other", phase="Running"), pod("other-0", cpu, "other", on="n1")]


# --- verdicts ---------------------------------------------------------------------------------------------------------
def test_a_job_that_fits_runs() -> None:
    it = answer([node("n1")], vcjob(cpu="2"))

    assert (it.verdict, it.admitted, it.fits_empty) == (RUNS, True, True)
    assert (it.pods, it.needed, it.find_node, it.placed) == (2, 2, 2, 2)
    assert it.state == "it gets its nodes in the session after 1 more"


def test_a_job_for_which_others_leave_too_little_waits() -> None:
    it = answer(full("3c"), vcjob(cpu="1"))

    assert (it.verdict, it.fits_empty) == (WAITS, True)
    assert (it.pods, it.find_node, it.placed) == (2, 1, 0)
    assert it.now is not None and [(gate.kind.value, gate.plugin) for gate in it.now.gates] == [
        ("enqueue", "overcommit")
    ]


def test_a_job_that_no_node_can_take_never_runs() -> None:
    it = answer([*full(), node("n2", "4c+8Gi")], vcjob(cpu="5", replicas=1))

    assert (it.verdict, it.fits_empty, it.find_node) == (NEVER, False, 0)
    assert it.empty is not None and any("most free on one node 4" in gate.message for gate in it.empty.gates)


def test_a_gang_with_its_minimum_runs_though_not_all_of_its_pods_find_a_node() -> None:
    it = answer([node("n1", "4c+8Gi")], vcjob(cpu="2", replicas=3, minimum=2))

    assert (it.verdict, it.pods, it.needed, it.placed) == (RUNS, 3, 2, 2)


def test_pods_of_daemon_sets_are_on_the_empty_cluster_too() -> None:
    agent = pod("agent", "1c", on="n1")
    agent["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d1", "controller": True}
    ]

    assert answer([node("n1", "4c+8Gi"), agent], vcjob(cpu="4", replicas=1)).verdict is NEVER
    assert answer([node("n1", "4c+8Gi"), agent], vcjob(cpu="3", replicas=1)).verdict is RUNS


def test_victims_of_preemption_are_counted() -> None:
    conf = parse_configuration(
        "actions: enqueue, allocate, preempt\n"
        "tiers:\n- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: predicates}]\n"
    )
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    low = pod("low-0", "4c", "low", on="n1", annotations={"volcano.sh/preemptable": "true"})
    cluster = [node("n1", "4c+8Gi"), high, group("low", phase="Running"), low]

    it = answer(cluster, vcjob(cpu="3", replicas=1, priorityClassName="high"), conf=conf)

    assert (it.verdict, it.evictions, it.evicted) == (RUNS, 1, ("default/low-0",))


# --- quota ------------------------------------------------------------------------------------------------------------
def gold(cpu: str) -> list[Any]:
    """Eight free cpus, and a queue of which a Pod uses 2 cpus."""
    running = [group("mine", "gold", asks="2c", phase="Running"), pod("mine-0", "2c", "mine", on="n1")]
    return [node("n1", "10c+80Gi"), queue("gold", capability=cpu), *running]


def test_a_job_beyond_the_rest_of_its_queue_waits_though_there_are_nodes() -> None:
    it = answer(gold("4c"), vcjob(cpu="2", queue="gold"), conf=CAPACITY)

    assert (it.verdict, it.admitted, it.fits_empty) == (WAITS, False, True)
    assert (it.pods, it.find_node, it.placed) == (2, 2, 0)
    (cpu,) = (its for its in it.amounts if its.resource == "cpu")
    assert (cpu.queue, cpu.asked, cpu.used, cpu.limit, cpu.within) == ("gold", 4000, 2000, 4000, False)
    assert it.now is not None
    assert [gate.plugin for gate in it.now.gates] == ["capacity"]
    assert "queue resource quota insufficient" in it.now.gates[0].message


def test_a_job_beyond_the_whole_quota_of_its_queue_never_runs() -> None:
    it = answer(gold("3c"), vcjob(cpu="2", queue="gold"), conf=CAPACITY)

    assert (it.verdict, it.fits_empty) == (NEVER, False)
    assert it.empty is not None and "queue resource quota insufficient" in it.empty.gates[0].message


def test_cards_are_counted_by_model_and_cpu_of_pods_with_cards_is_not() -> None:
    holder = card_pod("mine-0", "mine", asks=f"1c+{GPU}=2", on="n1")
    limited = quota_queue("gold", {H200: 3}, capability="1c")
    cluster = [gpu_node("n1"), limited, group("mine", "gold", phase="Running"), holder]
    asked = vcjob(replicas=2, queue="gold")
    asked["metadata"]["annotations"] = {CARD_REQUEST: json.dumps({H200: 2})}
    its = asked["spec"]["tasks"][0]["template"]
    its["metadata"] = {"annotations": {CARD_NAME: H200}}
    its["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1", "cpu": "4"}}

    it = answer(cluster, asked, conf=CARDS)

    (card,) = it.amounts
    assert (card.queue, card.resource, card.within, card.excess) == ("gold", H200, False, 1000)
    assert (card.asked, card.used, card.limit) == (2000, 2000, 3000)
    assert (it.verdict, it.admitted, it.find_node) == (WAITS, False, 2)
    assert it.now is not None and it.now.gates[0].message.startswith(f"Queue <gold> has insufficient <{H200}> quota")


def test_cards_that_a_group_announces_before_its_pods_exist_are_counted() -> None:
    cluster = [gpu_node("g1", H200, 8), quota_queue("vision", {H200: 3})]
    announced = {**group("segment", "vision", minimum=5)}
    announced["metadata"]["annotations"] = {CARD_REQUEST: json.dumps({H200: 5})}
    announced["spec"]["minResources"] = {GPU: "5"}

    it = answer(cluster, announced, conf=CARDS)

    assert (it.verdict, it.admitted) == (NEVER, False)
    (amounts,) = it.amounts
    assert (amounts.queue, amounts.resource) == ("vision", H200)
    assert (amounts.asked, amounts.used, amounts.limit) == (5000, 0, 3000)


def test_a_resource_quota_of_the_namespace_refuses_a_pod_in_the_words_of_the_api_server() -> None:
    limit = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small", "namespace": "default"}}
    limit["spec"] = {"hard": {"requests.cpu": "1"}}

    it = answer([node("n1"), limit], pod("p", "2c"))

    assert it.verdict is NEVER
    assert it.refusal == (
        'pods "p" is forbidden: exceeded quota: small, requested: requests.cpu=2, used: requests.cpu=0, '
        "limited: requests.cpu=1"
    )


def test_pods_beyond_the_whole_resource_quota_of_the_namespace_never_run() -> None:
    limit = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small", "namespace": "default"}}
    limit["spec"] = {"hard": {"pods": "1"}}

    it = answer([node("n1", "8c+8Gi"), limit], vcjob(cpu="1", replicas=2))

    assert (it.verdict, it.pods) == (NEVER, 1)
    assert it.empty is not None and any("exceeded quota: small" in gate.message for gate in it.empty.gates)


# --- admission --------------------------------------------------------------------------------------------------------
def test_what_admission_refuses_is_answered_in_its_words() -> None:
    it = answer([node("n1")], vcjob(queue="missing"))

    assert (it.verdict, it.now) == (NEVER, None)
    assert it.refusal.startswith('admission webhook "validatejob.volcano.sh" denied the request: ')
    assert "unable to find job queue" in it.refusal


def test_a_closed_queue_refuses() -> None:
    it = answer([node("n1"), queue("gold", state="Closed")], vcjob(queue="gold"))

    assert it.verdict is NEVER and "queue `gold` status is `Closed`" in it.refusal


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (pod("p", "many c"), "many"),
        ({**pod("p"), "spec": []}, "spec"),
        ({**pod("p"), "spec": {"containers": 3}}, "containers"),
        ({**vcjob(), "spec": {"tasks": "x"}}, "tasks"),
        ({**group("g"), "spec": {"minMember": "x"}}, "minMember"),
    ],
)
def test_a_malformed_field_is_refused(asked: Raw, words: str) -> None:
    it = answer([node("n1")], asked)

    assert it.verdict is NEVER and words in it.refusal


def test_a_malformed_pod_template_is_refused_with_its_field() -> None:
    its = template()
    its["spec"] = {**its["spec"], "volumes": [3]}
    claims = [{"metadata": {"name": {}}, "spec": {}}, 3]

    it = answer([node("n1")], workload("apps/v1", "StatefulSet", "s", template=its, volumeClaimTemplates=claims))

    assert it.verdict is NEVER and "spec.volumes[0]: expected an object, got an integer" in it.refusal


# --- kinds ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("objects", "kind", "number"),
    [
        ([vcjob()], "Job", 2),
        ([pod("p", "1c")], "Pod", 1),
        ([group("g", minimum=2), *pods("p", 2, "1c", "g")], "PodGroup", 2),
        ([deployment(2)], "Deployment", 2),
        ([workload("apps/v1", "StatefulSet", "web", replicas=2, template=template())], "StatefulSet", 2),
        ([workload("batch/v1", "Job", "web", parallelism=2, completions=4, template=template())], "Job", 2),
        ([workload("batch.volcano.sh/v1alpha1", "CronJob", "nightly", schedule="@daily",
                   jobTemplate={"spec": vcjob_spec("1", 2)})], "CronJob", 2),
        ([workload("batch/v1", "CronJob", "nightly", schedule="@daily",
                   jobTemplate={"spec": {"parallelism": 2, "template": template()}})], "CronJob", 2),
        ([job_template("first", "1"), flow(("first", ()))], "JobFlow", 1),
        ([group("own", minimum=2), deployment(group="own")], "Deployment", 2),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_each_kind_runs_where_it_fits_and_waits_where_it_does_not(objects: list[Raw], kind: str, number: int) -> None:
    room = [node("n1", "8c+8Gi")]
    taken = [*room, group("other", phase="Running"), pod("other-0", "8c", "other", on="n1")]

    runs, waits = answer(room, *objects), answer(taken, *objects)

    assert (runs.verdict, runs.kind, runs.pods, runs.placed) == (RUNS, kind, number, number)
    assert (waits.verdict, waits.kind, waits.pods, waits.placed) == (WAITS, kind, number, 0)
    assert waits.find_node == 0


def test_a_workload_without_a_minimum_waits_until_all_its_pods_have_a_node() -> None:
    it = answer(full("1c"), deployment(2))  # of 3 cpu each

    assert (it.verdict, it.pods, it.needed, it.placed) == (NEVER, 2, 2, 1)


def test_a_deployment_that_exists_is_asked_about_with_its_new_size() -> None:
    small, large = deployment(1), deployment(2)
    cluster = [node("n1", "4c+8Gi"), small]
    simulation = Simulation(manifests(*cluster), DEFAULT, [NAME])
    simulation.run()

    _, jobs = submitted(manifests(large), "default")
    (it,) = can_run(simulation, [], jobs)

    assert (it.verdict, it.pods, it.placed) == (NEVER, 2, 1)


def test_documents_are_submitted_in_order_and_each_sees_the_ones_before() -> None:
    first, second = answers([node("n1", "4c+8Gi")], vcjob("a", "2"), vcjob("b", "2"))

    assert (first.verdict, second.verdict, second.fits_empty) == (RUNS, WAITS, True)
    document = run_document([first, second])
    assert document["verdict"] == "waits"
    assert [item["pods"] for item in document["items"]] == [
        {"all": 2, "needed": 2, "findNode": 2, "placed": 2}, {"all": 2, "needed": 2, "findNode": 0, "placed": 0},
    ]  # fmt: skip


def test_objects_beside_a_job_are_created_before_it() -> None:
    it = answer([node("n1")], vcjob(queue="mine"), queue("mine"))

    assert it.verdict is RUNS


def test_a_pod_with_scheduling_gates_waits_and_an_empty_cluster_says_nothing() -> None:
    it = answer([node("n1")], pod("p", "1c", gated=True))

    assert (it.verdict, it.fits_empty) == (WAITS, None)


def test_a_gang_with_scheduling_gates_waits() -> None:
    asked = vcjob(cpu="1")
    asked["spec"]["tasks"][0]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]

    it = answer([node("n1")], asked)

    assert (it.verdict, it.fits_empty, it.pods) == (WAITS, None, 2)


def test_a_status_of_an_object_is_not_submitted() -> None:
    admitted = {**group("g", minimum=9, phase="Running"), "status": {"phase": "Running", "running": 9}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default", "uid": "u"},
        "spec": {},
        "status": {"phase": "Bound"},
    }
    simulation = Simulation(manifests(node("n1")), DEFAULT, [NAME])
    beside, jobs = submitted(manifests(admitted, pod("p", "1c", "g"), claim), "default")

    (it,) = can_run(simulation, beside, jobs)

    assert (it.verdict, it.placed) == (NEVER, 0)
    stored = simulation.cluster.server.find(CLAIM, "default", "data")
    assert stored is not None and stored["metadata"]["uid"] != "u"
    assert (stored.get("status") or {}).get("phase") != "Bound"


def test_a_finished_job_of_the_name_is_named() -> None:
    done = {**vcjob(), "status": {"state": {"phase": "Completed"}}}
    done["metadata"] = {**done["metadata"], "uid": "j"}

    it = answer([node("n1"), done], vcjob())

    assert (it.verdict, it.state) == (NEVER, "it is Completed")


def test_a_suspended_job_waits() -> None:
    it = answer([node("n1")], workload("batch/v1", "Job", "web", suspend=True, parallelism=2, template=template()))

    assert (it.verdict, it.state) == (WAITS, "it is suspended (spec.suspend)")


def test_pods_of_another_scheduler_never_get_a_node_from_this_one() -> None:
    it = answer([node("n1")], pod("p", "1c", scheduler="default-scheduler"))

    assert it.verdict is NEVER and it.state.startswith("its schedulerName is default-scheduler")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": {"ownerReferences": [{"kind": "Job", "name": "x", "uid": "u"}]}}, "ask about the owner"),
        ({"metadata": {"annotations": {"volcano-py/what-if": "delete"}}}, "only simulate makes such changes"),
        ({"spec": {"nodeName": "n1"}}, "no scheduler places a Pod that names its node"),
    ],
)
def test_what_cannot_be_asked_about_is_refused(change: Raw, words: str) -> None:
    raw = pod("p", "1c")
    for field, values in change.items():
        raw[field] = {**raw[field], **values}

    with pytest.raises(ManifestError, match=words):
        submitted(manifests(raw), "default")


def test_a_job_of_kubernetes_with_the_name_of_a_vcjob_is_not_mistaken_for_it() -> None:
    job = workload("batch/v1", "Job", "train", parallelism=1, template=template())

    with pytest.raises(ManifestError, match="a vcjob in namespace default has this name"):
        answer([node("n1"), vcjob()], job)


def test_something_has_to_be_asked_about() -> None:
    with pytest.raises(ManifestError, match="no object to ask about"):
        submitted(manifests(node("n1")), "default")


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        (vcjob(replicas=7), 7),
        (deployment(3), 3),
        (pod("p"), 1),
        (workload("apps/v1", "StatefulSet", "s", replicas="many"), 1),
        (workload("batch.volcano.sh/v1alpha1", "CronJob", "c", jobTemplate={"spec": vcjob_spec("1", 4)}), 4),
        (workload("batch.volcano.sh/v1alpha1", "Job", "c", tasks=[{"replicas": -3}, "?", {"replicas": 2}]), 3),
    ],
)
def test_the_pods_that_are_asked_for_are_counted(raw: Raw, number: int) -> None:
    assert number_of_pods(manifests(raw)) == number
