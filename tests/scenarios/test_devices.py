"""The device annotations that Pods got on real clusters, compared key by key with those that this scheduler writes."""

import json
import re
from typing import Any

import pytest

from scheduler.cluster.memory import KubeletBehaviour
from tests.scenarios.test_scenarios import HERE, NAMES, key_of, outcome, pods_of

DEVICES = re.compile(r"volcano\.sh/(gpu-index|vgpu-ids-new|devices-to-allocate|vgpu-node|bind-phase)|hami\.io/.*"
                     r"|huawei\.com/(npu-core|Ascend310P)")  # fmt: skip
TIMES = re.compile(r".*-time")
Raw = dict[str, Any]
WITH_INIT_CONTAINER = (
    "GPU-n1-1,NVIDIA,9000,90:;GPU-n1-1,NVIDIA,3000,10:;GPU-n1-1,NVIDIA,2000,20:GPU-n1-0,NVIDIA,2000,20:"
)
WANTED = {
    "443-vgpu-per-container": {
        "default/a-0": {
            "volcano.sh/vgpu-ids-new": WITH_INIT_CONTAINER,
            "volcano.sh/devices-to-allocate": WITH_INIT_CONTAINER,
        }
    }
}
"""Maps a scenario and a Pod to the annotations whose value differs from Volcano's (docs/differences.md)."""


def recorded(name: str) -> dict[str, Raw]:
    """Maps each Pod to the device annotations on which all runs agreed."""
    expected = json.loads((HERE / name / "expected.json").read_text(encoding="utf-8"))
    found = {pod: devices(about.get("annotations")) for pod, about in expected.get("pods", {}).items()}
    return {pod: annotations for pod, annotations in found.items() if annotations}


def devices(annotations: Raw | None) -> Raw:
    return {k: v for k, v in (annotations or {}).items() if DEVICES.fullmatch(k) and not TIMES.fullmatch(k)}


@pytest.mark.parametrize("name", [name for name in NAMES if recorded(name)])
def test_pods_get_the_recorded_device_annotations(name: str) -> None:
    items = {key_of(pod): pod for pod in pods_of(outcome(name, KubeletBehaviour.NONE))}
    written = {pod: devices(items[pod]["metadata"].get("annotations")) for pod in recorded(name)}
    for pod, volcanos in recorded(name).items():
        wanted = volcanos | WANTED.get(name, {}).get(pod, {})
        assert wanted.items() <= written[pod].items() or others_of(pod, written, wanted), f"{pod}: {written[pod]}"


def others_of(pod: str, written: dict[str, Raw], wanted: Raw) -> bool:
    """Whether another Pod of its gang has these annotations: which of several equal Pods is placed is random in
    Volcano."""
    gang = pod.rsplit("-", 1)[0]
    return any(wanted.items() <= words.items() for other, words in written.items() if other.startswith(f"{gang}-"))
