"""What Pods have of a node's cards, from annotations that may be forged.

Users who may edit a Pod may write anything into the annotations that say which cards it has. So what the scheduler
bound a Pod with counts, whatever they say now; a Pod never has more than it asks for; and where no annotation can be
believed, a Pod counts with what it asks for on every card of its node.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from scheduler.api.names import EVENT_DEVICES_DISAGREE
from scheduler.api.objects import ConfigMap, Node
from scheduler.api.reasons import Malformed
from scheduler.api.task import MOST_EARLIER, Task
from scheduler.plugins.deviceshare.cards import Cards, Grant, Use
from scheduler.plugins.deviceshare.family import Family, Inventory


def read_holdings(
    family: Family[Any], node: Node, source: ConfigMap | None, tasks: Sequence[Task], since: float
) -> Inventory:
    """The cards of a node and what Pods have of them. ``since``: Unix time since which bindings are recorded."""
    bound = [_as_bound(task) for task in tasks]
    inventory = family.read(node, source, bound)
    annotated = inventory.grants if bound == list(tasks) else family.read(node, source, tasks).grants
    grants, problems = {}, list(inventory.problems)
    for task, known in zip(tasks, bound, strict=True):
        claim, cards = family.claim(task.cls), inventory.cards
        given, said = inventory.grants.get(task.uid, ()), annotated.get(task.uid, ())
        if claim is None:
            believed: Grant = ()
        elif task.unproven(since) or len(task.earlier) == MOST_EARLIER:
            grants[task.uid] = _on_every_card(family, claim, cards)
            problems.append(
                _disagreement(
                    task,
                    f"asked for {claim.words}; nothing says which cards of node {task.node} it has: its binding has no "
                    "record that the scheduler signed, or its annotations were changed too often",
                    "it counts with what it asked for on every card there while it exists",
                )
            )
            continue
        else:
            believed = _as_asked(family, claim, cards, said)
            before = [_as_asked(family, claim, cards, grant) for grant in _earlier(family, node, source, task)]
            words = [given if known is not task else believed, believed, *before]
            grants[task.uid] = tuple(uses for grant in dict.fromkeys(words) for uses in grant)
        if known is not task and said != given:
            problems.append(
                _disagreement(
                    task,
                    f"bound to node {task.node} with {_words(inventory, given)}, annotated with "
                    f"{_words(inventory, said)}",
                    "both count while it exists",
                )
            )
        elif said != believed:
            asked = "nothing" if claim is None else claim.words
            problems.append(
                _disagreement(
                    task,
                    f"asked for {asked} of {family.title}; annotated with {_words(inventory, said)}",
                    "what is beyond that is ignored",
                )
            )
    return replace(inventory, grants={uid: grant for uid, grant in grants.items() if grant}, problems=tuple(problems))


def _as_bound(task: Task) -> Task:
    """The task with the annotations that it was bound with."""
    devices = {} if task.record is None else task.record.chips
    if all(task.annotations.get(key) == value for key, value in devices.items()):
        return task
    return replace(task, annotations={**task.annotations, **devices})


def _earlier(family: Family[Any], node: Node, source: ConfigMap | None, task: Task) -> Iterator[Grant]:
    """What the Pod had by annotations that were changed since."""
    for key, value in task.earlier:
        once = replace(task, annotations={**task.annotations, key: value})
        yield family.read(node, source, (once,)).grants.get(task.uid, ())


def _as_asked(family: Family[Any], claim: Any, cards: Cards, grant: Grant) -> Grant:
    """What of a grant is not beyond a claim."""
    result = []
    for number, uses in enumerate(grant):
        kept: list[Use] = []
        for use in uses:
            shares = family.most(claim, cards[use.card])
            if number < len(shares) and len(kept) < shares[number].number:
                share = shares[number]
                memory = use.memory if use.part is not None else min(use.memory, share.memory)
                kept.append(use._replace(memory=memory, cores=min(use.cores, share.cores)))
        result.append(tuple(kept))
    return tuple(result)


def _on_every_card(family: Family[Any], claim: Any, cards: Cards) -> Grant:
    return tuple(
        tuple(Use(i, share.memory, share.cores) for share in family.most(claim, card)) for i, card in enumerate(cards)
    )


def _words(inventory: Inventory, grant: Grant) -> str:
    """``GPU-1 (memory 4000, cores 40)``, for messages."""
    uses = [use for uses in grant for use in uses]
    listed = (f"{inventory.names[use.card]} (memory {use.told_memory}, cores {use.cores})" for use in uses)
    return ", ".join(listed) or "none"


def _disagreement(task: Task, what: str, consequence: str) -> Malformed:
    field = "metadata.annotations"
    return Malformed("Pod", task.namespace, task.name, field, what, consequence, EVENT_DEVICES_DISAGREE, uid=task.uid)
