"""What queues may have of cpu, memory and cards, and have: sums of the accounts of their jobs, made anew for each
session and kept up by it.
"""

from dataclasses import dataclass, field

from scheduler.api.queue import Queue
from scheduler.api.resource import share
from scheduler.plugins.capacity_card.accounting import Amounts, JobAccount, Needs, add
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
    inqueue: Amounts = field(default_factory=dict)
    elastic: Amounts = field(default_factory=dict)
    pending: Amounts = field(default_factory=dict)
    choices: set[Names] = field(default_factory=set)
    tight: set[str] = field(default_factory=set)
    """Cards that pending Pods may choose and of which not all who may choose them can have one."""

    def limit(self, name: str) -> float:
        """The most the queue may have; a card that its quota does not list it may not use at all."""
        return self.limits.get(name, 0.0)

    def room(self, name: str) -> float:
        """What may still be allocated."""
        return self.limits.get(name, 0.0) - self.allocated.get(name, 0.0)

    def fitting(self, name: str, amount: float) -> int:
        """How many tasks of an amount each may still be placed by this dimension."""
        return max(int(self.room(name) // amount), 0)

    def room_for_promises(self, name: str) -> float:
        """What may still be promised: jobs in the queue count with their minimum, what they hold beyond it does not."""
        return self.room(name) - self.inqueue.get(name, 0.0) + self.elastic.get(name, 0.0)

    @property
    def share(self) -> float:
        """The largest part that is taken of any quota."""
        allocated = self.allocated
        return max((share(allocated.get(name, 0.0), limit) for name, limit in self.limits.items()), default=0.0)

    def enter(self, account: JobAccount) -> None:
        """Add what a job holds and waits for; promises are added by ``promise``, when all holdings are known."""
        add(self.allocated, account.allocated.items())
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
        """Set ``tight`` from what is allocated and pending now."""
        for names in self.choices:
            for name in names:
                if self.allocated.get(name, 0.0) + self.pending.get(name, 0.0) > self.limit(name):
                    self.tight.add(name)
