"""The ResourceQuota controller of a simulation: computes the used amounts.

The status of quotas with scopes, which count only some of the Pods, is not computed.
"""

from typing import cast

from scheduler.api.kinds import POD, RESOURCE_QUOTA
from scheduler.api.objects import ENDED_PHASES, Pod
from scheduler.api.pod_amounts import summed
from scheduler.api.pod_resize import held_spec
from scheduler.api.quantity import Amount, QuantityError
from scheduler.api.selectors import ignore_field
from scheduler.cluster.memory.server import MemoryServer
from scheduler.controllers.resources import pod_usage, printed


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
    for pod in cast("list[Pod]", server.structs(POD)):
        if pod.status.phase not in ENDED_PHASES:
            namespace = pod.metadata.namespace
            try:
                used[namespace] = summed(used.get(namespace, {}), pod_usage(held_spec(pod, ignore_field)))
            except QuantityError:
                continue  # the cache ignores such a Pod with an Event
    return used
