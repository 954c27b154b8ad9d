"""Annotations and data of ConfigMaps whose text is JSON."""

import json

import pytest

from scheduler.api.json_texts import annotation_problems, config_map_problems, json_problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"NVIDIA-H200": 4', "not JSON: expecting ',' delimiter (line 1, column 18); the text ends there"),
        ("", "not JSON: expecting value (line 1, column 1); the text ends there"),
        ('{"a": 1,\n "b": x}', "not JSON: expecting value (line 2, column 7)"),
        ('{"a": 1} {', "not JSON: extra data (line 1, column 10)"),
        ("[" * 100_000, "not JSON: nested too deeply"),
    ],
)
def test_a_text_that_is_not_json_is_reported_with_the_position(text: str, problem: str) -> None:
    assert json_problem(text) == problem


@pytest.mark.parametrize("text", ["{}", '{"a": [1, null]}', "3"])
def test_json_has_no_problem(text: str) -> None:
    assert json_problem(text) == ""


@pytest.mark.parametrize(
    "key",
    [
        "volcano.sh/card.quota", "volcano.sh/card.borrowing-limit", "volcano.sh/card.lending-limit",
        "volcano.sh/card.request", "volcano.sh/nodegroup-resource-limits", "baseDeviceInfos",
        "hami.io/node-register-Ascend910B", "ascend.kubectl.kubernetes.io/ascend-910-configuration",
        "ascend.kubectl.kubernetes.io/ascend-npu-configuration", "volcano.sh/resource-strategy-weight",
    ],
)  # fmt: skip
def test_every_annotation_that_is_read_as_json_is_checked(key: str) -> None:
    ((found, problem),) = annotation_problems({key: '{"a": ', "example.com/other": "{"})
    assert found == key
    assert problem == "not JSON: expecting value (line 1, column 7); the text ends there"


CONFIG_MAPS = [
    ("mindx-dl-deviceinfo-node-1", "DeviceInfoCfg"),
    ("mindx-dl-deviceinfo-node-1", "SwitchInfoCfg"),
    ("mindx-dl-nodeinfo-node-1", "NodeInfo"),
    ("cluster-info-device-0", "cluster-info-device-0"),
    ("cluster-info-node-cm", "cluster-info-node-cm"),
    ("reset-config-train", "reset.json"),
    ("rings-config-train", "hccl.json"),
    ("vcjob-fault-npu-cm", "fault-node"),
    ("vcjob-fault-npu-cm", "remain-retry-times"),
    ("vcjob-fault-npu-cm", "restarts"),
    ("job-reschedule-reason", "recent-reschedule-records"),
]


@pytest.mark.parametrize(("name", "key"), CONFIG_MAPS)
def test_every_text_of_a_config_map_that_is_read_as_json_is_checked(name: str, key: str) -> None:
    ((found, problem, _),) = config_map_problems(name, {key: '{\n "a": ', "other": "{"})
    assert found == f"data[{key}]"
    assert problem == "not JSON: expecting value (line 2, column 7); the text ends there"
    assert list(config_map_problems(name, {key: "{}"})) == []
    assert list(config_map_problems(name, {key: ""})) == []
    assert list(config_map_problems(name, {})) == []


@pytest.mark.parametrize("name", ["settings", "kube-root-ca.crt", "my-rings-config-train"])
def test_config_maps_of_others_may_have_any_text(name: str) -> None:
    assert list(config_map_problems(name, dict.fromkeys((name, *(key for _, key in CONFIG_MAPS)), "{"))) == []


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("baseDeviceInfos", "[]", "expected an object, got a list"),
        ("volcano.sh/card.quota", "3", "expected an object, got an integer"),
        ("volcano.sh/nodegroup-resource-limits", '{"a": 3}', "expected an object or null, got an integer (at [...])"),
        ("volcano.sh/resource-strategy-weight", '{"cpu": "1"}', "expected an integer, got a string (at [...])"),
        ("hami.io/node-register-Ascend910B", '[{"index": 0}]', "Object missing required field `id` (at [0])"),
    ],
)
def test_json_of_another_type_is_reported_with_the_field(key: str, text: str, problem: str) -> None:
    assert list(annotation_problems({key: text})) == [(key, problem)]


CUT = '[{"npu_name": "Ascend910-0", "fault_h'
KEY = "huawei.com/Ascend910-Fault"


def report(faults: str) -> dict[str, object]:
    """The report of a device plugin on one node."""
    return {"DeviceList": {"huawei.com/Ascend910": "Ascend910-0", KEY: faults}, "UpdateTime": 1}


@pytest.mark.parametrize(("faults", "problem"), [(CUT, "not JSON: "), ("[" * 100_000, "not JSON: nested too deeply")])
@pytest.mark.parametrize(
    ("name", "key", "path"),
    [
        ("mindx-dl-deviceinfo-n1", "DeviceInfoCfg", f"[{KEY}]"),
        ("cluster-info-device-0", "cluster-info-device-0", f"[mindx-dl-deviceinfo-n1][{KEY}]"),
    ],
)
def test_a_list_of_faults_within_a_report_is_checked(name: str, key: str, path: str, faults: str, problem: str) -> None:
    own = {"DeviceInfo": report(faults), "SuperPodID": -2}
    text = json.dumps(own if key == "DeviceInfoCfg" else {"mindx-dl-deviceinfo-n1": report(faults)})
    (found,) = config_map_problems(name, {key: text})
    assert found.field == f"data[{key}]{path}"
    assert found.problem.startswith(problem) and found.consequence == "counts as an empty list"


@pytest.mark.parametrize("faults", ["", "[]", '[{"npu_name": "Ascend910-0", "fault_handling": "SubHealthFault"}]'])
def test_a_report_with_a_valid_list_of_faults_has_no_problem(faults: str) -> None:
    text = json.dumps({"DeviceInfo": report(faults)})
    assert list(config_map_problems("mindx-dl-deviceinfo-n1", {"DeviceInfoCfg": text})) == []
