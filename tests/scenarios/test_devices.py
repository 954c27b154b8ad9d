"""What Pods were told of their devices on real clusters, key by key, against what they are told here."""

import json
import re
from typing import Any

import pytest

from scheduler.cluster.memory import Kubelet
from tests.scenarios.test_scenarios import HERE, NAMES, key_of, outcome, pods_of

DEVICES = re.compile(r"volcano\.sh/(gpu-index|vgpu-ids-new|devices-to-allocate|vgpu-node|bind-phase)|hami\.io/.*"
                     r"|huawei\.com/(npu-core|Ascend310P)")  # fmt: skip
TIMES = re.compile(r".*-time")
Raw = dict[str, Any]


def recorded(name: str) -> dict[str, Raw]:
    """Pod -> the annotations of devices that all runs agreed on."""
    expected = json.loads((HERE / name / "expected.json").read_text(encoding="utf-8"))
    found = {pod: devices(about.get("annotations")) for pod, about in expected.get("pods", {}).items()}
    return {pod: annotations for pod, annotations in found.items() if annotations}


def devices(annotations: Raw | None) -> Raw:
    return {k: v for k, v in (annotations or {}).items() if DEVICES.fullmatch(k) and not TIMES.fullmatch(k)}


@pytest.mark.parametrize("name", [name for name in NAMES if recorded(name)])
def test_pods_are_told_of_their_devices_in_the_same_words(name: str) -> None:
    items = {key_of(pod): pod for pod in pods_of(outcome(name, Kubelet.NONE))}
    told = {pod: devices(items[pod]["metadata"].get("annotations")) for pod in recorded(name)}
    for pod, wanted in recorded(name).items():
        assert wanted.items() <= told[pod].items() or others_of(pod, told, wanted), f"{pod}: {told[pod]}"


def others_of(pod: str, told: dict[str, Raw], wanted: Raw) -> bool:
    """Whether a Pod of the same gang was told so: which of equal Pods gets a place is random there."""
    gang = pod.rsplit("-", 1)[0]
    return any(wanted.items() <= words.items() for other, words in told.items() if other.startswith(f"{gang}-"))
