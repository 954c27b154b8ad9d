"""Chips whose network link is down, and may come up again, after a job restarted because of it.

A component marks the Pods that a failed link concerns as related to a fault, and they restart. The device plugin does
not list the chip as faulty while it waits for the link to recover. For 20 seconds the chip counts as having a network
fault, so that the job does not get it again (MindCluster's plugin: ``checkNodeCurNodeIsFault``).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from scheduler.api.reasons import Malformed
from scheduler.api.snapshot import Snapshot
from scheduler.plugins.ascend.chiplist import ChipListError, parse_chips
from scheduler.plugins.ascend.cluster_reports import ClusterReports
from scheduler.plugins.ascend.device_lists import device_reports
from scheduler.plugins.ascend.inventory import NodeChips
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.masks import NONE
from scheduler.plugins.ascend.rescheduling.decision import RELATION
from scheduler.plugins.ascend.rescheduling.faults import chip_faults
from scheduler.plugins.ascend.rescheduling.state import ChipFault, Restart
from scheduler.plugins.ascend.resources import ChipResource

LINK_DOWN: Final = "81078603"
"""Fault code of a link that is down."""
NOT_HANDLED: Final = "NotHandleFault"
"""Handling of faults that may disappear without any action."""
PAUSE: Final = 20
"""Seconds from the restart during which the chip is not used."""


def nodes_of_relation_faults(restarts: Iterable[Restart], now: float) -> set[str]:
    """The nodes with Pods that were related to a fault less than ``PAUSE`` seconds ago."""
    return {
        entry.node
        for restart in restarts
        if now < restart.time + PAUSE
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
    """Adds network faults to the chips of some nodes whose link is down. ``names``: of the nodes; ``chips``: of each
    resource, by row."""
    rows = [(row, name) for name in sorted(names) if (row := snapshot.nodes.index.get(name)) is not None]
    for resource, ledger in ledgers.items():
        for row, name in rows:
            if row not in chips[resource]:
                continue
            faults = chip_faults(resource.name, *device_reports(name, snapshot.config_maps, reports), problems)
            ledger.add_network_faults(row, _failed_links(faults, resource.prefix))


def _failed_links(faults: Iterable[ChipFault], prefix: str) -> int:
    mask = NONE
    for fault in faults:
        if LINK_DOWN in fault.fault_code.split(",") and fault.fault_handling == NOT_HANDLED:
            try:
                mask |= parse_chips(fault.npu_name, prefix)
            except ChipListError:
                continue  # not a chip of this resource
    return mask
