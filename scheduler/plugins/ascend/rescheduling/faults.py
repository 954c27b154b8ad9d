"""Finds the nodes and chips with faults, and the Pods that these concern.

A Pod is concerned by a fault of its node, and by a fault of a chip that it uses. A chip with a network fault alone, or
one that no Pod uses, concerns none. Only nodes with a fault are looked at one by one.

The link of a chip may come up again after a job restarted because of it. A component marks the Pods that a failed link
concerns as related to a fault, and they restart. The device plugin does not list the chip as faulty while it waits for
the link to recover. For 20 seconds the chip counts as having a network fault, so that the job does not get it again
(MindCluster's plugin: ``checkNodeCurNodeIsFault``).
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec
import numpy as np

from scheduler.api.job import Job
from scheduler.api.json_texts import json_problem
from scheduler.api.names import FAULT_SUFFIX, HUAWEI_PREFIX
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import FINISHED_STATUSES, Task, TaskClass, TaskStatus
from scheduler.plugins.ascend.chip_states import core_chips
from scheduler.plugins.ascend.cluster_reports import NodeReport
from scheduler.plugins.ascend.device_lists import device_reports
from scheduler.plugins.ascend.inventory import NodeChips
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.masks import ALL, NONE, ChipListError, format_chips, ids_of, parse_chips
from scheduler.plugins.ascend.node_health import UNHEALTHY
from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.ascend.npu_session import NpuSession
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


def faulty_nodes(npus: NpuSession, ledger: ChipLedger) -> tuple[list[NodeFaults], Mapping[int, NodeChips]]:
    """Returns the nodes with a fault, among those with chips of one resource, and the chips of the resource by row."""
    snapshot, health, unready = npus.session.snapshot, npus.health.of(ledger.resource), npus.session.nodes.facts.unready
    chips, exhausted = npus.ledgers.chips[ledger.resource], npus.ledgers.exhausted(ledger.resource)
    if exhausted:
        chips = {**chips, **exhausted}
    suspicious = ledger.faulty | ledger.sub_healthy | (health.codes == UNHEALTHY) | health.sub_healthy
    rows = {*np.flatnonzero(suspicious).tolist(), *exhausted}
    rows |= {snapshot.nodes.index[name] for name in unready if is_lost(snapshot, name)}
    found = []
    for row in sorted(rows & chips.keys()):
        node, name = chips[row], snapshot.nodes.names[row]
        unhealthy = node.unusable & ~node.recovering & node.present
        sub_healthy = ALL if health.sub_healthy[row] else node.sub_healthy
        why = "is reported as unhealthy" if health.codes[row] == UNHEALTHY else ""
        if is_lost(snapshot, name):
            why = f"is not ready for {int(snapshot.now - unready[name])} seconds"
        if unhealthy or node.network_faults or sub_healthy or why:
            devices = reported_faults(npus, ledger.resource, name)
            prefix = ledger.resource.prefix
            found.append(NodeFaults(name, prefix, unhealthy, node.network_faults, sub_healthy, why, devices))
    return found, chips


def is_lost(snapshot: Snapshot, name: str) -> bool:
    """Whether a node has been not ready for longer than a kubelet needs to restart."""
    since = snapshot.nodes.facts.unready.get(name)
    return since is not None and snapshot.now - since > NOT_READY_TIME


def reported_faults(npus: NpuSession, resource: ChipResource, node: str) -> tuple[ReportedFault, ...]:
    """Returns the faults of chips of a resource that the device plugin of a node lists, in its latest report."""
    found: list[tuple[float, str, NodeReport | None]] = []
    for report in device_reports(node, npus.session.snapshot.config_maps, npus.reports):
        with suppress(DeviceInfoError):  # reported where the lists of chips are read
            info = device_info(report.text)
            listed = info.lists.get(f"{resource.name}{FAULT_SUFFIX}", "")
            found.append((info.published, listed if isinstance(listed, str) else "", report))
    _, text, latest = max(found, key=itemgetter(0), default=(0.0, "", None))
    if not text or latest is None:
        return ()
    try:
        return _DEVICES.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        field, problem = f"{latest.field}[{resource.name}{FAULT_SUFFIX}]", json_problem(text) or str(error)
        npus.session.malformed_field(
            Malformed("ConfigMap", latest.namespace, latest.name, field, problem, "counts as an empty list")
        )
        return ()


def faults_of_chips(
    snapshot: Snapshot, nodes: Iterable[NodeFaults], chips: Mapping[int, NodeChips]
) -> Iterator[tuple[Task, Fault]]:
    """Yields the Pods that faults of chips concern, on nodes that work. ``chips``: the chips of the resource, by
    row."""
    for node in nodes:
        if node.why or not (node.unhealthy or node.sub_healthy):
            continue
        by_uid = chips[snapshot.nodes.index[node.name]].held
        for task in snapshot.chips.get(node.name, ()):
            used = by_uid.get(task.uid, NONE) | core_chips(task)
            if used & node.unhealthy:
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


def faults_of_nodes(
    snapshot: Snapshot, nodes: Iterable[NodeFaults], without_chips: Iterable[Task]
) -> Iterator[tuple[Task, Fault]]:
    """Yields the Pods whose node has failed as a whole, or does not exist. ``nodes``: the nodes with a fault;
    ``without_chips``: Pods on nodes that request no chips."""
    lost = {node.name: node.why for node in nodes if node.why}
    missing = [name for name in snapshot.chips if name not in snapshot.nodes.index] if snapshot.all_nodes else []
    with_chips = [task for name in (*lost, *missing) for task in snapshot.chips.get(name, ())]
    for name, since in snapshot.nodes.facts.unready.items():
        if is_lost(snapshot, name):
            lost.setdefault(name, f"is not ready for {int(snapshot.now - since)} seconds")
    for task in chain(with_chips, without_chips):
        why = "does not exist" if snapshot.all_nodes and task.node not in snapshot.nodes.index else ""
        why = lost.get(task.node, why)
        if why:
            yield task, Fault(NODE_UNHEALTHY, f"node {task.node} {why}")


def faults_of_pods(job: Job, policy: RestartPolicy) -> dict[str, Fault]:
    """Returns uid -> fault of the Pods of a job that failed, or whose label reports a fault."""
    failed = (task for task in job.of(TaskStatus.FAILED).values() if task.node and not task.vnpu_failure)
    found = {task.uid: Fault(POD_FAILED, "it failed") for task in failed}
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


def exclude_failed_links(npus: NpuSession, names: Iterable[str]) -> None:
    """Adds network faults to the chips of some nodes whose link is down. ``names``: the nodes."""
    index = npus.session.nodes.index
    rows = [(index[name], name) for name in sorted(names) if name in index]
    for resource, ledger in npus.ledgers.whole.items():
        for row, name in rows:
            if row in npus.ledgers.chips[resource]:
                faults = reported_faults(npus, resource, name)
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
