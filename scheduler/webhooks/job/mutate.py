"""The defaults of a vcjob (Volcano's /jobs/mutate).

The object may have any shape: a field of a wrong type is left as it is, and ``validate`` refuses it.
"""

from typing import Any, Final

from scheduler.api.names import DEFAULT_QUEUE, DEFAULT_SCHEDULER_NAME, DEFAULT_TASK
from scheduler.webhooks.contract import AdmissionRequest, ClusterView, Json, Operation, WebhookSettings

_MAX_RETRY: Final = 3
_DNS_ON_HOST_NETWORK: Final = "ClusterFirstWithHostNet"
_REQUIRE_SVC: Final = frozenset(("tensorflow", "mpi", "pytorch", "ray"))
"""Plugins whose Pods address each other by the host names of plugin svc."""
_REQUIRE_SSH: Final = frozenset(("mpi",))


def mutate(request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> Json:
    """Sets the defaults of a new job, and of one whose spec changes.

    ``kubectl apply`` of a manifest without the defaults removes them from lists, so an update needs them too.
    """
    if request.operation is Operation.UPDATE and request.object.get("spec") == request.old.get("spec"):
        return request.object
    return with_defaults(request.object, settings)


def with_defaults(job: Json, settings: WebhookSettings) -> Json:
    """Returns a copy of the job with its defaults."""
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
        completed = [_task_with_defaults(task, index) for index, task in enumerate(tasks)]
        if completed != tasks:
            spec["tasks"] = tasks = [_task_as_serialized(task) for task in completed]
        if not spec.get("minAvailable"):
            spec["minAvailable"] = sum(_integer(task, "minAvailable") for task in tasks)
    plugins = spec.get("plugins")
    if isinstance(plugins, dict):
        spec["plugins"] = _with_required_plugins(plugins)
    return {**job, "spec": spec}


def _task_with_defaults(task: Any, index: int) -> Any:
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


def _task_as_serialized(task: Any) -> Any:
    """A task as Volcano's Go types serialize it: with empty objects, and without ``replicas: 0``.

    When Volcano sets any default it serializes all tasks, and clients may rely on that form.
    """
    if not isinstance(task, dict):
        return task
    task = {key: value for key, value in task.items() if key != "replicas" or value != 0}
    if isinstance(task.get("template"), dict):
        task["template"] = _template_as_serialized(task["template"])
    return task


def _template_as_serialized(template: Json) -> Json:
    pod = template.get("spec")
    if not isinstance(pod, dict):
        return {"metadata": {}, **template}
    pod = dict(pod)
    for group in ("containers", "initContainers"):
        if isinstance(pod.get(group), list):
            pod[group] = [{**c, "resources": c.get("resources", {})} if isinstance(c, dict) else c for c in pod[group]]
    return {"metadata": {}, **template, "spec": pod}


def _min_available(task: Json) -> int:
    """The Pods of the minimum number of partitions, if that is set; otherwise all replicas."""
    policy = task.get("partitionPolicy")
    if isinstance(policy, dict) and _integer(policy, "minPartitions") > 0:
        return _integer(policy, "minPartitions") * _integer(policy, "partitionSize")
    return _integer(task, "replicas")


def _with_required_plugins(plugins: Json) -> Json:
    """Adds the plugins that the given ones require."""
    result = dict(plugins)
    if _REQUIRE_SVC & plugins.keys():
        result.setdefault("svc", [])
    if _REQUIRE_SSH & plugins.keys():
        result.setdefault("ssh", [])
    return result


def _integer(fields: Any, key: str) -> int:
    value = fields.get(key) if isinstance(fields, dict) else None
    return value if isinstance(value, int) else 0
