"""The states of Queues under random Commands and moves, with controllers that are killed between any two writes.

A Queue is open exactly if its owner wants it open and every Queue above it is open.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.kinds import COMMAND, POD_GROUP, QUEUE
from scheduler.cache import ClusterCache
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.cluster.memory.operator import MemoryOperator
from scheduler.controllers.controller import Controller
from scheduler.controllers.effects import Effect, RecordEvent
from scheduler.controllers.queue import QueueController
from scheduler.controllers.store import Store
from tests.examples import examples
from tests.unit.controllers.queue.test_controller import command, group, queue

PARENTS = {"a": "root", "b": "a", "c": "b", "d": "root"}


class KilledError(Exception):
    """The controllers are killed before a write."""


class KilledOperator(MemoryOperator):
    """Carries out a number of writes, then raises KilledError."""

    def __init__(self, cluster: MemoryCluster, writes: int) -> None:
        super().__init__(cluster, controllers)
        self._left = writes
        for kind in (QUEUE, POD_GROUP, COMMAND):
            for obj in cluster.server.structs(kind):
                self._observe(kind, None, obj)

    def _carry_out(self, effect: Effect) -> tuple[Effect, str] | None:
        if not isinstance(effect, RecordEvent):
            if not self._left:
                raise KilledError
            self._left -= 1
        return super()._carry_out(effect)


def controllers(store: Store) -> Sequence[Controller]:
    return [QueueController(store)]


class Queues:
    """A cluster with Queues, and the states that their owners want."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(ClusterCache(["volcano"]), ["volcano"])
        self.cluster.load([])
        self.parents = dict(PARENTS)
        self.closed: set[str] = set()
        for name, parent in PARENTS.items():
            self.cluster.server.create(QUEUE, queue(name, parent))
        self.work([])

    def work(self, kills: Sequence[int]) -> None:
        """Lets controllers work that are killed after so many writes each, and then some that are not."""
        for writes in [*kills, 1_000]:
            before = len(self.cluster.server._watchers)
            try:
                KilledOperator(self.cluster, writes).run()
            except KilledError:
                continue
            finally:
                del self.cluster.server._watchers[before:]

    def open(self, name: str) -> bool:
        """Whether a Queue should be open."""
        return name == "root" or (name not in self.closed and self.open(self.parents[name]))

    def above(self, name: str) -> list[str]:
        parent = self.parents[name]
        return [] if parent == "root" else [parent, *self.above(parent)]

    def state(self, name: str) -> str:
        raw: Any = self.cluster.server.find(QUEUE, "", name)
        return str(raw["status"]["state"])

    def take(self, step: tuple[str, str, str]) -> None:
        what, name, other = step
        server = self.cluster.server
        if what == "close":
            self.closed.add(name)
            server.create(COMMAND, command("CloseQueue", name))
        elif what == "open":
            if self.open(self.parents[name]):
                self.closed.discard(name)
            server.create(COMMAND, command("OpenQueue", name))
        elif what == "move":
            if name not in (other, *(self.above(other) if other != "root" else ())):
                self.parents[name] = other
                server.patch(QUEUE, "", name, {"spec": {"parent": other}})
        elif what == "fill":
            server.create(POD_GROUP, group(f"in-{name}", name))
        else:
            server.delete(POD_GROUP, "default", f"in-{name}")


names = st.sampled_from(sorted(PARENTS))
steps = st.tuples(
    st.sampled_from(["close", "close", "close", "open", "open", "open", "move", "fill", "empty"]),
    names,
    st.sampled_from(["root", *sorted(PARENTS)]),
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(steps, st.lists(st.integers(0, 5), max_size=2)), min_size=10, max_size=20))
def test_a_queue_is_open_if_its_owner_and_all_above_are_whenever_the_controllers_are_killed(
    taken: list[tuple[tuple[str, str, str], list[int]]],
) -> None:
    queues = Queues()
    for step, kills in taken:
        queues.take(step)
        queues.work(kills)
        assert {name: queues.state(name) == "Open" for name in PARENTS} == {name: queues.open(name) for name in PARENTS}
        assert queues.cluster.server.of(COMMAND) == []
    for name in PARENTS:
        queues.take(("empty", name, ""))
    queues.work([])
    assert {queues.state(name) for name in PARENTS} <= {"Open", "Closed"}
