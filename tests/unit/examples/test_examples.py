"""The output of ``make run``: each outcome that the comments of the files in ``examples/`` describe."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import scheduler.actions
import scheduler.plugins  # noqa: F401
from scheduler.api.names import ASCEND_910, DEFAULT_SCHEDULER_NAME
from scheduler.cluster.memory import SimulationReport, read_manifests, simulate
from scheduler.framework.configuration_file import parse_configuration

EXAMPLES = Path(__file__).parents[3] / "examples"
CONFIGURATION = EXAMPLES / "scheduler.conf"


@cache
def report() -> SimulationReport:
    configuration = parse_configuration(CONFIGURATION.read_text(encoding="utf-8"), CONFIGURATION.name)
    assert configuration.warnings == ()
    return simulate(read_manifests([str(EXAMPLES)]), configuration, [DEFAULT_SCHEDULER_NAME])


def pod(namespace: str, name: str) -> dict[str, Any]:
    found = report().cluster.get("v1", "Pod", namespace, name)
    assert found is not None
    return found


def node_of(namespace: str, name: str) -> str:
    return str(pod(namespace, name)["spec"].get("nodeName", ""))


def chips_of(name: str) -> str:
    return str((pod("llm", name)["metadata"].get("annotations") or {}).get(ASCEND_910, ""))


def why_pod_waits(namespace: str, name: str) -> str:
    conditions = pod(namespace, name)["status"].get("conditions", [])
    return next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")


def group(namespace: str, name: str) -> dict[str, Any]:
    found = report().cluster.get("scheduling.volcano.sh/v1beta1", "PodGroup", namespace, name)
    assert found is not None
    return found


def phase(namespace: str, name: str) -> str:
    return str(group(namespace, name)["status"]["phase"])


def events_of(kind: str, name: str) -> list[str]:
    objects = report().cluster.objects()
    events = [o for o in objects if o["kind"] == "Event"]
    about = [e for e in events if (e["involvedObject"]["kind"], e["involvedObject"]["name"]) == (kind, name)]
    return [e["message"] for e in about]


def test_the_simulation_settles_without_using_up_its_cycles() -> None:
    assert report().cycles <= 5


def test_no_example_is_malformed() -> None:
    assert not [o for o in report().cluster.objects() if o["kind"] == "Event" and o["reason"] == "Malformed"]


def test_a_gang_that_fits_starts_whole() -> None:
    assert {node_of("weather", f"forecast-worker-{i}") for i in range(4)} <= {"cpu-1", "cpu-2"}
    assert phase("weather", "forecast") == "Running"


def test_a_gang_that_is_too_big_waits_as_a_whole_with_a_message_that_names_the_shortage() -> None:
    assert [node_of("weather", f"reanalysis-worker-{i}") for i in range(3)] == ["", "", ""]
    assert phase("weather", "reanalysis") == "Inqueue"
    reasons = [why_pod_waits("weather", f"reanalysis-worker-{i}") for i in range(3)]
    assert any("2 Insufficient cpu" in reason for reason in reasons)
    assert any("once minAvailable is satisfied" in reason for reason in reasons)


def test_a_job_of_sixteen_chips_takes_two_whole_servers() -> None:
    assert {node_of("llm", f"pretrain-worker-{i}") for i in range(2)} == {"npu-1", "npu-2"}
    whole = ",".join(f"Ascend910-{chip}" for chip in range(8))
    assert [chips_of(f"pretrain-worker-{i}") for i in range(2)] == [whole, whole]


def test_one_chip_comes_from_the_ring_with_three_free_ones() -> None:
    assert (node_of("llm", "notebook-0"), chips_of("notebook-0")) == ("npu-3", "Ascend910-4")


def test_two_chips_come_from_a_ring_with_exactly_two_free_ones() -> None:
    assert (node_of("llm", "finetune-0"), chips_of("finetune-0")) == ("npu-3", "Ascend910-2,Ascend910-3")


def test_no_chip_is_assigned_twice_and_the_faulty_one_is_not_assigned() -> None:
    given = [chip for name in ("serve-0", "notebook-0", "finetune-0") for chip in chips_of(name).split(",")]
    assert len(given) == len(set(given))
    assert "Ascend910-5" not in given


def test_four_chips_wait_where_no_ring_is_whole() -> None:
    assert node_of("llm", "evaluate-0") == ""
    assert "1 node(s) had no HCCS ring with 4 free chips" in why_pod_waits("llm", "evaluate-0")


def test_three_chips_cannot_be_asked_for() -> None:
    assert node_of("llm", "mistaken-0") == ""
    assert "a Pod of Ascend910 module x8 may ask for 1, 2, 4 or 8" in why_pod_waits("llm", "mistaken-0")


def test_cards_within_the_quota_are_given() -> None:
    assert {node_of("vision", f"detect-worker-{i}") for i in range(2)} <= {"gpu-1", "gpu-2"}
    assert phase("vision", "detect") == "Running"


def test_a_mig_device_is_a_card_of_its_own() -> None:
    assert node_of("vision", "label-0") == "gpu-2"


def test_a_job_over_its_card_quota_is_not_admitted_and_its_message_has_the_numbers() -> None:
    message = (
        "Queue <vision> has insufficient <NVIDIA-H200> quota: "
        "requested <5000>, total would be <7000>, but capability is <3000>"
    )
    assert phase("vision", "segment") == "Pending"
    conditions = group("vision", "segment")["status"]["conditions"]
    assert message in events_of("PodGroup", "segment")
    assert message in [condition["message"] for condition in conditions]


def test_a_card_that_is_not_in_the_quota_may_not_be_used() -> None:
    message = (
        "Queue <vision> has insufficient <NVIDIA-H800/mps-80g*1/2> quota: "
        "requested <1000>, total would be <1000>, but capability is <0>"
    )
    assert node_of("vision", "track-0") == ""
    assert any(message in text for text in events_of("Pod", "track-0"))


def test_a_pod_that_asks_for_nothing_is_placed_too() -> None:
    assert node_of("weather", "tidy-0") in {"cpu-1", "cpu-2"}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: str(path.name))
def test_every_file_can_be_read_on_its_own(path: Path) -> None:
    assert read_manifests([str(path)])
