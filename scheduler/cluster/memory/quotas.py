"""The ResourceQuota controller of a simulation: computes the used amounts.

The status of quotas with scopes, which count only some of the Pods, is not computed.
"""

from scheduler.api.kinds import POD, RESOURCE_QUOTA
from scheduler.api.objects import ENDED_PHASES
from scheduler.api.quantity import Amount, QuantityError
from scheduler.cluster.memory.raw_objects import Json
from scheduler.cluster.memory.server import MemoryServer
from scheduler.controllers.resources import pod_usage, printed, summed


def sync_usage(server: MemoryServer) -> bool:
    """Updates the status of all ResourceQuotas. Returns whether any changed."""
    quotas = server.of(RESOURCE_QUOTA)
    used = _usage(server) if quotas else {}
    changed = False
    for raw in quotas:
        meta, spec = raw["metadata"], raw.get("spec") or {}
        hard = spec.get("hard") or {}
        if spec.get("scopes") or spec.get("scopeSelector"):
            continue
        amounts = used.get(meta["namespace"], {})
        status = {"hard": dict(hard), "used": printed({name: amounts.get(name, Amount(0)) for name in hard})}
        if status != raw.get("status"):
            changed = True
            server.update(RESOURCE_QUOTA, meta["namespace"], meta["name"], {**raw, "status": status})
    return changed


def _usage(server: MemoryServer) -> dict[str, dict[str, Amount]]:
    """The usage of the Pods by namespace."""
    used: dict[str, dict[str, Amount]] = {}
    for pod in server.of(POD):
        if _counts(pod):
            namespace = pod["metadata"]["namespace"]
            try:
                used[namespace] = summed(used.get(namespace, {}), pod_usage(pod.get("spec") or {}))
            except QuantityError:
                continue  # the cache ignores such a Pod with an Event
    return used


def _counts(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") not in ENDED_PHASES
