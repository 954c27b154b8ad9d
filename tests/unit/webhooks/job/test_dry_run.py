"""What dry runs of vcjobs say about the quota of their queue."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.kinds import QUEUE, VCJOB
from scheduler.webhooks.contract import AdmissionRequest, Json, Operation, WebhookSettings
from scheduler.webhooks.mistakes import warnings_of
from tests.unit.webhooks.clusters import Cluster, queue

H200 = "NVIDIA-H200"
SETTINGS = WebhookSettings(scheduler_names=("volcano-py",))


def used(raw: Json, **status: Any) -> Json:
    return {**raw, "status": {**raw["status"], **status}}


CLUSTER = Cluster(
    used(queue("top", capability={"cpu": "100", "memory": "1Ti"}), allocated={"cpu": "97"}),
    used(queue("research", parent="top", capability={"cpu": "16"}), allocated={"cpu": "9500m", "memory": "8Gi"}),
    used(
        queue("gold", {"volcano.sh/card.quota": '{"NVIDIA-H200": 3, "NVIDIA-H800": 2}'}, capability={"cpu": "2"}),
        cards={H200: {"used": "1", "quota": "3", "inqueue": "1"}, "NVIDIA-H800": {"used": "x"}},
    ),
    queue("free"),
    queue("odd", capability={"cpu": "x"}, parent="odd"),
)


def job(queue: str, replicas: int = 2, cards: str = "", minimum: int = 0, gpus: str = "", **requests: Any) -> Json:
    requests |= {"nvidia.com/gpu": gpus} if gpus else {}
    container = {"name": "c", "resources": {"requests": requests}}
    metadata = {"annotations": {"volcano.sh/card.name": cards}} if cards else {}
    task = {"name": "w", "replicas": replicas, "template": {"metadata": metadata, "spec": {"containers": [container]}}}
    return {"metadata": {"name": "train"}, "spec": {"queue": queue, "minAvailable": minimum, "tasks": [task]}}


def answered(new: Json, old: Json | None = None, *, settings: WebhookSettings = SETTINGS) -> list[str]:
    operation = Operation.UPDATE if old else Operation.CREATE
    request = AdmissionRequest(operation, VCJOB, "default", "train", new, old or {}, dry_run=True)
    return warnings_of(request, CLUSTER, settings)


def test_each_limit_of_the_queue_and_of_those_above_it_is_answered_with_numbers() -> None:
    assert answered(job("research", cpu="2")) == [
        "quota of queue research: cpu: asked 4, used 9500m, limit 16",
        "quota of queue top: cpu: asked 4, used 97, limit 100: 1 too many, so the job waits",
    ]


def test_a_gang_with_a_smaller_minimum_may_run_in_part() -> None:
    (line,) = answered(job("research", 4, minimum=1, cpu="2"))[:1]
    assert line.endswith("asked 8, used 9500m, limit 16: 1500m too many, so not all of its Pods run")


def test_cards_are_counted_by_model_with_what_admitted_jobs_need_and_without_the_cpu_of_their_pods() -> None:
    assert answered(job("gold", 2, H200, gpus="1", cpu="9")) == [
        f"quota of queue gold: {H200}: asked 2, used 2, limit 3: 1 too many, so the job waits"
    ]
    assert answered(job("gold", 2, f"{H200}|NVIDIA-H800", gpus="1")) == [
        f"quota of queue gold: {H200}|NVIDIA-H800: asked 2, used 2, limit 5"
    ]


def test_the_announced_cards_count_if_pods_name_none() -> None:
    asked = job("gold", 1)
    asked["metadata"]["annotations"] = {"volcano.sh/card.request": '{"NVIDIA-A100": 1}'}
    assert answered(asked) == [
        "quota of queue gold: NVIDIA-A100: asked 1, used 0, limit 0: 1 too many, so the job waits"
    ]


def test_without_a_limit_the_answer_says_so() -> None:
    assert answered(job("free", cpu="1")) == ["quota of queue free: no limit of what the job asks for"]


def test_of_an_update_only_what_it_adds_counts() -> None:
    assert answered(job("research", 3, cpu="2"), job("research", 2, cpu="2"))[:1] == [
        "quota of queue research: cpu: asked 2, used 9500m, limit 16"
    ]
    assert answered(job("research", 1, cpu="2"), job("research", 2, cpu="2")) == [
        "quota of queue research: no limit of what the job asks for"
    ]


@pytest.mark.parametrize(
    "asked",
    [
        job("odd", cpu="1"), job("missing", cpu="1"), job("research", cpu="many"), {"spec": {"tasks": 3}},
        {"spec": {"queue": "research", "tasks": [{"replicas": 1, "template": {"metadata": 3, "spec": 1}}]}},
    ],
)  # fmt: skip
def test_what_is_malformed_causes_no_error(asked: Json) -> None:
    assert not [line for line in answered(asked) if "too many" in line and "odd" not in line]


def test_only_dry_runs_of_vcjobs_are_answered_and_only_if_it_is_enabled() -> None:
    asked = job("research", cpu="2")
    request = AdmissionRequest(Operation.CREATE, VCJOB, "default", "train", asked, dry_run=True)

    assert warnings_of(replace(request, dry_run=False), CLUSTER, SETTINGS) == []
    assert warnings_of(replace(request, kind=QUEUE), CLUSTER, SETTINGS) == []
    assert answered(asked, settings=replace(SETTINGS, dry_run_quota=False)) == []


def test_each_alternative_of_a_job_is_answered() -> None:
    listed = [
        {"card": H200, "resource": "nvidia.com/gpu", "count": 2},
        {"card": "NVIDIA-H800", "resource": "example.com/gpu", "replicas": 1},
    ]
    submitted = job("gold", cpu="1")
    annotations = {"volcano.sh/card.alternatives": json.dumps(listed)}
    submitted["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": annotations}
    assert answered(submitted) == [
        f"quota of queue gold, alternative {H200}: {H200}: asked 4, used 2, limit 3: 3 too many, so the job waits",
        "quota of queue gold, alternative NVIDIA-H800: NVIDIA-H800: asked 1, used 0, limit 2",
    ]
