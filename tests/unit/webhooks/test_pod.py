"""Pods: the fields set by resource groups, and refused annotations. The cases are recorded from Volcano."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.kinds import POD
from scheduler.api.names import CARD_NAME, QUEUE_ALLOCATION_GATE
from scheduler.webhooks.contract import Json
from scheduler.webhooks.resource_groups import parse_resource_groups
from tests.unit.webhooks.clusters import VOLCANO, created

GROUPS = """\
resourceGroups:
- resourceGroup: management
  object:
    key: namespace
    value:
    - mng-ns-1
  schedulerName: default-scheduler
  tolerations:
  - effect: NoSchedule
    key: taint
    operator: Exists
  labels:
    volcano.sh/nodetype: management
- resourceGroup: cpu
  object:
    key: annotation
    value:
    - "volcano.sh/resource-group: cpu"
  schedulerName: volcano
  labels:
    volcano.sh/nodetype: cpu
- resourceGroup: gpu
  schedulerName: volcano
  labels:
    volcano.sh/nodetype: gpu
  affinity: '{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}}'
"""
SETTINGS = replace(VOLCANO, resource_groups=parse_resource_groups(GROUPS, "admission.conf"))
AFFINITY: dict[str, Any] = {
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
}
GATE = {"name": QUEUE_ALLOCATION_GATE}
TOLERATION = {"effect": "NoSchedule", "key": "taint", "operator": "Exists"}


def pod(annotations: dict[str, str] | None = None, scheduler: str = "volcano", **spec: Any) -> Json:
    metadata: Json = {"name": "p"} if annotations is None else {"name": "p", "annotations": annotations}
    return {"metadata": metadata, "spec": {"schedulerName": scheduler, **spec}}


def changed_fields(obj: Json, namespace: str = "default") -> Json:
    """The fields of the Pod spec that admission adds or changes."""
    spec = created(POD, obj, settings=SETTINGS, namespace=namespace).object["spec"]
    return {key: value for key, value in spec.items() if obj["spec"].get(key) != value}


def test_a_pod_gets_the_fields_of_the_group_of_its_namespace() -> None:
    assert changed_fields(pod(), "mng-ns-1") == {
        "nodeSelector": {"volcano.sh/nodetype": "management"},
        "tolerations": [TOLERATION],
        "schedulerName": "default-scheduler",
    }
    assert changed_fields(pod()) == {}


def test_a_pod_gets_the_fields_of_the_group_that_it_names() -> None:
    labels = {"nodeSelector": {"volcano.sh/nodetype": "cpu"}}
    assert changed_fields(pod({"volcano.sh/resource-group": "cpu"})) == labels
    gpu = {"nodeSelector": {"volcano.sh/nodetype": "gpu"}, "affinity": AFFINITY}
    assert changed_fields(pod({"volcano.sh/resource-group": "gpu"})) == gpu
    assert changed_fields(pod({"volcano.sh/resource-group": "other"})) == {}


def test_the_first_matching_group_applies() -> None:
    assert changed_fields(pod({"volcano.sh/resource-group": "cpu"}), "mng-ns-1")["schedulerName"] == "default-scheduler"


def test_fields_of_a_group_are_added_to_those_of_the_pod_and_its_affinity_stays() -> None:
    own = pod(nodeSelector={"disk": "ssd"}, tolerations=[{"key": "other"}, TOLERATION])
    assert changed_fields(own, "mng-ns-1") == {
        "nodeSelector": {"disk": "ssd", "volcano.sh/nodetype": "management"},
        "schedulerName": "default-scheduler",
    }
    own = pod({"volcano.sh/resource-group": "gpu"}, affinity={"podAffinity": {}})
    assert "affinity" not in changed_fields(own)


@pytest.mark.parametrize(
    ("asked", "own", "gates"),
    [
        ("true", {}, [GATE]),
        ("true", {"schedulingGates": [{"name": "other"}]}, [{"name": "other"}, GATE]),
        ("true", {"schedulingGates": [GATE]}, [GATE]),
        ("true", {"nodeName": "n1"}, None),
        ("yes", {}, None),
        (None, {}, None),
    ],
)
def test_a_pod_with_the_annotation_gets_the_gate_of_queue_admission_once(
    asked: str | None, own: Json, gates: list[Json] | None
) -> None:
    asks = pod(None if asked is None else {QUEUE_ALLOCATION_GATE: asked}, **own)
    spec = created(POD, asks, settings=replace(VOLCANO, queue_gates=True)).object["spec"]
    assert spec.get("schedulingGates") == gates
    assert "schedulingGates" not in created(POD, pod({QUEUE_ALLOCATION_GATE: "true"}), settings=VOLCANO).object["spec"]


def test_a_pod_gets_the_gate_and_the_fields_of_its_resource_group() -> None:
    asks = pod({QUEUE_ALLOCATION_GATE: "true"})
    spec = created(POD, asks, settings=replace(SETTINGS, queue_gates=True), namespace="mng-ns-1").object["spec"]
    assert (spec["schedulerName"], spec["schedulingGates"]) == ("default-scheduler", [GATE])


@pytest.mark.parametrize(
    ("annotations", "refusal"),
    [
        ({"volcano.sh/jdb-min-available": "1"}, ""),
        ({"volcano.sh/jdb-max-unavailable": "30%"}, ""),
        (
            {"volcano.sh/jdb-min-available": "0"},
            'invalid value <"0"> for volcano.sh/jdb-min-available, it must be a positive integer',
        ),
        (
            {"volcano.sh/jdb-min-available": "120%"},
            'invalid value <"120%"> for volcano.sh/jdb-min-available, it must be a valid percentage which between 1% '
            "~ 99%",
        ),
        (
            {"volcano.sh/jdb-min-available": "abc"},
            'invalid value strconv.Atoi: parsing "abc": invalid syntax for volcano.sh/jdb-min-available',
        ),
        (
            {"volcano.sh/jdb-max-unavailable": "9" * 5000},
            f'invalid value strconv.Atoi: parsing "{"9" * 5000}": value out of range for '
            "volcano.sh/jdb-max-unavailable",
        ),
        (
            {"volcano.sh/jdb-min-available": "1", "volcano.sh/jdb-max-unavailable": "1"},
            "not allow configure multiple annotations <[volcano.sh/jdb-min-available volcano.sh/jdb-max-unavailable]> "
            "at same time",
        ),
    ],
)
def test_a_disruption_budget_is_one_positive_number_or_percentage(annotations: dict[str, str], refusal: str) -> None:
    assert created(POD, pod(annotations)).refusal == refusal


def test_pods_of_other_schedulers_are_allowed() -> None:
    wrong = {"volcano.sh/jdb-min-available": "0", CARD_NAME: "|"}
    assert created(POD, pod(wrong, "default-scheduler")).refusal == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("NVIDIA-H200", ""),
        ("NVIDIA-GeForce-RTX-4090|NVIDIA-GeForce-RTX-4090-D", ""),
        ("NVIDIA-H200/mig-1g.18gb-mixed", ""),
        ("", "empty name of a card"),
        ("A|A", "'A' is named twice"),
        ("memory", "'memory' is not the name of a card"),
    ],
)
def test_a_malformed_card_name_is_refused_with_field_and_remedy(text: str, problem: str) -> None:
    remedy = "write the name of a card, or several joined by | with the preferred one first"
    refusal = f"metadata.annotations[{CARD_NAME}]: {problem}: {remedy}" if problem else ""
    assert created(POD, pod({CARD_NAME: text})).refusal == refusal
