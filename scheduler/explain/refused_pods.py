"""Pods that the API server does not let a controller create, such as beyond a ResourceQuota."""

from collections.abc import Iterator

from scheduler.api.kinds import POD_GROUP
from scheduler.cluster.memory.server import MemoryServer
from scheduler.framework.remedies.gates import Gate, GateKind


def refused_pods(server: MemoryServer, job: str) -> Iterator[Gate]:
    """The reasons why the owners of a job's PodGroup cannot create more Pods. ``job``: its key."""
    namespace, _, group = job.partition("/")
    raw = server.find(POD_GROUP, namespace, group)
    for owner in (raw["metadata"].get("ownerReferences") or ()) if raw is not None else ():
        refusal = server.refusals.get((namespace, str(owner.get("name"))))
        if refusal is not None:
            yield Gate(GateKind.OWNER, f"more Pods cannot be created: {refusal.message}", shortages=refusal.shortages)
