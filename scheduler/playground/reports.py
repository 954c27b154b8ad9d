"""What the device plugin, NodeD and ClusterD report about nodes in ConfigMaps."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from scheduler.api.kinds import CONFIG_MAP
from scheduler.api.names import DEVICE_INFO_CONFIGMAP_PREFIX, DEVICE_INFO_NAMESPACE
from scheduler.api.times import format_timestamp
from scheduler.playground.faults import MANUAL, FaultOf, Faults, NodeHealth
from scheduler.playground.node import Holdings, Machine
from scheduler.playground.objects import (
    CLUSTER_INFO_LABEL,
    CREATED,
    DEVICE_INFO_LABEL,
    NODE_INFO_PREFIX,
    SWITCH_INFO_PREFIX,
    Json,
    Put,
    Remove,
    Write,
)

NODE_INFO_NAMESPACE: Final = "mindx-dl"
_CODES: Final = {FaultOf.CHIP: "80E01801", FaultOf.NETWORK: "81078603", FaultOf.RECOVERING: "80E01801"}
_TYPES: Final = {FaultOf.CHIP: "CardUnhealthy", FaultOf.NETWORK: "CardNetworkUnhealthy"}
_NODE_LEVELS: Final = {NodeHealth.PRE_SEPARATE: "PreSeparateFault", NodeHealth.UNHEALTHY: "SeparateFault"}
_SWITCH_LEVELS: Final = {
    NodeHealth.HEALTHY: "NotHandle",
    NodeHealth.PRE_SEPARATE: "NotHandle",
    NodeHealth.SUB_HEALTHY: "SubHealthFault",
    NodeHealth.UNHEALTHY: "Separate",
}
_CHUNK: Final = 800_000
"""Characters of the JSON in one ConfigMap of ClusterD."""


class Report(msgspec.Struct, frozen=True):
    """The state of a node, as its device plugin and NodeD report it."""

    devices: Mapping[str, str]
    """Lists of devices, by resource and state."""
    separated: str
    """Chips that were separated by hand."""
    switch: Mapping[str, Any] | None
    """What the switch of its super pod reports; None: the node is in no super pod."""
    node: Mapping[str, Any] | None
    """What NodeD reports; None: it has nothing to report."""


def report_of(machine: Machine, faults: Faults, holdings: Holdings) -> Report:
    """Reports the devices that are free and healthy, and the faults."""
    return Report(
        _device_lists(machine, faults, holdings),
        _names(machine, {chip for chip, fault in faults.chips.items() if fault.level == MANUAL}),
        _switch_info(faults) if machine.family.super_pods else None,
        _node_info(faults),
    )


def report_writes(machine: Machine, report: Report, now: float) -> list[Write]:
    """The ConfigMaps of one node. ``now``: seconds since the epoch."""
    inner = {"DeviceList": dict(sorted(report.devices.items())), "UpdateTime": int(now)}
    config = {
        "DeviceInfo": inner,
        "SuperPodID": machine.super_pod,
        "ServerIndex": machine.server,
        "CheckCode": check_code(inner),
    }
    data = {
        "DeviceInfoCfg": go_json(config),
        "ManuallySeparateNPU": report.separated,
        "UpgradeFaultReason": "",
        "Description": "",
    }
    if report.switch is not None:
        data["SwitchInfoCfg"] = go_json({**report.switch, "UpdateTime": int(now)})
    name = f"{DEVICE_INFO_CONFIGMAP_PREFIX}{machine.name}"
    writes: list[Write] = [_config_map(DEVICE_INFO_NAMESPACE, name, data, DEVICE_INFO_LABEL)]
    if report.node is None:
        writes.append(Remove(CONFIG_MAP, NODE_INFO_NAMESPACE, f"{NODE_INFO_PREFIX}{machine.name}"))
    else:
        body = go_json({"NodeInfo": report.node, "CheckCode": check_code(report.node)})
        name = f"{NODE_INFO_PREFIX}{machine.name}"
        data = {"NodeInfo": body, "updateTime": format_timestamp(now)}
        writes.append(_config_map(NODE_INFO_NAMESPACE, name, data, DEVICE_INFO_LABEL))
    return writes


def cluster_writes(reports: Iterable[tuple[Machine, Report]], now: float) -> list[Put]:
    """The ConfigMaps of ClusterD about all nodes. Lists of devices and switches are divided among several, by size."""
    devices, nodes, switches = {}, {}, {}
    time = int(now)
    for machine, report in reports:
        name = f"{DEVICE_INFO_CONFIGMAP_PREFIX}{machine.name}"
        devices[name] = {
            "DeviceList": dict(sorted(report.devices.items())),
            "UpdateTime": time,
            "CmName": name,
            "SuperPodID": machine.super_pod,
            "RackID": 0,
            "ServerIndex": machine.server,
        }
        if report.node is not None:
            name = f"{NODE_INFO_PREFIX}{machine.name}"
            nodes[name] = {**report.node, "CmName": name, "UpdateTime": time}
        if report.switch is not None:
            name = f"{SWITCH_INFO_PREFIX}{machine.name}"
            switches[name] = {**report.switch, "UpdateTime": time, "CmName": name}
    return [
        *_chunks("cluster-info-device-", devices),
        _cluster_info("cluster-info-node-cm", go_json(nodes)),
        *(_chunks("cluster-info-switch-", switches) if switches else ()),
    ]


def go_json(value: Any) -> str:
    """JSON as Go writes it, so that check codes agree."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def check_code(value: Any) -> str:
    """The lower-case hexadecimal SHA-256 of a value's JSON."""
    return hashlib.sha256(go_json(value).encode()).hexdigest()


def _device_lists(machine: Machine, faults: Faults, holdings: Holdings) -> dict[str, str]:
    family = machine.family
    broken = faults.broken(holdings.used)
    recovering = faults.having(FaultOf.RECOVERING)
    divided = set(range(family.chips)) if machine.template else set(holdings.parts)
    free = set(range(family.chips)) - broken - recovering - divided - set(holdings.chips)
    faulty = faults.chips.keys() - faults.having(FaultOf.DIVISION)
    lists = {
        family.resource: _names(machine, free),
        f"{family.resource}-Unhealthy": _names(machine, broken),
        f"{family.resource}-Fault": go_json(
            [_fault_entry(machine, chip, faults) for chip in sorted(faulty) if chip < family.chips]
        ),
    }
    if family.has_network:
        lists[f"{family.resource}-NetworkUnhealthy"] = _names(machine, faults.having(FaultOf.NETWORK))
        lists[f"{family.resource}-Recovering"] = _names(machine, recovering)
    if machine.template is not None:
        names = (
            name
            for name, chip in machine.devices().items()
            if chip not in broken | recovering and name not in holdings.kubelet
        )
        lists[f"{family.resource}-{machine.template.suffix}"] = ",".join(names)
    return lists


def _fault_entry(machine: Machine, chip: int, faults: Faults) -> Json:
    fault = faults.chips[chip]
    code = _CODES[fault.fault]
    return {
        "fault_type": _TYPES.get(fault.fault, "CardUnhealthy"),
        "npu_name": f"{machine.family.prefix}{chip}",
        "large_model_fault_level": fault.level,
        "fault_level": fault.level,
        "fault_handling": fault.level,
        "fault_code": code,
        "fault_time_and_level_map": {code: {"fault_time": fault.since, "fault_level": fault.level}},
    }


def _node_info(faults: Faults) -> Json | None:
    if faults.node is NodeHealth.HEALTHY:
        return None
    level = _NODE_LEVELS.get(faults.node, "NotHandleFault")
    device = {"DeviceType": "CPU", "DeviceId": 1, "FaultCode": ["00000001"], "FaultLevel": level}
    return {"FaultDevList": [device], "NodeStatus": faults.node.value}


def _switch_info(faults: Faults) -> Json:
    codes = (
        [] if faults.switch is NodeHealth.HEALTHY else [go_json({"AssembledFaultCode": "[0x00f103b0,155649,na,na]"})]
    )
    return {
        "FaultCode": codes,
        "FaultLevel": _SWITCH_LEVELS[faults.switch],
        "UpdateTime": 0,
        "NodeStatus": faults.switch.value,
        "FaultTimeAndLevelMap": {},
    }


def _names(machine: Machine, chips: set[int]) -> str:
    return ",".join(f"{machine.family.prefix}{chip}" for chip in sorted(chips) if chip < machine.family.chips)


def _chunks(prefix: str, entries: Mapping[str, Json]) -> list[Put]:
    chunks: list[dict[str, Json]] = [{}]
    size = 0
    for name, entry in entries.items():
        length = len(go_json(entry))
        if size + length > _CHUNK and chunks[-1]:
            chunks.append({})
            size = 0
        chunks[-1][name] = entry
        size += length
    return [_cluster_info(f"{prefix}{i}", go_json(chunk)) for i, chunk in enumerate(chunks)]


def _cluster_info(name: str, text: str) -> Put:
    return _config_map(NODE_INFO_NAMESPACE, name, {name: text}, CLUSTER_INFO_LABEL, CREATED)


def _config_map(namespace: str, name: str, data: Mapping[str, str], *labels: str) -> Put:
    metadata = {"name": name, "namespace": namespace, "labels": dict.fromkeys(labels, "true")}
    return Put(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)})
