"""Converts explanations, answers about submitted jobs and differences to documents of plain values (JSON, YAML)."""

from collections.abc import Sequence
from typing import Any

from scheduler.api.reasons import Shortage
from scheduler.api.resource import format_amount
from scheduler.explain.can_run import AskedAmounts, RunAnswer, Verdict
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
    if it.alternatives:
        found["alternatives"] = _alternatives(it)
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


def _alternatives(it: Explanation) -> list[Raw]:
    return [
        {"name": each.name, "state": each.state, **({"reason": each.reason} if each.reason else {})}
        for each in it.alternatives
    ]


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


def run_document(answers: Sequence[RunAnswer]) -> Raw:
    """The document of answers about submitted jobs: the worst verdict, and each answer."""
    order = list(Verdict)
    worst = max((answer.verdict for answer in answers), key=order.index, default=Verdict.RUNS)
    return {"verdict": worst.value, "items": [_run_answer(answer) for answer in answers]}


def _run_answer(it: RunAnswer) -> Raw:
    found: Raw = {
        "kind": it.kind,
        "namespace": it.namespace,
        "name": it.name,
        "verdict": it.verdict.value,
        "state": it.state,
        "allowed": not it.refusal,
    }
    if it.refusal:
        return {**found, "refusal": it.refusal}
    now = it.now
    found["admitted"] = it.admitted
    if now is not None and now.queue:
        found["queue"] = now.queue
        if now.queue_position is not None:
            found["turn"] = _turn(now.queue_position)
    found["quota"] = {"within": all(its.within for its in it.amounts), "amounts": [_asked(its) for its in it.amounts]}
    found["pods"] = {"all": it.pods, "needed": it.needed, "findNode": it.find_node, "placed": it.placed}
    if it.evictions:
        found["evictions"] = {"pods": it.evictions, **({"names": list(it.evicted)} if it.evicted else {})}
    if now is not None and now.alternatives:
        found["alternatives"] = _alternatives(now)
    found["heldBy"] = [] if now is None or it.verdict is Verdict.RUNS else [_gate(gate) for gate in now.gates]
    found["emptyCluster"] = {
        **({} if it.fits_empty is None else {"runs": it.fits_empty}),
        "heldBy": [_gate(gate) for gate in it.empty.gates] if it.empty is not None and not it.fits_empty else [],
    }
    return found


def _asked(its: AskedAmounts) -> Raw:
    amounts = {"asked": its.asked, "used": its.used, "inqueue": its.inqueue or None, "limit": its.limit}
    return {
        "queue": its.queue,
        "resource": its.resource,
        **{key: format_amount(its.resource, amount) for key, amount in amounts.items() if amount is not None},
        "within": its.within,
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
