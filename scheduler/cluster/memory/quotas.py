"""The ResourceQuotas of a simulation: their controller, which computes the used amounts, and the admission of Pods.

Quotas with scopes, which count only some of the Pods, are neither computed nor enforced.
"""

from collections.abc import Iterator

from scheduler.api.kinds import POD, RESOURCE_QUOTA, Kind
from scheduler.api.objects import ENDED_PHASES, KubeObject, Pod
from scheduler.api.pod_amounts import summed
from scheduler.api.pod_resize import held_spec
from scheduler.api.quantity import ExactAmount, QuantityError, parse_amount
from scheduler.api.reasons import Refusal
from scheduler.api.selectors import ignore_field
from scheduler.cluster.memory.raw_objects import Json
from scheduler.cluster.memory.server import MemoryServer
from scheduler.controllers.resources import pod_usage, printed
from scheduler.plugins.resourcequota import quota_shortage

_NOTHING = ExactAmount(0)
Amounts = dict[str, ExactAmount]


class NamespaceQuotas:
    """Keeps the usage of each namespace that has a quota, from the first question about it on."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._used: dict[str, dict[str, Amounts]] = {}
        """Namespace -> Pod -> its usage."""
        self._totals: dict[str, Amounts] = {}
        server.watch(self._observe)

    def sync(self) -> bool:
        """Updates the status of all ResourceQuotas. Returns whether any changed."""
        changed = False
        for raw in self._server.of(RESOURCE_QUOTA):
            if _has_scopes(raw):
                continue
            meta, hard = raw["metadata"], _hard(raw)
            amounts = self._total(meta["namespace"])
            status = {"hard": dict(hard), "used": printed({name: amounts.get(name, _NOTHING) for name in hard})}
            if status != raw.get("status"):
                changed = True
                self._server.update(RESOURCE_QUOTA, meta["namespace"], meta["name"], {**raw, "status": status})
        return changed

    def refusal(self, pod: Pod) -> Refusal | None:
        """Why the API server refuses a new Pod, in its words; None: it does not."""
        for raw in self._quotas(pod.metadata.namespace):
            try:
                asked = _usage(pod)
                limits = {name: parse_amount(amount) for name, amount in _hard(raw).items() if name in asked}
            except QuantityError:
                continue  # the cache reports the Pod or the quota
            used = self._total(pod.metadata.namespace)
            over = [
                name for name, limit in limits.items() if (used.get(name, _NOTHING) + asked[name]).nano > limit.nano
            ]
            if over:
                parts = [
                    f"{what}: {','.join(f'{name}={amounts.get(name, _NOTHING)}' for name in sorted(over))}"
                    for what, amounts in (("requested", asked), ("used", used), ("limited", limits))
                ]
                name = raw["metadata"]["name"]
                missing = (
                    quota_shortage(
                        each, asked[each], used.get(each, _NOTHING), limits[each], f"{pod.metadata.namespace}/{name}"
                    )
                    for each in sorted(over)
                )
                return Refusal("ExceededQuota", f"exceeded quota: {name}, {', '.join(parts)}", tuple(missing))
        return None

    def _quotas(self, namespace: str) -> Iterator[Json]:
        for raw in self._server.of(RESOURCE_QUOTA):
            if raw["metadata"]["namespace"] == namespace and not _has_scopes(raw):
                yield raw

    def _total(self, namespace: str) -> Amounts:
        if namespace not in self._used:
            self._used[namespace] = {}
            for pod in self._server.structs(POD):
                if pod.metadata.namespace == namespace:
                    self._count(pod)
        if namespace not in self._totals:
            total: Amounts = {}
            for usage in self._used[namespace].values():
                total = summed(total, usage)
            self._totals[namespace] = total
        return self._totals[namespace]

    def _observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None) -> None:
        pod = new or old
        if kind is not POD or not isinstance(pod, Pod) or pod.metadata.namespace not in self._used:
            return
        if new is None:
            self._used[pod.metadata.namespace].pop(pod.metadata.name, None)
            self._totals.pop(pod.metadata.namespace, None)
        else:
            self._count(pod)

    def _count(self, pod: Pod) -> None:
        used, name = self._used[pod.metadata.namespace], pod.metadata.name
        before = used.pop(name, None)
        try:
            if pod.status.phase not in ENDED_PHASES:
                used[name] = _usage(pod)
        except QuantityError:
            pass  # the cache ignores such a Pod with an Event
        now = used.get(name)
        total = self._totals.get(pod.metadata.namespace)
        if now != before:
            if before is None and now is not None and total is not None:
                self._totals[pod.metadata.namespace] = summed(total, now)
            else:
                self._totals.pop(pod.metadata.namespace, None)


def _usage(pod: Pod) -> Amounts:
    """Raises QuantityError."""
    return pod_usage(held_spec(pod, ignore_field))


def _hard(quota: Json) -> dict[str, str]:
    return dict((quota.get("spec") or {}).get("hard") or {})


def _has_scopes(quota: Json) -> bool:
    spec = quota.get("spec") or {}
    return bool(spec.get("scopes") or spec.get("scopeSelector"))
