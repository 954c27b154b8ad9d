"""The health of nodes as NodeD and the device plugin report it, themselves or through ClusterD: which nodes get no NPU
Pods, and which are sub-healthy. The worst report decides. Nodes that are not ready get none either, whether they have
the taint or not.

NodeD publishes a ConfigMap for a node with hardware faults, and deletes it when there is none. The device plugin of A3
servers publishes the state of the node's switches with its lists of chips. Without a report, or with an empty one, a
node is healthy.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from scheduler.api.names import (
    DEVICE_INFO_CONFIGMAP_PREFIX,
    DEVICE_INFO_NAMESPACE,
    NODE_INFO_KEY,
    NODE_INFO_PREFIX,
    SWITCH_INFO_KEY,
)
from scheduler.api.node import Codes, Mask, Rows
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.framework.kept_values import NodeReading, ObjectsByNode, node_values
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.ascend.cluster_reports import NAMESPACE, ClusterReports, NodeReport, reported
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.npu_requests import ChipResource
from scheduler.plugins.support.device_info import DeviceInfoError, json_object

SWITCH_INFO_PREFIX: Final = "mindx-dl-switchinfo-"
REASONS: Final = (
    "node(s) were reported as unhealthy",
    "node(s) were reported as about to be isolated",
    "node(s) were not ready",
)
UNHEALTHY: Final = 0
_CODES: Final = {"UnHealthy": UNHEALTHY, "PreSeparate": 1}
_NOT_READY: Final = 2
"""Status of a node -> position of the reason; other states do not exclude a node."""
HEALTHY: Final = -1
"""The code of a node that is not excluded."""
_SUB_HEALTHY: Final = "SubHealthy"


class HealthColumns(NamedTuple):
    codes: Codes
    """Shape (nodes,): the position in ``REASONS`` of why a node is excluded, or -1."""
    sub_healthy: Mask
    """Shape (nodes,): nodes with a fault that jobs may ignore."""
    problems: list[Malformed]
    """The reports that cannot be read."""


class _Health(NamedTuple):
    code: int
    sub_healthy: bool
    problems: tuple[Malformed, ...]


_NOTHING_REPORTED: Final = _Health(HEALTHY, False, ())


def read(snapshot: Snapshot, resource: str, rows: Callable[[], Rows], reports: ClusterReports) -> HealthColumns:
    """Returns the health of the nodes at ``rows()``, those with chips of the resource, which depend on ``nodes.facts``
    and ``nodes.allocatable`` only. Other nodes count as healthy."""
    number = len(snapshot.nodes)
    reading = NodeReading(
        key=("ascend", "health", resource),
        rows=rows,
        sources=(
            ObjectsByNode(snapshot.config_maps, f"{NAMESPACE}/{NODE_INFO_PREFIX}"),
            ObjectsByNode(snapshot.config_maps, f"{DEVICE_INFO_NAMESPACE}/{DEVICE_INFO_CONFIGMAP_PREFIX}"),
            ObjectsByNode(reports.reports, NODE_INFO_PREFIX),
            ObjectsByNode(reports.reports, SWITCH_INFO_PREFIX),
        ),
        make=_health,
    )
    found = node_values(snapshot.memory, snapshot.nodes, reading)
    codes: Codes = np.full(number, HEALTHY, dtype=np.intp)
    codes[found.rows] = [health.code for health in found.values]
    for name in snapshot.nodes.facts.unready:
        row = snapshot.nodes.index[name]
        codes[row] = _NOT_READY if codes[row] == HEALTHY else codes[row]
    sub_healthy = np.zeros(number, dtype=np.bool_)
    sub_healthy[found.rows] = [health.sub_healthy for health in found.values]
    return HealthColumns(codes, sub_healthy, [problem for health in found.values for problem in health.problems])


class SessionHealth:
    """The health of the nodes of one session. It is read when it is first needed, and its problems are reported."""

    def __init__(
        self, session: PluginSession, ledgers: Mapping[ChipResource, ChipLedger], reports: ClusterReports
    ) -> None:
        self._session = session
        self._ledgers = ledgers
        self._reports = reports
        self._known: dict[str, HealthColumns] = {}

    def of(self, resource: ChipResource) -> HealthColumns:
        """Returns the health of the nodes with chips of a resource."""
        ledger = self._ledgers[resource]
        return self.of_nodes(resource.name, lambda: np.flatnonzero(ledger.allocatable > 0))

    def of_nodes(self, resource: str, rows: Callable[[], Rows]) -> HealthColumns:
        """Returns the health of the nodes with a resource, at ``rows()`` (see ``read``)."""
        if resource not in self._known:
            health = read(self._session.snapshot, resource, rows, self._reports)
            for problem in health.problems:
                self._session.malformed_field(problem)
            self._known[resource] = health
        return self._known[resource]

    def sub_healthy(self, resource: ChipResource) -> Mask:
        """Returns the nodes of which a chip or a switch has a fault that jobs may ignore; shape (nodes,)."""
        return self.of(resource).sub_healthy | self._ledgers[resource].sub_healthy


def _health(
    row: int,
    node: Node,
    node_info: ConfigMap | None,
    device_info: ConfigMap | None,
    copied_node_info: NodeReport | None,
    copied_switch_info: NodeReport | None,
) -> _Health:
    has_switches = device_info is not None and SWITCH_INFO_KEY in (device_info.data or {})
    if not has_switches and node_info is None and copied_node_info is None and copied_switch_info is None:
        return _NOTHING_REPORTED
    problems: list[Malformed] = []
    of_node = reported(node_info, NODE_INFO_KEY, copied_node_info)
    of_switch = reported(device_info, SWITCH_INFO_KEY, copied_switch_info)
    reports = [*((NODE_INFO_KEY, report) for report in of_node), *((SWITCH_INFO_KEY, report) for report in of_switch)]
    states = {_state(report, key, problems) for key, report in reports if report.text}
    bad = [_CODES[state] for state in states if state in _CODES]
    return _Health(min(bad, default=HEALTHY), _SUB_HEALTHY in states, tuple(problems))


def _state(report: NodeReport, key: str, problems: list[Malformed]) -> str:
    try:
        return _status(json_object(report.text), key)
    except DeviceInfoError as error:
        problems.append(
            Malformed(
                "ConfigMap", report.namespace, report.name, report.field, str(error), "the node counts as healthy"
            )
        )
        return ""


def _status(report: dict[str, Any], key: str) -> str:
    inner = report.get(key, report)
    status = inner.get("NodeStatus") if isinstance(inner, dict) else None
    if not isinstance(status, str):
        raise DeviceInfoError("has no text NodeStatus")
    return status
