"""Spreading that nobody asked for: Kubernetes' default constraints for the Pods of a Service, ReplicationController,
ReplicaSet or StatefulSet that have no constraints of their own.
"""

from typing import Final

from scheduler.api.names import HOSTNAME_LABEL, ZONE_LABELS
from scheduler.api.objects import LabelSelector, Requirement, TopologySpreadConstraint
from scheduler.api.selections import NOTHING_SELECTED
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import TaskClass
from scheduler.plugins.predicates.topology_spread import SOFT
from scheduler.plugins.selectors import PodSelector, is_sound, unheard

DEFAULT_CONSTRAINTS: Final = tuple(
    TopologySpreadConstraint(max_skew=skew, topology_key=key, when_unsatisfiable=SOFT)
    for key, skew in ((HOSTNAME_LABEL, 3), (ZONE_LABELS[0], 5))
)


def default_selector(snapshot: Snapshot, cls: TaskClass) -> PodSelector | None:
    """The Pods among which those of a class are spread by default: those that all select who select these. None:
    nobody does."""
    selections = snapshot.selections.get(cls.namespace, NOTHING_SELECTED)
    labels: dict[str, str] = {}
    for selector in selections.services(cls.labels):
        labels.update(selector)
    extra: list[Requirement] = []
    made = selections.workload(cls.maker)
    if made is not None and is_sound(made, unheard):
        own = made.match_labels or {}
        extra = [Requirement(key=k, operator="In", values=[v]) for k, v in own.items() if labels.get(k, v) != v]
        extra += made.match_expressions or ()
        labels = {**own, **labels}
    if not labels and not extra:
        return None
    return PodSelector(LabelSelector(match_labels=labels), frozenset({cls.namespace}), unheard, extra)
