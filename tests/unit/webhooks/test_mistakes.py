"""Warnings in the answers of admission: likely mistakes that are no reason to refuse a write."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.kinds import ACJOB, CRON_JOB, DEPLOYMENT, POD, POD_GROUP, QUEUE, VCJOB, Kind
from scheduler.api.names import CARD_ALTERNATIVES
from scheduler.webhooks import mistakes
from scheduler.webhooks.contract import AdmissionRequest, Json, Operation, WebhookSettings
from scheduler.webhooks.mistakes import MAX_LENGTH, MAX_WARNINGS, warnings_of
from tests.unit.webhooks.clusters import Cluster, queue

OURS = WebhookSettings(scheduler_names=("volcano-py",))
CLUSTER = Cluster(
    queue("research", {"volcano.sh/card.quota": '{"NVIDIA-H200": 8}'}, capability={"example.com/fpga": 4})
)


WRONG = {"schedulerName": "vulcano"}


def template(*names: str, **spec: Any) -> Json:
    return {"spec": {"containers": [{"name": "c", "resources": {"limits": dict.fromkeys(names, "1")}}], **spec}}


def job(*names: str, **spec: Any) -> Json:
    return {"metadata": {"name": "train"}, "spec": {"tasks": [{"name": "t", "template": template(*names)}], **spec}}


def warned(kind: Kind, obj: Json, old: Json | None = None) -> list[str]:
    operation = Operation.UPDATE if old else Operation.CREATE
    return warnings_of(AdmissionRequest(operation, kind, "default", "x", obj, old or {}), CLUSTER, OURS)


@pytest.mark.parametrize(
    ("kind", "obj", "path"),
    [
        (VCJOB, job(schedulerName="vulcano"), "spec.schedulerName"),
        (POD, {"spec": {"schedulerName": "vulcano"}}, "spec.schedulerName"),
        (ACJOB, {"spec": {"schedulerName": "vulcano"}}, "spec.schedulerName"),
        (CRON_JOB, {"spec": {"jobTemplate": {"spec": WRONG}}}, "spec.jobTemplate.spec.schedulerName"),
        (
            ACJOB,
            {"spec": {"replicaSpecs": {"Worker": {"template": template(schedulerName="vulcano")}}}},
            "spec.replicaSpecs[Worker].template.spec.schedulerName",
        ),
    ],
)  # fmt: skip
def test_a_misspelt_scheduler_is_named(kind: Kind, obj: Json, path: str) -> None:
    assert warned(kind, obj) == [
        f"{path}: 'vulcano' is not a name of this scheduler (volcano-py); did you mean 'volcano-py'?"
    ]


def test_only_the_schedulers_of_the_webhooks_serve_vcjobs_but_others_may_serve_pods() -> None:
    other = {"schedulerName": "fair-share"}
    text = "spec.schedulerName: 'fair-share' is not a name of this scheduler (volcano-py)"
    assert warned(VCJOB, job(**other)) == [text]
    assert warned(POD, {"spec": other}) == []
    assert warned(VCJOB, job(schedulerName="default-scheduler")) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nvidia.com/gpuu", "nvidia.com/gpu"),
        ("huawei.com/Asend910", "huawei.com/Ascend910"),
        ("volcano.sh/vgpu-memroy", "volcano.sh/vgpu-memory"),
        ("example.com/fgpa", "example.com/fpga"),
    ],
)
def test_a_resource_that_resembles_a_known_one_is_named(name: str, meant: str) -> None:
    field = f"spec.tasks[0].template.spec.containers[0].resources.limits[{name}]"
    assert warned(VCJOB, job(name)) == [f"{field}: unknown resource; did you mean {meant!r}?"]


@pytest.mark.parametrize(
    "name",
    [
        "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/gpumem", "amd.com/gpu",
        "huawei.com/Ascend910B4", "huawei.com/npu-core", "hugepages-2Mi", "rdma/hca", "cpu", "example.com/fpga",
    ],
)  # fmt: skip
def test_resources_that_may_exist_are_no_mistakes(name: str) -> None:
    assert warned(VCJOB, job(name)) == []


@pytest.mark.parametrize(
    ("kind", "annotations", "warnings"),
    [
        (
            POD_GROUP,
            {"volcano.sh/card.request": '{"NVIDIA-H20O": 2}'},
            ["volcano.sh/card.request]: no queue has a quota of the card 'NVIDIA-H20O'; did you mean 'NVIDIA-H200'?"],
        ),
        (
            POD,
            {"volcano.sh/card.name": "NVIDIA-H20O"},
            ["volcano.sh/card.name]: no queue has a quota of the card 'NVIDIA-H20O'; did you mean 'NVIDIA-H200'?"],
        ),
        (POD, {"volcano.sh/card.name": "NVIDIA-H200|Tesla-V100"}, []),
        (QUEUE, {"volcano.sh/card.quota": '{"NVIDIA-H100": 2}'}, []),
        (
            QUEUE,
            {"volcano.sh/nodegroup-resource-limits": '{"a": {"cpu": "4"}'},
            [
                "volcano.sh/nodegroup-resource-limits]: not JSON: expecting ',' delimiter (line 1, column 19); "
                "the text ends there"
            ],
        ),
    ],
)
def test_cards_and_json_of_annotations_are_checked(kind: Kind, annotations: Json, warnings: list[str]) -> None:
    found = warned(kind, {"metadata": {"annotations": annotations}, "spec": {}})
    assert found == [f"metadata.annotations[{each}" for each in warnings]


def test_an_update_is_warned_of_only_if_it_changes_the_spec_or_annotations() -> None:
    wrong = job(schedulerName="vulcano")
    labelled = {**wrong, "metadata": {"name": "train", "labels": {"a": "b"}}}
    assert warned(VCJOB, labelled, wrong) == []
    assert warned(VCJOB, job("nvidia.com/gpuu"), job())
    assert warnings_of(AdmissionRequest(Operation.DELETE, QUEUE, "", "q", {}, queue("q")), CLUSTER, OURS) == []


def test_one_object_causes_few_short_warnings_without_control_characters() -> None:
    names = [f"nvidia.com/gpu{i}" for i in range(50)]
    found = warned(VCJOB, job(*names, schedulerName="vulcano-py\x1b[2J\n" + "x" * 5000))
    assert len(found) == MAX_WARNINGS
    assert all(len(each) <= MAX_LENGTH and each.isprintable() for each in found)


def test_similar_names_are_sought_for_few_names_of_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    sought: list[str] = []

    def closest(name: str, *_: object) -> str:
        sought.append(name)
        return ""

    monkeypatch.setattr(mistakes, "similar_resource", closest)
    containers = [{"resources": {"requests": {f"{i}.example/x-{j}": 1 for j in range(50)}}} for i in range(200)]
    assert warned(POD, {"spec": {"containers": containers}}) == []
    assert len(sought) == mistakes.MAX_COMPARED


@pytest.mark.parametrize("value", [None, 3, "text", [], [None], [[1]], {"a": None}])
def test_objects_of_any_shape_are_accepted(value: object) -> None:
    for kind in (POD, VCJOB, ACJOB, CRON_JOB, QUEUE, POD_GROUP):
        parts = ("tasks", "containers", "replicaSpecs", "jobTemplate", "capability", "minResources", "resources")
        for obj in (
            {"spec": value, "metadata": value},
            {"spec": dict.fromkeys(parts, value), "metadata": {"annotations": value}},
        ):
            assert warned(kind, obj) == []


def test_names_of_several_schedulers_are_all_known() -> None:
    several = replace(OURS, scheduler_names=("volcano", "volcano-py"))
    request = AdmissionRequest(Operation.CREATE, VCJOB, "default", "x", job(schedulerName="volcano"))
    assert warnings_of(request, CLUSTER, several) == []


def test_a_queue_that_resembles_an_existing_one_is_named() -> None:
    group = {"metadata": {"name": "g"}, "spec": {"queue": "reserch"}}
    assert warned(POD_GROUP, group) == ["spec.queue: there is no queue 'reserch'; did you mean 'research'?"]
    group["spec"] = {"queue": "vision"}  # it may be created later
    assert warned(POD_GROUP, group) == []


@pytest.mark.parametrize("kind", [POD, POD_GROUP, VCJOB])
def test_a_misspelt_annotation_is_named(kind: Kind) -> None:
    key = "scheduling.k8s.io/group-nmae"
    (found,) = warned(kind, {"metadata": {"name": "x", "annotations": {key: "train"}}, "spec": {}})
    assert (
        found
        == f"metadata.annotations[{key}]: unknown annotation {key!r}; did you mean 'scheduling.k8s.io/group-name'?"
    )


def test_priority_classes_labels_and_taints_are_unknown_to_webhooks() -> None:
    spec = {
        "priorityClassName": "hihg",
        "nodeSelector": {"kubernetes.io/arhc": "a"},
        "tolerations": [{"key": "dedicate"}],
    }
    assert warned(POD, {"spec": spec}) == []


def listing(*alternatives: Json) -> Json:
    return {"metadata": {"annotations": {CARD_ALTERNATIVES: json.dumps(alternatives)}}}


def test_cards_and_resources_of_alternatives_are_checked() -> None:
    listed = listing({"card": "NVIDIA-H20O", "resource": "nvidia.com/gpus"}, {"card": "A", "resource": "a.com/b"})
    job = {"spec": {"tasks": [{"name": "t", "template": {**template(), **listed}}]}}
    field = f"spec.tasks[0].template.metadata.annotations[{CARD_ALTERNATIVES}]"
    assert warned(VCJOB, job) == [
        f"{field}[0].resource[nvidia.com/gpus]: unknown resource; did you mean 'nvidia.com/gpu'?",
        f"{field}: no queue has a quota of the card 'NVIDIA-H20O'; did you mean 'NVIDIA-H200'?",
    ]


@pytest.mark.parametrize(
    ("kind", "obj", "path"),
    [
        (POD, {**listing(), "spec": {}}, ""),
        (DEPLOYMENT, {"spec": {"template": {**template(), **listing()}}}, "spec.template."),
        (VCJOB, {**listing(), "spec": {"tasks": []}}, ""),
    ],
)
def test_alternatives_in_the_wrong_place_are_named(kind: Kind, obj: Json, path: str) -> None:
    field = f"{path}metadata.annotations[{CARD_ALTERNATIVES}]"
    assert warned(kind, obj) == [f"{field}: ignored: only Pod templates of the tasks of a vcjob list alternatives"]
