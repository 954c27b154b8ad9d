"""Decodes a vcjob into typed structs, and validates the bounds of its numbers."""

from collections.abc import Iterator
from typing import Final

from scheduler.api import batch
from scheduler.webhooks.contract import Json
from scheduler.webhooks.decoding import DecodingError, decode
from scheduler.webhooks.fields import invalid

_INT32: Final = range(-(2**31), 2**31)


def decode_job(raw: Json) -> batch.Job:
    """Decodes a vcjob. Raises DecodingError."""
    job = decode(_without_null_arguments(raw), batch.Job)
    for field, number, _ in _numbers(job.spec):
        if number is not None and number not in _INT32:
            raise DecodingError(f"spec.{field}: expected a number that fits in 32 bits")
    return job


def _without_null_arguments(raw: Json) -> Json:
    """Replaces null arguments of plugins by empty lists: decoding removes nulls, but the job still names the plugin."""
    spec = raw.get("spec")
    plugins = spec.get("plugins") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(plugins, dict):
        return raw
    arguments_of = {name: [] if arguments is None else arguments for name, arguments in plugins.items()}
    return {**raw, "spec": {**spec, "plugins": arguments_of}}


def number_problems(spec: batch.JobSpec) -> Iterator[str]:
    """Numbers below their minimum. The schema of the CustomResourceDefinition refuses them too, where it is
    installed."""
    for field, number, minimum in _numbers(spec):
        if number is not None and number < minimum:
            yield invalid(f"spec.{field}", number, f"must be greater than or equal to {minimum}")


def _numbers(spec: batch.JobSpec) -> Iterator[tuple[str, int | None, int]]:
    """Each number of the spec with its path and its minimum."""
    yield "minAvailable", spec.min_available, 0
    yield "maxRetry", spec.max_retry, 0
    yield "ttlSecondsAfterFinished", spec.ttl_seconds_after_finished, 0
    yield "minSuccess", spec.min_success, 1
    yield from _exit_codes(spec.policies, "policies")
    for index, task in enumerate(spec.tasks):
        path = f"tasks[{index}]"
        yield f"{path}.replicas", task.replicas, 0
        yield f"{path}.minAvailable", task.min_available, 0
        yield f"{path}.maxRetry", task.max_retry, 0
        yield from _exit_codes(task.policies, f"{path}.policies")
        if task.partition_policy is not None:
            yield f"{path}.partitionPolicy.totalPartitions", task.partition_policy.total_partitions, _INT32.start
            yield f"{path}.partitionPolicy.partitionSize", task.partition_policy.partition_size, _INT32.start
            yield f"{path}.partitionPolicy.minPartitions", task.partition_policy.min_partitions, 0


def _exit_codes(policies: list[batch.LifecyclePolicy] | None, path: str) -> Iterator[tuple[str, int | None, int]]:
    for index, policy in enumerate(policies or ()):
        yield f"{path}[{index}].exitCode", policy.exit_code, _INT32.start
