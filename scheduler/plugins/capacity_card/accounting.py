"""The accounts of jobs: what a job holds, what is reserved for it, and what it holds beyond its minimum.

A dimension of a queue's quota is ``cpu`` (thousandths), ``memory`` (bytes) or the name of a card (thousandths of a
card); other resources are ignored. An account is computed from the tasks of the job and cached as long as the Job
object does not change.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.cards import Names, parse_request
from scheduler.api.job import INQUEUE, Job
from scheduler.api.names import CARD_REQUEST, CPU, MEMORY
from scheduler.api.reasons import Malformed
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskClass, TaskStatus
from scheduler.plugins.capacity_card.card_labels import missing_label
from scheduler.plugins.capacity_card.card_users import UsedCards, users_of
from scheduler.plugins.capacity_card.demand import RECORD, UNKNOWN, Demands
from scheduler.plugins.capacity_card.discovery import CardInventory
from scheduler.plugins.capacity_card.holdings import (
    HELD_STATUSES,
    Amounts,
    CardHolding,
    add,
    add_uncertain,
    charged_elsewhere,
    charged_queue,
)
from scheduler.plugins.support.queue_accounting import reserves

Needs = dict[Names, float]
"""Alternative dimensions, the preferred one first -> amount."""
_ACCOUNT: Final = "capacity-card account"
REQUEST_FIELD: Final = f"metadata.annotations[{CARD_REQUEST}]"


@dataclass(slots=True)
class JobAccount:
    """The part of its queue's quota that one job uses."""

    holding: CardHolding
    other_queues: Mapping[str, CardHolding]
    """Another queue -> what it is charged for tasks of the job that it admitted."""
    unproven: tuple[Task, ...]
    """Tasks whose admitting queue is unknown (``Task.unproven``)."""
    minimum: Needs
    """What the job needs to start: spec.minResources for cpu and memory; for cards the requests of its first minMember
    Pods or, before these exist, the PodGroup's annotation."""
    reserved: Needs
    """The part of the minimum that is reserved for the job and not allocated yet."""
    elastic: Amounts
    """What the job holds of its own queue beyond the minimum."""
    waiting: Needs
    """Acceptable cards -> what the pending Pods that accept exactly these request."""
    conflict: str
    """Why the job's request for cards is invalid, or ""."""
    problems: tuple[Malformed, ...]
    independent_of_nodes: bool
    """The job requests no card and no other extended resource, so that changes of nodes do not change the account."""
    users: UsedCards
    """The cards that its Pods use, by the queue that is charged for them."""


class AccountBuilder:
    """Computes the accounts of jobs against one inventory."""

    def __init__(self, demands: Demands, rows: Mapping[str, int], signed_since: float) -> None:
        """``rows``: node name -> row; ``signed_since``: the field of ``Snapshot``."""
        self.inventory: CardInventory = demands.inventory
        self.unlimited = demands.unlimited
        self.signed_since = signed_since
        self._demands = demands
        self._rows = rows

    def account(self, job: Job) -> JobAccount:
        demands, placed, of_job = self._demands, job.placed, self._demands.of_job(job)
        held, leaving = _by_queue(job, HELD_STATUSES), _by_queue(job, (TaskStatus.RELEASING,))
        waiting = _by_class(_without_node(job))
        on_nodes = [*held.values(), *leaving.values()]
        classes = [tasks[0].cls for group in (*on_nodes, waiting) for tasks in group]
        own = self._holding(held.pop(job.queue, ()), leaving.pop(job.queue, ()), placed, of_job)
        other_queues = {
            queue: self._holding(held.get(queue, ()), leaving.get(queue, ()), placed, of_job)
            for queue in sorted(held.keys() | leaving.keys())
        }
        on_cards = any(demands.of_class(cls, of_job).card_requests for cls in classes)
        request = parse_request(job.annotations.get(CARD_REQUEST))
        minimum = self._minimum(job, request.amounts, on_cards, of_job)
        reserved, elastic = self._beside_minimum(job, minimum, own, other_queues.values(), on_cards)
        problems = [Malformed("PodGroup", job.namespace, job.name, REQUEST_FIELD, text) for text in request.problems]
        for pod in (tasks[0] for tasks in waiting):
            demand = demands.of_class(pod.cls, of_job)
            problems += [Malformed("Pod", pod.namespace, pod.name, demand.field, text) for text in demand.problems]
        problems += [charged_elsewhere(job, queue, holding) for queue, holding in other_queues.items()]
        if own.uncertain or any(holding.uncertain for holding in other_queues.values()):
            problems += self._missing_labels(on_nodes, of_job)
        return JobAccount(
            holding=own,
            other_queues=other_queues,
            unproven=self._unproven(job),
            minimum=minimum,
            reserved=reserved,
            elastic=elastic,
            waiting=self._waiting_needs(waiting, of_job),
            conflict=self._conflict(job, waiting, request.amounts, of_job),
            problems=tuple(problems),
            independent_of_nodes=not request.amounts
            and all(demands.of_class(cls, of_job).independent_of_nodes for cls in classes),
            users=self._users(job, own, other_queues),
        )

    def _users(self, job: Job, own: CardHolding, other_queues: Mapping[str, CardHolding]) -> UsedCards:
        """Returns who uses the cards of a job. Most jobs that are accounted for in a session hold nothing yet."""
        if not (own or other_queues):
            return ()
        return users_of({job.queue: own, **other_queues}, job.namespace, job.is_online, self.inventory)

    def _waiting_needs(self, waiting: Iterable[list[Task]], of_job: Hashable) -> Needs:
        """Returns what tasks without a node request, grouped by the cards that they accept."""
        needs: Needs = {}
        for tasks in waiting:
            for card_request in self._demands.of_class(tasks[0].cls, of_job).card_requests:
                if card_request.cards:
                    amount = card_request.amount * len(tasks)
                    needs[card_request.cards] = needs.get(card_request.cards, 0.0) + amount
        return needs

    def _beside_minimum(
        self, job: Job, minimum: Needs, own: CardHolding, others: Collection[CardHolding], on_cards: bool
    ) -> tuple[Needs, Amounts]:
        """Returns what is reserved for a job and not allocated yet, and what it holds of its own queue beyond its
        minimum. ``others``: what other queues are charged for; ``on_cards``: whether Pods of the job request cards."""
        allocated = own.allocated
        if others:
            allocated = dict(allocated)
            for holding in others:
                add(allocated, holding.allocated.items())
        reserved, elastic = compare_with_minimum(minimum, allocated)
        if not has_minimum_pods(job):  # with fewer Pods than its minimum, it has no card to spare
            elastic = {name: amount for name, amount in elastic.items() if name in (CPU, MEMORY)}
        if others:
            elastic = {name: min(amount, own.allocated.get(name, 0.0)) for name, amount in elastic.items()}
        if not (reserves(job) or (job.min_resources is None and job.phase == INQUEUE)):
            reserved = {}
        elif job.gated is not None and not (self.unlimited and on_cards):
            for names, index in (((CPU,), CPU_INDEX), ((MEMORY,), MEMORY_INDEX)):
                if names in reserved:
                    reserved[names] = max(reserved[names] - float(job.gated[index]), 0.0)
        return reserved, elastic

    def _unproven(self, job: Job) -> tuple[Task, ...]:
        if math.isinf(self.signed_since):
            return ()
        held = (task for status in (*HELD_STATUSES, TaskStatus.RELEASING) for task in job.of(status).values())
        return tuple(task for task in held if self.unproven(task))

    def _missing_labels(self, on_nodes: Iterable[list[list[Task]]], of_job: Hashable) -> list[Malformed]:
        """Reports the nodes that no longer offer the cards that tasks hold, nor say which these are; once each."""
        found: dict[Malformed, None] = {}
        for tasks in (tasks for groups in on_nodes for tasks in groups):
            holders = [task for task in tasks if task.record is None or not task.record.cards]
            rows = self._rows_of(holders, {})
            for card_request in self._demands.of_class(tasks[0].cls, of_job).card_requests:
                resource = card_request.resource
                codes = card_request.held.codes[np.array(rows, dtype=np.intp)]
                for task, row, code in zip(holders, rows, codes.tolist(), strict=True):
                    if code < 0 and row != UNKNOWN and not self.inventory.is_reported(row, resource):
                        found[missing_label(task.node, self.inventory.product_label(resource))] = None
        return list(found)

    def unproven(self, task: Task) -> bool:
        """Whether a task that uses cards lacks the record that it should have."""
        return bool(task.node) and task.unproven(self.signed_since) and bool(self._demands.of(task.cls).card_requests)

    def holding(self, tasks: Iterable[Task]) -> CardHolding:
        """Returns what tasks of one class hold that are on nodes."""
        held: list[Task] = []
        leaving: list[Task] = []
        for task in tasks:
            (leaving if task.status is TaskStatus.RELEASING else held).append(task)
        return self._holding([held] if held else (), [leaving] if leaving else (), {}, None)

    def _holding(
        self,
        held: Iterable[list[Task]],
        leaving: Iterable[list[Task]],
        placed: Mapping[str, int],
        of_job: Hashable,
    ) -> CardHolding:
        """Sums what tasks on nodes hold; each group has tasks of one class. ``placed``: uid -> row of tasks that this
        session has placed; ``of_job``: of the job of the tasks."""
        holding = CardHolding({}, {})
        for groups, amounts in ((held, holding.allocated), (leaving, holding.releasing)):
            for tasks in groups:
                found = self._demands.holdings(tasks, partial(self._rows_of, tasks, placed), of_job)
                add(amounts, found.amounts)
                add_uncertain(holding.uncertain, found.uncertain)
        return holding

    def _rows_of(self, tasks: Iterable[Task], placed: Mapping[str, int]) -> list[int]:
        """Returns the rows of the nodes of tasks. ``placed``: uid -> row of tasks that this session has placed."""
        rows = self._rows
        return [placed[task.uid] if task.uid in placed else rows.get(task.node, UNKNOWN) for task in tasks]

    def _conflict(
        self, job: Job, waiting: Iterable[list[Task]], announced: Mapping[Names, float], of_job: Hashable
    ) -> str:
        """Returns why the alternative cards of Pods (or of the PodGroup, for missing Pods) conflict, or ""."""
        texts = [self._demands.of_class(tasks[0].cls, of_job).conflict for tasks in waiting]
        if not has_minimum_pods(job):
            texts += [self._demands.conflict(self._demands.canonical(names), CARD_REQUEST) for names in announced]
        return next(filter(None, texts), "")

    def _minimum(self, job: Job, announced: Mapping[Names, float], on_cards: bool, of_job: Hashable) -> Needs:
        given = job.reservation_limit
        cpu, memory = (0.0, 0.0) if given is None else (float(given[CPU_INDEX]), float(given[MEMORY_INDEX]))
        needs: Needs = {}
        if has_minimum_pods(job) and on_cards:
            own: Amounts = {CPU: 0.0, MEMORY: 0.0}
            waiting = {task.uid for task in _without_node(job)}
            for tasks in _by_class(minimum_tasks(job)):
                demand = self._demands.of_class(tasks[0].cls, of_job)
                add(own, ((CPU, demand.cpu), (MEMORY, demand.memory)), len(tasks))
                if not demand.card_requests:
                    continue
                holders = [task for task in tasks if task.uid not in waiting]
                rows = self._rows_of(holders, job.placed)
                for card, amount in self._demands.cards_held(holders, rows, of_job).amounts if holders else ():
                    needs[card,] = needs.get((card,), 0.0) + amount
                for card_request in demand.card_requests:
                    if card_request.cards and len(holders) < len(tasks):
                        amount = card_request.amount * (len(tasks) - len(holders))
                        needs[card_request.cards] = needs.get(card_request.cards, 0.0) + amount
            if self.unlimited:
                cpu, memory = min(cpu, own[CPU]), min(memory, own[MEMORY])
        elif announced and not has_minimum_pods(job):
            for written, amount in announced.items():
                names = self._demands.canonical(written)
                needs[names] = needs.get(names, 0.0) + amount
            if self.unlimited:
                cpu = memory = 0.0
        needs[CPU,], needs[MEMORY,] = cpu, memory
        return {names: amount for names, amount in needs.items() if amount > 0}


def has_minimum_pods(job: Job) -> bool:
    """Whether the Pods of the job's minimum exist. Then their requests count, not the PodGroup's annotation."""
    return job.size > 0 and job.size >= job.min_member


def _without_node(job: Job) -> list[Task]:
    """Returns the tasks that wait for a node, for the terminating tasks on it, or for the rest of their gang."""
    waiting = (TaskStatus.PENDING, TaskStatus.PIPELINED, TaskStatus.ALLOCATED)
    return [task for status in waiting for task in job.of(status).values()]


def _by_class(tasks: Iterable[Task]) -> list[list[Task]]:
    """Groups tasks by class."""
    groups: defaultdict[TaskClass, list[Task]] = defaultdict(list)
    for task in tasks:
        groups[task.cls].append(task)
    return list(groups.values())


def _by_queue(job: Job, statuses: Iterable[TaskStatus]) -> dict[str, list[list[Task]]]:
    """Returns charged queue -> the tasks on nodes, grouped by class."""
    tasks: list[Task] = []
    for status in statuses:
        group = job.of(status).values()
        if status is TaskStatus.BINDING:  # all have a node
            tasks += group
        else:
            tasks += [task for task in group if task.node or task.uid in job.placed]
    if not any(map(RECORD, tasks)):  # as of most jobs: none is charged elsewhere
        return {job.queue: _by_class(tasks)} if tasks else {}
    groups: defaultdict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        groups[charged_queue(task, job.queue)].append(task)
    return {queue: _by_class(charged) for queue, charged in groups.items()}


def minimum_tasks(job: Job) -> list[Task]:
    """Returns the Pods of a job's minimum: those on nodes first, then pending ones in order; first as many of each role
    as spec.minTaskMember says, then any. Gated Pods do not count, because they cannot use anything yet. For an admitted
    job the number is at most the minMember that it was admitted with."""
    ordered = [task for status in sorted(ALLOCATED_STATUSES, key=_value) for task in job.of(status).values()]
    ordered += sorted(
        (task for task in _without_node(job) if not task.gated),
        key=lambda task: (-task.priority, task.index, task.creation, task.uid),
    )
    minimum = job.min_member if job.admission is None else min(job.min_member, job.admission.min_member)
    if not job.enforces_role_minimum:
        return ordered[:minimum]
    wanted = dict(job.role_minimum)
    chosen, rest = [], []
    for task in ordered:
        if wanted.get(task.role, 0) > 0:
            wanted[task.role] -= 1
            chosen.append(task)
        else:
            rest.append(task)
    return [*chosen, *rest][:minimum]


def _value(status: TaskStatus) -> str:
    return status.value


def compare_with_minimum(minimum: Needs, allocated: Amounts) -> tuple[Needs, Amounts]:
    """Returns the part of a minimum that allocated amounts do not cover, and what is allocated beyond the minimum.
    Needs without alternatives are covered first, the others in the order of their cards."""
    left = dict(allocated)
    uncovered: Needs = {}
    for names in sorted(minimum, key=len):
        missing = minimum[names]
        for name in names:
            covered = min(left.get(name, 0.0), missing)
            if covered > 0:
                left[name] -= covered
                missing -= covered
        if missing > 0:
            uncovered[names] = missing
    return uncovered, {name: amount for name, amount in left.items() if amount > 0}


def account_of(job: Job, account_builder: AccountBuilder) -> JobAccount:
    """Returns the account of a job. An earlier session's account is used again unless the job, or something that the
    account depends on, has changed."""

    def compute() -> tuple[CardInventory, JobAccount]:
        return account_builder.inventory, account_builder.account(job)

    terms = account_builder.unlimited, account_builder.signed_since, job.phase  # enqueue changes only the phase
    inventory, account = job.remember(_ACCOUNT, terms, compute)
    if inventory is not account_builder.inventory and not account.independent_of_nodes:
        job.forget(_ACCOUNT)
        _, account = job.remember(_ACCOUNT, terms, compute)
    return account
