"""A plan: places found for the tasks of a class that come next, while nothing happens but that they are taken.

Finding places for many tasks at once is much cheaper than one by one, and where tasks come one by one (a thousand jobs
of one Pod, what a job has beyond its minimum) it is the same places in the same order. The log of the nodes tells
whether anything else has happened; then the plan is dropped.
"""

from collections import Counter

from scheduler.api.node import Nodes, Rows
from scheduler.api.task import TaskClass
from scheduler.framework.runs import LONGEST


class Plan:
    """Places for tasks of one class."""

    def __init__(self, nodes: Nodes, cls: TaskClass) -> None:
        self._nodes = nodes
        self._cls = cls
        self._seen = 0
        self._within: Rows | None = None
        self.places: list[int] = []
        """Rows of the next tasks, in order, as of the last ``follow``."""
        self.stride = 1
        """For how many tasks it is worth looking at once: more and more as plans come true, one if they do not."""

    def follow(self, within: Rows | None) -> bool:
        """Strike out what has been taken, or drop the plan; whether there is anything left. ``within``: the nodes (the
        same object each time) that are in question now."""
        log, places = self._nodes.log, self.places
        if not places:
            self._seen, self._within, self.stride = len(log), within, 1
            return False
        taken: Counter[int] = Counter()
        for row, cls, number in log[self._seen : self._seen + len(places) + 1]:
            taken[row] += number if cls == self._cls.id and number > 0 else len(places) + 1
        done = taken.total()
        if within is not self._within or taken != Counter(places[:done]):
            self.places, self.stride = [], 1
        elif done:
            self.places = places[done:]
            if not self.places:
                self.stride = min(self.stride * 4, LONGEST)
        self._seen, self._within = len(log), within
        return bool(self.places)
