"""What Pods hold that count in no queue, as the last row of tables of queues: in the whole cluster, by namespace, and
by owner."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from scheduler.api.names import NO_QUEUE, OFFLINE, ONLINE
from scheduler.api.quantity import format_milli
from scheduler.api.resource import PODS_INDEX, Vector
from scheduler.explain.explanation import QueueAmounts
from scheduler.framework.charged_namespaces import amounts_without_queue, cards_without_queue, charged_pods
from scheduler.framework.session import Session

OWNERS: Final = 100
"""Maximum of owners that are listed. Those with the most cards come first."""
Raw = dict[str, Any]


def in_no_queue(session: Session) -> list[QueueAmounts]:
    """The amounts that count in no queue."""
    cards = {card: its.used for card, its in cards_without_queue(session.cards_in_use()).items()}
    return _amounts(session, amounts_without_queue(session), cards)


def in_no_queue_by_namespace(session: Session) -> dict[str, list[QueueAmounts]]:
    """Namespace -> the amounts that count in no queue; namespaces without any are left out."""
    charged, fit = session.once(charged_pods).queues, session.dimensions.fit
    sums = {
        namespace: fit(its.allocated)
        for namespace, its in session.snapshot.without_queue.amounts.items()
        if namespace not in charged
    }
    for job in session.active_jobs.values():
        if job.queue not in session.queues:
            known = sums.get(job.namespace)
            sums[job.namespace] = job.allocated if known is None else known + job.allocated
    cards: dict[str, Counter[str]] = {}
    for user, used in session.cards_in_use().items():
        if not user.queue:
            cards.setdefault(user.namespace, Counter()).update(used)
    zeros = session.dimensions.zeros()
    found = {name: _amounts(session, sums.get(name, zeros), cards.get(name, {})) for name in sums.keys() | cards.keys()}
    return {namespace: amounts for namespace, amounts in found.items() if amounts}


def _amounts(session: Session, held: Vector, cards: Mapping[str, float]) -> list[QueueAmounts]:
    resources = [(name, float(held[d])) for d, name in enumerate(session.dimensions.names) if d != PODS_INDEX]
    named = [*resources, *sorted(cards.items())]
    return [QueueAmounts(NO_QUEUE, name, used, None, None) for name, used in named if used]


def owners_in_no_queue(session: Session) -> list[Raw]:
    """The owners of Pods without a queue that use cards, with the queue that is charged for them; the first ones by
    the number of their cards."""
    used: Counter[tuple[str, str, str, str, str]] = Counter()
    for each in (owner for one in session.figures() for owner in one.card_owners):
        user = each.user
        key = user.namespace, each.owner, each.card, user.queue or NO_QUEUE, ONLINE if user.online else OFFLINE
        used[key] += each.amount  # type: ignore[assignment]
    fields = ("namespace", "owner", "card", "queue", "workload")
    ordered = sorted(used.items(), key=lambda item: (-item[1], item[0]))[:OWNERS]
    return [{**dict(zip(fields, key, strict=True)), "used": format_milli(amount)} for key, amount in ordered]
