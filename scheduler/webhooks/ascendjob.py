"""Admission of AscendJobs: name, roles, containers with chips, Pod templates, queue, and run policy."""

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.api.acjob import AscendJob, InvalidJobError, JobRoles, roles_of
from scheduler.webhooks.contract import AdmissionRequest, ClusterView, TemplateCheck, ValidationResult, WebhookSettings
from scheduler.webhooks.decoding import validator

_RESTART: Final = ("", "Always", "OnFailure", "Never", "ExitCode")
_CLEAN_POD: Final = ("", "All", "Running", "None")
_encode = msgspec.json.Encoder(order="deterministic").encode


@validator(AscendJob, of_spec=True)
def validate(
    job: AscendJob, request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings
) -> str | ValidationResult:
    """The first problem of the job, or its Pod templates."""
    try:
        roles = roles_of(job)
        problem = next(_problems(job, roles, cluster), "")
        return problem or _templates(job)
    except InvalidJobError as error:
        return str(error)


def _problems(job: AscendJob, roles: JobRoles, cluster: ClusterView) -> Iterator[str]:
    policy = job.spec.run_policy
    scheduling = policy.scheduling_policy
    if scheduling is not None and scheduling.queue and cluster.queue(scheduling.queue) is None:
        yield f"InvalidQueue: queue {scheduling.queue[:64]} does not exist"
    minimum = None if scheduling is None else scheduling.min_available
    if minimum is not None and not 1 <= minimum <= roles.total:
        yield f"InvalidSpecs: schedulingPolicy.minAvailable is {minimum}, not 1 to the number of Pods, {roles.total}"
    if (policy.ttl_seconds_after_finished or 0) < 0:
        yield f"InvalidSpecs: runPolicy.ttlSecondsAfterFinished is {policy.ttl_seconds_after_finished}, less than 0"
    if policy.active_deadline_seconds is not None and policy.active_deadline_seconds < 1:
        yield f"InvalidSpecs: runPolicy.activeDeadlineSeconds is {policy.active_deadline_seconds}, less than 1"
    if policy.clean_pod_policy not in _CLEAN_POD:
        known = ", ".join(filter(None, _CLEAN_POD))
        yield f"InvalidSpecs: runPolicy.cleanPodPolicy is {policy.clean_pod_policy[:64]!r}, none of {known}"
    for role in roles.roles:
        if role.restart_policy not in _RESTART:
            known = ", ".join(filter(None, _RESTART))
            yield f"InvalidReplicaSpec: restartPolicy of {role.type} is {role.restart_policy[:64]!r}, none of {known}"


def _templates(job: AscendJob) -> ValidationResult:
    """The templates of the roles as the API server is to validate them: with the restart policy that Pods get. Raises
    InvalidJobError."""
    checks, templates = list[TemplateCheck](), list[bytes]()
    for name, spec in (job.spec.replica_specs or {}).items():
        pod = {**(spec.template.get("spec") or {}), "restartPolicy": "Never"}
        try:
            encoded = _encode({**spec.template, "spec": pod})
        except (TypeError, ValueError) as error:  # in a manifest: a key that is not a string, a lone surrogate
            raise InvalidJobError("InvalidReplicaSpec", f"template of {name[:64]}: {error}") from None
        if encoded not in templates:
            templates.append(encoded)
        checks.append(TemplateCheck(templates.index(encoded), len(checks), field=f"spec.replicaSpecs[{name[:64]}]"))
    return ValidationResult([*checks], templates)
