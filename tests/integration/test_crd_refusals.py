"""The refusals of the API server under our resource definitions, and their messages.

The refusals of vcjobs equal the refusals recorded with Volcano word by word. Fields that Volcano validates in its
webhooks are accepted here, since no webhook runs.
"""

from typing import Any

import pytest

from controlplane.client import ApiError
from controlplane.run import ControlPlane
from scheduler.api import kinds
from scheduler.api.kinds import Kind
from tests.integration.crds import TASK, collection, create, hypernode, job, pod, task

pytestmark = pytest.mark.controlplane

QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

EVENTS = (
    '"*", "PodPending", "PodRunning", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "OutOfSync", '
    '"CommandIssued", "JobUpdated", "TaskFailed"'
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"spec": {"tasks": []}}, "spec.tasks: Invalid value: 0: spec.tasks in body should have at least 1 items"),
        (
            job(policies=[{"event": "Nope", "action": "RestartJob"}]),
            f'spec.policies[0].event: Unsupported value: "Nope": supported values: {EVENTS}',
        ),
        (
            task(policies=[{"event": "Nope", "action": "AbortJob"}]),
            f'spec.tasks[0].policies[0].event: Unsupported value: "Nope": supported values: {EVENTS}',
        ),
        (
            job(volumes=[{"mountPath": "", "volumeClaimName": "a"}]),
            'spec.volumes[0].mountPath: Invalid value: "": spec.volumes[0].mountPath in body should be at least 1 '
            "chars long",
        ),
        (
            task(name="Up_per"),
            'spec.tasks[0].name: Invalid value: "Up_per": spec.tasks[0].name in body should match '
            "'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
        ),
        (
            task(replicas=-1),
            "spec.tasks[0].replicas: Invalid value: -1: spec.tasks[0].replicas in body should be greater than or equal "
            "to 0",
        ),
        (
            job(minAvailable=-1),
            "spec.minAvailable: Invalid value: -1: spec.minAvailable in body should be greater than or equal to 0",
        ),
        (
            job(maxRetry=-1),
            "spec.maxRetry: Invalid value: -1: spec.maxRetry in body should be greater than or equal to 0",
        ),
        (
            job(ttlSecondsAfterFinished=-1),
            "spec.ttlSecondsAfterFinished: Invalid value: -1: spec.ttlSecondsAfterFinished in body should be greater "
            "than or equal to 0",
        ),
        (
            job(minSuccess=0),
            "spec.minSuccess: Invalid value: 0: spec.minSuccess in body should be greater than or equal to 1",
        ),
    ],
)
def test_a_vcjob_is_refused_in_the_words_that_volcano_refuses_it(
    control_plane: ControlPlane, namespace: str, body: dict[str, Any], message: str
) -> None:
    with pytest.raises(ApiError) as refused:
        create(control_plane.admin, kinds.VCJOB, namespace, body)
    assert refused.value.status == 422
    assert refused.value.body["message"] == f'Job.batch.volcano.sh "{namespace}" is invalid: {message}'


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        (kinds.VCJOB, job(queue="Up"), "spec.queue: Invalid value"),
        (kinds.VCJOB, job(schedulerName="s" * 64), "spec.schedulerName: Too long: may not be more than 63 bytes"),
        (kinds.VCJOB, job(priorityClassName=""), "spec.priorityClassName: Invalid value"),
        (kinds.VCJOB, job(volumes=[{"mountPath": "a:b"}]), "spec.volumes[0].mountPath: Invalid value"),
        (kinds.VCJOB, job(volumes=[{}]), "spec.volumes[0].mountPath: Required value"),
        (kinds.VCJOB, job(networkTopology={"mode": "tough"}), 'supported values: "hard", "soft"'),
        (kinds.VCJOB, job(networkTopology={"highestTierAllowed": -1}), "should be greater than or equal to 0"),
        (kinds.VCJOB, job(plugins={"ssh": "yes"}), 'spec.plugins.ssh in body must be of type array: "string"'),
        (
            kinds.VCJOB,
            job(volumes=[{"mountPath": "/a", "volumeClaim": {"resources": {"requests": {"storage": "1 Gi"}}}}]),
            "spec.volumes[0].volumeClaim.resources.requests.storage in body should match",
        ),
        (
            kinds.VCJOB,
            task(topologyPolicy="best"),
            'supported values: "none", "best-effort", "restricted", "single-numa-node"',
        ),
        (
            kinds.VCJOB,
            task(partitionPolicy={"partitionSize": 1}),
            "spec.tasks[0].partitionPolicy.totalPartitions: Required value",
        ),
        (
            kinds.VCJOB,
            task(partitionPolicy={"partitionSize": 0, "totalPartitions": 1}),
            "spec.tasks[0].partitionPolicy.partitionSize in body should be greater than or equal to 1",
        ),
        (kinds.VCJOB, task(template={"spec": {}}), "spec.tasks[0].template.spec.containers: Required value"),
        (kinds.VCJOB, pod(containers=[{"image": "x"}]), "template.spec.containers[0].name: Required value"),
        (
            kinds.VCJOB,
            pod(containers=[{"name": "c"}, {"name": "c"}]),
            'spec.tasks[0].template.spec.containers[1]: Duplicate value: {"name":"c"}',
        ),
        (
            kinds.VCJOB,
            pod(containers=[{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]}]),
            'ports[1]: Duplicate value: {"containerPort":80,"protocol":"TCP"}',
        ),
        (
            kinds.VCJOB,
            pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "many"}}}]),
            f"containers[0].resources.requests.cpu in body should match '{QUANTITY}'",
        ),
        (kinds.VCJOB, pod(hostNetwork="yes"), 'template.spec.hostNetwork in body must be of type boolean: "string"'),
        (
            kinds.VCJOB,
            pod(tolerations=[{"tolerationSeconds": "9"}]),
            'tolerations[0].tolerationSeconds in body must be of type integer: "string"',
        ),
        (kinds.CRON_JOB, {"spec": {"jobTemplate": job()}}, "spec.schedule: Required value"),
        (kinds.CRON_JOB, {"spec": {"schedule": "* * * * *"}}, "spec.jobTemplate: Required value"),
        (
            kinds.CRON_JOB,
            {"spec": {"schedule": "* * * * *", "jobTemplate": job(), "concurrencyPolicy": "Maybe"}},
            'supported values: "Allow", "Forbid", "Replace"',
        ),
        (
            kinds.CRON_JOB,
            {"spec": {"schedule": "* * * * *", "jobTemplate": job(), "startingDeadlineSeconds": -1}},
            "spec.startingDeadlineSeconds in body should be greater than or equal to 0",
        ),
        (
            kinds.CRON_JOB,
            {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"tasks": []}}}},
            "spec.jobTemplate.spec.tasks in body should have at least 1 items",
        ),
        (kinds.COMMAND, {"action": "AbortJob", "target": {"name": "a"}}, "target.uid: Required value"),
        (kinds.JOB_TEMPLATE, {"spec": {"tasks": []}}, "spec.tasks in body should have at least 1 items"),
        (kinds.JOB_FLOW, {"spec": {"flows": [{"name": ""}]}}, "spec.flows[0].name in body should be at least 1 chars"),
        (kinds.JOB_FLOW, {"spec": {"jobRetainPolicy": "keep"}}, 'supported values: "retain", "delete"'),
        (
            kinds.JOB_FLOW,
            {"spec": {"flows": [{"name": "a", "patch": {"jobSpec": {"minAvailable": -1}}}]}},
            "spec.flows[0].patch.jobSpec.minAvailable in body should be greater than or equal to 0",
        ),
        (kinds.HYPER_NODE, {"spec": {}}, "spec.tier: Required value"),
        (kinds.HYPER_NODE, hypernode(), "spec.members in body should have at least 1 items"),
        (
            kinds.HYPER_NODE,
            hypernode({}),
            "spec.members[0].selector: Invalid value: Either ExactMatch or RegexMatch or LabelMatch must be specified",
        ),
        (
            kinds.HYPER_NODE,
            hypernode({"exactMatch": {"name": "a"}, "regexMatch": {"pattern": "a"}}),
            "Only one of ExactMatch, RegexMatch, or LabelMatch can be specified",
        ),
        (kinds.HYPER_NODE, hypernode({"exactMatch": {"name": ""}}), "exactMatch.name in body should be at least 1"),
        (kinds.NUMATOPOLOGY, {"spec": {"cpuDetail": {"0": {"numa": -1}}}}, "spec.cpuDetail.0.numa in body should be"),
        (kinds.QUEUE, {"spec": {"parent": "Up"}}, "spec.parent in body should match"),
        (kinds.POD_GROUP, {"spec": {"minMember": -1}}, "spec.minMember in body should be greater than or equal to 0"),
        (kinds.POD_GROUP, {"status": {"phase": "Done"}}, 'status.phase: Unsupported value: "Done": supported values'),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_the_name_of_its_field(
    control_plane: ControlPlane, namespace: str, kind: Kind, body: dict[str, Any], message: str
) -> None:
    with pytest.raises(ApiError) as refused:
        create(control_plane.admin, kind, namespace, body)
    assert refused.value.status == 422
    assert message in refused.value.body["message"]


@pytest.mark.parametrize(
    "body",
    [
        job(minAvailable=3),
        {"spec": {"tasks": [TASK, TASK]}},
        job(policies=[{"event": "OutOfSync", "action": "RestartJob"}]),
        job(policies=[{"event": "PodFailed", "action": "Nope"}]),
        job(policies=[{"event": "PodFailed", "exitCode": 3, "action": "AbortJob"}]),
        job(policies=[{"exitCode": 0, "action": "AbortJob"}]),
        job(plugins={"nope": []}),
        job(volumes=[{"mountPath": "/a"}]),
        job(volumes=[{"mountPath": "/a", "volumeClaimName": "A_b"}]),
        job(networkTopology={"mode": "hard", "highestTierAllowed": 1, "highestTierName": "leaf"}),
        task(template={"spec": {"containers": []}}),
        pod(restartPolicy="Sometimes"),
        pod(containers=[{"name": "c"}]),
        task(partitionPolicy={"totalPartitions": 2, "partitionSize": 2}),
    ],
)
def test_fields_that_the_webhook_validates_are_accepted(
    control_plane: ControlPlane, namespace: str, body: dict[str, Any]
) -> None:
    stored = create(control_plane.admin, kinds.VCJOB, namespace, body)["spec"]
    assert stored == body["spec"] | stored


def test_a_phase_that_no_job_can_be_in_is_refused(control_plane: ControlPlane, namespace: str) -> None:
    create(control_plane.admin, kinds.VCJOB, namespace, job())
    path = f"{collection(kinds.VCJOB, namespace)}/{namespace}/status"
    with pytest.raises(ApiError, match=r'status\.state\.phase: Unsupported value: "Done"'):
        control_plane.admin.patch(path, {"status": {"state": {"phase": "Done"}}})
