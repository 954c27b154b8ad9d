"""What of a vcjob may change once it is stored: how many Pods it has and needs, and its priority class."""

from typing import Any, Final

from scheduler.api import batch
from scheduler.api.amount import parse_amount
from scheduler.api.quantity import QuantityError
from scheduler.webhooks.contract import Json
from scheduler.webhooks.job.tasks import partition_problems
from scheduler.webhooks.topology import topology_problem

_FROZEN: Final = (
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and "
    "`PriorityClassName`"
)
_QUANTITIES: Final = frozenset(("requests", "limits", "overhead"))
_MAPS: Final = frozenset(("annotations", "labels", "matchLabels", "nodeSelector", "plugins"))
"""Their keys mean something even without a value."""
_SAME_WHEN_ZERO: Final = frozenset(
    (
        "containerPort", "failureThreshold", "hostIPC", "hostNetwork", "hostPID", "hostPort", "initialDelaySeconds",
        "maxRetry", "minPartitions", "optional", "partitionSize", "periodSeconds", "port", "readOnly", "stdin",
        "stdinOnce", "successThreshold", "timeoutSeconds", "totalPartitions", "tty", "weight",
    )
)  # fmt: skip
"""Numbers and switches that clients written in Go leave out when they are 0 or false."""
_MEANT_WHEN_EMPTY: Final = frozenset(("emptyDir", "labelSelector", "namespaceSelector", "storageClassName"))


def update_problems(old: Json, new: Json, job: batch.Job) -> str:
    """The first rule broken, or ""; ``job`` is ``new``, typed."""
    return _number_problems(job) or _change_problems(old, new)


def _number_problems(job: batch.Job) -> str:
    spec = job.spec
    for task in spec.tasks:
        least = task.min_available
        if task.replicas < 0:
            return f"'replicas' must be >= 0 in task: {task.name}"
        if least is not None and least < 0:
            return f"'minAvailable' must be >= 0 in task: {task.name}"
        if least is not None and least > task.replicas:
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
    return "" if _frozen(before) == _frozen(after) else _FROZEN


def _spec(job: Json) -> Json:
    spec = job.get("spec")
    return spec if isinstance(spec, dict) else {}


def _tasks(spec: Json) -> list[Any]:
    tasks = spec.get("tasks")
    return tasks if isinstance(tasks, list) else []


def _frozen(spec: Json) -> Any:
    """What must stay as it is, in a form in which the same is equal."""
    frozen = {key: value for key, value in spec.items() if key not in ("minAvailable", "priorityClassName")}
    frozen["tasks"] = [_without(task, "replicas", "minAvailable") for task in _tasks(spec)]
    volumes = spec.get("volumes")
    if isinstance(volumes, list):
        # The controller names the claim that it makes.
        frozen["volumes"] = [
            _without(each, "volumeClaimName") if isinstance(each, dict) and each.get("volumeClaim") else each
            for each in volumes
        ]
    return _canonical(frozen)


def _without(fields: Any, *keys: str) -> Any:
    return {k: v for k, v in fields.items() if k not in keys} if isinstance(fields, dict) else fields


def _canonical(value: Any, key: str = "") -> Any:
    """Without what is the same as nothing, quantities as numbers: an object that went through a client written in Go
    is not changed by that."""
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if not isinstance(value, dict):
        return value
    if key in _QUANTITIES:
        return {name: _number(amount) for name, amount in value.items()}
    if key in _MAPS:
        return {name: member or None for name, member in value.items()}
    members = {name: _canonical(member, name) for name, member in value.items() if member is not None}
    return {name: member for name, member in members.items() if not _is_nothing(name, member)}


def _is_nothing(name: str, value: Any) -> bool:
    if isinstance(value, str | list | dict):
        return not value and name not in _MEANT_WHEN_EMPTY
    return not value and name in _SAME_WHEN_ZERO


def _number(amount: Any) -> Any:
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        return amount
    try:
        return parse_amount(amount).nano
    except QuantityError:
        return amount
