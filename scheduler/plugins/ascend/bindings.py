"""The annotations that a binding writes onto a Pod of an NPU job: its chips or its part of a chip, which the device
plugin mounts; its rank; and its block in a super pod."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from scheduler.api.job import Job
from scheduler.api.names import (
    ACJOB_OPERATOR_NAME,
    ASCEND_910_CONFIGURATION,
    ASCEND_REAL,
    BASE_DEVICE_INFOS,
    DISTRIBUTED_JOB,
    HCCL_RANK_INDEX,
    NPU_CONFIGURATION,
    NPU_CORE,
    PREDICATE_TIME,
    RESCHEDULE_IN_PLACE,
    SUPER_POD_ID,
    SUPER_POD_RANK,
)
from scheduler.api.objects import Node
from scheduler.api.reasons import Malformed
from scheduler.api.task import Task
from scheduler.plugins.ascend.demand import ChipUse
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.masks import format_chips
from scheduler.plugins.ascend.npu_session import NpuSession
from scheduler.plugins.ascend.shares import ShareUse, annotations_of, copied
from scheduler.plugins.ascend.super_pod_plans import SuperPodPlans
from scheduler.plugins.support.device_info import DeviceInfoError, base_devices
from scheduler.plugins.support.predicate_times import NodeTimes

_RACK_ID: Final = "rackID"
_SERVER_INDEX: Final = "serverIndex"
_INTERNAL_IP: Final = "InternalIP"
_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


class Bindings:
    """The bindings of one session."""

    def __init__(
        self,
        npus: NpuSession,
        plans: SuperPodPlans,
        ranks: Callable[[Job], Mapping[str, str]],
        returns: Callable[[Task, str], bool],
    ) -> None:
        """``ranks``: uid -> rank of the Pods of a job; ``returns``: whether a task returns to the node of its
        predecessor."""
        self._npus = npus
        self._plans = plans
        self._ranks = ranks
        self._returns = returns
        self._copied_quotas: dict[str, Mapping[str, str]] = {}
        """Key of a job -> the annotations that each of its Pods with chips gets."""
        self._without_npus: set[str] = set()
        """Keys of the jobs with bindings of which no Pod requests NPUs."""

    def annotations(self, task: Task, row: int) -> Mapping[str, str]:
        """Returns the annotations of a task that is bound to the node at a row."""
        if task.job in self._without_npus:
            return _NO_ANNOTATIONS
        session, demand, parts = self._npus.session, self._npus.demand, self._npus.ledgers.parts
        job = session.jobs[task.job]
        if not demand.is_npu_job(job):
            self._without_npus.add(task.job)
            return _NO_ANNOTATIONS
        annotations: dict[str, str] = {}
        choice = None if parts is None else parts.taken(task)
        if choice is not None:
            annotations = self._of_parts(task, row, NPU_CORE, choice.annotation)
        elif demand.asks(task.cls):
            annotations = self._of_chips(job, task, row)
        elif demand.asks_virtual(task.cls):
            annotations = self._of_device(task, row)
        rank = self._ranks(job)[task.uid]
        if task.rank != rank:
            annotations[HCCL_RANK_INDEX] = rank
        if self._returns(task, session.nodes.names[row]):
            annotations[RESCHEDULE_IN_PLACE] = "true"
        return annotations

    def _of_parts(self, task: Task, row: int, key: str, value: str) -> dict[str, str]:
        """Returns the annotations of a task with a part of a chip, or with chips, which the annotation ``key``
        names."""
        time = self._times.next(self._npus.session.nodes.names[row])
        return {key: value, PREDICATE_TIME: time, DISTRIBUTED_JOB: self._distributed(task)}

    def _distributed(self, task: Task) -> str:
        several = self._npus.demand.is_distributed(self._npus.session.jobs[task.job])
        return "true" if several else "false"

    def _of_device(self, task: Task, row: int) -> dict[str, str]:
        """Returns the annotations of a task with a virtual NPU that was created beforehand."""
        for devices in self._npus.ledgers.devices:
            name = devices.taken(task)
            if name:
                return self._of_parts(task, row, devices.resource.name, name)
        return {DISTRIBUTED_JOB: self._distributed(task)}

    def _of_chips(self, job: Job, task: Task, row: int) -> dict[str, str]:
        """Returns the annotations about the chips of a task: those that it has whole, or the one that it shares."""
        use = self._npus.demand.npu_use(job)
        if isinstance(use, ShareUse):
            shares = self._npus.ledgers.shares.get(use.resource)
            chip = None if shares is None else shares.chip(task)
            if chip is None:
                return {}
            names = format_chips((chip,), use.resource.prefix)
            return self._of_parts(task, row, use.resource.name, names) | annotations_of(use.quota)
        if not isinstance(use, ChipUse):
            return {}
        ledger = self._npus.ledgers.whole[use.resource]
        names = format_chips(ledger.taken(task), use.resource.prefix)
        annotations = self._of_parts(task, row, use.resource.name, names)
        annotations[DISTRIBUTED_JOB] = "true" if use.several else "false"
        configuration = self._configuration(task, row, use, ledger)
        if configuration:
            annotations |= {ASCEND_REAL: names, **configuration}
        if job.key not in self._copied_quotas:
            self._copied_quotas[job.key] = copied(job)
        if quota := self._copied_quotas[job.key]:
            annotations |= quota
            annotations.pop(ASCEND_REAL, None)  # the device plugin names the share
        plan = self._plans.known(job) if use.job else None
        if plan is not None and task.uid in plan.blocks:
            super_pod = int(ledger.super_pods[row])
            annotations |= {SUPER_POD_RANK: str(plan.blocks[task.uid]), SUPER_POD_ID: str(super_pod)}
        return annotations

    def _configuration(self, task: Task, row: int, use: ChipUse, ledger: ChipLedger) -> dict[str, str]:
        """Returns the annotation with the device configuration of a task. The device plugin writes it for tasks without
        one: those that are not of AscendJobs and do not have all chips of their node."""
        chips, node = ledger.taken(task), self._npus.session.nodes.facts.objects[row]
        managed = ACJOB_OPERATOR_NAME in task.labels
        if not managed and len(chips) != ledger.allocatable[row]:
            return {}
        devices = self._devices(node)
        if not managed and len(chips) != len(devices):
            return {}
        listed = _device_addresses(chips, use.resource.prefix, devices)
        if listed is None:
            return {}
        annotations = node.metadata.annotations or {}
        host = next((a.address for a in node.status.addresses or () if a.type == _INTERNAL_IP), "")
        document = {
            "pod_name": task.name,
            "server_id": task.uid,
            "server_ip": host,
            "host_ip": host,
            "super_pod_id": int(ledger.super_pods[row]),
            "rack_id": _integer(annotations.get(_RACK_ID), 0),
            "devices": listed,
            "server_index": annotations.get(_SERVER_INDEX, ""),
        }
        key = NPU_CONFIGURATION if use.family.npu_configuration else ASCEND_910_CONFIGURATION
        return {key: json.dumps(document, separators=(",", ":"))}

    def _devices(self, node: Node) -> Mapping[str, Any]:
        """Returns name of a chip -> what the Node says about it; nothing, with a report, if this cannot be read."""
        text = (node.metadata.annotations or {}).get(BASE_DEVICE_INFOS)
        try:
            return {} if text is None else base_devices(text)
        except DeviceInfoError as error:
            field = f"metadata.annotations[{BASE_DEVICE_INFOS}]"
            self._npus.session.malformed_field(Malformed("Node", "", node.metadata.name, field, str(error)))
            return {}

    @cached_property
    def _times(self) -> NodeTimes:
        return self._npus.session.once(NodeTimes)


def _device_addresses(chips: Sequence[int], prefix: str, devices: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """Returns the devices that the Ascend operator copies into the rank table; None if the address of a chip is
    unknown. The device plugin writes the same key later, and a wrong address is worse than a wait."""
    entries = []
    for chip in sorted(chips):
        device = devices.get(f"{prefix}{chip}")
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
    return entries


def _integer(text: str | None, default: int) -> int:
    """Parses an integer of fewer than 19 digits; returns the default for any other text."""
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isascii() and digits.isdecimal() and len(digits) < 19 else default
