"""A plan: nodes for the next tasks of a class, valid while only these tasks are placed.

Choosing nodes for many tasks at once is much cheaper than one by one. Where tasks come one by one (a thousand jobs of
one Pod, the tasks of a job beyond its minimum), the nodes and their order are the same. The log of the nodes shows any
other change; then the plan is discarded.
"""

from collections import Counter

from scheduler.api.node import Nodes, Rows
from scheduler.api.task import TaskClass
from scheduler.framework.class_view.runs import LONGEST


class Plan:
    """Places for tasks of one class, or of classes that share a view."""

    def __init__(self, nodes: Nodes, cls: TaskClass) -> None:
        self._nodes = nodes
        self.class_ids = {cls.id}
        self._seen = 0
        self._within: Rows | None = None
        self.places: list[int] = []
        """Rows of the next tasks, in order, since the last call of ``follow``."""
        self.stride = 1
        """Number of tasks to plan for next: grows while plans are used up, and returns to 1 when one is discarded."""

    def follow(self, within: Rows | None) -> bool:
        """Removes places that have been taken, or discards the plan. Returns whether any place is left. ``within``: the
        candidate nodes, compared by identity."""
        log, places = self._nodes.log, self.places
        if not places:
            self._seen, self._within, self.stride = len(log), within, 1
            return False
        taken: Counter[int] = Counter()
        for row, cls, number in log[self._seen : self._seen + len(places) + 1]:
            taken[row] += number if cls in self.class_ids and number > 0 else len(places) + 1
        done = taken.total()
        if within is not self._within or taken != Counter(places[:done]):
            self.places, self.stride = [], 1
        elif done:
            self.places = places[done:]
            if not self.places:
                self.stride = min(self.stride * 4, LONGEST)
        self._seen, self._within = len(log), within
        return bool(self.places)
