"""Opens the books of the queues in a session, and enters the accounts of all jobs in them.

Pods whose queue is uncertain count, too: a Pod without a PodGroup is charged to the queue that admitted it, and a Pod
without a record to every queue that may have admitted it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from scheduler.api.cards import CardCounts, parse_quota
from scheduler.api.names import CARD_BORROWING_LIMIT, CARD_LENDING_LIMIT, CARD_QUOTA, CPU, MEMORY
from scheduler.api.queue import Queue
from scheduler.api.reasons import Malformed
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX, Vector
from scheduler.api.task import Task, TaskStatus
from scheduler.framework.session import Session
from scheduler.plugins.capacity_card.accounting import AccountBuilder, JobAccount, account_of
from scheduler.plugins.capacity_card.books import CardBook
from scheduler.plugins.capacity_card.discovery import CardInventory
from scheduler.plugins.capacity_card.holdings import Amounts, missing_group, missing_record
from scheduler.plugins.capacity_card.settled import SettledAccounts
from scheduler.plugins.support.queues.accounting import total_guarantee

LIMITED: Final = ((CPU, CPU_INDEX), (MEMORY, MEMORY_INDEX))
"""The resources besides cards that the plugin limits."""


class Bookkeeper:
    """Opens and fills the books of one session."""

    def __init__(
        self,
        session: Session,
        inventory: CardInventory,
        account_builder: AccountBuilder,
        settled: SettledAccounts,
        *,
        borrowing: bool,
    ) -> None:
        """``settled``: the amounts of settled jobs; ``borrowing``: queues borrow from each other."""
        self._session = session
        self._inventory = inventory
        self._account_builder = account_builder
        self._settled = settled
        self._borrowing = borrowing

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
        unproven = list(self._enter_tasks_without_job(books, report))
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
            holding = account_builder.holding(task)
            book = books.get(task.record.queue)
            if book is not None:
                book.add_holding(holding)
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
            holding = self._account_builder.holding(task)
            for queue in named:
                if task.job not in jobs or queue != jobs[task.job].queue:
                    books[queue].add_holding(holding)
            report(missing_record(task, named, holding))
