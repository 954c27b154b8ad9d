"""Device quotas: ``deviceclass/<class>`` and ``<dimension>.deviceclass/<class>`` in the capability of a queue.

A claim counts once for a queue, and once for each ancestor, however many Pods share it. A class that the capability
does not name is not limited. If it names a class, other dimensions of this class may not be requested. A number of 0
is no limit (as in Volcano).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import msgspec

from scheduler.api.dra import ResourceClaim
from scheduler.api.job import Job
from scheduler.api.kinds import RESOURCE_CLAIM
from scheduler.api.names import DEVICE_CAPACITY_QUOTA, EVENT_UNSCHEDULABLE
from scheduler.api.quantity import ExactAmount, QuantityError
from scheduler.api.queue import Amounts, Queue, add, claims_of, device_amounts, device_class_of
from scheduler.api.reasons import Malformed, Refusal, Shortage
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskClass
from scheduler.framework.charged_namespaces import tasks_with_claims
from scheduler.framework.columns import UNBOUNDED
from scheduler.framework.extension import Vote
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.support.queue_accounting import QUEUE_OVERUSED, QUOTA_INSUFFICIENT

Path = Callable[[str], Sequence[str]]
"""Returns the names of a queue and its ancestors, nearest first."""
_NOTHING = ExactAmount(0)
_MILLI = 10**6
"""Nano-units per thousandth."""


class _Book:
    """The devices that one queue and its descendants hold."""

    def __init__(self, name: str, limits: Amounts, by_capacity: bool) -> None:
        self.name = name
        self._limits = limits
        self._classes = {device_class_of(key) for key in limits}
        self._by_capacity = by_capacity
        self.held: Amounts = {}
        self.reserved: Amounts = {}
        self._users: Counter[str] = Counter()
        """Claim -> number of Pods that use it."""

    def limit(self, key: str) -> int | None:
        """The limit in nano-units; None if there is none."""
        if device_class_of(key) not in self._classes:
            return None
        if DEVICE_CAPACITY_QUOTA in key:
            return self._limits.get(key, _NOTHING).nano if self._by_capacity else None
        return self._limits.get(key, _NOTHING).nano or None

    def over(self, asked: Amounts, *, reserved: bool) -> "list[_Excess]":
        """Returns the amounts that would exceed a limit. ``reserved``: count reservations of admitted jobs too."""
        found = []
        for key, amount in asked.items():
            limit = self.limit(key)
            used = self.held.get(key, _NOTHING)
            if reserved:
                used = used + self.reserved.get(key, _NOTHING)
            if limit is not None and used.nano + amount.nano > limit:
                found.append(_Excess(key, amount, used, self._limits.get(key, _NOTHING), self.name))
        return found

    def room(self, own: Amounts, shared: dict[str, Amounts]) -> int:
        """Returns how many tasks fit, each with ``own`` amounts, all with the same shared claims."""
        once: Amounts = {}
        for claim, amounts in shared.items():
            if not self._users[claim]:
                add(once, amounts)
        room = UNBOUNDED
        for key in dict.fromkeys([*own, *once]):
            limit = self.limit(key)
            if limit is None:
                continue
            left = limit - self.held.get(key, _NOTHING).nano - once.get(key, _NOTHING).nano
            each = own.get(key, _NOTHING).nano
            room = min(room, left // each if each else UNBOUNDED * (left >= 0))
        return max(room, 0)

    def count(self, sign: int, claim: str, amounts: Amounts) -> None:
        """Adds (1) or removes (-1) a user of a claim. The amounts count while the claim has users."""
        before = self._users[claim]
        self._users[claim] += sign
        if not before or not self._users[claim]:
            add(self.held, amounts, sign)


class _Excess(msgspec.Struct, frozen=True):
    """An amount that exceeds the limit of a queue."""

    key: str
    asked: ExactAmount
    used: ExactAmount
    limit: ExactAmount
    queue: str

    def shortage(self) -> Shortage:
        asked, used, limit = (amount.nano / _MILLI for amount in (self.asked, self.used, self.limit))
        return Shortage(self.key, asked, used, limit, "Queue", self.queue)


class DeviceQuota:
    """The device books of all queues in one session."""

    def __init__(self, session: PluginSession, path: Path, *, by_capacity: bool) -> None:
        """``by_capacity``: whether amounts of capacity are limited too, not only numbers of devices."""
        self._session = session
        self._path = path
        self._amounts: dict[str, Amounts] = {}
        self._books = {
            queue.name: _Book(queue.name, queue.device_limits, by_capacity) for queue in session.queues.values()
        }
        for job in session.jobs.values():
            for status in ALLOCATED_STATUSES:
                self._count(1, job, list(job.of(status).values()), ())
        for charged, task in tasks_with_claims(session):
            self._count_task(1, charged, task)

    def register(self) -> None:
        """Registers the limits with the session."""
        session = self._session
        session.add_allocatable(self._allocatable)
        session.add_job_enqueueable(self._enqueueable)
        session.add_job_enqueued(self._enqueued)
        session.add_handlers(partial(self._count, 1), partial(self._count, -1))

    # --- amounts ---
    def _of_claim(self, key: str) -> Amounts:
        """Returns the amounts of a claim; nothing if it does not exist."""
        amounts = self._amounts.get(key)
        if amounts is None:
            claim = self._session.snapshot.objects[RESOURCE_CLAIM].get(key)
            amounts = self._amounts[key] = self._read(key, claim) if claim is not None else {}
        return amounts

    def _read(self, key: str, claim: ResourceClaim) -> Amounts:
        try:
            return device_amounts(claim.spec)
        except QuantityError as error:
            namespace, _, name = key.partition("/")
            where = "spec.devices.requests[].exactly.capacity"
            self._session.malformed_field(Malformed("ResourceClaim", namespace, name, where, str(error)))
            return {}

    def _minimum(self, job: Job) -> Amounts:
        """Returns the claims that the job needs to start: those of its first minMember Pods (or minTaskMember of each
        role)."""
        left = dict(job.role_minimum) or {"": job.min_member}
        result: Amounts = {}
        counted: set[str] = set()
        for task in sorted((t for t in job.tasks() if t.cls.spec.resource_claims), key=lambda t: t.name):
            role = task.role if job.role_minimum else ""
            if left.get(role, 0) <= 0:
                continue
            left[role] -= 1
            for key in claims_of(task):
                if key not in counted:
                    counted.add(key)
                    add(result, self._of_claim(key))
        return result

    # --- admission ---
    def _enqueueable(self, job: Job) -> Vote:
        asked = self._minimum(job)
        for book in self._of_queue(job.queue) if asked else ():
            over = book.over(asked, reserved=True)
            if over:
                names = ", ".join(f"insufficient {excess.key}" for excess in over)
                numbers = _numbers(over, "used or reserved")
                message = f"{QUOTA_INSUFFICIENT}: {names} ({_queue_with_limit(book, job.queue)}; {numbers})"
                self._session.refuse(job, Refusal(EVENT_UNSCHEDULABLE, message, tuple(e.shortage() for e in over)))
                return Vote.REJECT
        return Vote.ABSTAIN

    def _enqueued(self, job: Job) -> None:
        asked = self._minimum(job)
        for book in self._of_queue(job.queue) if asked else ():
            add(book.reserved, asked)

    # --- placing tasks ---
    def _allocatable(self, queue: Queue, job: Job, cls: TaskClass) -> int:
        if not cls.device_claims:
            return UNBOUNDED
        task = next((t for t in job.tasks() if t.cls is cls), None)
        if task is None:
            return UNBOUNDED
        named_claims = {f"{cls.namespace}/{entry.claim}" for entry in cls.device_claims if entry.claim}
        shared = {key: self._of_claim(key) for key in claims_of(task) if key in named_claims}
        own: Amounts = {}
        for key in claims_of(task):
            if key not in named_claims:
                add(own, self._of_claim(key))
        room = UNBOUNDED
        for book in self._of_queue(queue.name):
            room = min(room, book.room(own, shared))
            if room == 0:
                asked = dict(own)
                for amounts in shared.values():
                    add(asked, amounts)
                over = book.over(asked, reserved=False)
                message = f"{_queue_with_limit(book, queue.name)} has all it may have in use ({_numbers(over, 'used')})"
                self._session.refuse(job, Refusal(QUEUE_OVERUSED, message, tuple(e.shortage() for e in over)))
                return 0
        return room

    # --- books ---
    def _count(self, sign: int, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool = False) -> None:
        for task in tasks:
            if task.cls.spec.resource_claims:
                self._count_task(sign, job.queue, task)

    def _count_task(self, sign: int, queue: str, task: Task) -> None:
        """Adds the claims of a task to the books of a queue and its ancestors, or removes them (``sign`` -1)."""
        books = list(self._of_queue(queue))
        for key in claims_of(task):
            amounts = self._of_claim(key)
            for book in books:
                book.count(sign, key, amounts)

    def _of_queue(self, name: str) -> Iterable[_Book]:
        """Returns the books of a queue and its ancestors; none if the queue does not exist."""
        if name not in self._books:
            return ()
        return (self._books[above] for above in self._path(name) if above in self._books)


def _numbers(over: Iterable[_Excess], used: str) -> str:
    return "; ".join(f"{e.key}: asked {e.asked}, {used} {e.used}, limit {e.limit}" for e in over)


def _queue_with_limit(book: _Book, queue: str) -> str:
    """Names the queue with the limit, for messages about ``queue``."""
    return f"queue {book.name}" if book.name == queue else f"queue {book.name}, above {queue},"
