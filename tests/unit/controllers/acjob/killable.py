"""Controllers of AscendJobs that are killed between two writes, and the process that continues."""

from scheduler.api.kinds import KINDS
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.cluster.memory.operator import MemoryOperator
from scheduler.controllers.acjob import AscendJobController
from scheduler.controllers.effects import Effect, RecordEvent
from tests.unit.controllers.clusters import Controlled


class KilledError(Exception):
    """The process of the controllers ends."""


class KilledOperator(MemoryOperator):
    """Controllers that have the state of the API server, and are killed after a number of writes; None: they are not
    killed."""

    def __init__(self, cluster: MemoryCluster, writes: int | None) -> None:
        super().__init__(cluster, lambda store: [AscendJobController(store, ("volcano",))])
        self.writes = writes
        for kind in KINDS:
            for obj in cluster.server.structs(kind):
                self._observe(kind, None, obj)

    def _carry_out(self, effect: Effect) -> tuple[Effect, str] | None:
        if self.writes == 0:
            raise KilledError
        if self.writes is not None and not isinstance(effect, RecordEvent):
            self.writes -= 1
        return super()._carry_out(effect)


class KillableControllers(Controlled):
    """A cluster whose controllers can be killed."""

    killed = False

    def kill_after(self, writes: int) -> None:
        """Starts another process, which is killed after a number of writes."""
        self._operator = KilledOperator(self.cluster, writes)

    def settle(self) -> None:
        try:
            super().settle()
        except KilledError:
            self.killed = True
            self._operator = KilledOperator(self.cluster, None)
