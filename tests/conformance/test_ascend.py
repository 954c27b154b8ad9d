"""NPU jobs on a real API server over several sessions, and whole flows with controllers, as recorded of the Ascend
plugin.

Each directory of ``ascend`` holds manifests, configuration, description and the outcome on which two runs agreed, or
both outcomes where it is random. What needs one session of a scheduler is in ``tests/scenarios/ascend``.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.api.kinds import CONFIG_MAP, object_path
from scheduler.api.names import DEVICE_INFO_NAMESPACE
from tests.conformance.ascend_facts import live_facts, recorded_facts
from tests.conformance.drive import Play
from tests.conformance.stage import Stage

pytestmark = pytest.mark.controlplane

Raw = dict[str, Any]
HERE = Path(__file__).parent / "ascend"
NAMES = sorted(directory.parent.name for directory in HERE.glob("*/expected.json"))


@pytest.mark.parametrize("name", NAMES)
def test_does_as_the_npu_plugin(name: str, stage: Stage) -> None:
    scenario = HERE / name
    meta: Raw = yaml.safe_load((scenario / "meta.yaml").read_text(encoding="utf-8"))
    manifests = list(yaml.safe_load_all((scenario / "input.yaml").read_text(encoding="utf-8")))
    nodes = {each["metadata"]["name"]: each for each in manifests if each["kind"] == "Node"}
    expected = recorded_facts(json.loads((scenario / "expected.json").read_text(encoding="utf-8")), nodes)

    def found() -> Raw:
        return live_facts(stage.listed, nodes, kubelet=meta["kubelet"])

    def agrees(_: str, __: Raw) -> bool:
        return found() in expected

    stage.prepare(scenario, meta)
    try:
        Play(stage, scenario, meta, agrees).perform()
        assert not (ended := stage.ended()), "\n".join(ended)
        assert found() in expected
    finally:  # the stage does not empty the namespaces of the system
        for each in manifests:
            if each["kind"] == "ConfigMap" and each["metadata"]["namespace"] == DEVICE_INFO_NAMESPACE:
                stage.api.delete(object_path(CONFIG_MAP, DEVICE_INFO_NAMESPACE, each["metadata"]["name"]))
