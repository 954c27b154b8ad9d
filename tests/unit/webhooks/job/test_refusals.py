"""Forty invalid vcjobs, one for each rule, with the exact refusals of Volcano on a real API server."""

import pytest

from scheduler.webhooks.contract import Json
from tests.unit.webhooks.job.vcjobs import pod_spec, refusal, task, vcjob

CHOICE = (
    " valid events are [* JobUpdated PodEvicted PodFailed PodPending TaskCompleted TaskFailed Unknown], valid actions "
    "are [AbortJob CompleteJob RestartJob RestartPartition RestartPod RestartTask ResumeJob TerminateJob];"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LONG = "x" * 70
TOO_MANY = "job 'minAvailable' should not be greater than total replicas in tasks;"


def policy_error(text: str) -> str:
    return f"1 error occurred:\n\t* {text}\n\n{CHOICE}"


def with_policies(name: str, *policies: Json) -> Json:
    return vcjob(name=name, policies=list(policies))


def with_volumes(name: str, *volumes: Json) -> Json:
    return vcjob(name=name, volumes=list(volumes))


def with_template(name: str, **spec: object) -> Json:
    return vcjob(task(template={"spec": spec}), name=name)


POD_FAILED = {"event": "PodFailed", "action": "RestartJob"}
NO_QUEUE = 'unable to find job queue: queue.scheduling.volcano.sh "nowhere" not found;'

REFUSED = [
    (vcjob(name="minavail", minAvailable=3), TOO_MANY),
    (vcjob(task("w"), task("w"), name="dup-task"), "duplicated task name w;"),
    (
        vcjob(task(minAvailable=2), name="task-minavail"),
        f"'minAvailable' is greater than 'replicas' in task: w, job: task-minavail; {TOO_MANY}",
    ),
    (
        with_policies("internal-event", {"event": "OutOfSync", "action": "RestartJob"}),
        policy_error('spec.policies: Invalid value: "OutOfSync": invalid policy event'),
    ),
    (
        with_policies("bad-action", {"event": "PodFailed", "action": "Nope"}),
        policy_error('spec.policies: Invalid value: "Nope": invalid policy action'),
    ),
    (
        with_policies("internal-action", {"event": "PodFailed", "action": "SyncJob"}),
        policy_error('spec.policies: Invalid value: "SyncJob": invalid policy action'),
    ),
    (
        with_policies("event-and-exit", {"event": "PodFailed", "exitCode": 3, "action": "AbortJob"}),
        policy_error("must not specify event and exitCode simultaneously"),
    ),
    (
        with_policies("neither", {"action": "AbortJob"}),
        policy_error("either event and exitCode should be specified"),
    ),
    (with_policies("exit-0", {"exitCode": 0, "action": "AbortJob"}), policy_error("0 is not a valid error code")),
    (
        with_policies("dup-event", {"event": "PodFailed", "action": "AbortJob"}, POD_FAILED),
        policy_error("duplicate event PodFailed  across different policy"),
    ),
    (
        with_policies("dup-exit", {"exitCode": 3, "action": "AbortJob"}, {"exitCode": 3, "action": "RestartJob"}),
        policy_error("duplicate exitCode 3"),
    ),
    (
        with_policies("star-and-other", {"event": "*", "action": "AbortJob"}, POD_FAILED),
        policy_error("if there's * here, no other policy should be here"),
    ),
    (vcjob(name="plugin", plugins={"nope": []}), "unable to find job plugin: nope;"),
    (
        vcjob(task("worker"), name="mpi-no-master", plugins={"mpi": ["--master=boss"]}),
        "The specified mpi master task was not found",
    ),
    (vcjob(name="queue-missing", queue="nowhere"), NO_QUEUE),
    (vcjob(name="queue-root", queue="root"), "can not submit job to root queue;"),
    (
        vcjob(name="queue-parent", queue="dept"),
        "can only submit job to leaf queue, queue `dept` has 1 child queues;",
    ),
    (
        vcjob(name="queue-closed", queue="shut"),
        "can only submit job to queue with state `Open`, queue `shut` status is `Closed`;",
    ),
    (
        vcjob(task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]}), name="cycle"),
        "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);",
    ),
    (
        with_volumes(
            "mount-dup", {"mountPath": "/a", "volumeClaimName": "a"}, {"mountPath": "/a", "volumeClaimName": "b"}
        ),
        "duplicated mountPath: /a;",
    ),
    (with_volumes("claim-none", {"mountPath": "/a"}), "either VolumeClaim or VolumeClaimName must be specified;"),
    (
        with_volumes(
            "claim-both",
            {"mountPath": "/a", "volumeClaimName": "a", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
        ),
        "conflict: If you want to use an existing PVC, just specify VolumeClaimName."
        "If you want to create a new PVC, you do not need to specify VolumeClaimName",
    ),
    (
        with_volumes("claim-name", {"mountPath": "/a", "volumeClaimName": "A_b"}),
        f"invalid VolumeClaimName A_b : [{SUBDOMAIN}]",
    ),
    (
        vcjob(
            task(
                template={
                    "spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m"}}}]}
                },
                topologyPolicy="single-numa-node",
            ),
            name="numa-cpu",
        ),
        "the cpu request isn't an integer in spec.task[0] container[0].",
    ),
    (
        vcjob(
            name="topology-both", networkTopology={"mode": "hard", "highestTierAllowed": 1, "highestTierName": "leaf"}
        ),
        "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
    ),
    (
        vcjob(task(replicas=3, partitionPolicy={"totalPartitions": 2, "partitionSize": 2}), name="part-mismatch"),
        "'Replicas' are not equal to TotalPartitions*PartitionSize in task: w, job: part-mismatch",
    ),
    (
        vcjob(
            task(
                replicas=4,
                minAvailable=3,
                partitionPolicy={"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1},
            ),
            name="part-min",
        ),
        "'MinAvailable' is not equal to MinPartitions*PartitionSize in task: w, job: part-min",
    ),
    (
        vcjob(name="many", minAvailable=5, queue="nowhere", plugins={"nope": []}, policies=[{"action": "AbortJob"}]),
        f"{TOO_MANY}{policy_error('either event and exitCode should be specified')} unable to find job plugin: nope; "
        f"{NO_QUEUE}",
    ),
    (
        vcjob(name=LONG),
        f"create pod with name {LONG}-w-0 validate failed [name part must be no more than 63 bytes];"
        f"create job with name {LONG} validate failed [name part must be no more than 63 bytes]",
    ),
    (vcjob(task(replicas=0), name="zero"), ""),
]

REFUSED_FOR_A_TEMPLATE = [
    (
        with_template("no-container", containers=[]),
        "template.spec.containers: Required value. ",
        "spec.task[0].template.spec.containers: Required value.",
    ),
    (
        with_template("bad-restart", **pod_spec(restartPolicy="Sometimes")),
        'template.spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", '
        '"Never". ',
        'spec.task[0].template.spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", '
        '"OnFailure", "Never".',
    ),
    (
        with_template("no-image", containers=[{"name": "c"}]),
        "template.spec.containers[0].image: Required value. ",
        "spec.task[0].template.spec.containers[0].image: Required value.",
    ),
]
"""The refusal contains the message of the API server about the template."""

REFUSED_BY_THE_SCHEMA_FIRST = [
    (vcjob(name="no-tasks") | {"spec": {"tasks": []}}, "No task specified in job spec"),
    (
        with_policies("bad-event", {"event": "Nope", "action": "RestartJob"}),
        policy_error('spec.policies: Invalid value: "Nope": invalid policy event'),
    ),
    (
        vcjob(task(policies=[{"event": "Nope", "action": "AbortJob"}]), name="task-policy"),
        policy_error('spec.tasks.policies: Invalid value: "Nope": invalid policy event'),
    ),
    (with_volumes("mount-missing", {"mountPath": "", "volumeClaimName": "a"}), "mountPath is required;"),
    (
        vcjob(task("Up_per"), name="task-name"),
        f'spec.task[0].metadata.name: Invalid value: "Up_per": {SUBDOMAIN}.',
    ),
    (
        vcjob(task(replicas=-1, minAvailable=0), minAvailable=1, name="neg-replicas"),
        "'minAvailable' is greater than 'replicas' in task: w, job: neg-replicas; "
        f"{TOO_MANY} spec.tasks[0].replicas: Invalid value: -1: must be greater than or equal to 0;",
    ),
    (
        vcjob(minAvailable=-1, name="neg-minavail"),
        "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0;",
    ),
    (
        vcjob(maxRetry=-1, name="neg-maxretry"),
        "spec.maxRetry: Invalid value: -1: must be greater than or equal to 0;",
    ),
    (
        vcjob(ttlSecondsAfterFinished=-1, name="neg-ttl"),
        "spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0;",
    ),
    (
        vcjob(minSuccess=0, name="zero-minsuccess"),
        "spec.minSuccess: Invalid value: 0: must be greater than or equal to 1;",
    ),
]


def _name(case: object) -> str | None:
    return case["metadata"]["name"] if isinstance(case, dict) else ""


@pytest.mark.parametrize(("job", "message"), REFUSED, ids=_name)
def test_an_invalid_job_gets_the_refusal_of_volcano(job: Json, message: str) -> None:
    assert refusal(job) == message


@pytest.mark.parametrize(("job", "problems", "message"), REFUSED_FOR_A_TEMPLATE, ids=_name)
def test_problems_found_by_the_api_server_are_in_the_refusal(job: Json, problems: str, message: str) -> None:
    assert refusal(job, templates=[problems]) == message


@pytest.mark.parametrize(("job", "message"), REFUSED_BY_THE_SCHEMA_FIRST, ids=_name)
def test_violations_of_the_crd_schema_are_refused_without_the_schema_too(job: Json, message: str) -> None:
    assert refusal(job) == message
