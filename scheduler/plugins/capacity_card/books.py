"""The limits and the usage of queues in cpu, memory and cards.

Each session computes the books from the accounts of jobs, and updates them with its placements and evictions.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.api.card_kinds import PART
from scheduler.api.card_totals import NO_TOTALS, CardTotals, problem_of_queue
from scheduler.api.names import CPU, MEMORY
from scheduler.api.queue import Queue
from scheduler.api.resource import share
from scheduler.framework.figures import QueueUsage
from scheduler.plugins.capacity_card.accounting import JobAccount, Needs
from scheduler.plugins.capacity_card.holdings import Amounts, CardHolding, add, add_exactly
from scheduler.plugins.capacity_card.lending import NO_LOAN, Lending, Loan


@dataclass(slots=True)
class CardBook:
    """The limits and the usage of one queue."""

    queue: Queue
    limits: Amounts
    """The limits of cpu and memory (infinity: none), and of each card that the quota lists."""
    borrowing_limits: Amounts = field(default_factory=dict)
    """How many cards it may use beyond its quota. Cards that are not listed have no such limit."""
    lending_limits: Amounts = field(default_factory=dict)
    """How many cards of its quota other queues may use. Cards that are not listed have no such limit."""
    note: str = ""
    """Text appended to every refusal of a card, or ""."""
    allocated: Amounts = field(default_factory=dict)
    """Held by tasks that are not terminating, including pipelined tasks."""
    releasing: Amounts = field(default_factory=dict)
    """Held by terminating tasks."""
    pipelined: Amounts = field(default_factory=dict)
    """The part of ``allocated`` that waits for terminating tasks."""
    uncertain: Amounts = field(default_factory=dict)
    """What may be held of a card by tasks, terminating ones too, on nodes that do not say which cards they have."""
    inqueue: Amounts = field(default_factory=dict)
    elastic: Amounts = field(default_factory=dict)
    waiting: Needs = field(default_factory=dict)
    """Acceptable cards -> what the pending Pods that accept exactly these request."""
    contended_cards: set[str] = field(default_factory=set)
    """Cards whose quota is too small for all pending Pods that accept them, and borrowed cards."""
    may_count: Callable[[str, str], bool] = lambda resource, card: True
    """Whether a resource may count a card (``CardInventory.may_count``)."""
    lending: Lending | None = None
    """Lends between queues; None: queues do not borrow from each other."""

    def limit(self, name: str) -> float:
        """Returns the limit of a dimension; 0 for a card that the quota does not list."""
        return self.limits.get(name, 0.0)

    def limits_any(self, *amounts: tuple[str, float]) -> bool:
        """Whether a dimension with a positive amount is limited."""
        return any(amount > 0 and self.limit(name) < float("inf") for name, amount in amounts)

    def offers(self, card: str) -> bool:
        """Whether the queue may use a card at all."""
        return self.limit(card) > 0 or (self.lending is not None and card in self.limits)

    def cards_of(self, resource: str) -> list[str]:
        """Returns the cards that the quota lists and that a resource may count."""
        return [name for name in self.limits if name not in (CPU, MEMORY) and self.may_count(resource, name)]

    def own_room(self, name: str) -> float:
        """Returns what is left of the limit, after terminating tasks are deleted."""
        return self.limits.get(name, 0.0) - self.allocated.get(name, 0.0) - self.uncertain.get(name, 0.0)

    def room(self, name: str) -> float:
        """Returns the amounts that can still be allocated or pipelined, after terminating tasks are deleted."""
        own = self.own_room(name)
        return own if self.lending is None else max(own, self.lending.room(self, name, now=False))

    def room_now(self, name: str) -> float:
        """Returns the amounts that can still be bound, while other tasks terminate."""
        own = self.limits.get(name, 0.0) - self.used(name)
        return own if self.lending is None else max(own, self.lending.room(self, name, now=True))

    def used(self, name: str) -> float:
        """Returns what counts against binding a task: allocated amounts, and what terminating tasks hold beyond the
        amounts that are pipelined to it. A card that may be held counts."""
        waiting = self.releasing.get(name, 0.0) - self.pipelined.get(name, 0.0) if self.releasing else 0.0
        return self.allocated.get(name, 0.0) + max(waiting, 0.0) + self.uncertain.get(name, 0.0)

    def held(self, name: str) -> float:
        """Returns what tasks on nodes hold, including terminating ones."""
        return self.allocated.get(name, 0.0) - self.pipelined.get(name, 0.0) + self.releasing.get(name, 0.0)

    def charged(self, name: str) -> float:
        """Returns what tasks on nodes hold or may hold, including terminating ones."""
        return self.held(name) + self.uncertain.get(name, 0.0)

    def fitting(self, name: str, amount: float, *, now: bool = False) -> int:
        """Returns how many tasks with ``amount`` each fit under the limit. ``now``: for binding, while other tasks
        terminate."""
        return max(int((self.room_now(name) if now else self.room(name)) // amount), 0)

    def admission_room(self, name: str) -> float:
        """Returns the amounts that can still be reserved by admitting jobs. Admitted jobs count with their minimum,
        without the elastic part."""
        room = self.own_room(name)
        if self.lending is not None:
            room = max(room, self.lending.admission_room(self, name))
        return room - self.inqueue.get(name, 0.0) + self.elastic.get(name, 0.0)

    @property
    def share(self) -> float:
        """The largest ratio of allocated amount to limit."""
        allocated = self.allocated
        return max((share(allocated.get(name, 0.0), limit) for name, limit in self.limits.items()), default=0.0)

    def add_holding(self, holding: CardHolding) -> None:
        """Adds what tasks hold."""
        add(self.allocated, holding.allocated.items())
        if holding.releasing:
            add(self.releasing, holding.releasing.items())
        for possible, amount in holding.uncertain.items():
            cards: Iterable[str] = possible.cards or self.cards_of(possible.resource)
            if possible.parts:
                cards = [card for card in cards if card.partition(PART)[2] in possible.parts]
            add(self.uncertain, ((card, amount) for card in cards))

    def add_job(self, account: JobAccount) -> None:
        """Adds what a job holds and waits for. ``reserve`` adds reservations later, when all holdings are known."""
        self.add_holding(account.holding)
        add(self.elastic, account.elastic.items())
        for names, amount in account.waiting.items():
            self.waiting[names] = self.waiting.get(names, 0.0) + amount

    def add_settled(self, allocated: Amounts, elastic: Amounts, sign: int) -> None:
        """Adds what settled jobs hold, or subtracts it (``sign`` -1)."""
        add_exactly(self.allocated, allocated, sign)
        add_exactly(self.elastic, elastic, sign)

    def reserve(self, needs: Needs) -> None:
        """Adds needs to the reserved amounts. A need with alternatives is reserved on its cards in order, as far as
        there is room, as its Pods will be placed; what exceeds all quotas counts against the first card."""
        for names in sorted(needs, key=len):
            missing = needs[names]
            for name in names if len(names) > 1 else ():
                card_request = min(max(self.admission_room(name), 0.0), missing)
                add(self.inqueue, ((name, card_request),))
                missing -= card_request
            add(self.inqueue, ((names[0], missing),))

    def find_contended_cards(self) -> None:
        """Sets ``contended_cards`` from the held and pending amounts. The Pods that hold borrowed cards may be evicted,
        and are then pending."""
        if self.lending is not None:
            cards = (name for name in self.allocated if name not in (CPU, MEMORY))
            self.contended_cards.update(name for name in cards if self.allocated[name] > self.limit(name))
        for names in self.waiting:
            for name in names if len(names) > 1 else ():
                if self.charged(name) + self.pending(name) > self.limit(name):
                    self.contended_cards.add(name)

    def pending(self, card: str) -> float:
        """Returns what pending Pods would use of a card if all that accept it got it."""
        return sum(amount for names, amount in self.waiting.items() if card in names)

    # --- reports ---
    def usage(
        self, loans: Mapping[str, Loan] | None, online: Amounts, totals: Mapping[str, CardTotals]
    ) -> dict[str, QueueUsage]:
        """Returns what the queue has of each card that its quota lists, or that it uses or waits for. Pods that accept
        several cards wait for the first that the quota lists; without any, for the first. ``loans``: card -> what the
        queue has borrowed and lent; None: queues do not borrow from each other. ``online``: what online Pods hold.
        ``totals``: of the cluster, by card."""
        wanted: Amounts = {}
        for names, amount in self.waiting.items():
            add(wanted, ((next((name for name in names if self.limit(name) > 0), names[0]), amount),))
        cards = dict.fromkeys((*self.limits, *self.allocated, *self.releasing, *self.uncertain, *self.inqueue, *wanted))
        found: dict[str, QueueUsage] = {}
        for card in cards:
            if card not in (CPU, MEMORY):
                used, limit, of_cluster = self.charged(card), self.limit(card), totals.get(card, NO_TOTALS)
                borrowed, lent = (None, None) if loans is None else loans.get(card, NO_LOAN)
                found[card] = QueueUsage(
                    used,
                    limit,
                    self.inqueue.get(card, 0.0),
                    used + wanted.get(card, 0.0),
                    borrowed,
                    lent,
                    online=min(online.get(card, 0.0), used),
                    guarantee=limit,
                    elastic=self.elastic.get(card, 0.0),
                    totals=of_cluster,
                    problem=problem_of_queue(of_cluster, limit) if card in self.limits else None,
                )
        return found

    @property
    def overused(self) -> bool:
        """Whether the queue holds more than a limit."""
        return any(amount > self.limit(name) for name, amount in self.allocated.items())
