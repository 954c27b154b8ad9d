"""The queues of each namespace, with their quota, and the positions of its waiting jobs."""

from typing import Any

from scheduler.api.kinds import POD_GROUP, VCJOB
from scheduler.api.names import VISIBILITY_API_VERSION
from scheduler.api.queue import ancestors
from scheduler.api.resource import format_amount
from scheduler.cluster.memory import Simulation
from scheduler.explain.explanation import AMOUNT_FIELDS, QueueAmounts
from scheduler.explain.queues import QueueTotal, queue_totals, queues_by_namespace, waiting_in_order
from scheduler.framework.session import Session

Raw = dict[str, Any]


def queue_quotas(simulation: Simulation) -> dict[str, Raw]:
    """Namespace -> its ``QueueQuotaList``. Runs one session; jobs that it starts do not wait.

    An item has the amounts of a queue of the namespace and of the queues above it. ``waiting`` has the PodGroups of the
    namespace that wait, in the order in which the scheduler considers them; positions count the jobs of all namespaces
    that wait in the queue for the same.
    """
    simulation.cycle()
    if simulation.last is None:
        return {}
    session = simulation.last.session
    queues = queues_by_namespace(session)
    waiting = _waiting(session, _owners(simulation))
    totals = queue_totals(session)
    items = {name: _queue(session, totals, name) for name in {name for names in queues.values() for name in names}}
    return {
        namespace: {
            "apiVersion": VISIBILITY_API_VERSION,
            "kind": "QueueQuotaList",
            "namespace": namespace,
            "metadata": {},
            "items": [_item(namespace, items[name]) for name in sorted(names)],
            "waiting": waiting.get(namespace, []),
        }
        for namespace, names in queues.items()
    }


def every_queue(simulation: Simulation) -> list[Raw]:
    """The items of a ``QueueQuotaList`` for all queues. Runs one session."""
    simulation.cycle()
    if simulation.last is None:
        return []
    session = simulation.last.session
    totals = queue_totals(session)
    return [_queue(session, totals, name) for name in sorted(session.queues)]


def _waiting(session: Session, owners: dict[str, str]) -> dict[str, list[Raw]]:
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


def _queue(session: Session, totals: dict[str, QueueTotal], name: str) -> Raw:
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
