"""capacity-card: queues have quotas of cards by model, besides cpu and memory.

``nvidia.com/gpu`` is one resource, whether an H200 or an RTX 4090 stands behind it; here a queue's annotation
``volcano.sh/card.quota`` says how many of which it may use, and a card that it does not list it may not use at all. A
Pod may name several cards; it is charged for the one of the node it gets. Queues are flat. Quotas are not compared with
what the cluster has: they may add up to more than there is, and cards may disappear.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

from scheduler.api.job import Job
from scheduler.api.names import CARD_QUOTA, CPU, EVENT_UNSCHEDULABLE, MEMORY
from scheduler.api.queue import Queue
from scheduler.api.reasons import FitErrors, Malformed, Refusal, Shortage
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, Vector
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import UNBOUNDED, Filter, MaskFilter, Score, StaticScore
from scheduler.framework.extension import (
    Vote,
)
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session
from scheduler.plugins.capacity_card.accounting import Accountant, AccountMemo, JobAccount, Needs
from scheduler.plugins.capacity_card.books import QueueBook
from scheduler.plugins.capacity_card.columns import QuotaFilter, preference
from scheduler.plugins.capacity_card.demand import Demands, Part, joined
from scheduler.plugins.capacity_card.discovery import Discovery
from scheduler.plugins.capacity_card.holdings import Amounts, without_group, without_record
from scheduler.plugins.capacity_card.placements import Placements
from scheduler.plugins.capacity_card.quota import parse_quota
from scheduler.plugins.capacity_card.refusals import insufficient, shortage_of, shortages_of_part, used_up
from scheduler.plugins.support.queues.accounting import total_guarantee
from scheduler.plugins.support.queues.refusals import not_open

QUOTA_FIELD: Final = f"metadata.annotations[{CARD_QUOTA}]"
REASON_CARDS: Final = "UnsupportedCards"
_LIMITED: Final = ((CPU, CPU_INDEX), (MEMORY, MEMORY_INDEX))
_discovery = Discovery()
_accounts = AccountMemo()
"""What the last session computed; the next takes over what has not changed since."""


@register_plugin
class CapacityCard:
    """Argument ``cardUnlimitedCpuMemory`` (default false): cpu and memory of Pods that use cards are neither limited
    nor counted."""

    name: ClassVar[str] = "capacity-card"

    def __init__(self, arguments: Arguments) -> None:
        self._unlimited = arguments.boolean("cardUnlimitedCpuMemory", False)

    def open(self, session: Session) -> None:
        self._session = session
        self._inventory = _discovery.of(session.nodes.facts)
        for problem in self._inventory.problems:
            session.malformed_field(problem)
        self._demands = Demands(self._inventory, session.dimensions, self._unlimited)
        self._books = self._open_books()
        self._account()
        session.add_queue_order(self._queue_key)
        session.add_job_valid(self._valid)
        session.add_job_enqueueable(self._enqueueable)
        session.add_job_enqueued(self._enqueued)
        session.add_allocatable(self._allocatable)
        session.add_allocatable_now(self._allocatable_now)
        session.add_cards(self._cards)
        # Only where a queue's quota bears on which nodes its Pods may have do views differ from queue to queue.
        session.add_filter(self._filters, per_queue=self._tight_queue)
        session.add_score(self._scores)
        session.add_queue_usage(self._usage)
        placements = Placements(self._books, self._demands)
        session.add_handlers(placements.allocate, placements.deallocate)

    def _usage(self, queue: Queue) -> dict[str, tuple[float, float]]:
        """Cards of a queue: in use, by terminating Pods as well, and quota (both in thousandths)."""
        book = self._books[queue.name]
        names = dict.fromkeys((*book.limits, *book.allocated, *book.releasing))
        return {name: (book.held(name), book.limit(name)) for name in names if name not in (CPU, MEMORY)}

    # --- for explanations ---
    def book(self, queue: str) -> QueueBook | None:
        """What a queue may have and has."""
        return self._books.get(queue)

    def needs(self, job: Job, tasks: Sequence[Task]) -> Needs:
        """What tasks of a job take of card quotas, and as long as it is not let in its minimum at least."""
        needs: Needs = {}
        for task in tasks:
            for part in self._demands.of(task.cls).parts:
                if part.cards:
                    needs[part.cards] = needs.get(part.cards, 0.0) + part.amount
        if job.waiting_for_queue:
            for names, amount in self._accounts[job.key].minimum.items():
                if names[0] not in (CPU, MEMORY):
                    needs[names] = max(needs.get(names, 0.0), amount)
        return needs

    def canonical(self, card: str) -> str:
        """The name under which nodes have a card."""
        return self._inventory.canonical(card)

    # --- opening ---
    def _open_books(self) -> dict[str, QueueBook]:
        promised = total_guarantee(self._session)
        return {name: self._open_book(queue, promised) for name, queue in self._session.queues.items()}

    def _open_book(self, queue: Queue, promised: Vector) -> QueueBook:
        """``promised``: what all queues are guaranteed."""
        session = self._session
        limits: Amounts = {}
        for name, index in _LIMITED:
            limit, others = float(queue.capability[index]), float(promised[index] - queue.guarantee[index])
            if limit == float("inf") and others > 0:  # the rest of the cluster: what no other queue is guaranteed
                limit = max(float(session.total[index]) - others, 0.0)
            limits[name] = limit
        quota = parse_quota(queue.annotations.get(CARD_QUOTA))
        problems = list(quota.problems)
        for names, amount in quota.amounts.items():
            card = self._inventory.canonical(names[0])
            if card in limits:
                problems.append(f"{names[0]!r} is another name of {card!r}, which is given already")
            else:
                limits[card] = amount
        for problem in problems:
            session.malformed_field(Malformed("Queue", "", queue.name, QUOTA_FIELD, problem))
        note = "" if quota.readable else f"; the queue's annotation {CARD_QUOTA} cannot be read"
        return QueueBook(queue, limits, note)

    def _account(self) -> None:
        """Fill the books."""
        session, books = self._session, self._books
        accountant = Accountant(self._demands, session.nodes.index, self._unlimited, session.snapshot.signed_since)
        unproven = list(self._account_tasks_without_job(accountant))
        jobs = list(session.jobs.values())
        accounts = _accounts.accounts(jobs, accountant)
        self._accounts: dict[str, JobAccount] = {}
        promised = []
        for job, account in zip(jobs, accounts, strict=True):
            self._accounts[job.key] = account
            unproven += account.unproven
            for problem in account.problems:
                session.malformed_field(problem)
            for queue, holding in account.elsewhere.items():
                if queue in books:
                    books[queue].hold(holding)
            book = books.get(job.queue)
            if book is None:
                continue
            book.enter(account)
            if account.lacking:
                promised.append((book, account.lacking))
        self._account_unproven(accountant, unproven)
        for book, needs in promised:
            book.promise(needs)
        for book in books.values():
            book.find_tight()

    def _account_tasks_without_job(self, accountant: Accountant) -> Iterator[Task]:
        """Pods whose PodGroup is gone, or that name none, stay charged to the queue that admitted them. Returns those
        of which it is not known."""
        for task in self._session.snapshot.tasks_without_job:
            if task.record is None:
                if task.ours and accountant.unproven(task):  # most are not: daemons, and Pods of other schedulers
                    yield task
                continue
            holding = accountant.holding(task)
            book = self._books.get(task.record.queue)
            if book is not None:
                book.hold(holding)
            if task.status is not TaskStatus.RELEASING:  # a PodGroup and its Pods may well be deleted together
                self._session.malformed_field(without_group(task, task.record.queue, holding))

    def _account_unproven(self, accountant: Accountant, tasks: Iterable[Task]) -> None:
        """Charge each of the queues that may have admitted tasks: who takes away the record gains nothing."""
        queues: dict[str, set[str]] = {}
        jobs = self._session.jobs
        for task in tasks:
            if not queues:
                for job in jobs.values():
                    queues.setdefault(job.namespace, set()).add(job.queue)
            named = sorted(queues.get(task.namespace, set()) & self._books.keys())
            holding = accountant.holding(task)
            for queue in named:
                if task.job not in jobs or queue != jobs[task.job].queue:
                    self._books[queue].hold(holding)
            self._session.malformed_field(without_record(task, named, holding))

    # --- order ---
    def _queue_key(self, queue: Queue) -> tuple[int, float]:
        book = self._books.get(queue.name)
        return (-queue.priority, book.share if book else 0.0)

    # --- jobs ---
    def _valid(self, job: Job) -> Refusal | None:
        account = self._accounts.get(job.key)
        return Refusal(REASON_CARDS, account.conflict) if account is not None and account.conflict else None

    def _enqueueable(self, job: Job) -> Vote:
        book, account = self._books[job.queue], self._accounts[job.key]
        refusals = self._refusals(book, account)
        for refusal in refusals:
            self._session.refuse(job, refusal)
        return Vote.REJECT if refusals else Vote.PERMIT

    def _refusals(self, book: QueueBook, account: JobAccount) -> list[Refusal]:
        if not book.queue.open:
            return [not_open(book.queue)]
        if account.conflict:
            return [Refusal(REASON_CARDS, account.conflict)]
        refusals = []
        for names, amount in sorted(account.minimum.items()):
            room = sum(max(book.room_for_promises(name), 0.0) for name in names)
            if len(names) == 1:
                room = book.room_for_promises(names[0])
            if amount > room:
                limit = sum(book.limit(name) for name in names)
                shortage = Shortage(joined(names), amount, limit - room, limit, "Queue", book.queue.name)
                refusals.append(Refusal(EVENT_UNSCHEDULABLE, insufficient(book, shortage), (shortage,)))
        return refusals

    def _enqueued(self, job: Job) -> None:
        self._books[job.queue].promise(self._accounts[job.key].minimum)

    # --- tasks ---
    def _allocatable(self, queue: Queue, job: Job, cls: TaskClass) -> int:
        book = self._books.get(queue.name)
        if book is None or not queue.open:
            job.fit_errors[cls.id] = FitErrors(len(self._session.nodes), note=not_open(queue).message)
            return 0
        return self._room(book, job, cls, now=False)

    def _allocatable_now(self, queue: Queue, job: Job, cls: TaskClass) -> int:
        book = self._books[queue.name]
        return self._room(book, job, cls, now=True) if book.releasing else UNBOUNDED

    def _room(self, book: QueueBook, job: Job, cls: TaskClass, *, now: bool) -> int:
        """How many more tasks of a class the quota allows: now, or once terminating tasks are gone."""
        demand = self._demands.of(cls)
        room = UNBOUNDED
        shortages = []
        for name, amount in ((CPU, demand.cpu), (MEMORY, demand.memory)):
            if amount <= 0 or book.limit(name) == float("inf"):
                continue
            fitting = book.fitting(name, amount, now=now)
            room = min(room, fitting)
            if fitting <= 0:
                shortages.append(shortage_of(book, name, name, amount))
        for part in demand.parts:
            usable = self._usable(book, part)
            fitting = sum(book.fitting(card, part.amount, now=now) for card in usable)
            room = min(room, fitting)
            if fitting <= 0:
                shortages += shortages_of_part(book, part, usable)
        if shortages:
            note = "; ".join(insufficient(book, shortage) for shortage in shortages)
            errors = FitErrors(len(self._session.nodes), note=note, note_shortages=tuple(shortages))
            job.fit_errors[cls.id] = errors
        return max(room, 0)

    @staticmethod
    def _usable(book: QueueBook, part: Part) -> list[str]:
        """The cards of a part that the queue has any quota of."""
        return [card for card in part.cards if book.limit(card) > 0]

    # --- nodes ---
    def _tight_queue(self, queue: Queue) -> str:
        """The name of a queue whose quota decides which cards it may take; "" for all others, which see nodes alike."""
        book = self._books.get(queue.name)
        return queue.name if book is not None and book.tight else ""

    def _filters(self, cls: TaskClass, tight_queue: str) -> list[Filter]:
        demand = self._demands.of(cls)
        filters: list[Filter] = []
        if demand.cards and not any(part.named for part in demand.parts):
            filters.append(self._having(demand.cards, demand.written, None))
        for part in demand.parts:
            filters += self._part_filters(part, self._books.get(tight_queue))
        return filters

    def _part_filters(self, part: Part, book: QueueBook | None) -> list[Filter]:
        inventory = self._inventory
        if part.named:
            filters = [self._having(part.cards, part.written, part.resource)]
        else:
            reason = f"node(s) had no card of a known name for {part.resource}"
            filters = [MaskFilter(inventory.having(part.cards, part.resource), reason)]
        if book is None or len(part.cards) < 2:
            return filters
        queue = book.queue.name
        scarce = {}
        for card in part.cards:
            if card not in book.tight:
                continue
            if book.limit(card) > 0:
                scarce[card] = partial(book.fitting, card, part.amount)
            else:
                reason = f"node(s) had card {card}, of which queue {queue} has no quota"
                filters.append(MaskFilter(~inventory.having((card,), part.resource), reason))
        if scarce and len(self._usable(book, part)) > 1:
            filters.append(QuotaFilter(inventory, part.resource, scarce, lambda card: used_up(book, card, part)))
        return filters

    def _having(self, cards: Sequence[str], written: Sequence[str], resource: str | None) -> Filter:
        return MaskFilter(self._inventory.having(cards, resource), f"node(s) had no card {' or '.join(written)}")

    def _scores(self, cls: TaskClass) -> list[Score]:
        return [
            StaticScore(preference(self._inventory, part.resource, part.cards))
            for part in self._demands.of(cls).parts
            if part.named and len(part.cards) > 1
        ]

    # --- bindings ---
    def _cards(self, job: Job, cls: TaskClass, rows: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        """For the records of bindings; none where the queue limits nothing of what is held."""
        book, demand = self._books.get(job.queue), self._demands.of(cls)
        if book is None or not (demand.parts or book.limits_any((CPU, demand.cpu), (MEMORY, demand.memory))):
            return {}
        return self._demands.cards_on(demand, rows)
