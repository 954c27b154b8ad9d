"""Kubernetes' default topology spread constraints, for the Pods of a Service, ReplicationController, ReplicaSet or
StatefulSet that have no constraints of their own.
"""

from typing import Final

from scheduler.api.names import HOSTNAME_LABEL, ZONE_LABELS
from scheduler.api.objects import LabelSelector, Requirement, TopologySpreadConstraint
from scheduler.api.selections import NOTHING_SELECTED
from scheduler.api.selectors import PodSelector, ignore_field, is_valid
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import TaskClass
from scheduler.plugins.support.spread_constraints import SCHEDULE_ANYWAY

DEFAULT_CONSTRAINTS: Final = tuple(
    TopologySpreadConstraint(max_skew=skew, topology_key=key, when_unsatisfiable=SCHEDULE_ANYWAY)
    for key, skew in ((HOSTNAME_LABEL, 3), (ZONE_LABELS[0], 5))
)


def default_selector(snapshot: Snapshot, cls: TaskClass) -> PodSelector | None:
    """Selects the Pods that the default constraints of a class spread: those that match the selectors of all Services
    and the workload that select the class. None if there are no such selectors."""
    selections = snapshot.selections.get(cls.namespace, NOTHING_SELECTED)
    labels: dict[str, str] = {}
    for selector in selections.services(cls.labels):
        labels.update(selector)
    extra: list[Requirement] = []
    workload = selections.workload(cls.workload)
    if workload is not None and is_valid(workload, ignore_field):
        own = workload.match_labels or {}
        extra = [Requirement(key=k, operator="In", values=[v]) for k, v in own.items() if labels.get(k, v) != v]
        extra += workload.match_expressions or ()
        labels = {**own, **labels}
    if not labels and not extra:
        return None
    return PodSelector(LabelSelector(match_labels=labels), frozenset({cls.namespace}), ignore_field, extra)
