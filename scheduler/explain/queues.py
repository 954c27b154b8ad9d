"""The position of a job among the waiting jobs of its queue, the amounts of its queue and the queue's ancestors, and
both for all queues and jobs of a namespace, as the API for tenants has them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from scheduler.api.card_totals import CardTotals, problem_of
from scheduler.api.job import Job
from scheduler.api.kinds import POD_GROUP, VCJOB
from scheduler.api.names import CARD_REQUEST, NO_QUEUE, VISIBILITY_API_VERSION
from scheduler.api.quantity import format_milli
from scheduler.api.queue import ancestors
from scheduler.api.resource import PODS_INDEX, SMALLEST, Vector, format_amount
from scheduler.api.task import TaskStatus
from scheduler.cluster.memory import Simulation
from scheduler.explain.explanation import AMOUNT_FIELDS, QueueAmounts, QueuePosition
from scheduler.explain.without_queue import in_no_queue, in_no_queue_by_namespace, owners_in_no_queue
from scheduler.framework.charged_namespaces import charged_pods
from scheduler.framework.figures import QueueUsage
from scheduler.framework.session import Session


def queue_position(session: Session, job: Job) -> QueuePosition | None:
    """The position among the jobs of its queue that wait for the same: admission to the queue, or nodes."""
    waiting = waiting_in_order(session, job.queue).get((job.queue, job.waiting_for_queue), [])
    position = next((i for i, other in enumerate(waiting) if other is job), None)
    if position is None:
        return None
    return QueuePosition(job.queue, position + 1, len(waiting), tuple(other.key for other in waiting[:position]))


def waiting_in_order(session: Session, queue: str = "") -> dict[tuple[str, bool], list[Job]]:
    """The jobs that wait, by queue and whether they wait for admission to it (or else for nodes), in the order in which
    the session considers them. ``queue``: only of this queue; "": of all."""
    found: dict[tuple[str, bool], list[Job]] = {}
    for job in session.active_jobs.values():
        if job.queue not in session.queues or queue not in ("", job.queue):
            continue
        if job.waiting_for_queue or job.count(TaskStatus.PENDING, TaskStatus.PIPELINED):
            found.setdefault((job.queue, job.waiting_for_queue), []).append(job)
    for jobs in found.values():
        jobs.sort(key=session.job_key)
    return found


def queue_amounts(session: Session, job: Job) -> list[QueueAmounts]:
    """The amounts of the queue and its ancestors, for the resources that the job requests; for cards as well if it
    requests extended resources."""
    if job.queue not in session.queues:
        return []
    requested = job.pending if job.min_resources is None else np.maximum(job.pending, job.min_resources)
    dims = [int(d) for d in np.flatnonzero(requested) if d != PODS_INDEX]
    by_name = CARD_REQUEST in job.annotations or any(d > PODS_INDEX for d in dims)
    computed = _computed(session)
    return [
        amounts
        for name in (job.queue, *ancestors(session.queues, job.queue))
        for amounts in _of_queue(session, name, used_in_queue(session, name), dims, computed, by_name=by_name)
        if name == job.queue or _limited(amounts)
    ]


def queues_by_namespace(session: Session) -> dict[str, set[str]]:
    """Namespace -> the queues that its jobs use."""
    found: dict[str, set[str]] = {}
    for job in session.jobs.values():
        if job.queue in session.queues:
            found.setdefault(job.namespace, set()).add(job.queue)
    return found


class QueueTotal(msgspec.Struct, frozen=True):
    """A queue with the queues below it."""

    amounts: list[QueueAmounts]
    """The amounts of the resources that are used or limited. The deserved amount is what the plugin that divides the
    cluster has computed, if there is one."""
    running: int
    """Jobs that have their minimum of Pods."""
    waiting: int
    """The other jobs."""


def queue_totals(session: Session) -> dict[str, QueueTotal]:
    """The totals of all queues. Only the jobs are counted one by one that are not settled."""
    used = _used_by_queue(session)
    running, jobs = Counter[str](), Counter[str]()
    for name, settled in session.settled_jobs.items():
        jobs[name] += settled.number
        running[name] += settled.number
    for job in session.active_jobs.values():
        if job.queue in used:
            is_new = job not in session.touched
            jobs[job.queue] += is_new
            running[job.queue] += (job.ready_count >= max(job.min_member, 1)) - (not is_new)
    sums = {name: total.copy() for name, total in used.items()}
    all_running, all_jobs = running.copy(), jobs.copy()
    for name, total in used.items():
        for above in ancestors(session.queues, name):
            sums[above] += total
            all_running[above] += running[name]
            all_jobs[above] += jobs[name]
    dims = [d for d in range(len(session.dimensions.names)) if d != PODS_INDEX]
    computed = _computed(session)
    return {
        name: QueueTotal(
            [its for its in _of_queue(session, name, sums[name], dims, computed) if its.used or _limited(its)],
            all_running[name],
            all_jobs[name] - all_running[name],
        )
        for name in session.queues
    }


class _Computed(NamedTuple):
    """What plugins compute of queues."""

    deserved: Mapping[str, Vector]
    """Queue -> the amounts that it deserves, as in ``Session``."""
    counted: Mapping[str, Mapping[str, float]]
    """Queue -> resource -> the part of its usage that counts against its capability, as in ``Figures``."""


def _computed(session: Session) -> _Computed:
    counted = {queue: its for one in session.figures() for queue, its in one.counted.items()}
    return _Computed(session.deserved(), counted)


def _used_by_queue(session: Session) -> dict[str, Vector]:
    """Queue -> what its own jobs hold, and Pods without a queue that it is charged for."""
    used = {name: session.dimensions.zeros() for name in session.queues}
    for name, settled in session.settled_jobs.items():
        used[name] += settled.allocated
    for job in session.active_jobs.values():
        if job.queue in used:
            used[job.queue] += job.allocated
            if job in session.touched:
                used[job.queue] -= session.touched[job]
    for name, charged in session.once(charged_pods).amounts.items():
        if name in used:
            used[name] += charged
    return used


def _limited(amounts: QueueAmounts) -> bool:
    return amounts.deserved is not None or amounts.capability is not None


def _of_queue(
    session: Session,
    name: str,
    used: Vector,
    dims: list[int],
    computed: _Computed,
    *,
    by_name: bool = True,
) -> list[QueueAmounts]:
    """``used``: what the jobs of the queue and of those below it hold; ``by_name``: with what plugins limit by name,
    such as cards."""
    queue = session.queues[name]
    deserves, counted = computed.deserved[name], computed.counted.get(name, {})
    result = []
    for d in dims:
        capability = None if np.isinf(queue.capability[d]) else float(queue.capability[d])
        deserved = float(deserves[d]) if deserves[d] >= SMALLEST else None
        resource = session.dimensions.names[d]
        part = counted.get(resource)
        if capability is None or (part is not None and part >= used[d]):
            part = None
        guarantee = float(queue.guarantee[d]) or None
        result.append(
            QueueAmounts(name, resource, float(used[d]), deserved, capability, counted=part, guarantee=guarantee)
        )
    usage = session.queue_usage(queue) if by_name else {}
    return result + [_of_card(name, card, its) for card, its in usage.items()]


def _of_card(queue: str, card: str, its: QueueUsage) -> QueueAmounts:
    totals = its.totals
    return QueueAmounts(
        queue,
        card,
        its.used,
        None,
        its.limit,
        its.inqueue,
        its.requested,
        its.borrowed,
        its.lent,
        guarantee=its.guarantee,
        elastic=its.elastic,
        granted=None if totals is None else totals.granted,
        existing=None if totals is None else totals.existing,
        healthy=None if totals is None else totals.healthy,
    )


def used_in_queue(session: Session, name: str) -> Vector:
    """The amounts that are allocated to the jobs of a queue and its descendants."""
    used = _used_by_queue(session)
    return sum((used[each] for each in subtree(session, name)), start=session.dimensions.zeros())


def subtree(session: Session, name: str) -> set[str]:
    """The names of a queue and its descendants."""
    return {name, *(other for other in session.queues if name in ancestors(session.queues, other))}


Raw = dict[str, Any]


def queue_quotas(simulation: Simulation) -> dict[str, Raw]:
    """Namespace -> its ``QueueQuotaList``. Runs one session; jobs that it starts do not wait.

    An item has the amounts of a queue of the namespace and of the queues above it. ``waiting`` has the PodGroups of the
    namespace that wait, in the order in which the scheduler considers them; positions count the jobs of all namespaces
    that wait in the queue for the same. The last item has what Pods of the namespace hold that count in no queue.
    """
    simulation.cycle()
    if simulation.last is None:
        return {}
    session = simulation.last.session
    queues, no_queue = queues_by_namespace(session), in_no_queue_by_namespace(session)
    waiting = _waiting_jobs(session, _owners(simulation))
    totals = queue_totals(session)
    items = {name: _quota(session, totals, name) for name in {name for names in queues.values() for name in names}}
    return {
        namespace: {
            "apiVersion": VISIBILITY_API_VERSION,
            "kind": "QueueQuotaList",
            "namespace": namespace,
            "metadata": {},
            "items": [
                _item(namespace, quota)
                for quota in (
                    *(items[name] for name in sorted(queues.get(namespace, ()))),
                    *_no_queue(no_queue.get(namespace, ())),
                )
            ],
            "waiting": waiting.get(namespace, []),
        }
        for namespace in queues.keys() | no_queue.keys()
    }


def every_queue(simulation: Simulation) -> list[Raw]:
    """The items of a ``QueueQuotaList`` for all queues, and for what counts in no queue. Runs one session."""
    simulation.cycle()
    if simulation.last is None:
        return []
    session = simulation.last.session
    totals = queue_totals(session)
    return [*(_quota(session, totals, name) for name in sorted(session.queues)), *_no_queue(in_no_queue(session))]


def all_owners(simulation: Simulation) -> list[Raw]:
    """The owners of Pods without a queue that use cards, after ``every_queue``."""
    return [] if simulation.last is None else owners_in_no_queue(simulation.last.session)


def _no_queue(amounts: Sequence[QueueAmounts]) -> list[Raw]:
    """The item for what counts in no queue; none without amounts."""
    return [{"queue": NO_QUEUE, "amounts": [_amounts(numbers) for numbers in amounts]}] if amounts else []


def all_cards(simulation: Simulation) -> list[Raw]:
    """The cards that nodes have or quotas list, with the amounts of the whole cluster, after ``every_queue``."""
    if simulation.last is None:
        return []
    figures = simulation.last.session.figures()
    return [_card(name, totals) for one in figures for name, totals in one.cards.items()]


def _card(name: str, totals: CardTotals) -> Raw:
    problem = problem_of(totals)
    fields = ("used", "granted", "existing", "allocatable", "healthy", "elastic")
    amounts = {field: format_milli(getattr(totals, field)) for field in fields}
    return {"card": name, **amounts, **({} if problem is None else {"problem": problem.value})}


def _waiting_jobs(session: Session, owners: dict[str, str]) -> dict[str, list[Raw]]:
    found: dict[str, list[Raw]] = {}
    for (queue, admission), jobs in sorted(waiting_in_order(session).items()):
        for number, job in enumerate(jobs, 1):
            entry = {
                "podGroup": job.name,
                **({"job": owners[job.key]} if job.key in owners else {}),
                "queue": queue,
                "for": "admission" if admission else "nodes",
                "position": number,
                "of": len(jobs),
            }
            found.setdefault(job.namespace, []).append(entry)
    return found


def _owners(simulation: Simulation) -> dict[str, str]:
    """PodGroup (``namespace/name``) -> the vcjob that owns it."""
    found = {}
    for raw in simulation.cluster.server.of(POD_GROUP):
        meta = raw["metadata"]
        for owner in meta.get("ownerReferences") or ():
            if owner.get("kind") == VCJOB.name and str(owner.get("apiVersion", "")).startswith(f"{VCJOB.group}/"):
                found[f"{meta['namespace']}/{meta['name']}"] = str(owner.get("name", ""))
    return found


def _item(namespace: str, quota: Raw) -> Raw:
    metadata = {"name": quota["queue"], "namespace": namespace}
    return {"apiVersion": VISIBILITY_API_VERSION, "kind": "QueueQuota", "metadata": metadata, **quota}


def _quota(session: Session, totals: dict[str, QueueTotal], name: str) -> Raw:
    queue = session.queues[name]
    line = (name, *ancestors(session.queues, name))
    return {
        "queue": name,
        "parent": queue.parent,
        "state": queue.state,
        "weight": queue.weight,
        "amounts": [_amounts(numbers) for each in line for numbers in totals[each].amounts],
        "jobs": {"running": totals[name].running, "waiting": totals[name].waiting},
    }


def _amounts(numbers: QueueAmounts) -> Raw:
    return {
        "queue": numbers.queue,
        "resource": numbers.resource,
        **{
            key: format_amount(numbers.resource, amount)
            for key in AMOUNT_FIELDS
            if (amount := getattr(numbers, key)) is not None
        },
    }
