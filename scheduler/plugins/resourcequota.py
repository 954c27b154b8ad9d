"""resourcequota: admits a PodGroup only if its minResources fit the namespace's ResourceQuotas (Volcano's resourcequota
plugin).

The minResources of PodGroups that were admitted earlier in the session count as used.
"""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from scheduler.api.job import Job
from scheduler.api.kinds import RESOURCE_QUOTA
from scheduler.api.names import EVENT_UNSCHEDULABLE
from scheduler.api.objects import ResourceList, ResourceQuota
from scheduler.api.quantity import ExactAmount, QuantityError, parse_amount
from scheduler.api.reasons import Malformed, Refusal, Shortage
from scheduler.api.resource import scale_of
from scheduler.framework.extension import Vote
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin

Amounts = Mapping[str, ExactAmount]
NOTHING = ExactAmount(0)


@register_plugin
class ResourceQuotas:
    """Takes no arguments. Scopes are ignored: a quota with scopes applies like one without."""

    name: ClassVar[str] = "resourcequota"

    def open(self, session: PluginSession) -> None:
        self._session = session
        self._quotas: dict[str, list[tuple[str, Amounts, Amounts]]] = {}
        """Namespace -> (name, hard limits, used amounts)."""
        for key in sorted(session.snapshot.objects[RESOURCE_QUOTA]):
            quota = session.snapshot.objects[RESOURCE_QUOTA][key]
            entry = (quota.metadata.name, self._read(quota, "hard"), self._read(quota, "used"))
            self._quotas.setdefault(quota.metadata.namespace, []).append(entry)
        self._reserved: dict[str, dict[str, ExactAmount]] = {}
        """Namespace -> minResources of the PodGroups admitted in this session."""
        session.add_job_enqueueable(self._enqueueable)
        session.add_job_enqueued(self._enqueued)

    def _read(self, quota: ResourceQuota, field: str) -> Amounts:
        meta = quota.metadata
        amounts: ResourceList = getattr(quota.status, field) or {}
        return self._amounts("ResourceQuota", meta.namespace, meta.name, f"status.{field}", amounts)

    def _amounts(
        self, kind: str, namespace: str, name: str, field: str, amounts: ResourceList
    ) -> dict[str, ExactAmount]:
        """Parses amounts; reports and leaves out invalid ones."""
        result = {}
        for resource, quantity in amounts.items():
            try:
                result[resource] = parse_amount(quantity)
            except QuantityError as error:
                problem = Malformed(kind, namespace, name, f"{field}[{resource}]", str(error))
                self._session.malformed_field(problem)
        return result

    def _minimum(self, job: Job) -> dict[str, ExactAmount]:
        return self._amounts("PodGroup", job.namespace, job.name, "spec.minResources", job.min_resource_list or {})

    def _enqueueable(self, job: Job) -> Vote:
        quotas = self._quotas.get(job.namespace)
        if quotas is None:
            return Vote.PERMIT
        minimum = self._minimum(job)
        reserved = self._reserved.get(job.namespace, {})
        for name, hard, used in quotas:
            in_use = {r: used.get(r, NOTHING) + reserved.get(r, NOTHING) for r in hard}
            over = sorted(r for r in hard if r in minimum and (in_use[r] + minimum[r]).nano > hard[r].nano)
            if over:
                message = (
                    f"resource quota insufficient, requested: {_listed(over, minimum)}, used: {_listed(over, in_use)}, "
                    f"limited: {_listed(over, hard)} (ResourceQuota {job.namespace}/{name})"
                )
                where = f"{job.namespace}/{name}"
                shortages = tuple(quota_shortage(r, minimum[r], in_use[r], hard[r], where) for r in over)
                self._session.refuse(job, Refusal(EVENT_UNSCHEDULABLE, message, shortages))
                return Vote.REJECT
        return Vote.PERMIT

    def _enqueued(self, job: Job) -> None:
        if job.namespace not in self._quotas:
            return
        reserved = self._reserved.setdefault(job.namespace, {})
        for resource, amount in self._minimum(job).items():
            reserved[resource] = reserved.get(resource, NOTHING) + amount


def quota_shortage(resource: str, asked: ExactAmount, used: ExactAmount, limit: ExactAmount, where: str) -> Shortage:
    """The shortage, in the units of resource vectors."""
    unit = 10**9 / scale_of(resource)
    return Shortage(resource, asked.nano / unit, used.nano / unit, limit.nano / unit, "ResourceQuota", where)


def _listed(names: Iterable[str], amounts: Amounts) -> str:
    return ", ".join(f"{name} {amounts[name]}" for name in names)
