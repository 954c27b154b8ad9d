"""The jobs and the Pod templates that objects of all kinds contain, which may have any shape."""

from collections.abc import Iterator
from typing import Any, Final

from scheduler.api.kinds import (
    ACJOB,
    BATCH_JOB,
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB_TEMPLATE,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    VCJOB,
    Kind,
)
from scheduler.webhooks.contract import Json

_WORKLOADS: Final = frozenset({DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, REPLICATION_CONTROLLER, BATCH_JOB})


def job_specs(kind: Kind, spec: Json) -> Iterator[tuple[str, Json]]:
    """The spec of each job in an object, with its path."""
    if kind is CRON_JOB:
        yield "spec.jobTemplate.spec", mapping(mapping(spec.get("jobTemplate")).get("spec"))
    elif kind.custom:
        yield "spec", spec


def pod_templates(kind: Kind, spec: Json) -> Iterator[tuple[str, Json]]:
    """The Pod templates of an object, each with its path."""
    if kind in _WORKLOADS:
        yield "spec.template", mapping(spec.get("template"))
    elif kind is ACJOB:
        for name, role in mapping(spec.get("replicaSpecs")).items():
            yield f"spec.replicaSpecs[{name[:64]}].template", mapping(mapping(role).get("template"))
    elif kind in (VCJOB, JOB_TEMPLATE, CRON_JOB):
        for path, part in job_specs(kind, spec):
            for i, task in enumerate(items(part.get("tasks"))):
                yield f"{path}.tasks[{i}].template", mapping(mapping(task).get("template"))


def mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
