"""The annotations that the scheduler writes onto a Pod with its binding; the device plugin mounts the chips they
name."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from scheduler.api.names import (
    ACJOB_OPERATOR_NAME,
    ASCEND_REAL,
    BASE_DEVICE_INFOS,
    DISTRIBUTED_JOB,
    PREDICATE_TIME,
)
from scheduler.api.objects import Node
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.masks import format_chips
from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.support.device_info import DeviceInfoError, base_devices
from scheduler.plugins.support.predicate_times import NodeTimes

RACK_ID: Final = "rackID"
SERVER_INDEX: Final = "serverIndex"
_INTERNAL_IP: Final = "InternalIP"


class ChipAnnotations:
    """Builds the annotations of the Pods that one session binds."""

    def __init__(self, times: NodeTimes) -> None:
        self._times = times

    def for_task(
        self, task: Task, node: Node, row: int, ledger: ChipLedger, *, configuration_key: str, distributed: bool
    ) -> tuple[dict[str, str], list[Malformed]]:
        """Returns the annotations of a task to which the ledger allocated chips of the node at a row, and the malformed
        fields of the node's annotations. ``configuration_key``: of the annotation with the device configuration."""
        resource, chips = ledger.resource, ledger.taken(task)
        names = format_chips(chips, resource.prefix)
        result = {
            resource.name: names,
            PREDICATE_TIME: self._times.next(node.metadata.name),
            DISTRIBUTED_JOB: "true" if distributed else "false",
        }
        number = len(chips)
        managed = ACJOB_OPERATOR_NAME in task.labels
        if not managed and number != ledger.allocatable[row]:
            return result, []
        devices, problem = self._devices(node)
        if not managed and number != len(devices):
            return result, problem
        configuration = self._configuration(task, node, resource, chips, devices, int(ledger.super_pods[row]))
        if configuration is not None:
            result[ASCEND_REAL] = names
            result[configuration_key] = configuration
        return result, problem

    def for_parts(self, key: str, value: str, node: str, *, distributed: bool) -> dict[str, str]:
        """Returns the annotations of a task with a part of a chip of a node. ``key``, ``value``: the annotation that
        names it."""
        return {
            key: value,
            PREDICATE_TIME: self._times.next(node),
            DISTRIBUTED_JOB: "true" if distributed else "false",
        }

    def _devices(self, node: Node) -> tuple[Mapping[str, Any], list[Malformed]]:
        text = (node.metadata.annotations or {}).get(BASE_DEVICE_INFOS)
        if text is None:
            return {}, []
        try:
            return base_devices(text), []
        except DeviceInfoError as error:
            field = f"metadata.annotations[{BASE_DEVICE_INFOS}]"
            return {}, [Malformed("Node", "", node.metadata.name, field, str(error))]

    @staticmethod
    def _configuration(
        task: Task, node: Node, resource: ChipResource, chips: Sequence[int], devices: Mapping[str, Any], super_pod: int
    ) -> str | None:
        """Returns the device configuration that the Ascend operator copies into the rank table; None if the address of
        a chip is unknown. The device plugin writes the same key later, and a wrong address is worse than a wait."""
        entries = []
        for chip in sorted(chips):
            device = devices.get(f"{resource.prefix}{chip}")
            address = device.get("IP") if isinstance(device, dict) else None
            if not isinstance(device, dict) or not isinstance(address, str) or not address:
                return None
            super_device = device.get("SuperDeviceID", 0)
            entries.append(
                {
                    "device_id": str(chip),
                    "device_ip": address,
                    "super_device_id": str(super_device) if isinstance(super_device, int | str) else "0",
                }
            )
        annotations = node.metadata.annotations or {}
        host = next((a.address for a in node.status.addresses or () if a.type == _INTERNAL_IP), "")
        document = {
            "pod_name": task.name,
            "server_id": task.uid,
            "server_ip": host,
            "host_ip": host,
            "super_pod_id": super_pod,
            "rack_id": _integer(annotations.get(RACK_ID), 0),
            "devices": entries,
            "server_index": annotations.get(SERVER_INDEX, ""),
        }
        return json.dumps(document, separators=(",", ":"))


def _integer(text: str | None, default: int) -> int:
    """Parses an integer of fewer than 19 digits; returns the default for any other text."""
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdecimal() and len(digits) < 19 else default
