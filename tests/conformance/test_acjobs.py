"""AscendJobs on a real API server, as recorded of the Ascend operator: Pods with their environment, PodGroup, Service,
conditions, and the rank table.

Each directory of ``acjob`` holds manifests, configuration, description and the outcome. Addresses differ, and equal
nodes may be exchanged.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.api.kinds import ACJOB, CONFIG_MAP, POD, POD_GROUP, SERVICE, object_path
from scheduler.api.names import DEVICE_INFO_NAMESPACE, HCCL_RANK_INDEX, RANK_TABLE
from tests.conformance.drive import Play
from tests.conformance.stage import Stage

pytestmark = pytest.mark.controlplane

Raw = dict[str, Any]
HERE = Path(__file__).parent / "acjob"
NAMES = sorted(directory.parent.name for directory in HERE.glob("*/expected.json"))
_STATES = frozenset({"Running", "Succeeded", "Failed", "Restarting"})
_GROUP_FIELDS = ("minMember", "minResources", "minTaskMember", "queue")


@pytest.mark.parametrize("name", NAMES)
def test_does_as_the_ascend_operator(name: str, stage: Stage) -> None:
    scenario = HERE / name
    meta: Raw = yaml.safe_load((scenario / "meta.yaml").read_text(encoding="utf-8"))
    meta["components"] = ["scheduler", "controllers"]  # our controllers are the operator, too
    manifests = list(yaml.safe_load_all((scenario / "input.yaml").read_text(encoding="utf-8")))
    record: Raw = json.loads((scenario / "expected.json").read_text(encoding="utf-8"))

    def agrees(_: str, __: Raw) -> bool:
        give_addresses(stage)
        return live(stage, record) == recorded(record)

    stage.prepare(scenario, meta)
    try:
        Play(stage, scenario, meta, agrees).perform()
        assert not (ended := stage.ended()), "\n".join(ended)
        assert live(stage, record) == recorded(record)
    finally:  # the stage does not empty the namespaces of the system
        for each in manifests:
            if each["kind"] == "ConfigMap" and each["metadata"]["namespace"] == DEVICE_INFO_NAMESPACE:
                stage.api.delete(object_path(CONFIG_MAP, DEVICE_INFO_NAMESPACE, each["metadata"]["name"]))


def give_addresses(stage: Stage) -> None:
    """Does the work of a network plugin: gives each Pod an address."""
    for number, pod in enumerate(stage.listed(POD)):
        if pod["status"].get("phase") == "Running" and not pod["status"].get("podIP"):
            address = f"10.9.0.{number + 1}"
            body = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
            path = object_path(POD, pod["metadata"]["namespace"], pod["metadata"]["name"])
            stage.api.patch(f"{path}/status", body)


def recorded(record: Raw) -> Raw:
    pods = {
        name: {
            "phase": pod["phase"],
            "labels": pod["labels"],
            "rank": pod["annotations"][HCCL_RANK_INDEX],
            "env": {key: json.loads(value) for key, value in pod["env"].items()},
        }
        for name, pod in record["pods"].items()
    }
    runs = record["variants"] or [record]
    maps = [config for config in runs[0]["configmaps"].values() if RANK_TABLE in config]
    services = record["services"].values()
    return {
        "pods": pods,
        "states": {name: _states(job["conditions"]) for name, job in record["acjobs"].items()},
        "counts": {name: job["replicaStatuses"] for name, job in record["acjobs"].items()},
        "podgroups": [_group(group) for group in record["podgroups"].values()],
        "services": sorted(json.dumps(_service(each, each), sort_keys=True) for each in services),
        "tables": [_table(config[RANK_TABLE]) for config in maps],
    }


def live(stage: Stage, record: Raw) -> Raw:
    pods = {}
    for pod in stage.listed(POD):
        meta, name = pod["metadata"], pod["metadata"]["name"]
        known = record["pods"].get(name, {"env": {}})["env"]
        pods[name] = {
            "phase": pod["status"].get("phase"),
            "labels": meta["labels"],
            "rank": meta["annotations"].get(HCCL_RANK_INDEX),
            "env": {each["name"]: _variable(each) for each in _environment(pod) if each["name"] in known},
        }
    jobs = {job["metadata"]["name"]: job.get("status") or {} for job in stage.listed(ACJOB)}
    maps = [each["data"] for each in stage.listed(CONFIG_MAP) if RANK_TABLE in (each.get("data") or {})]
    services = stage.listed(SERVICE)
    return {
        "pods": pods,
        "states": {name: _states(status.get("conditions", [])) for name, status in jobs.items()},
        "counts": {name: status.get("replicaStatuses") for name, status in jobs.items()},
        "podgroups": [_group(group | {"owner": _owners(group)}) for group in stage.listed(POD_GROUP)],
        "services": sorted(json.dumps(_service(each["metadata"], each["spec"]), sort_keys=True) for each in services),
        "tables": [_table(config[RANK_TABLE]) for config in maps],
    }


def _environment(pod: Raw) -> list[Raw]:
    containers: list[Raw] = pod["spec"]["containers"]
    found: list[Raw] = next(each for each in containers if each["name"] == "ascend").get("env", [])
    return found


def _variable(variable: Raw) -> Any:
    if variable["name"] == "MINDX_TASK_ID":
        return "<uid>"
    return variable["value"] if "value" in variable else variable["valueFrom"]


def _states(conditions: list[Raw]) -> list[str]:
    return sorted({each["type"] for each in conditions if each["status"] == "True"} & _STATES)


def _owners(group: Raw) -> list[str]:
    return [owner["kind"] for owner in group["metadata"].get("ownerReferences", ())]


def _group(group: Raw) -> Raw:
    spec = {field: group["spec"].get(field) for field in _GROUP_FIELDS}
    return {"phase": group["status"]["phase"] if "status" in group else group["phase"], "owner": group["owner"], **spec}


def _service(labelled: Raw, spec: Raw) -> Raw:
    return {"labels": labelled["labels"], "ports": spec["ports"], "selector": spec["selector"]}


def _table(text: str) -> Raw:
    """The table without addresses: equal nodes may change places."""
    table: Raw = json.loads(text)
    for server in table.get("server_list", []):
        server["server_id"] = "<host>" if server["server_id"] == server["host_ip"] else "<uid>"
        for device in server["device"]:
            device["device_ip"] = bool(device["device_ip"])
        server["host_ip"], server["container_ip"] = bool(server["host_ip"]), bool(server["container_ip"])
    for group in table.get("super_pod_list", []):
        group["server_list"] = len(group["server_list"])
    return table
