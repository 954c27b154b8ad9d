"""The plugin capacity-card: quotas of queues by card model, and limits of cpu and memory.

``nvidia.com/gpu`` is the same resource for an H200 and an RTX 4090. With this plugin, the queue's annotation
``volcano.sh/card.quota`` limits the number of cards of each model; a queue may not use cards that the annotation does
not list. A Pod may name several alternative cards; it is charged for the card of its node. Queues are flat. Quotas are
not compared with the cluster when Pods are placed: they may add up to more cards than exist, and cards may disappear.
Warnings and figures (``totals``) say so.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final

import msgspec
import numpy as np

from scheduler.api.card_kinds import MIG, MPS, PART, SHARE, VNPU, kind_of
from scheduler.api.card_totals import CardTotals
from scheduler.api.cards import ASCEND_VENDOR, parse_quota, vendor_of
from scheduler.api.job import Job
from scheduler.api.names import CARD_QUOTA, CPU, EVENT_UNSCHEDULABLE, MEMORY
from scheduler.api.queue import Queue
from scheduler.api.reasons import FitErrors, Malformed, Refusal, Shortage
from scheduler.api.task import Task, TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.card_parts import CardParts, card_parts_of
from scheduler.framework.columns import UNBOUNDED, CodedFilter, Filter, MaskFilter, PinUse, Score, StaticScore
from scheduler.framework.extension import Vote
from scheduler.framework.figures import Figures, QueueShare, QueueUsage
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.plugins.capacity_card.accounting import AccountBuilder, JobAccount, Needs
from scheduler.plugins.capacity_card.bookkeeper import LIMITED, Bookkeeper, CardPlacements
from scheduler.plugins.capacity_card.books import CardBook
from scheduler.plugins.capacity_card.card_resources import CardResources
from scheduler.plugins.capacity_card.card_users import CardSums, online_cards
from scheduler.plugins.capacity_card.columns import QuotaFilter, card_preference
from scheduler.plugins.capacity_card.demand import CardsOfTask, Demands, join_names
from scheduler.plugins.capacity_card.discovery import inventory_of
from scheduler.plugins.capacity_card.holdings import Amounts
from scheduler.plugins.capacity_card.lending import Lending, LoansByQueue, loans
from scheduler.plugins.capacity_card.reclaiming import Reclaiming
from scheduler.plugins.capacity_card.refusals import card_shortages, insufficient, quota_exhausted, shortage_of
from scheduler.plugins.capacity_card.totals import CardSupply, card_supply, card_totals, granted_cards, quota_warnings
from scheduler.plugins.support.queue_accounting import not_open

REASON_CARDS: Final = "UnsupportedCards"
_BOTH_LIMIT: Final = (
    "both limit the queues, and Pods need room under both; cardUnlimitedCpuMemory does not lift the limits of the "
    "other plugin, and only that one reclaims"
)


@register_plugin
class CapacityCard:
    """Arguments: ``cardUnlimitedCpuMemory`` (default false): cpu and memory of Pods that use cards are neither limited
    nor counted. ``cardBorrowing`` (default false): queues borrow the idle card quota of others. ``cardResources``:
    resources that count cards, besides those whose names are known (``example.com/accelerator*, ...``). ``cardNames``:
    rules that name the cards of further resources (``label_rules``).
    ``cardAllowUnlabeled`` (default false): cards on nodes without labels that name them are neither limited nor
    counted, unless labels of other nodes name cards of the same resource."""

    name: ClassVar[str] = "capacity-card"
    beside: ClassVar[Mapping[str, str]] = dict.fromkeys(("capacity", "proportion"), _BOTH_LIMIT)

    def __init__(self, arguments: Arguments) -> None:
        self._unlimited = arguments.boolean("cardUnlimitedCpuMemory", False)
        self._borrowing = arguments.boolean("cardBorrowing", False)
        self._named_cards = CardResources.configured(arguments)

    def open(self, session: PluginSession) -> None:
        self._session = session
        card_resources = self._card_resources(session.queues.values())
        self._inventory = inventory_of(session.snapshot.memory, session.nodes.facts, card_resources)
        self._demands = Demands(self._inventory, session.dimensions, self._unlimited)
        account_builder = self._account_builder = AccountBuilder(
            self._demands, session.nodes.index, session.snapshot.signed_since
        )
        self._bookkeeper = Bookkeeper(session, account_builder, borrowing=self._borrowing)
        self._books = self._reported = self._bookkeeper.open_books()
        self._loans: LoansByQueue | None = None
        self._users: CardSums | None = None
        self._online: dict[str, Amounts] | None = None
        self._totals: Mapping[str, CardTotals] | None = None
        found: dict[Malformed, None] = dict.fromkeys(self._inventory.problems)
        self._accounts = self._bookkeeper.enter(self._books, found.setdefault)
        for problem in found:
            session.malformed_field(problem)
        session.add_queue_order(self._queue_key)
        session.add_job_valid(self._valid)
        session.add_job_enqueueable(self._enqueueable)
        session.add_job_enqueued(self._enqueued)
        session.add_allocatable(self._allocatable, by_demand=True)
        session.add_allocatable_now(self._allocatable_now, by_demand=True)
        session.add_cards(self._cards)
        # The filters differ from queue to queue only if a quota limits the choice of nodes.
        if self._demands.per_job:
            session.add_filter(self._filters_of_job, per_job=self._filter_key, pin=PinUse.IGNORED)
            session.add_score(self._scores, per_job=self._demands.of_job)
        else:
            session.add_filter(self._filters, per_queue=self._contended_queue, pin=PinUse.IGNORED)
            session.add_score(lambda cls: self._scores(cls, None))
        session.add_queue_usage(self._usage)
        session.add_cards_in_use(self._cards_in_use)
        session.add_figures(self._figures)
        session.add_close(self._close)
        placements = CardPlacements(self._books, self._demands)
        session.add_handlers(placements.allocate, placements.deallocate)
        self._open_reclaim()
        for book in self._books.values():
            book.find_contended_cards()

    def _card_resources(self, queues: Iterable[Queue]) -> CardResources:
        """Returns which resources count cards. Many clusters limit GPUs by quota and leave NPUs and vGPUs to other
        plugins. So NPUs and their parts count by name only if the quota of some queue lists an NPU, and vGPUs only if
        the quota of some queue lists one."""
        quotas = (parse_quota(queue.annotations.get(CARD_QUOTA)) for queue in queues)
        listed = {name for quota in quotas for names in quota.amounts for name in names}
        kinds = frozenset(kind for name in listed if PART in name and (kind := kind_of(name)) is not None)
        ascend = any(vendor_of(name) == ASCEND_VENDOR for name in listed)
        counted = kinds | {VNPU, SHARE} if ascend else kinds
        session = self._session
        every: tuple[CardParts, ...] = ()
        if not counted <= {MPS, MIG}:
            every = card_parts_of(session.configuration, session.snapshot.config_maps)
        parts = tuple(each for each in every if not counted.isdisjoint(each.kinds))
        return msgspec.structs.replace(self._named_cards, ascend=ascend, kinds=kinds, parts=parts)

    def _open_reclaim(self) -> None:
        session = self._session
        reclaiming = Reclaiming(session, self._books, self._demands)
        session.add_keeps_deserved(reclaiming.losses, bound=reclaiming.possible_losses, most=reclaiming.most)
        if not self._borrowing:
            return
        lending = Lending(self._books, self._supply(self._granted()).allocatable, self._inventory.canonical)
        for book in self._books.values():
            book.lending = lending
        session.add_preemptive(reclaiming.may_reclaim, by_demand=True)
        session.add_reclaimable(reclaiming.victims, bound=reclaiming.bound, by_demand=True)
        session.add_unified_evictable(reclaiming.victims_of_gang)

    def _usage(self, queue: Queue) -> dict[str, QueueUsage]:
        """Returns card -> usage."""
        totals, loaned = self._card_totals(), None
        if self._borrowing:
            if self._loans is None:
                self._loans = loans(self._reported.values(), [card for card, its in totals.items() if its.listed])
            loaned = self._loans.get(queue.name, {})
        if self._online is None:
            self._online = online_cards(self._cards_in_use())
        return self._reported[queue.name].usage(loaned, self._online.get(queue.name, {}), totals)

    def _cards_in_use(self) -> CardSums:
        """Returns who uses cards."""
        if self._users is None:
            self._users = self._bookkeeper.card_users(self._accounts)
        return self._users

    def _card_totals(self) -> Mapping[str, CardTotals]:
        """Returns the totals of the cards; at the end of the session, with what it has placed."""
        if self._totals is None:
            session, granted = self._session, self._granted()
            used = self._inventory.sums(session.dimensions, lambda position: session.nodes.used[position])
            for card in granted:
                if self._inventory.is_divided(card):
                    used[card] = sum(book.held(card) for book in self._books.values())
            self._totals = card_totals(self._supply(granted), granted, used)
        return self._totals

    def _granted(self) -> Mapping[str, float]:
        return granted_cards(book.limits for book in self._books.values())

    def _supply(self, listed: Iterable[str]) -> CardSupply:
        session = self._session
        return card_supply(session.snapshot.memory, self._inventory, session.nodes, session.dimensions, listed)

    def _close(self) -> None:
        """Computes the books again for reports: what was placed is no longer reserved, and may be another card than was
        expected."""
        self._reported = {
            name: CardBook(book.queue, book.limits, lending_limits=book.lending_limits, may_count=book.may_count)
            for name, book in self._books.items()
        }
        self._loans = self._users = self._online = self._totals = None
        for warning in quota_warnings(self._card_totals(), {name: book.limits for name, book in self._books.items()}):
            self._session.malformed_field(warning)
        self._accounts = self._bookkeeper.enter(self._reported, lambda problem: None)

    def _figures(self) -> Figures:
        counted = {name: {it: book.held(it) for it, _ in LIMITED} for name, book in self._reported.items()}
        return Figures(
            shares={name: QueueShare(book.share, book.overused) for name, book in self._books.items()},
            counted=counted if self._unlimited else {},
            cards=self._card_totals(),
            card_owners=self._bookkeeper.card_owners(),
        )

    # --- for explanations ---
    def book(self, queue: str) -> CardBook | None:
        """Returns the limits and the usage of a queue."""
        return self._books.get(queue)

    def needs(self, job: Job, tasks: Sequence[Task]) -> Needs:
        """Returns what tasks of a job use of card quotas; before the job is admitted, at least its minimum."""
        needs: Needs = {}
        for task in tasks:
            for card_request in self._demands.of(task.cls, job).card_requests:
                if card_request.cards:
                    needs[card_request.cards] = needs.get(card_request.cards, 0.0) + card_request.amount
        if job.waiting_for_queue:
            for names, amount in self._accounts[job.key].minimum.items():
                if names[0] not in (CPU, MEMORY):
                    needs[names] = max(needs.get(names, 0.0), amount)
        return needs

    def books(self) -> Iterable[CardBook]:
        """Returns the limits and the usage of all queues."""
        return self._books.values()

    def unused(self, cards: Iterable[str]) -> float:
        """Returns how many of these cards no queue uses, in thousandths."""
        session = self._session
        amounts = self._inventory.amounts(session.nodes, session.dimensions, cards)
        return sum(amounts.get(card, 0.0) - sum(book.held(card) for book in self._books.values()) for card in cards)

    def canonical(self, card: str) -> str:
        """Returns the name of a card on nodes."""
        return self._inventory.canonical(card)

    # --- order ---
    def _queue_key(self, queue: Queue) -> tuple[int, float]:
        book = self._books.get(queue.name)
        return (-queue.priority, book.share if book else 0.0)

    # --- jobs ---
    def _valid(self, job: Job) -> Refusal | None:
        conflict = self._account(job).conflict
        return Refusal(REASON_CARDS, conflict) if conflict else None

    def _account(self, job: Job) -> JobAccount:
        """Returns the account of a job, also of one that exists only for a trial."""
        known = self._accounts.get(job.key)
        return self._account_builder.account(job) if known is None else known

    def _enqueueable(self, job: Job) -> Vote:
        book, account = self._books[job.queue], self._account(job)
        refusals = self._refusals(book, account)
        for refusal in refusals:
            self._session.refuse(job, refusal)
        return Vote.REJECT if refusals else Vote.PERMIT

    def _refusals(self, book: CardBook, account: JobAccount) -> list[Refusal]:
        if not book.queue.open:
            return [not_open(book.queue)]
        if account.conflict:
            return [Refusal(REASON_CARDS, account.conflict)]
        refusals = []
        for names, amount in sorted(account.minimum.items()):
            room = sum(max(book.admission_room(name), 0.0) for name in names)
            if len(names) == 1:
                room = book.admission_room(names[0])
            if amount > room:
                limit = sum(book.limit(name) for name in names)
                shortage = Shortage(join_names(names), amount, limit - room, limit, "Queue", book.queue.name)
                refusals.append(Refusal(EVENT_UNSCHEDULABLE, insufficient(book, shortage), (shortage,)))
        return refusals

    def _enqueued(self, job: Job) -> None:
        self._books[job.queue].reserve(self._account(job).minimum)

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

    def _room(self, book: CardBook, job: Job, cls: TaskClass, *, now: bool) -> int:
        """Returns how many more tasks of a class the quota allows: now, or after terminating tasks are deleted."""
        demand = self._demands.of(cls, job)
        room = UNBOUNDED
        shortages = []
        for name, amount in ((CPU, demand.cpu), (MEMORY, demand.memory)):
            if amount <= 0 or book.limit(name) == float("inf"):
                continue
            fitting = book.fitting(name, amount, now=now)
            room = min(room, fitting)
            if fitting <= 0:
                shortages.append(shortage_of(book, name, name, amount))
        for card_request in demand.card_requests:
            usable = self._usable(book, card_request)
            if not (usable or card_request.cards):
                usable = [card for card in book.cards_of(card_request.resource) if book.offers(card)]
            fitting = sum(book.fitting(card, card_request.amount, now=now) for card in usable)
            room = min(room, fitting)
            if fitting <= 0:
                shortages += card_shortages(book, card_request, usable)
        if shortages:
            note = "; ".join(insufficient(book, shortage) + self._unlabeled(shortage) for shortage in shortages)
            errors = FitErrors(len(self._session.nodes), note=note, note_shortages=tuple(shortages))
            job.fit_errors[cls.id] = errors
        return max(room, 0)

    def _unlabeled(self, shortage: Shortage) -> str:
        """Returns how many nodes do not say which card a resource counts, if a Pod that names no card lacks quota of
        it."""
        codes, labels = self._inventory.missing_labels(shortage.resource)
        if not labels:
            return ""
        return f"; {int((codes >= 0).sum())} node(s) with {shortage.resource} have no valid label {' or '.join(labels)}"

    @staticmethod
    def _usable(book: CardBook, card_request: CardsOfTask) -> list[str]:
        """Returns the acceptable cards that the queue has quota of."""
        return [card for card in card_request.cards if book.offers(card)]

    # --- nodes ---
    def _contended_queue(self, queue: Queue) -> str:
        """Returns the name of a queue whose quota limits the choice of cards; "" for all others, which share their
        filters."""
        book = self._books.get(queue.name)
        return queue.name if book is not None and book.contended_cards else ""

    def _filter_key(self, job: Job) -> tuple[str, Hashable]:
        """Returns what the filters of a job depend on besides the class."""
        queue = self._session.queues.get(job.queue)
        return "" if queue is None else self._contended_queue(queue), self._demands.of_job(job)

    def _filters_of_job(self, cls: TaskClass, key: tuple[str, Hashable]) -> list[Filter]:
        contended_queue, of_job = key
        return self._filters(cls, contended_queue, of_job)

    def _filters(self, cls: TaskClass, contended_queue: str, of_job: Hashable = None) -> list[Filter]:
        demand = self._demands.of_class(cls, of_job)
        filters: list[Filter] = []
        if demand.cards and not any(card_request.named for card_request in demand.card_requests):
            passes = self._inventory.nodes_with(demand.cards)
            filters.append(MaskFilter(passes, f"node(s) had no card {' or '.join(demand.written)}"))
        for card_request in demand.card_requests:
            filters += self._card_filters(card_request, self._books.get(contended_queue))
        return filters

    def _card_filters(self, card_request: CardsOfTask, book: CardBook | None) -> list[Filter]:
        if card_request.named:
            reason = f"node(s) had no card {' or '.join(card_request.written)}"
        else:
            reason = f"node(s) had no card of a known name for {card_request.resource}"
        filters = [self._mask_filter(card_request, reason)]
        if book is None or len(card_request.cards) < 2:
            return filters
        queue = book.queue.name
        scarce = {}
        for card in card_request.cards:
            if card not in book.contended_cards:
                continue
            if book.offers(card):
                scarce[card] = partial(book.fitting, card, card_request.amount)
            else:
                reason = f"node(s) had card {card}, of which queue {queue} has no quota"
                filters.append(MaskFilter(~card_request.column.passes((card,)), reason))
        if scarce and len(self._usable(book, card_request)) > 1:
            filters.append(
                QuotaFilter(card_request.column, scarce, lambda card: quota_exhausted(book, card, card_request))
            )
        return filters

    def _mask_filter(self, card_request: CardsOfTask, reason: str) -> Filter:
        """Passes nodes with one of the cards. ``reason``: why other nodes are refused, unless they lack a label."""
        passes, resource = card_request.column.passes(card_request.cards), card_request.resource
        codes, labels = self._inventory.missing_labels(resource)
        if not labels:
            return MaskFilter(passes, reason)
        reasons = [f"node(s) had no valid label {label}, which names the card of {resource}" for label in labels]
        return CodedFilter(np.where(passes, -1, np.where(codes < 0, len(labels), codes)), [*reasons, reason])

    def _scores(self, cls: TaskClass, of_job: Hashable) -> list[Score]:
        return [
            StaticScore(card_preference(card_request.column, card_request.cards))
            for card_request in self._demands.of_class(cls, of_job).card_requests
            if card_request.named and len(card_request.cards) > 1
        ]

    # --- bindings ---
    def _cards(self, job: Job, cls: TaskClass, rows: Sequence[int]) -> Mapping[int, Mapping[str, str]]:
        """Returns the cards for binding records; none if the queue limits nothing that the tasks use."""
        book, demand = self._books.get(job.queue), self._demands.of(cls, job)
        if book is None or not (demand.card_requests or book.limits_any((CPU, demand.cpu), (MEMORY, demand.memory))):
            return {}
        return self._demands.cards_on(demand, rows)
