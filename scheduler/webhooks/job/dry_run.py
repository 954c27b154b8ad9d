"""What a dry run of a vcjob says about the quota of its queue: what the job asks for, what is used, and the limit.

The amounts come from Queue objects alone: capability and card quota, and the usage that the scheduler writes into their
status. So this is a rough and early answer, for a request that stores nothing; ``can-run`` asks the scheduler. Cpu and
memory of Pods with cards are left out where the queue has a card quota, because the configuration of the scheduler,
which admission does not know, may not count them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from scheduler.api import batch
from scheduler.api.card_alternatives import job_alternatives, with_alternative
from scheduler.api.cards import MILLI, SEPARATOR, Names, cards_of_pod, parse_quota, parse_request
from scheduler.api.messages import cards_in
from scheduler.api.names import CARD_QUOTA, CARD_REQUEST, CPU, MEMORY, ROOT_QUEUE
from scheduler.api.objects import Quantity
from scheduler.api.pod_amounts import amount_fields, summed, total_requests
from scheduler.api.quantity import ExactAmount, QuantityError, parse_amount
from scheduler.api.scheduling import Queue
from scheduler.webhooks.contract import ClusterView, Json, WebhookSettings
from scheduler.webhooks.decoding import DecodingError
from scheduler.webhooks.job.mutate import with_defaults
from scheduler.webhooks.job.templates import decode_job

_COUNTS_CARDS: Final = re.compile("gpu|npu|ppu|xpu|tpu|dcu|gcu|mlu|ipu|hpu|gaudi|neuron|/mig-|/ascend", re.IGNORECASE)
"""Resources that count cards, judging by their names."""
_NANO: Final = 10**9
_NOTHING: Final = ExactAmount(0)
Amounts = Mapping[str, ExactAmount]


class _Asked(msgspec.Struct):
    """What a job asks for."""

    plain: dict[str, ExactAmount]
    """By Pods without cards."""
    with_cards: dict[str, ExactAmount]
    """By Pods that name cards."""
    cards: dict[Names, int]
    """Acceptable cards -> how many."""


def quota_warnings(new: Json, old: Json, cluster: ClusterView, settings: WebhookSettings) -> Iterator[str]:
    """A line for each resource and card that the queue of a vcjob limits and that the job asks for, with each of its
    alternatives. ``old``: the stored job; of an update, only what it adds counts."""
    try:
        jobs = _with_alternatives(decode_job(with_defaults(new, settings)))
        stored = _with_alternatives(decode_job(with_defaults(old, settings))) if old else {}
        asked = {name: _asked(job) for name, job in jobs.items()}
        before = {name: _asked(job) for name, job in stored.items()}
    except (DecodingError, QuantityError, RecursionError):  # the refusal says what is malformed
        return
    same_queue = bool(old) and old.get("spec", {}).get("queue") == new.get("spec", {}).get("queue")
    for name, job in jobs.items():
        beyond = _less(asked[name], before[name]) if same_queue and name in before else asked[name]
        which = f", alternative {name}" if name else ""
        yield from (f"quota of queue {queue}{which}: {text}" for queue, text in _of_job(job, beyond, cluster))


def _with_alternatives(job: batch.Job) -> dict[str, batch.Job]:
    """Alternative -> the job with it; the job itself under "" if it has none."""
    alternatives = job_alternatives(job.spec)
    if alternatives is None or not alternatives.names:
        return {"": job}
    return {name: with_alternative(job, alternatives, name) for name in alternatives.names}


def _of_job(job: batch.Job, asked: _Asked, cluster: ClusterView) -> Iterator[tuple[str, str]]:
    """The name of each queue with a limit, and the text about the limit."""
    whole = not 0 < job.spec.min_available < sum(task.replicas for task in job.spec.tasks)
    effect = "the job waits" if whole else "not all of its Pods run"
    found = False
    for queue in _with_ancestors(cluster, job.spec.queue):
        for text, exceeded in _lines(queue, asked):
            found = True
            yield queue.metadata.name, text + (f", so {effect}" if exceeded else "")
    if not found and cluster.queue(job.spec.queue) is not None:
        yield job.spec.queue, "no limit of what the job asks for"


def _with_ancestors(cluster: ClusterView, name: str) -> Iterator[Queue]:
    """The queue and those above it, nearest first."""
    seen = set[str]()
    while name not in seen:
        seen.add(name)
        queue = cluster.queue(name)
        if queue is None:
            return
        yield queue
        name = queue.spec.parent or ROOT_QUEUE


def _asked(job: batch.Job) -> _Asked:
    """Raises QuantityError."""
    found = _Asked({}, {}, {})
    for task in job.spec.tasks:
        spec, metadata = task.template.get("spec"), task.template.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        _, cards = cards_of_pod(annotations if isinstance(annotations, dict) else {})
        one = total_requests(amount_fields(spec if isinstance(spec, dict) else {}))
        amounts = {name: amount * task.replicas for name, amount in one.items()}
        number = sum(amount.nano for name, amount in amounts.items() if _COUNTS_CARDS.search(name)) // _NANO
        if cards.names and number:
            found.cards[cards.names] = found.cards.get(cards.names, 0) + number
            found.with_cards = summed(found.with_cards, amounts)
        else:
            found.plain = summed(found.plain, amounts)
    request = parse_request((job.metadata.annotations or {}).get(CARD_REQUEST))
    if not found.cards:
        found.cards = {names: int(amount) // MILLI for names, amount in request.amounts.items()}
    return found


def _less(asked: _Asked, before: _Asked) -> _Asked:
    def rest(new: Amounts, old: Amounts) -> dict[str, ExactAmount]:
        return {name: ExactAmount(each.nano - old.get(name, _NOTHING).nano, each.family) for name, each in new.items()}

    cards = {names: number - before.cards.get(names, 0) for names, number in asked.cards.items()}
    return _Asked(rest(asked.plain, before.plain), rest(asked.with_cards, before.with_cards), cards)


def _lines(queue: Queue, asked: _Asked) -> Iterator[tuple[str, bool]]:
    """Each limited amount, and whether the limit is exceeded."""
    quota = parse_quota((queue.metadata.annotations or {}).get(CARD_QUOTA)).amounts
    amounts = summed(asked.plain, asked.with_cards)
    if quota:
        uncounted = {name: each for name, each in asked.with_cards.items() if name not in (CPU, MEMORY)}
        amounts = summed(asked.plain, uncounted)
    used = queue.status.allocated or {}
    for name, limit in (queue.spec.capability or {}).items():
        each = amounts.get(name, _NOTHING)
        if each.nano > 0:
            yield _line(name, each, _amount(used.get(name, 0)), _amount(limit))
    shown = cards_in(queue.status.cards)
    for names, number in asked.cards.items() if quota else ():
        if number > 0:
            limits = (_cards(int(quota.get((name,), 0.0)) // MILLI) for name in names)
            held = (_used(shown.get(name, {})) for name in names)
            yield _line(SEPARATOR.join(names), _cards(number), sum(held, _NOTHING), sum(limits, _NOTHING))


def _line(name: str, asked: ExactAmount, used: ExactAmount, limit: ExactAmount) -> tuple[str, bool]:
    text = f"{name}: asked {asked}, used {used}, limit {limit}"
    excess = asked.nano + used.nano - limit.nano
    return (f"{text}: {ExactAmount(excess, asked.family)} too many", True) if excess > 0 else (text, False)


def _cards(number: int) -> ExactAmount:
    return ExactAmount(number * _NANO)


def _used(card: Mapping[str, object]) -> ExactAmount:
    """What Pods hold of a card, and what admitted jobs still need."""
    return _amount(card.get("used", 0)) + _amount(card.get("inqueue", 0))


def _amount(value: object) -> ExactAmount:
    """0 for an amount that cannot be read: another message names it."""
    try:
        return parse_amount(value) if isinstance(value, Quantity) else _NOTHING
    except QuantityError:
        return _NOTHING
