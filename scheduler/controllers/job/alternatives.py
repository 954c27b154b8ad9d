"""The alternative of a job whose tasks list several accelerators (``api.card_alternatives``): which one its Pods have.

The scheduler chooses an alternative with an annotation of the PodGroup. The controller deletes waiting Pods of another
one, and prepares the PodGroup for the chosen one when they are gone (``gang_alternatives``). Pods are created when the
PodGroup is prepared for their alternative and admitted, so there are never Pods of two. Once a Pod has a node, the job
keeps its alternative.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.api.card_alternatives import JobAlternatives
from scheduler.api.names import CARD_ALTERNATIVE, PREPARED_ALTERNATIVE
from scheduler.api.objects import Pod
from scheduler.api.scheduling import PodGroup
from scheduler.controllers.job.pods import PENDING, version_of

_KEYS: Final = (CARD_ALTERNATIVE, PREPARED_ALTERNATIVE)


class AlternativeChoice(msgspec.Struct, frozen=True):
    """The alternative that the Pods of a job have, or will have."""

    name: str
    prepared: bool
    """The PodGroup is prepared for it."""


def choose(
    alternatives: JobAlternatives, group: PodGroup | None, pods: Iterable[Pod], version: int
) -> AlternativeChoice:
    """The alternative of Pods that have or had a node, else that of the scheduler, else that of the PodGroup, else the
    preferred one. ``version``: the version of the job; Pods of earlier ones do not count."""
    marks = (group.metadata.annotations if group is not None else None) or {}
    prepared = marks.get(PREPARED_ALTERNATIVE, "")
    started = [pod for pod in pods if _has_started(pod) and version_of(pod) >= version]
    of_pods = ((pod.metadata.annotations or {}).get(CARD_ALTERNATIVE, "") for pod in started)
    found = (*of_pods, marks.get(CARD_ALTERNATIVE, ""), prepared, *alternatives.names)
    name = next(each for each in found if each in alternatives.names)
    return AlternativeChoice(name, name == prepared)


def _has_started(pod: Pod) -> bool:
    return bool(pod.spec.node_name) or (pod.status.phase or PENDING) != PENDING


def choice_changed(old: PodGroup, new: PodGroup) -> bool:
    """Whether the chosen alternative, or the one for which the PodGroup is prepared, has changed."""
    before, after = old.metadata.annotations or {}, new.metadata.annotations or {}
    return any(before.get(key) != after.get(key) for key in _KEYS)
