"""Validation of a queue in the queue hierarchy: its parent, and its amounts against those of the related queues.

Stored queues may be invalid: their malformed amounts count as absent, and a cycle (which two concurrent updates can
create) is traversed once.
"""

from collections.abc import Iterable, Iterator

from scheduler.api.names import CPU, MEMORY, ROOT_QUEUE
from scheduler.api.objects import ResourceList
from scheduler.api.quantity import ExactAmount, QuantityError, SuffixFamily, parse_quantity
from scheduler.api.resource import counted, scale_of
from scheduler.api.scheduling import Queue, QueueSpec
from scheduler.webhooks.contract import ClusterView, WebhookSettings

Amounts = dict[str, int]
"""Amounts by resource, in the units of ``scheduler.api.resource``."""


def guarantee_of(spec: QueueSpec) -> ResourceList:
    """The guarantee of a queue; empty if it has none."""
    return (spec.guarantee.resource if spec.guarantee else None) or {}


def queue_not_found(name: str) -> str:
    """Volcano's message for a queue that does not exist."""
    return f'queue.scheduling.volcano.sh "{name}" not found'


def children_of(name: str, cluster: ClusterView) -> list[Queue]:
    """The child queues, sorted by name."""
    found = [queue for queue in cluster.queues() if queue.spec.parent == name and queue.metadata.name != name]
    return sorted(found, key=lambda queue: queue.metadata.name)


def names_of(queues: Iterable[Queue]) -> str:
    """The names, separated by commas."""
    return ", ".join(queue.metadata.name for queue in queues)


def parent_problem(queue: Queue, cluster: ClusterView, settings: WebhookSettings) -> str:
    """Why a queue cannot have its parent, or ""."""
    name, parent = queue.metadata.name, queue.spec.parent
    if parent in ("", ROOT_QUEUE):
        return ""
    if parent == name:
        return f"queue {name} cannot use itself as parent"
    depth, ancestor = 1, parent
    while ancestor not in ("", ROOT_QUEUE):
        if ancestor == name:  # Volcano accepts the cycle
            return f"queue {name} cannot have its own descendant {parent} as parent"
        depth += 1
        if depth > settings.max_queue_depth:
            return f"queue {name} exceeds the maximum allowed depth of {settings.max_queue_depth}"
        found = cluster.queue(ancestor)
        if found is None:
            return f"failed to get parent queue {ancestor} of queue {name}: {queue_not_found(ancestor)}"
        ancestor = found.spec.parent
    pods = cluster.bound_pods(parent)
    if pods and not children_of(parent, cluster):
        return f"queue {parent} cannot be the parent queue of queue {name} because it has allocated Pods: {pods}"
    return ""


def amounts_problem(queue: Queue, cluster: ClusterView) -> str:
    """The conflict of a queue's amounts with those of its ancestors, siblings or descendants, or ""."""
    if queue.spec.parent not in ("", ROOT_QUEUE):
        parent = cluster.queue(queue.spec.parent)
        if parent is None:
            return f"parent queue {queue.spec.parent} not found: {queue_not_found(queue.spec.parent)}"
        problem = _ancestor_limit_problem(queue, cluster)
        if problem:
            return problem
        siblings = [each for each in children_of(queue.spec.parent, cluster) if each.metadata.name != _name(queue)]
        problem = _children_sum_problem(parent, [*siblings, queue])
        if problem:
            return f"parent {problem}"
    children = children_of(_name(queue), cluster)
    return (_descendant_problem(queue, children, cluster) or _children_sum_problem(queue, children)) if children else ""


def _name(queue: Queue) -> str:
    return queue.metadata.name


def _ancestor_limit_problem(queue: Queue, cluster: ClusterView) -> str:
    for resource, amount in _amounts(queue.spec.capability).items():
        limit = next(
            (bound for each in _ancestors(queue, cluster) if (bound := _amounts(each.spec.capability).get(resource))),
            None,
        )
        if amount and limit is not None and amount > limit:
            own = f"queue {_name(queue)} capability[{resource}]={_format_amount(resource, amount)}"
            return f"{own} exceeds its ancestor's capability={_format_amount(resource, limit)}"
    return ""


def _ancestors(queue: Queue, cluster: ClusterView) -> Iterator[Queue]:
    """The ancestors without the root, the nearest first."""
    seen = {_name(queue)}
    ancestor = queue.spec.parent
    while ancestor not in ("", ROOT_QUEUE) and ancestor not in seen:
        seen.add(ancestor)
        found = cluster.queue(ancestor)
        if found is None:
            return
        yield found
        ancestor = found.spec.parent


def _descendant_problem(queue: Queue, children: list[Queue], cluster: ClusterView) -> str:
    for resource, amount in _amounts(queue.spec.capability).items():
        seen = {_name(queue)}
        largest = max((_largest_capability(child, resource, cluster, seen) for child in children), default=0)
        if 0 < amount < largest:
            return (
                f"queue {_name(queue)} capability[{resource}]={_format_amount(resource, amount)} is smaller than its "
                f"descendants' max capability={_format_amount(resource, largest)}"
            )
    return ""


def _largest_capability(queue: Queue, resource: str, cluster: ClusterView, seen: set[str]) -> int:
    """The largest capability in a subtree, without the descendants of queues that have a capability themselves."""
    pending, largest = [queue], 0
    while pending:
        each = pending.pop()
        if _name(each) in seen:
            continue
        seen.add(_name(each))
        own = _amounts(each.spec.capability).get(resource, 0)
        largest = max(largest, own)
        if not own:
            pending += children_of(_name(each), cluster)
    return largest


def _children_sum_problem(parent: Queue, children: list[Queue]) -> str:
    """The guarantees and the deserved amounts of the children may not exceed the parent's in sum."""
    for field, parent_amounts, child_amounts in (
        ("guarantee", guarantee_of(parent.spec), [guarantee_of(child.spec) for child in children]),
        ("deserved", parent.spec.deserved, [child.spec.deserved for child in children]),
    ):
        limit, total = _amounts(parent_amounts), _total(child_amounts)
        if any(amount > limit.get(resource, 0) for resource, amount in total.items()):
            sums = f"sum of children's {field} ({_format_amounts(total)})"
            bound = f"parent's {field} limit ({_format_amounts(limit)})"
            return f"queue {_name(parent)} validation failed: {sums} exceeds {bound}"
    return ""


def _total(lists: Iterable[ResourceList | None]) -> Amounts:
    result: Amounts = {}
    for resources in lists:
        for resource, amount in _amounts(resources).items():
            result[resource] = result.get(resource, 0) + amount
    return result


def _amounts(resources: ResourceList | None) -> Amounts:
    result: Amounts = {}
    for resource, quantity in (resources or {}).items():
        try:
            if counted(resource):
                result[resource] = parse_quantity(quantity, scale_of(resource))
        except QuantityError:
            continue
    return result


def _format_amount(resource: str, amount: int) -> str:
    if resource == CPU:
        return str(ExactAmount(amount * 10**6))
    return str(ExactAmount(amount * 10**9, SuffixFamily.BINARY)) if resource == MEMORY else f"{amount:.2f}"


def _format_amounts(amounts: Amounts) -> str:
    """The format of Volcano's Resource: milli-cores, bytes, Pods, and thousandths of all other resources."""
    rest = sorted(resource for resource in amounts if resource not in (CPU, MEMORY))
    return ", ".join(f"{resource} {amounts.get(resource, 0):.2f}" for resource in (CPU, MEMORY, *rest))
