"""What kube-controller-manager makes of ResourceQuotas, for a simulation: how much of each is in use.

Quotas with scopes, which count some of the Pods only, stay as they were written.
"""

from scheduler.api.kinds import POD, RESOURCE_QUOTA
from scheduler.api.objects import ENDED_PHASES
from scheduler.api.quantity import Amount, QuantityError
from scheduler.cluster.memory.server import Json, MemoryServer
from scheduler.controllers.resources import pod_usage, printed, summed


def count_usage(server: MemoryServer) -> bool:
    """Bring the status of all ResourceQuotas up to date; whether any changed."""
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
    """Namespace -> what its Pods count for."""
    used: dict[str, dict[str, Amount]] = {}
    for pod in server.of(POD):
        if _counts(pod):
            namespace = pod["metadata"]["namespace"]
            try:
                used[namespace] = summed(used.get(namespace, {}), pod_usage(pod.get("spec") or {}))
            except QuantityError:
                continue  # the Pod is set aside, and told of, where it is taken in
    return used


def _counts(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") not in ENDED_PHASES
