"""What queues may have of cpu, memory and cards, and have: sums of the accounts of their jobs, made anew for each
session and kept up by it.
"""

from dataclasses import dataclass, field

from scheduler.api.queue import Queue
from scheduler.api.resource import share
from scheduler.plugins.capacity_card.accounting import JobAccount, Needs
from scheduler.plugins.capacity_card.holdings import Amounts, Holding, add
from scheduler.plugins.capacity_card.quota import Names


@dataclass(slots=True)
class QueueBook:
    """What one queue may have and has."""

    queue: Queue
    limits: Amounts
    """The most it may have of cpu and memory (infinity: as much as there is) and of each card it has quota of."""
    note: str = ""
    """What is to be said besides wherever a card is refused, or ""."""
    allocated: Amounts = field(default_factory=dict)
    """Held by tasks that do not terminate, and pipelined."""
    releasing: Amounts = field(default_factory=dict)
    """Held by tasks that terminate."""
    pipelined: Amounts = field(default_factory=dict)
    """Of what is allocated, what waits for tasks that terminate."""
    inqueue: Amounts = field(default_factory=dict)
    elastic: Amounts = field(default_factory=dict)
    pending: Amounts = field(default_factory=dict)
    choices: set[Names] = field(default_factory=set)
    tight: set[str] = field(default_factory=set)
    """Cards that pending Pods may choose and of which not all who may choose them can have one."""

    def limit(self, name: str) -> float:
        """The most the queue may have; a card that its quota does not list it may not use at all."""
        return self.limits.get(name, 0.0)

    def limits_any(self, *amounts: tuple[str, float]) -> bool:
        """Whether there is a limit for something of which there is an amount."""
        return any(amount > 0 and self.limit(name) < float("inf") for name, amount in amounts)

    def room(self, name: str) -> float:
        """What may still be allocated or pipelined, once what terminates is gone."""
        return self.limits.get(name, 0.0) - self.allocated.get(name, 0.0)

    def used(self, name: str) -> float:
        """What counts against a task that is to be bound: terminating tasks hold their places, and what they release
        may be promised already."""
        waiting = self.releasing.get(name, 0.0) - self.pipelined.get(name, 0.0) if self.releasing else 0.0
        return self.allocated.get(name, 0.0) + max(waiting, 0.0)

    def held(self, name: str) -> float:
        """What tasks on nodes hold, terminating ones included."""
        return self.allocated.get(name, 0.0) - self.pipelined.get(name, 0.0) + self.releasing.get(name, 0.0)

    def fitting(self, name: str, amount: float, *, now: bool = False) -> int:
        """How many tasks of an amount each may still be placed by this dimension. ``now``: bound, while others
        terminate."""
        room = self.limits.get(name, 0.0) - self.used(name) if now else self.room(name)
        return max(int(room // amount), 0)

    def room_for_promises(self, name: str) -> float:
        """What may still be promised: jobs in the queue count with their minimum, what they hold beyond it does not."""
        return self.room(name) - self.inqueue.get(name, 0.0) + self.elastic.get(name, 0.0)

    @property
    def share(self) -> float:
        """The largest part that is taken of any quota."""
        allocated = self.allocated
        return max((share(allocated.get(name, 0.0), limit) for name, limit in self.limits.items()), default=0.0)

    def hold(self, holding: Holding) -> None:
        """Add what tasks hold."""
        add(self.allocated, holding.allocated.items())
        if holding.releasing:
            add(self.releasing, holding.releasing.items())

    def enter(self, account: JobAccount) -> None:
        """Add what a job holds and waits for; promises are added by ``promise``, when all holdings are known."""
        self.hold(account.holding)
        add(self.elastic, account.elastic.items())
        if account.pending:
            add(self.pending, account.pending.items())
            self.choices |= account.choices

    def promise(self, needs: Needs) -> None:
        """Add needs to what is promised. One that leaves a choice goes to its cards in order as far as there is room,
        as its Pods will; what is beyond all quota counts against the first."""
        for names in sorted(needs, key=len):
            missing = needs[names]
            for name in names if len(names) > 1 else ():
                part = min(max(self.room_for_promises(name), 0.0), missing)
                add(self.inqueue, ((name, part),))
                missing -= part
            add(self.inqueue, ((names[0], missing),))

    def find_tight(self) -> None:
        """Set ``tight`` from what is held and pending now."""
        for names in self.choices:
            for name in names:
                if self.held(name) + self.pending.get(name, 0.0) > self.limit(name):
                    self.tight.add(name)
