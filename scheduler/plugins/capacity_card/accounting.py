"""The accounts of jobs: what is held, what is promised, what is held beyond the minimum.

A dimension of a queue's quota is ``cpu`` (thousandths), ``memory`` (bytes) or the name of a card (thousandths of a
card); other resources are not looked at. An account is computed from the job's tasks and kept for as long as the cache
keeps the Job.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scheduler.api.job import INQUEUE, Job
from scheduler.api.names import CARD_REQUEST, CPU, MEMORY
from scheduler.api.reasons import Malformed
from scheduler.api.resource import CPU_INDEX, MEMORY_INDEX
from scheduler.api.task import ALLOCATED_STATUSES, Task, TaskStatus
from scheduler.plugins.capacity_card.demand import FIELD, UNKNOWN, Demands
from scheduler.plugins.capacity_card.discovery import Inventory
from scheduler.plugins.capacity_card.holdings import (
    HELD_STATUSES,
    Amounts,
    Holding,
    add,
    charged_queue,
    moved,
)
from scheduler.plugins.capacity_card.quota import Names, parse_request
from scheduler.plugins.support.queues.accounting import reserves

Needs = dict[Names, float]
"""Dimensions that may stand for each other, the preferred one first -> amount."""
REQUEST_FIELD: Final = f"metadata.annotations[{CARD_REQUEST}]"


@dataclass(slots=True)
class JobAccount:
    """What one job takes of its queue's quota."""

    holding: Holding
    elsewhere: Mapping[str, Holding]
    """Another queue -> what it is charged for tasks of the job, which it admitted."""
    unproven: tuple[Task, ...]
    """Tasks of which it is not known which queue admitted them (``Task.unproven``)."""
    minimum: Needs
    """What it needs at least to run: spec.minResources for cpu and memory; for cards the request of its first Pods up
    to minMember or, before these exist, the PodGroup's annotation."""
    lacking: Needs
    """What of the minimum is promised to it, though not yet allocated."""
    elastic: Amounts
    """What it holds of its own queue beyond the minimum."""
    pending: Amounts
    """What its pending Pods would take of each card if all those that may were to take that one."""
    choices: frozenset[Names]
    """The cards among which pending Pods have a choice."""
    conflict: str
    """Why the job's cards cannot be given at all, or ""."""
    problems: tuple[Malformed, ...]
    bare: bool
    """No card and no other extended resource is involved: no change of nodes changes the account."""


class Accountant:
    """Accounts of jobs against one inventory."""

    def __init__(self, demands: Demands, rows: Mapping[str, int], unlimited: bool, signed_since: float) -> None:
        """``rows``: node name -> row; ``signed_since``: as in a snapshot."""
        self.inventory: Inventory = demands.inventory
        self.unlimited = unlimited
        self.signed_since = signed_since
        self._demands = demands
        self._rows = rows

    def account(self, job: Job) -> JobAccount:
        demands = self._demands
        held, leaving = _by_queue(job, HELD_STATUSES), _by_queue(job, (TaskStatus.RELEASING,))
        waiting = _by_class(job.of(TaskStatus.PENDING).values())
        classes = [tasks[0].cls for group in (*held.values(), *leaving.values(), waiting) for tasks in group]
        own = Holding(self._sum(held.pop(job.queue, ())), self._sum(leaving.pop(job.queue, ())))
        elsewhere = {
            queue: Holding(self._sum(held.get(queue, ())), self._sum(leaving.get(queue, ())))
            for queue in sorted(held.keys() | leaving.keys())
        }
        on_cards = any(demands.of(cls).parts for cls in classes)
        free = self.unlimited and on_cards
        pending: Amounts = {}
        choices = set()
        for tasks in waiting:
            for part in demands.of(tasks[0].cls).parts:
                add(pending, ((card, part.amount) for card in part.cards), len(tasks))
                if len(part.cards) > 1:
                    choices.add(part.cards)
        request = parse_request(job.annotations.get(CARD_REQUEST))
        minimum = self._minimum(job, request.amounts, on_cards)
        allocated = own.allocated
        if elsewhere:
            allocated = dict(allocated)
            for holding in elsewhere.values():
                add(allocated, holding.allocated.items())
        lacking, elastic = settle(minimum, allocated)
        if elsewhere:
            elastic = {name: min(amount, own.allocated.get(name, 0.0)) for name, amount in elastic.items()}
        if not (reserves(job) or (job.min_resources is None and job.phase == INQUEUE)):
            lacking = {}
        elif job.gated is not None and not free:
            for names, index in (((CPU,), CPU_INDEX), ((MEMORY,), MEMORY_INDEX)):
                if names in lacking:
                    lacking[names] = max(lacking[names] - float(job.gated[index]), 0.0)
        problems = [Malformed("PodGroup", job.namespace, job.name, REQUEST_FIELD, text) for text in request.problems]
        for pod in (tasks[0] for tasks in waiting):
            problems += [Malformed("Pod", pod.namespace, pod.name, FIELD, t) for t in demands.of(pod.cls).problems]
        problems += [moved(job, queue, holding) for queue, holding in elsewhere.items()]
        return JobAccount(
            holding=own,
            elsewhere=elsewhere,
            unproven=self._unproven(job),
            minimum=minimum,
            lacking=lacking,
            elastic=elastic,
            pending=pending,
            choices=frozenset(choices),
            conflict=self._conflict(job, waiting, request.amounts),
            problems=tuple(problems),
            bare=not request.amounts and all(demands.of(cls).bare for cls in classes),
        )

    def _unproven(self, job: Job) -> tuple[Task, ...]:
        if math.isinf(self.signed_since):
            return ()
        held = (task for status in (*HELD_STATUSES, TaskStatus.RELEASING) for task in job.of(status).values())
        return tuple(task for task in held if self.unproven(task))

    def unproven(self, task: Task) -> bool:
        """Whether a task on cards should have a record, and has none."""
        return bool(task.node) and task.unproven(self.signed_since) and bool(self._demands.of(task.cls).parts)

    def holding(self, task: Task) -> Holding:
        """What a task on a node holds."""
        amounts = self._sum([[task]])
        return Holding({}, amounts) if task.status is TaskStatus.RELEASING else Holding(amounts, {})

    def _sum(self, groups: Iterable[list[Task]]) -> Amounts:
        """What tasks on nodes hold; each group is of one class."""
        amounts: Amounts = {}
        for tasks in groups:
            add(amounts, self._demands.holdings(tasks, self._rows_of(tasks)))
        return amounts

    def _rows_of(self, tasks: Iterable[Task]) -> list[int]:
        rows = self._rows
        return [rows.get(task.node, UNKNOWN) for task in tasks]

    def _conflict(self, job: Job, waiting: Iterable[list[Task]], announced: Mapping[Names, float]) -> str:
        """Why the cards that Pods, or the PodGroup for Pods not yet made, name cannot stand for each other, or ""."""
        texts = [self._demands.of(tasks[0].cls).conflict for tasks in waiting]
        if not complete(job):
            texts += [self._demands.conflict(self._canonical(names), CARD_REQUEST) for names in announced]
        return next(filter(None, texts), "")

    def _canonical(self, names: Names) -> Names:
        return self._demands.canonical(names)

    def _minimum(self, job: Job, announced: Mapping[Names, float], on_cards: bool) -> Needs:
        given = job.reservation_limit
        cpu, memory = (0.0, 0.0) if given is None else (float(given[CPU_INDEX]), float(given[MEMORY_INDEX]))
        needs: Needs = {}
        if complete(job) and on_cards:
            own: Amounts = {CPU: 0.0, MEMORY: 0.0}
            for tasks in _by_class(first_tasks(job)):
                demand = self._demands.of(tasks[0].cls)
                add(own, ((CPU, demand.cpu), (MEMORY, demand.memory)), len(tasks))
                if not demand.parts:
                    continue
                holders = [task for task in tasks if task.status is not TaskStatus.PENDING]
                for card, amount in self._demands.cards_held(holders, self._rows_of(holders)) if holders else ():
                    needs[card,] = needs.get((card,), 0.0) + amount
                for part in demand.parts:
                    if part.cards and len(holders) < len(tasks):
                        amount = part.amount * (len(tasks) - len(holders))
                        needs[part.cards] = needs.get(part.cards, 0.0) + amount
            if self.unlimited:
                cpu, memory = min(cpu, own[CPU]), min(memory, own[MEMORY])
        elif announced and not complete(job):
            for written, amount in announced.items():
                names = self._canonical(written)
                needs[names] = needs.get(names, 0.0) + amount
            if self.unlimited:
                cpu = memory = 0.0
        needs[CPU,], needs[MEMORY,] = cpu, memory
        return {names: amount for names, amount in needs.items() if amount > 0}


def complete(job: Job) -> bool:
    """Whether the Pods of the job's minimum exist: they tell what it needs, and no longer the PodGroup."""
    return job.size > 0 and job.size >= job.min_member


def _by_class(tasks: Iterable[Task]) -> list[list[Task]]:
    """Tasks in groups of one class each."""
    groups: dict[int, list[Task]] = {}
    for task in tasks:
        group = groups.get(task.cls.id)
        if group is None:
            group = groups[task.cls.id] = []
        group.append(task)
    return list(groups.values())


def _by_queue(job: Job, statuses: Iterable[TaskStatus]) -> dict[str, list[list[Task]]]:
    """The queue that is charged -> the tasks on nodes, in groups of one class each."""
    groups: dict[tuple[str, int], list[Task]] = {}
    for status in statuses:
        for task in job.of(status).values():
            if task.node:
                key = charged_queue(task, job.queue), task.cls.id
                group = groups.get(key)
                if group is None:
                    group = groups[key] = []
                group.append(task)
    result: dict[str, list[list[Task]]] = {}
    for (queue, _), group in groups.items():
        result.setdefault(queue, []).append(group)
    return result


def first_tasks(job: Job) -> list[Task]:
    """The Pods that make up a job's minimum: those that have nodes first, then pending ones in order; as many of each
    role as spec.minTaskMember says, then any. Gated ones cannot use anything yet and do not count. Of a job that was
    admitted, no more than it was admitted with."""
    ordered = [task for status in sorted(ALLOCATED_STATUSES, key=_value) for task in job.of(status).values()]
    ordered += sorted(
        (task for task in job.of(TaskStatus.PENDING).values() if not task.gated),
        key=lambda task: (-task.priority, task.index, task.creation, task.uid),
    )
    wanted = dict(job.role_minimum) if job.enforces_role_minimum else {}
    chosen, rest = [], []
    for task in ordered:
        if wanted.get(task.role, 0) > 0:
            wanted[task.role] -= 1
            chosen.append(task)
        else:
            rest.append(task)
    minimum = job.min_member if job.admission is None else min(job.min_member, job.admission.min_member)
    return [*chosen, *rest][:minimum]


def _value(status: TaskStatus) -> str:
    return status.value


def settle(minimum: Needs, allocated: Amounts) -> tuple[Needs, Amounts]:
    """What of a minimum is not covered by what is allocated, and what is allocated beyond it. Needs that leave no
    choice are covered first, the others in the order of their cards."""
    left = dict(allocated)
    lacking: Needs = {}
    for names in sorted(minimum, key=len):
        missing = minimum[names]
        for name in names:
            covered = min(left.get(name, 0.0), missing)
            if covered > 0:
                left[name] -= covered
                missing -= covered
        if missing > 0:
            lacking[names] = missing
    return lacking, {name: amount for name, amount in left.items() if amount > 0}


class AccountMemo:
    """The accounts of the last session, to be used again for Jobs that the cache hands out unchanged."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Job, Inventory, tuple[bool, float], JobAccount]] = {}

    def accounts(self, jobs: Iterable[Job], accountant: Accountant) -> list[JobAccount]:
        """An account per job, in their order. Accounts of jobs that are not among them are forgotten."""
        inventory, terms = accountant.inventory, (accountant.unlimited, accountant.signed_since)
        before, now = self._kept, {}
        result = []
        for job in jobs:
            kept = before.get(job.key)
            if (
                kept is None
                or kept[0] is not job
                or job.changed
                or kept[2] != terms
                or not (kept[1] is inventory or kept[3].bare)
            ):
                kept = (job, inventory, terms, accountant.account(job))
            now[job.key] = kept
            result.append(kept[3])
        self._kept = now
        return result
