"""Converts explanations and differences to documents of plain values (JSON, YAML)."""

from typing import Any

from scheduler.api.reasons import Shortage
from scheduler.api.resource import format_amount
from scheduler.explain.difference import Difference, JobPlacement, QueueDifference
from scheduler.explain.explanation import AMOUNT_FIELDS, Explanation, QueuePosition, Ranking
from scheduler.framework.remedies.gates import Gate

Raw = dict[str, Any]


def explanation_document(it: Explanation) -> Raw:
    """The document of an explanation. Amounts are Kubernetes quantities; fields that do not apply are absent."""
    found: Raw = {
        "kind": it.kind,
        "namespace": it.namespace,
        "name": it.name,
        "outlook": it.outlook.value,
        "state": it.state,
    }
    if it.subject is not None:
        found["subject"] = dict(zip(("kind", "name"), it.subject, strict=True))
    if it.group:
        found["podGroup"] = it.group
    if it.queue:
        found |= {
            "queue": it.queue,
            "phase": it.phase,
            "priority": it.priority,
            "pods": {"needed": it.needed, "all": it.size, "placed": it.placed, "placeable": it.placeable},
        }
    if it.queue_position is not None:
        found["turn"] = _turn(it.queue_position)
    found["heldBy"] = [_gate(gate) for gate in it.gates]
    found["queues"] = [
        {
            "queue": numbers.queue,
            "resource": numbers.resource,
            **{
                key: format_amount(numbers.resource, amount)
                for key in AMOUNT_FIELDS
                if (amount := getattr(numbers, key)) is not None
            },
        }
        for numbers in it.queues
    ]
    found["nodes"] = [
        {"names": list(group.names), "reasons": list(group.reasons), "shortages": list(map(_shortage, group.shortages))}
        for group in it.nodes
    ]
    if it.resizing:
        found["resizing"] = [
            {
                "pod": each.pod,
                "node": each.node,
                "resource": each.resource,
                "requested": format_amount(each.resource, each.requested),
                "held": format_amount(each.resource, each.held),
            }
            for each in it.resizing
        ]
    if it.ranking is not None:
        found["ranking"] = _ranking(it.ranking)
    if it.searched:
        found["changes"] = [
            {
                "kinds": list(change.kinds),
                "text": change.text,
                "whatIf": list(change.documents),
                **({"arguments": change.arguments} if change.arguments else {}),
                **({"evicted": list(change.evicted)} if change.evicted else {}),
            }
            for change in it.changes
        ]
    return found


def _turn(turn: QueuePosition) -> Raw:
    return {"position": turn.position, "waiting": turn.waiting, "before": list(turn.before)}


def _gate(gate: Gate) -> Raw:
    return {
        "gate": gate.kind.value,
        **({"plugin": gate.plugin} if gate.plugin else {}),
        "message": gate.message,
        "shortages": [_shortage(shortage) for shortage in gate.shortages],
    }


def _shortage(shortage: Shortage) -> Raw:
    amounts = {"asked": shortage.asked, "used": shortage.used, "limit": shortage.limit}
    return {
        "resource": shortage.resource,
        **{key: format_amount(shortage.resource, amount) for key, amount in amounts.items()},
        "of": {"kind": shortage.kind, **({"name": shortage.name} if shortage.name else {})},
    }


def _ranking(ranking: Ranking) -> Raw:
    return {
        "pod": ranking.pod,
        "nodes": ranking.nodes,
        **({"chosen": ranking.chosen} if ranking.chosen else {}),
        "best": [{"name": node.name, "score": node.total, "byPlugin": node.by_plugin} for node in ranking.best],
    }


def difference_document(it: Difference) -> Raw:
    """The document of a difference; each entry has the values before and after."""
    return {
        "jobs": {
            "start": {key: _job(job) for key, job in it.starts.items()},
            "stop": {key: _pair(_job(old), new and _job(new)) for key, (old, new) in it.stops.items()},
            "change": {key: _pair(_job(old), _job(new)) for key, (old, new) in it.counts.items()},
        },
        "pods": {
            "evicted": dict(it.evicted),
            "moved": {key: _pair(old, new) for key, (old, new) in it.moved.items()},
        },
        "queues": {key: _pair(old and _queue(old), new and _queue(new)) for key, (old, new) in it.queues.items()},
    }


def _pair(before: object, after: object) -> Raw:
    return {"before": before, "after": after}


def _job(job: JobPlacement) -> Raw:
    pods = {"placed": job.placed, "needed": job.needed, "all": job.size}
    return {"phase": job.phase, "queue": job.queue, "pods": pods}


def _queue(queue: QueueDifference) -> Raw:
    return {
        "state": queue.state,
        "weight": queue.weight,
        **{name: dict(amounts) for name, amounts in queue.amounts.items()},
        "jobs": {"running": queue.running, "waiting": queue.waiting},
    }
