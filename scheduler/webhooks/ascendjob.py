"""Admission of AscendJobs: roles, containers with chips, and the queue."""

from scheduler.api.acjob import AscendJob
from scheduler.api.acjob_roles import InvalidJobError, roles_of
from scheduler.webhooks.contract import ClusterView, Operation, Request, Settings
from scheduler.webhooks.decoding import validator


@validator(AscendJob)
def validate(job: AscendJob, request: Request, cluster: ClusterView, settings: Settings) -> str:
    """The first problem of the job, or "". An update that leaves the spec as it is passes."""
    if request.operation is Operation.UPDATE and request.old.get("spec") == request.object.get("spec"):
        return ""
    try:
        roles = roles_of(job)
    except InvalidJobError as error:
        return str(error)
    policy = job.spec.run_policy.scheduling_policy
    if policy is None:
        return ""
    if policy.queue and cluster.queue(policy.queue) is None:
        return f"InvalidQueue: queue {policy.queue[:64]} does not exist"
    minimum = policy.min_available
    if minimum is not None and not 1 <= minimum <= roles.total:
        return f"InvalidSpecs: schedulingPolicy.minAvailable is {minimum}, not 1 to the number of Pods, {roles.total}"
    return ""
