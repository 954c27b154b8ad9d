"""The number of chips of each node in each state, for metrics. The states are those of ``chip_states``, computed by
columns."""

import numpy as np

from scheduler.api.device_states import Availability
from scheduler.api.node import Nodes
from scheduler.framework.figures import DeviceCounts
from scheduler.plugins.ascend.inventory import whole_chips
from scheduler.plugins.ascend.ledger import ChipLedger
from scheduler.plugins.ascend.node_health import HEALTHY, NodeHealth


def chip_counts(ledger: ChipLedger, nodes: Nodes, position: int, health: NodeHealth) -> DeviceCounts:
    """Counts the chips of one resource. ``position``: that of the resource in resource vectors.

    On a node without allocatable chips all chips are unhealthy; the Node's capacity says how many there are.
    """
    masks = ledger.by_availability(health.codes != HEALTHY)
    bits = np.stack([masks[each] for each in Availability], axis=1)
    exhausted = ledger.allocatable <= 0
    bits[exhausted] = 0
    counts = np.bitwise_count(bits).astype(np.int64)
    capacity = whole_chips(nodes.capacity[position])
    counts[exhausted, list(Availability).index(Availability.UNHEALTHY)] = capacity[exhausted]
    rows = np.flatnonzero(counts.any(axis=1))
    names = nodes.names
    return DeviceCounts(ledger.resource.name, [names[row] for row in rows.tolist()], counts[rows], bits[rows])
