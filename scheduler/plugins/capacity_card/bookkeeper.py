"""Opens the books of the queues in a session, enters the accounts of all jobs, and follows what the session places and
evicts.

What settled jobs hold is kept from session to session as sums per queue, so a session computes only the accounts of the
jobs that changed since the session before. All amounts are whole numbers, so the sums are exact in any order.

Pods whose queue is uncertain count, too: a Pod without a PodGroup is charged to the queue that admitted it, and a Pod
without a record to every queue that may have admitted it. Pods that belong to no queue count in the queue that their
namespace is charged to (``framework/charged_namespaces.py``).

An evicted task holds its resources until it is deleted; its amounts move from ``allocated`` to ``releasing``. Pipelined
tasks may use them, bindings may not, so that no action binds a task beyond the quota.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from scheduler.api.cards import CardCounts, parse_quota
from scheduler.api.job import Job
from scheduler.api.names import CARD_BORROWING_LIMIT, CARD_LENDING_LIMIT, CARD_QUOTA, CPU, MEMORY
from scheduler.api.queue import Queue
from scheduler.api.reasons import Malformed
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, Vector
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task, TaskClass, TaskStatus
from scheduler.framework.charged_namespaces import charged_pods
from scheduler.framework.figures import CardOwner, CardUser
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.statement import AllocationError
from scheduler.plugins.capacity_card.accounting import AccountBuilder, JobAccount, account_of
from scheduler.plugins.capacity_card.books import CardBook
from scheduler.plugins.capacity_card.card_users import CardSums, UsedCards, add_users, users_of
from scheduler.plugins.capacity_card.demand import AmountList, Demands
from scheduler.plugins.capacity_card.discovery import CardInventory
from scheduler.plugins.capacity_card.holdings import (
    Amounts,
    CardHolding,
    add,
    add_exactly,
    charged_queue,
    missing_group,
    missing_record,
)
from scheduler.plugins.capacity_card.refusals import insufficient, shortage_of
from scheduler.plugins.capacity_card.without_queue import without_queue_accounts
from scheduler.plugins.support.queue_accounting import total_guarantee


class PlainAccount(NamedTuple):
    """The account of a settled job that does nothing but hold amounts of its own queue."""

    queue: str
    allocated: Amounts
    elastic: Amounts
    independent_of_nodes: bool
    users: UsedCards


@dataclass(slots=True)
class SettledAccounts:
    """The accounts of the settled jobs of one snapshot."""

    identity: object
    """The identity of the jobs (``JobChanges.identity``)."""
    inventory: CardInventory
    plain: dict[str, PlainAccount] = field(default_factory=dict)
    """Key of a job -> its account."""
    sums: dict[str, tuple[Amounts, Amounts]] = field(default_factory=dict)
    """Queue -> allocated and elastic amounts of the plain accounts."""
    by_user: dict[CardUser, Amounts] = field(default_factory=dict)
    """User -> the cards that these accounts hold."""
    others: dict[str, None] = field(default_factory=dict)
    """Keys of the settled jobs without a plain account."""

    def update(self, keys: Iterable[str], jobs: Mapping[str, Job], account_builder: AccountBuilder) -> None:
        """Computes the accounts of some jobs again."""
        for key in keys:
            self.others.pop(key, None)
            old = self.plain.pop(key, None)
            if old is not None:
                self._add(old, -1)
            job = jobs.get(key)
            if job is None or not job.is_settled:
                continue
            account = account_of(job, account_builder)
            if _is_plain(account):
                allocated, elastic = account.holding.allocated, account.elastic
                terms = account.independent_of_nodes, account.users
                self.plain[key] = new = PlainAccount(job.queue, allocated, elastic, *terms)
                self._add(new, 1)
            else:
                self.others[key] = None

    def _add(self, account: PlainAccount, sign: int) -> None:
        allocated, elastic = self.sums.setdefault(account.queue, ({}, {}))
        add_exactly(allocated, account.allocated, sign)
        add_exactly(elastic, account.elastic, sign)
        for user, cards in account.users:
            sums = self.by_user.setdefault(user, {})
            add_exactly(sums, dict(cards), sign)
            if not sums:
                del self.by_user[user]


def settled_accounts(snapshot: Snapshot, account_builder: AccountBuilder) -> SettledAccounts:
    """Returns the accounts of a snapshot. They hold until the next call for the same cluster, and must be asked for
    before the session changes jobs."""
    changes, inventory = snapshot.job_changes, account_builder.inventory

    def follow(last: SettledAccounts | None) -> SettledAccounts:
        if last is None or last.identity not in (changes.identity, changes.follows):
            last = SettledAccounts(changes.identity, inventory)
            keys: Collection[str] = snapshot.jobs.keys()
        else:
            keys = changes.keys if last.identity is not changes.identity else ()
            if last.inventory is not inventory:
                plain = last.plain.items()
                on_nodes = (key for key, account in plain if not account.independent_of_nodes)
                keys = {*keys, *on_nodes, *last.others}
        last.update(keys, snapshot.jobs, account_builder)
        last.identity, last.inventory = changes.identity, inventory
        return last

    terms = account_builder.unlimited, account_builder.signed_since
    return snapshot.memory.memo(SettledAccounts, (changes.identity, inventory), follow, terms)


def _is_plain(account: JobAccount) -> bool:
    more = account.other_queues, account.unproven, account.reserved, account.waiting, account.conflict, account.problems
    return not any(more) and not account.holding.releasing and not account.holding.uncertain


LIMITED: Final = ((CPU, CPU_INDEX), (MEMORY, MEMORY_INDEX))
"""The resources besides cards that the plugin limits."""


class Bookkeeper:
    """Opens and fills the books of one session."""

    def __init__(self, session: PluginSession, account_builder: AccountBuilder, *, borrowing: bool) -> None:
        """``borrowing``: queues borrow from each other."""
        self._session = session
        self._inventory = account_builder.inventory
        self._account_builder = account_builder
        self._settled = settled_accounts(session.snapshot, account_builder)
        self._borrowing = borrowing
        self._charged = session.once(charged_pods).queues
        self._without_queue = without_queue_accounts(session.snapshot, account_builder)
        self._recorded: list[tuple[Task, CardHolding]] = []
        """Pods without an existing PodGroup that the scheduler bound, and what they hold."""

    def open_books(self) -> dict[str, CardBook]:
        """Returns the books of all queues, with their limits and without any job."""
        guaranteed = total_guarantee(self._session)
        return {name: self._open_book(queue, guaranteed) for name, queue in self._session.queues.items()}

    def _open_book(self, queue: Queue, guaranteed: Vector) -> CardBook:
        """Returns the book of a queue. ``guaranteed``: the sum of the guarantees of all queues."""
        session = self._session
        limits: Amounts = {}
        for name, index in LIMITED:
            limit, others = float(queue.capability[index]), float(guaranteed[index] - queue.guarantee[index])
            if limit == float("inf") and others > 0:  # the cluster less the guarantees of other queues
                limit = max(float(session.total[index]) - others, 0.0)
            limits[name] = limit
        quota = self._read_counts(queue, CARD_QUOTA, limits)
        note = "" if quota.readable else f"; the queue's annotation {CARD_QUOTA} cannot be read"
        borrowing_limits: Amounts = {}
        lending_limits: Amounts = {}
        if self._borrowing:
            self._read_counts(queue, CARD_BORROWING_LIMIT, borrowing_limits)
            self._read_counts(queue, CARD_LENDING_LIMIT, lending_limits)
        return CardBook(queue, limits, borrowing_limits, lending_limits, note, may_count=self._inventory.may_count)

    def _read_counts(self, queue: Queue, key: str, amounts: Amounts) -> CardCounts:
        """Adds the numbers of cards in an annotation to ``amounts``, and reports malformed ones."""
        counts = parse_quota(queue.annotations.get(key))
        problems = list(counts.problems)
        for names, amount in counts.amounts.items():
            card = self._inventory.canonical(names[0])
            if card in amounts:
                problems.append(f"{names[0]!r} is another name of {card!r}, which is given already")
            else:
                amounts[card] = amount
        for problem in problems:
            field = f"metadata.annotations[{key}]"
            self._session.malformed_field(Malformed("Queue", "", queue.name, field, problem))
        return counts

    def enter(self, books: Mapping[str, CardBook], report: Callable[[Malformed], object]) -> dict[str, JobAccount]:
        """Adds the accounts of all jobs to the books. Returns key -> account of the jobs that are not settled.
        ``report``: called with each malformed field."""
        session = self._session
        self._recorded = []
        unproven = list(self._enter_tasks_without_job(books, report))
        for namespace, queue in self._charged.items():
            if queue in books and namespace in self._without_queue.by_namespace:
                books[queue].add_holding(self._without_queue.by_namespace[namespace])
        accounts: dict[str, JobAccount] = {}
        for name, (allocated, elastic) in self._settled.sums.items():
            if name in books:
                books[name].add_settled(allocated, elastic, 1)
        for job in session.touched:
            known = self._settled.plain.get(job.key)
            if known is not None and known.queue in books:
                books[known.queue].add_settled(known.allocated, known.elastic, -1)
        reservations = []
        others = (session.jobs[key] for key in self._settled.others if key not in session.active_jobs)
        for job in (*session.active_jobs.values(), *others):
            account = accounts[job.key] = account_of(job, self._account_builder)
            unproven += account.unproven
            for problem in account.problems:
                report(problem)
            for queue, holding in account.other_queues.items():
                if queue in books:
                    books[queue].add_holding(holding)
            book = books.get(job.queue)
            if book is None:
                continue
            book.add_job(account)
            if account.reserved:
                reservations.append((book, account.reserved))
        self._enter_unproven(books, unproven, report)
        for book, needs in reservations:
            book.reserve(needs)
        return accounts

    def card_users(self, accounts: Mapping[str, JobAccount]) -> CardSums:
        """Returns who uses cards. ``accounts``: what ``enter`` returned last. The queue of a user is "" if the queue
        does not exist, or if the Pods belong to none."""
        session = self._session
        sums = {user: dict(cards) for user, cards in self._settled.by_user.items()}
        for job in session.touched:
            known = self._settled.plain.get(job.key)
            if known is not None:
                add_users(sums, known.users, -1.0)
        for account in accounts.values():
            if account.users:
                add_users(sums, account.users)
        for task, holding in self._recorded:
            record = task.record
            if record is not None:
                add_users(sums, users_of({record.queue: holding}, task.namespace, task.cls.online, self._inventory))
        for user, cards in self._without_queue.users(self._charged):
            add(sums.setdefault(user, {}), cards.items())
        found: CardSums = {}
        for user, cards in sums.items():
            if any(cards.values()):
                charged = user if user.queue in session.queues else user._replace(queue="")
                add(found.setdefault(charged, {}), ((card, amount) for card, amount in cards.items() if amount))
        return found

    def card_owners(self) -> list[CardOwner]:
        """Returns the owners of Pods that belong to no queue and use cards."""
        return list(self._without_queue.owners(self._charged))

    def _enter_tasks_without_job(
        self, books: Mapping[str, CardBook], report: Callable[[Malformed], object]
    ) -> Iterator[Task]:
        """Charges Pods without an existing PodGroup to the queue that admitted them. Yields the Pods whose queue is
        unknown."""
        account_builder = self._account_builder
        for task in self._session.snapshot.tasks_without_job:
            if task.record is None:
                if task.ours and account_builder.unproven(task):  # most are daemons, and Pods of other schedulers
                    yield task
                continue
            holding = account_builder.holding((task,))
            book = books.get(task.record.queue)
            if book is not None:
                book.add_holding(holding)
            self._recorded.append((task, holding))
            if task.status is not TaskStatus.RELEASING:  # a PodGroup and its Pods are often deleted together
                report(missing_group(task, task.record.queue, holding))

    def _enter_unproven(
        self, books: Mapping[str, CardBook], tasks: Iterable[Task], report: Callable[[Malformed], object]
    ) -> None:
        """Charges every queue that may have admitted the tasks, so that removing a record frees no quota."""
        queues: dict[str, set[str]] = {}
        jobs = self._session.jobs
        for task in tasks:
            if not queues:
                for job in jobs.values():
                    queues.setdefault(job.namespace, set()).add(job.queue)
            named = sorted(queues.get(task.namespace, set()) & books.keys())
            holding = self._account_builder.holding((task,))
            present = jobs[task.job].queue if task.job in jobs else self._charged.get(task.namespace)
            for queue in named:
                if queue != present:
                    books[queue].add_holding(holding)
            report(missing_record(task, named, holding))


class CardPlacements:
    """The allocation handlers of a session."""

    def __init__(self, books: Mapping[str, CardBook], demands: Demands) -> None:
        """``books``: by queue. Jobs and records may name queues that do not exist and have no book."""
        self._books = books
        self._demands = demands
        self._evicted: dict[str, AmountList] = {}
        """uid -> what a task holds that this session evicted."""

    def allocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        """Adds tasks that are placed, or whose eviction is undone. Raises AllocationError if a binding exceeds the
        quota."""
        if tasks[0].uid in self._evicted:
            for task in tasks:
                self._release(job, task, self._evicted.pop(task.uid), -1.0)
            return
        book = self._books.get(job.queue)
        if book is None:
            return
        amounts = self._placed(job, tasks[0].cls, rows)
        if pipelined:
            add(book.pipelined, amounts)
        else:
            _check(book, amounts)
        add(book.allocated, amounts)

    def deallocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        """Removes tasks that are evicted, or whose placement is undone."""
        if tasks[0].uid in job.of(TaskStatus.RELEASING):
            for task, row in zip(tasks, rows, strict=True):
                # A card that is not known stays charged until the task is deleted.
                held = self._demands.holdings((task,), partial(tuple, (row,)), self._demands.of_job(job))
                amounts = self._evicted[task.uid] = held.amounts
                self._release(job, task, amounts, 1.0)
            return
        book = self._books.get(job.queue)
        if book is None:
            return
        amounts = self._placed(job, tasks[0].cls, rows)
        add(book.allocated, amounts, -1.0)
        if tasks[0].uid in job.of(TaskStatus.PIPELINED):
            add(book.pipelined, amounts, -1.0)

    def _placed(self, job: Job, cls: TaskClass, rows: Sequence[int]) -> AmountList:
        """Returns what pending tasks of a class use on the nodes at ``rows``."""
        demand, number = self._demands.of(cls, job), len(rows)
        cards = self._demands.charge(demand, rows).amounts if demand.card_requests else ()
        return [(CPU, demand.cpu * number), (MEMORY, demand.memory * number), *cards]

    def _release(self, job: Job, task: Task, amounts: AmountList, sign: float) -> None:
        """Moves the amounts of a task to ``releasing`` (1), or back (-1)."""
        book = self._books.get(charged_queue(task, job.queue))
        if book is not None:
            add(book.allocated, amounts, -sign)
            add(book.releasing, amounts, sign)


def _check(book: CardBook, amounts: AmountList) -> None:
    sums: Amounts = {}
    add(sums, amounts)
    for name, amount in sums.items():
        if amount > 0 and amount > book.room_now(name):
            raise AllocationError(insufficient(book, shortage_of(book, name, name, amount)))
