"""A queue in the tree of queues: which parent it may have, and that its amounts agree with those around it.

Queues that are stored already are taken as they are: an amount of theirs that is no quantity counts as absent, and a
tree that has a loop (nothing can stop two people from making one at once) is walked once round.
"""

from collections.abc import Iterable, Iterator

from scheduler.api.amount import Amount, Family
from scheduler.api.names import CPU, MEMORY, ROOT_QUEUE
from scheduler.api.objects import ResourceList
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.resource import counted, scale_of
from scheduler.api.scheduling import Queue
from scheduler.webhooks.contract import ClusterView, Settings
from scheduler.webhooks.queue.amounts import guaranteed

Amounts = dict[str, int]
"""In the units of ``scheduler.api.resource``."""


def no_such_queue(name: str) -> str:
    """How Volcano says that there is no such queue."""
    return f'queue.scheduling.volcano.sh "{name}" not found'


def children_of(name: str, cluster: ClusterView) -> list[Queue]:
    """By name."""
    found = [queue for queue in cluster.queues() if queue.spec.parent == name and queue.metadata.name != name]
    return sorted(found, key=lambda queue: queue.metadata.name)


def named(queues: Iterable[Queue]) -> str:
    return ", ".join(queue.metadata.name for queue in queues)


def parent_problem(queue: Queue, cluster: ClusterView, settings: Settings) -> str:
    """Why a queue cannot be where it wants to be, or ""."""
    name, parent = queue.metadata.name, queue.spec.parent
    if parent in ("", ROOT_QUEUE):
        return ""
    if parent == name:
        return f"queue {name} cannot use itself as parent"
    depth, above = 1, parent
    while above not in ("", ROOT_QUEUE):
        if above == name:  # as it is stored: Volcano lets the loop come about
            return f"queue {name} cannot have its own descendant {parent} as parent"
        depth += 1
        if depth > settings.max_queue_depth:
            return f"queue {name} exceeds the maximum allowed depth of {settings.max_queue_depth}"
        found = cluster.queue(above)
        if found is None:
            return f"failed to get parent queue {above} of queue {name}: {no_such_queue(above)}"
        above = found.spec.parent
    pods = cluster.bound_pods(parent)
    if pods and not children_of(parent, cluster):
        return f"queue {parent} cannot be the parent queue of queue {name} because it has allocated Pods: {pods}"
    return ""


def amounts_problem(queue: Queue, cluster: ClusterView) -> str:
    """Where a queue's amounts contradict those of its ancestors, siblings or descendants, or ""."""
    parent = cluster.queue(queue.spec.parent) if queue.spec.parent not in ("", ROOT_QUEUE) else None
    if queue.spec.parent not in ("", ROOT_QUEUE):
        if parent is None:
            return f"parent queue {queue.spec.parent} not found: {no_such_queue(queue.spec.parent)}"
        problem = _above(queue, cluster)
        if problem:
            return problem
        siblings = [each for each in children_of(queue.spec.parent, cluster) if each.metadata.name != _name(queue)]
        problem = _sums(parent, [*siblings, queue])
        if problem:
            return f"parent {problem}"
    children = children_of(_name(queue), cluster)
    return (_below(queue, children, cluster) or _sums(queue, children)) if children else ""


def _name(queue: Queue) -> str:
    return queue.metadata.name


def _above(queue: Queue, cluster: ClusterView) -> str:
    for resource, amount in _amounts(queue.spec.capability).items():
        limit = next(
            (bound for each in _ancestors(queue, cluster) if (bound := _amounts(each.spec.capability).get(resource))),
            None,
        )
        if amount and limit is not None and amount > limit:
            return (
                f"queue {_name(queue)} capability[{resource}]={_shown(resource, amount)} exceeds its ancestor's "
                f"capability={_shown(resource, limit)}"
            )
    return ""


def _ancestors(queue: Queue, cluster: ClusterView) -> Iterator[Queue]:
    """The nearest first, without the root."""
    seen = {_name(queue)}
    above = queue.spec.parent
    while above not in ("", ROOT_QUEUE) and above not in seen:
        seen.add(above)
        found = cluster.queue(above)
        if found is None:
            return
        yield found
        above = found.spec.parent


def _below(queue: Queue, children: list[Queue], cluster: ClusterView) -> str:
    for resource, amount in _amounts(queue.spec.capability).items():
        seen = {_name(queue)}
        largest = max((_largest(child, resource, cluster, seen) for child in children), default=0)
        if 0 < amount < largest:
            return (
                f"queue {_name(queue)} capability[{resource}]={_shown(resource, amount)} is smaller than its "
                f"descendants' max capability={_shown(resource, largest)}"
            )
    return ""


def _largest(queue: Queue, resource: str, cluster: ClusterView, seen: set[str]) -> int:
    """The largest capability in a subtree; a queue that has one speaks for those below it."""
    waiting, largest = [queue], 0
    while waiting:
        each = waiting.pop()
        if _name(each) in seen:
            continue
        seen.add(_name(each))
        own = _amounts(each.spec.capability).get(resource, 0)
        largest = max(largest, own)
        if not own:
            waiting += children_of(_name(each), cluster)
    return largest


def _sums(parent: Queue, children: list[Queue]) -> str:
    """What children are promised together must be the parent's to give."""
    for word, limit, parts in (
        ("guarantee", guaranteed(parent.spec), [guaranteed(child.spec) for child in children]),
        ("deserved", parent.spec.deserved, [child.spec.deserved for child in children]),
    ):
        most, total = _amounts(limit), _total(parts)
        if any(amount > most.get(resource, 0) for resource, amount in total.items()):
            return (
                f"queue {_name(parent)} validation failed: sum of children's {word} ({_listed(total)}) exceeds "
                f"parent's {word} limit ({_listed(most)})"
            )
    return ""


def _total(parts: Iterable[ResourceList | None]) -> Amounts:
    result: Amounts = {}
    for part in parts:
        for resource, amount in _amounts(part).items():
            result[resource] = result.get(resource, 0) + amount
    return result


def _amounts(written: ResourceList | None) -> Amounts:
    result: Amounts = {}
    for resource, quantity in (written or {}).items():
        try:
            if counted(resource):
                result[resource] = parse_quantity(quantity, scale_of(resource))
        except QuantityError:
            continue
    return result


def _shown(resource: str, amount: int) -> str:
    if resource == CPU:
        return str(Amount(amount * 10**6))
    return str(Amount(amount * 10**9, Family.BINARY)) if resource == MEMORY else f"{amount:.2f}"


def _listed(amounts: Amounts) -> str:
    """As Volcano prints its Resource: milli-cores, bytes, Pods, and thousandths of whatever else there is."""
    rest = sorted(resource for resource in amounts if resource not in (CPU, MEMORY))
    return ", ".join(f"{resource} {amounts.get(resource, 0):.2f}" for resource in (CPU, MEMORY, *rest))
