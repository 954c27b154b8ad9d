"""What a vcjob is given that does not say it itself (Volcano's /jobs/mutate).

The object may be of any shape: a field that is not of its type counts as given, and is for ``validate`` to name.
"""

from typing import Any, Final

from scheduler.api.names import DEFAULT_QUEUE, DEFAULT_SCHEDULER_NAME, DEFAULT_TASK
from scheduler.webhooks.contract import ClusterView, Json, Operation, Request, Settings

_MAX_RETRY: Final = 3
_DNS_ON_HOST_NETWORK: Final = "ClusterFirstWithHostNet"
_NEEDS_SERVICE: Final = frozenset(("tensorflow", "mpi", "pytorch", "ray"))
"""Plugins whose Pods find each other by the names that plugin svc sets up."""
_NEEDS_KEYS: Final = frozenset(("mpi",))


def mutate(request: Request, cluster: ClusterView, settings: Settings) -> Json:
    """The job with its defaults, so too when its spec changes: to apply a manifest anew takes out of lists what it does
    not hold."""
    if request.operation is Operation.UPDATE and request.object.get("spec") == request.old.get("spec"):
        return request.object
    return defaulted(request.object, settings)


def defaulted(job: Json, settings: Settings) -> Json:
    """A copy of the job with its defaults."""
    spec = job.get("spec")
    if not isinstance(spec, dict):
        return job
    first, *_ = *settings.scheduler_names, DEFAULT_SCHEDULER_NAME
    spec = {
        **spec,
        "queue": spec.get("queue") or DEFAULT_QUEUE,
        "schedulerName": spec.get("schedulerName") or first,
        "maxRetry": spec.get("maxRetry") or _MAX_RETRY,
    }
    tasks = spec.get("tasks")
    if isinstance(tasks, list):
        filled = [_with_defaults(task, index) for index, task in enumerate(tasks)]
        if filled != tasks:
            spec["tasks"] = tasks = [_whole(task) for task in filled]
        if not spec.get("minAvailable"):
            spec["minAvailable"] = sum(_count(task, "minAvailable") for task in tasks)
    plugins = spec.get("plugins")
    if isinstance(plugins, dict):
        spec["plugins"] = _with_companions(plugins)
    return {**job, "spec": spec}


def _with_defaults(task: Any, index: int) -> Any:
    if not isinstance(task, dict):
        return task
    task = {
        **task,
        "name": task.get("name") or f"{DEFAULT_TASK}{index}",
        "maxRetry": task.get("maxRetry") or _MAX_RETRY,
    }
    if task.get("minAvailable") is None:
        task["minAvailable"] = _min_available(task)
    template = task.get("template")
    pod = template.get("spec") if isinstance(template, dict) else None
    if isinstance(pod, dict) and pod.get("hostNetwork") is True and not pod.get("dnsPolicy"):
        task["template"] = {**template, "spec": {**pod, "dnsPolicy": _DNS_ON_HOST_NETWORK}}
    return task


def _whole(task: Any) -> Any:
    """A task as Volcano writes it: where it fills in anything, it writes all tasks again, with empty objects and
    without a zero, and programs that read its jobs may count on that."""
    if not isinstance(task, dict):
        return task
    task = {key: value for key, value in task.items() if key != "replicas" or value != 0}
    if isinstance(task.get("template"), dict):
        task["template"] = _whole_template(task["template"])
    return task


def _whole_template(template: Json) -> Json:
    pod = template.get("spec")
    if not isinstance(pod, dict):
        return {"metadata": {}, **template}
    pod = dict(pod)
    for group in ("containers", "initContainers"):
        if isinstance(pod.get(group), list):
            pod[group] = [{**c, "resources": c.get("resources", {})} if isinstance(c, dict) else c for c in pod[group]]
    return {"metadata": {}, **template, "spec": pod}


def _min_available(task: Json) -> int:
    """The minimum of partitions if there is one, else all replicas."""
    policy = task.get("partitionPolicy")
    if isinstance(policy, dict) and _count(policy, "minPartitions") > 0:
        return _count(policy, "minPartitions") * _count(policy, "partitionSize")
    return _count(task, "replicas")


def _with_companions(plugins: Json) -> Json:
    """Plugins together with those that they rely on."""
    result = dict(plugins)
    if _NEEDS_SERVICE & plugins.keys():
        result.setdefault("svc", [])
    if _NEEDS_KEYS & plugins.keys():
        result.setdefault("ssh", [])
    return result


def _count(fields: Any, key: str) -> int:
    value = fields.get(key) if isinstance(fields, dict) else None
    return value if isinstance(value, int) else 0
