"""NPU jobs on a real API server over several sessions, and whole flows with controllers, as recorded of the Ascend
plugin.

Each directory of ``ascend`` holds manifests, configuration, description and the outcome on which two runs agreed, or
both outcomes if it is random. Scenarios with one session of a scheduler are in ``tests/scenarios/ascend``.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.client import ApiError
from scheduler.api.kinds import CONFIG_MAP, NAMESPACE, object_path
from scheduler.api.names import DEVICE_INFO_CONFIGMAP_PREFIX
from tests.conformance.ascend_facts import RETRIES, live_facts, recorded_facts
from tests.conformance.drive import Play
from tests.conformance.stage import Stage

pytestmark = pytest.mark.controlplane

Raw = dict[str, Any]
HISTORY = "mindx-dl"
"""The namespace of the history of restarts."""
HERE = Path(__file__).parent / "ascend"
NAMES = sorted(directory.parent.name for directory in HERE.glob("*/expected.json"))


@pytest.mark.parametrize("name", NAMES)
def test_does_as_the_npu_plugin(name: str, stage: Stage) -> None:
    scenario = HERE / name
    meta: Raw = yaml.safe_load((scenario / "meta.yaml").read_text(encoding="utf-8"))
    manifests = list(yaml.safe_load_all((scenario / "input.yaml").read_text(encoding="utf-8")))
    nodes = {each["metadata"]["name"]: each for each in manifests if each["kind"] == "Node"}
    steps = [each for step in meta.get("steps") or () for each in step.get("apply", ())]
    nodes |= {each["metadata"]["name"]: each for each in steps if each["kind"] == "Node"}
    record: Raw = json.loads((scenario / "expected.json").read_text(encoding="utf-8"))
    patched = [step["patch"]["name"] for step in meta.get("steps") or () if "patch" in step]
    broken = {name.removeprefix(DEVICE_INFO_CONFIGMAP_PREFIX) for name in patched}
    found: dict[str, Raw] = {}

    def agrees(label: str, _: Raw) -> bool:
        found[label] = live_facts(stage.listed, nodes, broken, retries(stage), kubelet=meta["kubelet"])
        return found[label] in recorded_facts(record, nodes, broken, label)

    stage.prepare(scenario, meta)
    stage.until(lambda: exists(stage, HISTORY), "the namespace of the history of restarts exists")
    try:
        Play(stage, scenario, meta, agrees).perform()
        assert not (ended := stage.ended()), "\n".join(ended)
        for label, facts in found.items():
            assert facts in recorded_facts(record, nodes, broken, label), label
    finally:  # the stage does not empty the namespaces of the system
        for each in (*manifests, *steps):
            if each["kind"] == "ConfigMap":
                remove(stage, each["metadata"]["namespace"], each["metadata"]["name"])
        remove(stage, *RETRIES)


def retries(stage: Stage) -> str:
    """The record of the retries that remain; "" if there is none."""
    try:
        found: Raw = stage.api.get(object_path(CONFIG_MAP, *RETRIES))
    except ApiError as error:
        assert error.status == 404
        return ""
    return str(found.get("data", {}).get("remain-retry-times", ""))


def exists(stage: Stage, namespace: str) -> bool:
    """Creates a namespace; returns whether it exists and is not being deleted."""
    try:
        stage.api.create(NAMESPACE.path, {"metadata": {"name": namespace}})
    except ApiError as error:
        assert error.status == 409
    return "deletionTimestamp" not in stage.api.get(object_path(NAMESPACE, "", namespace))["metadata"]


def remove(stage: Stage, namespace: str, name: str) -> None:
    try:
        stage.api.delete(object_path(CONFIG_MAP, namespace, name))
    except ApiError as error:
        assert error.status == 404
