"""Finds the nodes and chips with faults, and the Pods that these concern.

A Pod is concerned by a fault of its node, and by a fault of a chip that it uses. A chip with a network fault alone, or
one that no Pod uses, concerns none. Only nodes with a fault are looked at one by one.

The link of a chip may come up again after a job restarted because of it. A component marks the Pods that a failed link
concerns as related to a fault, and they restart. The device plugin does not list the chip as faulty while it waits for
the link to recover. For 20 seconds the chip counts as having a network fault, so that the job does not get it again
(MindCluster's plugin: ``checkNodeCurNodeIsFault``).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np

from scheduler.api.job import Job
from scheduler.api.json_texts import json_problem
from scheduler.api.names import DEVICE_INFO_KEY, FAULT_SUFFIX, HUAWEI_PREFIX
from scheduler.api.objects import ConfigMap
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import FINISHED_STATUSES, Task, TaskClass, TaskStatus
from scheduler.plugins.ascend.chip_states import core_chips
from scheduler.plugins.ascend.cluster_reports import ClusterReports, NodeReport
from scheduler.plugins.ascend.device_lists import device_reports
from scheduler.plugins.ascend.inventory import NodeChips
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.masks import ALL, NONE, ChipListError, format_chips, ids_of, parse_chips
from scheduler.plugins.ascend.node_health import UNHEALTHY, HealthColumns
from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.ascend.rescheduling.decision import (
    CARD_UNHEALTHY,
    NODE_UNHEALTHY,
    POD_FAILED,
    RELATION,
    SOFTWARE,
    SUB_HEALTH,
    Fault,
    matters,
)
from scheduler.plugins.ascend.rescheduling.policy import RestartPolicy
from scheduler.plugins.ascend.rescheduling.state import FaultNode, ReportedFault, Restart
from scheduler.plugins.support.device_info import DeviceInfoError, device_info

CARD_NETWORK_UNHEALTHY: Final = "CardNetworkUnhealthy"
FAULT_TYPE: Final = "fault-type"
"""Label of a Pod that reports a fault."""
NOT_READY_TIME: Final = 10.0
"""Seconds for which a node may be not ready before it counts as faulty: a kubelet that restarts is not ready for some
seconds, and its Pods go on."""
LINK_DOWN: Final = "81078603"
"""Fault code of a link that is down."""
NOT_HANDLED: Final = "NotHandleFault"
"""Handling of faults that may disappear without any action."""
LINK_PAUSE: Final = 20
"""Seconds from the restart during which the chip is not used."""
_LABELLED: Final = {
    "software": Fault(SOFTWARE, "its program reported a fault (label fault-type)"),
    "Separate": Fault(RELATION, "it was reported as related to a fault (label fault-type)"),
    "SubHealth": Fault(SUB_HEALTH, "its hardware was reported to work with restrictions (label fault-type)"),
}
_DEVICES: Final = msgspec.json.Decoder(tuple[ReportedFault, ...])


class NodeFaults(NamedTuple):
    """The faults of one node."""

    name: str
    prefix: str
    """The prefix of the names of its chips."""
    unhealthy: int = NONE
    """Mask of the chips that do not work."""
    network: int = NONE
    """Mask of the chips with a network fault."""
    sub_healthy: int = NONE
    """Mask of the chips that work with restrictions; all if the node as a whole does."""
    why: str = ""
    """Why the node as a whole does not work, or ""."""
    devices: tuple[ReportedFault, ...] = ()

    @property
    def is_listed(self) -> bool:
        """Whether it has an entry in the ConfigMap with the state."""
        return bool(self.unhealthy or self.network or self.why)

    def document(self, since: int) -> FaultNode:
        """Its entry in the ConfigMap with the state."""
        state = CARD_UNHEALTHY if self.unhealthy else CARD_NETWORK_UNHEALTHY
        return FaultNode(
            self.devices,
            self.name,
            self._names(self.unhealthy),
            self._names(self.network),
            NODE_UNHEALTHY if self.why else state,
            since,
        )

    def _names(self, mask: int) -> tuple[str, ...] | None:
        return tuple(f"{self.prefix}{chip}" for chip in ids_of(mask)) or None


def faulty_nodes(
    snapshot: Snapshot,
    ledger: ChipLedger,
    chips: Mapping[int, NodeChips],
    exhausted: Collection[int],
    health: HealthColumns,
    reports: ClusterReports,
    problems: list[Malformed],
) -> Iterator[NodeFaults]:
    """Yields the nodes with a fault, among those with chips of one resource. ``exhausted``: the rows of nodes that have
    no allocatable chip."""
    names, unready = snapshot.nodes.names, snapshot.nodes.facts.unready
    suspicious = ledger.faulty | ledger.sub_healthy | (health.codes == UNHEALTHY) | health.sub_healthy
    rows = set(np.flatnonzero(suspicious).tolist()) | {*exhausted}
    if unready:
        index = snapshot.nodes.index
        rows |= {index[name] for name in unready if is_lost(snapshot, name)}
    prefix = ledger.resource.prefix
    for row in sorted(rows & chips.keys()):
        node, name = chips[row], names[row]
        unhealthy = node.unusable & ~node.recovering & node.present
        sub_healthy = ALL if health.sub_healthy[row] else node.sub_healthy
        why = "is reported as unhealthy" if health.codes[row] == UNHEALTHY else ""
        if is_lost(snapshot, name):
            why = f"is not ready for {int(snapshot.now - unready[name])} seconds"
        if not (unhealthy or node.network_faults or sub_healthy or why):
            continue
        devices = chip_faults(ledger.resource.name, *device_reports(name, snapshot.config_maps, reports), problems)
        yield NodeFaults(name, prefix, unhealthy, node.network_faults, sub_healthy, why, devices)


def is_lost(snapshot: Snapshot, name: str) -> bool:
    """Whether a node has been not ready for longer than a kubelet needs to restart."""
    since = snapshot.nodes.facts.unready.get(name)
    return since is not None and snapshot.now - since > NOT_READY_TIME


def chip_faults(
    resource: str, config_map: ConfigMap | None, copied: NodeReport | None, problems: list[Malformed]
) -> tuple[ReportedFault, ...]:
    """Returns the faults that the device plugin lists, in its latest report."""
    reports = [] if copied is None else [copied]
    if config_map is not None:
        meta, text = config_map.metadata, (config_map.data or {}).get(DEVICE_INFO_KEY, "")
        reports.append(NodeReport(meta.namespace, meta.name, f"data[{DEVICE_INFO_KEY}]", text))
    found: list[tuple[float, str, NodeReport]] = []
    for report in reports:
        with suppress(DeviceInfoError):  # reported where the lists of chips are read
            info = device_info(report.text)
            listed = info.lists.get(f"{resource}{FAULT_SUFFIX}", "")
            found.append((info.published, listed if isinstance(listed, str) else "", report))
    if not found:
        return ()
    _, text, report = max(found, key=itemgetter(0))
    if not text:
        return ()
    try:
        return _DEVICES.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        field = f"{report.field}[{resource}{FAULT_SUFFIX}]"
        problem = json_problem(text) or str(error)
        problems.append(
            Malformed("ConfigMap", report.namespace, report.name, field, problem, "counts as an empty list")
        )
        return ()


def faults_of_nodes(
    snapshot: Snapshot, nodes: Iterable[NodeFaults], chips: Mapping[int, NodeChips]
) -> Iterator[tuple[Task, Fault]]:
    """Yields the Pods that faults of nodes and chips concern. ``chips``: the chips of the resource by row."""
    for node in nodes:
        if not (node.why or node.unhealthy or node.sub_healthy):
            continue
        by_uid = chips[snapshot.nodes.index[node.name]].held
        for task in snapshot.chips.get(node.name, ()):
            used = by_uid.get(task.uid, NONE) | core_chips(task)
            if node.why:
                yield task, Fault(NODE_UNHEALTHY, f"node {node.name} {node.why}")
            elif used & node.unhealthy:
                listed = format_chips(ids_of(used & node.unhealthy), node.prefix)
                yield task, Fault(CARD_UNHEALTHY, f"{listed} of node {node.name} is unhealthy")
            elif used & node.sub_healthy:
                yield task, Fault(SUB_HEALTH, f"hardware of node {node.name} works with restrictions")


def tasks_without_chips(job: Job) -> tuple[Task, ...]:
    """Returns the Pods of a job on nodes that request no chips, such as the launcher or the scheduler of a training."""
    chips = {cls: _requests_chips(cls) for cls in {task.cls for task in job.tasks()}}
    if all(chips.values()):
        return ()
    return tuple(t for t in job.tasks() if t.node and not chips[t.cls] and t.status not in FINISHED_STATUSES)


def lost_nodes(snapshot: Snapshot, nodes: Iterable[NodeFaults]) -> dict[str, str]:
    """Returns node -> why none of its Pods works, with chips or without. ``nodes``: those with a fault."""
    found = {node.name: node.why for node in nodes if node.why}
    for name, since in snapshot.nodes.facts.unready.items():
        if is_lost(snapshot, name):
            found.setdefault(name, f"is not ready for {int(snapshot.now - since)} seconds")
    return found


def faults_without_chips(
    snapshot: Snapshot, tasks: Iterable[Task], lost: Mapping[str, str]
) -> Iterator[tuple[Task, Fault]]:
    """Yields the Pods without chips whose node has failed as a whole. ``lost``: as of ``lost_nodes``."""
    for task in tasks:
        if task.node in lost:
            yield task, Fault(NODE_UNHEALTHY, f"node {task.node} {lost[task.node]}")
        elif snapshot.all_nodes and task.node not in snapshot.nodes.index:
            yield task, Fault(NODE_UNHEALTHY, f"node {task.node} does not exist")


def faults_of_missing_nodes(snapshot: Snapshot) -> Iterator[tuple[Task, Fault]]:
    """Yields the Pods with chips whose node does not exist."""
    index = snapshot.nodes.index
    for name, tasks in snapshot.chips.items():
        if name not in index:
            for task in tasks:
                yield task, Fault(NODE_UNHEALTHY, f"node {name} does not exist")


def faults_of_pods(job: Job, policy: RestartPolicy) -> dict[str, Fault]:
    """Returns uid -> fault of the Pods of a job that failed, or whose label reports a fault."""
    found = {uid: Fault(POD_FAILED, "it failed") for uid, task in job.of(TaskStatus.FAILED).items() if task.node}
    for task in job.tasks():
        fault = _LABELLED.get(task.labels.get(FAULT_TYPE, "")) if task.labels else None
        if fault is not None and not matters(fault, task, policy):
            fault = None
        if fault is None and task.container_failed:
            fault = Fault(POD_FAILED, "a container of it failed")
        if fault is not None and task.node and task.status is not TaskStatus.SUCCEEDED:
            found.setdefault(task.uid, fault)
    return found


def _requests_chips(cls: TaskClass) -> bool:
    containers = (*cls.spec.containers, *(cls.spec.init_containers or ()))
    amounts = (container.resources for container in containers if container.resources is not None)
    names = (name for each in amounts for name in (*(each.requests or ()), *(each.limits or ())))
    return any(name.startswith(HUAWEI_PREFIX) for name in names)


def nodes_of_relation_faults(restarts: Iterable[Restart], now: float) -> set[str]:
    """Returns the nodes with Pods that were related to a fault less than ``LINK_PAUSE`` seconds ago."""
    return {
        entry.node
        for restart in restarts
        if now < restart.time + LINK_PAUSE
        for entry in restart.reasons
        if entry.fault == RELATION
    }


def exclude_failed_links(
    snapshot: Snapshot,
    names: Iterable[str],
    ledgers: Mapping[ChipResource, ChipLedger],
    chips: Mapping[ChipResource, Mapping[int, NodeChips]],
    reports: ClusterReports,
    problems: list[Malformed],
) -> None:
    """Adds network faults to the chips of some nodes whose link is down. ``names``: the nodes; ``chips``: resource ->
    row -> chips."""
    rows = [(row, name) for name in sorted(names) if (row := snapshot.nodes.index.get(name)) is not None]
    for resource, ledger in ledgers.items():
        for row, name in rows:
            if row not in chips[resource]:
                continue
            faults = chip_faults(resource.name, *device_reports(name, snapshot.config_maps, reports), problems)
            ledger.add_network_faults(row, _failed_links(faults, resource.prefix))


def _failed_links(faults: Iterable[ReportedFault], prefix: str) -> int:
    mask = NONE
    for fault in faults:
        if LINK_DOWN in fault.fault_code.split(",") and fault.fault_handling == NOT_HANDLED:
            try:
                mask |= parse_chips(fault.npu_name, prefix)
            except ChipListError:
                continue  # not a chip of this resource
    return mask
