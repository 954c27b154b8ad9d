"""Validation rules of a new vcjob that need more than one case."""

import pytest

from scheduler.api.kinds import VCJOB
from scheduler.webhooks.contract import AdmissionRequest, Json, Operation
from scheduler.webhooks.job import validate
from tests.unit.webhooks.job.vcjobs import (
    CLUSTER,
    SETTINGS,
    Cluster,
    pod_spec,
    refusal,
    stored,
    task,
    vcjob,
    with_container,
)

NOT_A_DAG = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);"


# --- queues ---
def test_a_queue_that_the_controller_has_not_opened_yet_accepts_jobs() -> None:
    assert refusal(vcjob(queue="new")) == ""


@pytest.mark.parametrize("state", ["Closing", "Closed", "Unknown"])
def test_a_queue_in_another_state_accepts_no_jobs(state: str) -> None:
    text = f"can only submit job to queue with state `Open`, queue `default` status is `{state}`;"
    assert refusal(vcjob(), Cluster(f"default:root:{state}")) == text


def test_a_closed_queue_with_children_is_refused_for_both_reasons() -> None:
    cluster = Cluster("q:root:Closed", "a:q:Open", "b:q:Open")
    assert refusal(vcjob(queue="q"), cluster) == (
        "can only submit job to queue with state `Open`, queue `q` status is `Closed`; "
        "can only submit job to leaf queue, queue `q` has 2 child queues;"
    )


def test_a_leaf_queue_below_another_queue_accepts_jobs() -> None:
    assert refusal(vcjob(queue="team")) == ""


# --- tasks ---
def test_tasks_after_a_duplicate_name_are_validated() -> None:
    job = vcjob(task("w"), task("w"), task("v", template={"spec": {"containers": []}}))
    problems = ["", "template.spec.containers: Required value. "]
    text = "duplicated task name w;spec.task[2].template.spec.containers: Required value."
    assert refusal(job, templates=problems) == text


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"totalPartitions": 0, "partitionSize": 1}, "'TotalPartitions' must be greater than 0 in task: w, job: j"),
        ({"totalPartitions": 1, "partitionSize": 0}, "'PartitionSize' must be greater than 0 in task: w, job: j"),
        ({"totalPartitions": 2, "partitionSize": 2}, ""),
        (
            {
                "totalPartitions": 2,
                "partitionSize": 2,
                "networkTopology": {"highestTierAllowed": 0, "highestTierName": "x"},
            },
            "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
        ),
    ],
)
def test_partitions_must_cover_the_replicas(policy: Json, message: str) -> None:
    assert refusal(vcjob(task(replicas=4, minAvailable=4, partitionPolicy=policy))) == message


@pytest.mark.parametrize(
    ("depends_on", "message"),
    [
        (["a"], ""),
        (["a", "a"], ""),
        (["b"], NOT_A_DAG),
        (["absent"], f"{NOT_A_DAG} task b depends on absent, and the job has no task of this name;"),
        ([], ""),
    ],
)
def test_dependencies_between_tasks_form_a_dag(depends_on: list[str], message: str) -> None:
    assert refusal(vcjob(task("a"), task("b", dependsOn={"name": depends_on}))) == message


@pytest.mark.parametrize(
    ("resources", "allowed"),
    [
        ({"requests": {"cpu": 2}}, True),
        ({"limits": {"cpu": "2000m"}}, True),
        ({"requests": {"memory": "1Gi"}, "limits": {"cpu": 2}}, False),
        ({"requests": {"cpu": "0"}}, False),
        ({"requests": {"cpu": "two"}}, False),
        ({}, False),
    ],
)
def test_a_numa_policy_requires_whole_cpus(resources: Json, allowed: bool) -> None:
    job = with_container(resources=resources)
    job["spec"]["tasks"][0]["topologyPolicy"] = "restricted"
    message = "" if allowed else "the cpu request isn't an integer in spec.task[0] container[0]."
    assert refusal(job) == message


@pytest.mark.parametrize("policy", ["none", ""])
def test_without_a_numa_policy_cpus_need_not_be_whole(policy: str) -> None:
    job = with_container(resources={"requests": {"cpu": "0.5"}})
    job["spec"]["tasks"][0]["topologyPolicy"] = policy
    assert refusal(job) == ""


# --- plugins ---
@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], False),
        (["--master=boss"], True),
        (["-master", "boss"], True),
        (["--port=22", "--worker", "w", "--master", "boss"], True),
        (["--unknown=1", "--master=boss"], False),
        (["word", "--master=boss"], False),
        (["--master"], False),
        (None, False),
    ],
)
def test_the_master_of_mpi_is_read_from_its_flags(arguments: list[str] | None, found: bool) -> None:
    message = "" if found else "The specified mpi master task was not found"
    assert refusal(vcjob(task("boss"), plugins={"mpi": arguments})) == message


def test_unknown_plugins_are_listed_in_order() -> None:
    text = "unable to find job plugin: a; unable to find job plugin: b;"
    assert refusal(vcjob(plugins={"b": [], "svc": None, "a": []})) == text


# --- policies ---
def test_events_of_one_policy_may_repeat() -> None:
    policy = {"event": "PodFailed", "events": ["PodFailed", "PodEvicted"], "action": "RestartTask"}
    assert refusal(vcjob(policies=[policy, {"exitCode": 1, "action": "AbortJob"}])) == ""


def test_two_policy_errors_are_reported_together() -> None:
    policies = [{"events": ["*", "Unknown"], "action": "AbortJob"}, {"action": "AbortJob"}]
    assert refusal(vcjob(policies=policies)).startswith(
        "2 errors occurred:\n\t* either event and exitCode should be specified\n"
        "\t* if there's * here, no other policy should be here\n\n valid events are ["
    )


@pytest.mark.parametrize("timeout", ["30s", "1h30m", "1.5h", "0", "0s", "100ms", "5µs"])
def test_a_timeout_is_a_duration(timeout: str) -> None:
    assert refusal(vcjob(policies=[{"event": "PodFailed", "action": "AbortJob", "timeout": timeout}])) == ""


@pytest.mark.parametrize("timeout", ["", "5", "5 minutes", "-5s", "1d", "9999999999h", "s"])
def test_an_invalid_timeout_is_refused_with_its_field(timeout: str) -> None:
    policy = {"event": "PodFailed", "action": "AbortJob", "timeout": timeout}
    remedy = "must be a duration such as 30s, 5m or 1h30m;"
    assert refusal(vcjob(policies=[policy])) == f'spec.policies[0].timeout: Invalid value: "{timeout}": {remedy}'
    assert refusal(vcjob(task(policies=[policy]))) == (
        f'spec.tasks[0].policies[0].timeout: Invalid value: "{timeout}": {remedy}'
    )


# --- cards ---
@pytest.mark.parametrize("text", ['{"NVIDIA-H200":2}', '{"A|B":1, "C":3}'])
def test_a_valid_card_request_is_accepted(text: str) -> None:
    assert refusal(vcjob(annotations={"volcano.sh/card.request": text})) == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("NVIDIA-H200", "'NVIDIA-H200' is not JSON: expecting value (line 1, column 1)"),
        ("[]", "'[]' is not a JSON object of cards and numbers"),
        ("{}", "no card is named"),
        ('{"A":"2"}', "'A': a string is not a number"),
        ('{"A":0}', "'A': 0 is not a number of cards to ask for"),
        ('{"A":1.5}', "'A': 1.5 is not a whole number"),
        ('{"A|A":1}', "'A|A': 'A' is named twice"),
    ],
)
def test_a_malformed_card_request_is_refused_with_a_remedy(text: str, problem: str) -> None:
    assert refusal(vcjob(annotations={"volcano.sh/card.request": text})) == (
        f"metadata.annotations[volcano.sh/card.request]: {problem}: write a JSON object of cards and how many of each, "
        'such as {"NVIDIA-H200": 2};'
    )


def test_a_malformed_card_name_in_a_template_is_refused_with_a_remedy() -> None:
    template = {"metadata": {"annotations": {"volcano.sh/card.name": "A||B"}}, "spec": pod_spec()}
    assert refusal(vcjob(task("v"), task("w", template=template))) == (
        "spec.tasks[1].template.metadata.annotations[volcano.sh/card.name]: empty name of a card: write the name of a "
        "card, or several joined by | with the preferred one first;"
    )


def test_valid_card_names_are_accepted() -> None:
    template = {"metadata": {"annotations": {"volcano.sh/card.name": "A|B/mig-1g.18gb-mixed"}}, "spec": pod_spec()}
    assert refusal(vcjob(task(template=template))) == ""


# --- names, operations ---
def test_a_job_with_a_generated_name_is_validated_with_a_name_of_that_length() -> None:
    job = stored(vcjob())
    job["metadata"] = {"generateName": "train-", "namespace": "default"}
    assert validate(AdmissionRequest(Operation.CREATE, VCJOB, "default", "", job), CLUSTER, SETTINGS).text() == ""
    job["metadata"] = {"generateName": "x" * 60, "namespace": "default"}
    answer = validate(AdmissionRequest(Operation.CREATE, VCJOB, "default", "", job), CLUSTER, SETTINGS).text()
    assert "create job with name" not in answer, "the API server shortens the prefix"
    assert f"create pod with name {'x' * 63}-w-0 validate failed" in answer


def test_a_policy_may_ignore_an_event_as_in_manifests_of_mindcluster() -> None:
    assert refusal(vcjob(policies=[{"event": "PodFailed", "action": "Ignore"}])) == ""
