"""The answers of the selection for the states of nodes, as arrays, so that one array operation looks up a column."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler.framework.columns import Counts
from scheduler.plugins.ascend.vnpu.models import MODELS
from scheduler.plugins.ascend.vnpu.selection import CoreRequest, DividedNode, select, with_uses

States = NDArray[np.intp]
"""Numbers of states of nodes."""
NO_STATE: Final = -1
"""The state of a node whose chips cannot be divided."""


class StateAnswers:
    """What each state of a node means for one request."""

    def __init__(self, known: Sequence[DividedNode], request: CoreRequest) -> None:
        """``known``: the states by number; more may be appended."""
        self._known = known
        self._request = request
        self._room: list[int] = []
        self._preferred: list[int] = []

    def room(self, states: States) -> Counts:
        """Returns the number of Pods that fit one after the other."""
        self._learn()
        return _of(self._room, states)

    def preferred(self, states: States) -> Counts:
        """Returns how many of them get the preferred template, before one is downgraded."""
        self._learn()
        return _of(self._preferred, states)

    def _learn(self) -> None:
        for state in self._known[len(self._room) :]:
            node, room, preferred, downgraded = state, 0, 0, False
            while (choice := select(MODELS[node.model], node, self._request)) is not None:
                node = with_uses(node, choice.uses)
                room += 1
                downgraded = downgraded or choice.downgraded
                preferred += not downgraded
            self._room.append(room)
            self._preferred.append(preferred)


def _of(answers: list[int], states: States) -> Counts:
    found: Counts = np.array([*answers, 0], dtype=np.int64)[states]  # the last element is that of NO_STATE
    return found
