"""Validation of updates: a stored vcjob may change the replicas, the minimums and the priority class only."""

from typing import Any, Final

from scheduler.api import batch
from scheduler.api.quantity import QuantityError, parse_amount
from scheduler.webhooks.contract import Json
from scheduler.webhooks.job.tasks import partition_problems
from scheduler.webhooks.podgroup import topology_problem

_IMMUTABLE: Final = (
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and "
    "`PriorityClassName`"
)
_QUANTITIES: Final = frozenset(("requests", "limits", "overhead"))
_MAPS: Final = frozenset(("annotations", "labels", "matchLabels", "nodeSelector", "plugins"))
"""Maps where a key without a value has a meaning."""
_OMITTED_WHEN_ZERO: Final = frozenset(
    (
        "containerPort", "failureThreshold", "hostIPC", "hostNetwork", "hostPID", "hostPort", "initialDelaySeconds",
        "maxRetry", "minPartitions", "optional", "partitionSize", "periodSeconds", "port", "readOnly", "stdin",
        "stdinOnce", "successThreshold", "timeoutSeconds", "totalPartitions", "tty", "weight",
    )
)  # fmt: skip
"""Numbers and booleans that clients written in Go omit when they are 0 or false."""
_MEANINGFUL_WHEN_EMPTY: Final = frozenset(("emptyDir", "labelSelector", "namespaceSelector", "storageClassName"))


def update_problems(old: Json, new: Json, job: batch.Job) -> str:
    """The first problem, or "". ``job``: ``new``, decoded."""
    return _number_problems(job) or _change_problems(old, new)


def _number_problems(job: batch.Job) -> str:
    spec = job.spec
    for task in spec.tasks:
        minimum = task.min_available
        if task.replicas < 0:
            return f"'replicas' must be >= 0 in task: {task.name}"
        if minimum is not None and minimum < 0:
            return f"'minAvailable' must be >= 0 in task: {task.name}"
        if minimum is not None and minimum > task.replicas:
            return f"'minAvailable' must be <= 'replicas' in task: {task.name}"
        problem = partition_problems(task, job.metadata.name)
        if problem:
            return problem
    if spec.min_available > sum(task.replicas for task in spec.tasks):
        return "job 'minAvailable' must not be greater than total replicas"
    if spec.min_available < 0:
        return "job 'minAvailable' must be >= 0"
    return topology_problem(spec.network_topology)


def _change_problems(old: Json, new: Json) -> str:
    before, after = _spec(old), _spec(new)
    if len(_tasks(before)) != len(_tasks(after)):
        return "job updates may not add or remove tasks"
    return "" if _immutable_fields(before) == _immutable_fields(after) else _IMMUTABLE


def _spec(job: Json) -> Json:
    spec = job.get("spec")
    return spec if isinstance(spec, dict) else {}


def _tasks(spec: Json) -> list[Any]:
    tasks = spec.get("tasks")
    return tasks if isinstance(tasks, list) else []


def _immutable_fields(spec: Json) -> Any:
    """The immutable fields in canonical form, so that equivalent ones compare equal."""
    fields = {key: value for key, value in spec.items() if key not in ("minAvailable", "priorityClassName")}
    fields["tasks"] = [_without(task, "replicas", "minAvailable") for task in _tasks(spec)]
    volumes = spec.get("volumes")
    if isinstance(volumes, list):
        # The controller sets the name of the claim that it creates.
        fields["volumes"] = [
            _without(each, "volumeClaimName") if isinstance(each, dict) and each.get("volumeClaim") else each
            for each in volumes
        ]
    return _canonical(fields)


def _without(fields: Any, *keys: str) -> Any:
    return {k: v for k, v in fields.items() if k not in keys} if isinstance(fields, dict) else fields


def _canonical(value: Any, key: str = "") -> Any:
    """The value without members that a client written in Go omits, and with quantities as numbers.

    An object that such a client reads and writes back has the same canonical form.
    """
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if not isinstance(value, dict):
        return value
    if key in _QUANTITIES:
        return {name: _number(amount) for name, amount in value.items()}
    if key in _MAPS:
        return {name: member or None for name, member in value.items()}
    members = {name: _canonical(member, name) for name, member in value.items() if member is not None}
    return {name: member for name, member in members.items() if not _is_omitted(name, member)}


def _is_omitted(name: str, value: Any) -> bool:
    if isinstance(value, str | list | dict):
        return not value and name not in _MEANINGFUL_WHEN_EMPTY
    return not value and name in _OMITTED_WHEN_ZERO


def _number(amount: Any) -> Any:
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        return amount
    try:
        return parse_amount(amount).nano
    except QuantityError:
        return amount
