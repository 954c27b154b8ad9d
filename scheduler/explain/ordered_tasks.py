"""Which tasks of a vcjob wait for other tasks (``dependsOn``), and for how many Pods: they have no Pods to explain."""

from typing import Any

import msgspec

from scheduler.api.batch import Job
from scheduler.api.kinds import POD, POD_GROUP, VCJOB
from scheduler.api.objects import Pod
from scheduler.cluster.memory import MemoryCluster
from scheduler.controllers.job.dependencies import why_waiting
from scheduler.controllers.job.parsed_spec import ParsedSpec
from scheduler.controllers.job.pods import members_of

Raw = dict[str, Any]


def ordered_tasks(cluster: MemoryCluster, raw: Raw) -> str:
    """What the waiting tasks of a vcjob wait for, or "". ``raw``: the vcjob, or a PodGroup of one."""
    if raw.get("kind") == POD_GROUP.name:
        owners = _owners(raw)
        found = next((each for each in cluster.server.of(VCJOB) if each["metadata"]["uid"] in owners), None)
        return "" if found is None else ordered_tasks(cluster, found)
    if (raw.get("apiVersion"), raw.get("kind")) != (VCJOB.api_version, VCJOB.name):
        return ""
    try:
        job = msgspec.convert(raw, Job)
        pods = [msgspec.convert(pod, Pod) for pod in cluster.server.of(POD) if job.metadata.uid in _owners(pod)]
    except msgspec.ValidationError:
        return ""  # an Event says what is malformed
    parsed_spec = ParsedSpec(job)
    if parsed_spec.refusal:
        return parsed_spec.refusal
    return why_waiting(parsed_spec, members_of(parsed_spec, pods, job.status.version))


def _owners(raw: Raw) -> list[Any]:
    """The uids of the owners of an object."""
    return [owner.get("uid") for owner in raw["metadata"].get("ownerReferences") or ()]
