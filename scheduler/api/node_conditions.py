"""The conditions of nodes that keep Pods away, in words: cordoned, not ready, maintenance."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from scheduler.api.node import NodeFacts, TaintSet

CORDONED: Final = "cordoned"
NOT_READY: Final = "not ready"
MAINTENANCE: Final = "maintenance"
NODE_CONDITIONS: Final = (CORDONED, NOT_READY, MAINTENANCE)
"""All conditions, in the order in which they are shown."""
_REPELLING: Final = ("NoSchedule", "NoExecute")
_WORD: Final = "maintenance"
"""A taint with this word in its key keeps Pods away during maintenance."""


def node_conditions(facts: NodeFacts) -> Mapping[str, tuple[str, ...]]:
    """Name of a node -> its conditions; without the nodes that have none.

    A node is in maintenance if a taint with the effect NoSchedule or NoExecute has the word in its key, such as
    ``example.com/maintenance``; there is no standard key.
    """
    maintained = [_is_maintained(taints) for taints in facts.taint_sets]
    rows = set(np.flatnonzero(facts.unschedulable).tolist())
    rows |= {facts.index[name] for name in facts.unready}
    if any(maintained):
        rows |= set(np.flatnonzero(np.array(maintained)[facts.taint_codes]).tolist())
    return {
        facts.names[row]: tuple(
            word
            for word, holds in (
                (CORDONED, facts.unschedulable[row]),
                (NOT_READY, facts.names[row] in facts.unready),
                (MAINTENANCE, maintained[facts.taint_codes[row]]),
            )
            if holds
        )
        for row in sorted(rows)
    }


def _is_maintained(taints: TaintSet) -> bool:
    return any(_WORD in key.lower() and effect in _REPELLING for key, _, effect in taints)
