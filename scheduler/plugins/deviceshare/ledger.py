"""What is free on the nodes of one family in one session, and who has what.

Each node has two states: its cards now, and as they will be once terminating Pods are gone and all promises are kept.
Evicting a Pod frees nothing now; it makes what the Pod has promisable.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from scheduler.api.job import Job
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.ledger import Ledger
from scheduler.framework.session import Session
from scheduler.framework.statement import AllocationError
from scheduler.plugins.deviceshare.cards import Cards, Grant, charge, fuller, mask_of
from scheduler.plugins.deviceshare.family import Family
from scheduler.plugins.deviceshare.inventory import Holders, read_nodes
from scheduler.plugins.deviceshare.separation import Separation, Shuns

NO_EXTERNAL_CALLS: Final[Holders] = {}


class CardLedger(Ledger[Grant]):
    """The books of one family."""

    def __init__(self, session: Session, family: Family[Any], separation: Separation | None = None) -> None:
        super().__init__()
        self.family = family
        self._separation = separation
        self._names = session.nodes.names
        self.readings = read_nodes(session.snapshot, family)
        """Row -> the node as the session found it."""
        self.has_devices: NDArray[np.bool_] = np.zeros(len(session.nodes), dtype=bool)
        self.has_devices[list(self.readings)] = True
        self._now = {row: reading.now for row, reading in self.readings.items()}
        self._later = {row: reading.later for row, reading in self.readings.items()}
        self._holders = {row: reading.holders for row, reading in self.readings.items()}
        self._taken: dict[str, Grant] = {}
        self._promises: dict[str, tuple[Task, Grant, int]] = {}
        """uid -> of tasks placed and pipelined in this session."""
        self.log: list[int] = []
        """Rows in the order in which their state changed."""
        self._claims: dict[int, Any] = {}

    # --- reading ---
    def node_name(self, row: int) -> str:
        return self._names[row]

    def claim(self, cls: TaskClass) -> Any:
        """What tasks of the class ask for; None: nothing of this family."""
        if cls.id not in self._claims:
            self._claims[cls.id] = self.family.claim(cls)
        return self._claims[cls.id]

    def shuns(self, cls: TaskClass, job_key: str) -> Shuns | None:
        """With whom tasks of a class share no card; None: with anybody."""
        return None if self._separation is None else self._separation.shuns(cls, job_key)

    def cards(self, row: int, *, later: bool) -> Cards:
        return (self._later if later else self._now)[row]

    def usable(self, row: int, *, later: bool) -> Cards:
        """The cards of which something may be taken, or promised: what was promised is taken from nobody."""
        cards = self.cards(row, later=later)
        promised = not later and self._promises and self._promised(row)
        return fuller(cards, self._later[row]) if promised else cards

    def holders(self, row: int, *, later: bool) -> Iterable[tuple[Task, Grant]]:
        """Who has something of the node's cards, or will."""
        for uid, (task, grant) in self._holders[row].items():
            if not later or not (uid in self._evicted or task.status is TaskStatus.RELEASING):
                yield task, grant
        if later:
            yield from self._promised(row)

    def grants(self) -> Iterator[tuple[Task, Grant]]:
        """Who has something of the cards of any node."""
        for holders in self._holders.values():
            yield from holders.values()

    def _promised(self, row: int) -> list[tuple[Task, Grant]]:
        return [(task, grant) for task, grant, at in self._promises.values() if at == row]

    def taken(self, task: Task) -> Grant | None:
        """What was chosen for a task in this session."""
        return self._taken.get(task.uid)

    def barred(self, row: int, shuns: Shuns, *, later: bool) -> int:
        """The mask of the cards of a node that somebody has who is shunned, or was promised."""
        mask = 0
        inventory = self.readings[row].inventory
        for task, grant in chain(self.holders(row, later=later), () if later else self._promised(row)):
            if shuns.task(task, inventory):
                mask |= mask_of(grant)
        return mask

    # --- placements ---
    def concerns(self, cls: TaskClass) -> bool:
        return self.claim(cls) is not None

    def _take(self, job: Job, task: Task, row: int, *, pipelined: bool) -> None:
        claim = self.claim(task.cls)
        grant = None
        if row in self.readings:
            eligible = self.family.eligible(claim, self.readings[row].inventory)
            shuns = self.shuns(task.cls, job.key)
            if shuns is not None:
                eligible &= ~self.barred(row, shuns, later=pipelined)
            placement = self.family.place(self.usable(row, later=pipelined), claim, eligible)
            grant = None if placement is None else placement.grant
        if grant is None:
            raise AllocationError(f"node {self._names[row]} has no {claim.words} for Pod {task.key}")
        if pipelined:
            self._promises[task.uid] = (task, grant, row)
        else:
            self._taken[task.uid] = grant
            self._holders[row] = {**self._holders[row], task.uid: (task, grant)}
            self._now[row] = charge(self._now[row], grant)
        self._charge_later(row, grant, 1)

    def _give_back(self, task: Task, row: int) -> None:
        if task.uid in self._promises:
            self._charge_later(row, self._promises.pop(task.uid)[1], -1)
            return
        grant = self._taken.pop(task.uid, None)
        if grant is not None:
            self._holders[row] = {uid: held for uid, held in self._holders[row].items() if uid != task.uid}
            self._now[row] = charge(self._now[row], grant, -1)
            self._charge_later(row, grant, -1)

    def _evict(self, task: Task, row: int) -> Grant:
        """A Pod of which nothing is known has nothing."""
        _, grant = self._holders.get(row, NO_EXTERNAL_CALLS).get(task.uid, (task, ()))
        if grant:
            self._charge_later(row, grant, -1)
        return grant

    def _spare(self, row: int, held: Grant) -> None:
        if held:
            self._charge_later(row, held, 1)

    def _charge_later(self, row: int, grant: Grant, sign: int) -> None:
        self._later[row] = charge(self._later[row], grant, sign)
        self.log.append(row)
