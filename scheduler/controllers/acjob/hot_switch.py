"""The backup Pods of AscendJobs with ``subHealthyStrategy=hotSwitch``: which Pod fills which place of the job, and the
next step of each hot switch.

A component that knows the training (ClusterD) requests each step with annotations of Pods. A backup has the labels, the
rank and the environment of the Pod that it is to replace, and takes its place when that Pod is gone. Each step is one
write, and follows from the Pods that exist, so the controllers may be killed between any two writes.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from zlib import crc32

from scheduler.api.acjob import BACKUP, AscendJob, JobRoles, Role, is_backup
from scheduler.api.kinds import ACJOB, POD
from scheduler.api.names import BACKUP_NEW_POD, BACKUP_SOURCE_POD, IN_HOT_SWITCH, NEED_OPERATOR_OPE, POD_TYPE
from scheduler.api.objects import ENDED_PHASES, Pod
from scheduler.controllers.acjob.manifests import members
from scheduler.controllers.effects import Create, Delete, Effect, Patch, normal, warning
from scheduler.controllers.store import key_of

Json = dict[str, Any]
_MARKS: Final = (NEED_OPERATOR_OPE, IN_HOT_SWITCH, BACKUP_NEW_POD, BACKUP_SOURCE_POD, POD_TYPE)
"""The annotations that the steps depend on."""
_NO_MARKS: Final[Mapping[str, str]] = {}
_ON: Final = "true"
_CREATE: Final = "create"
_DELETE: Final = "delete"
_REASON: Final = "HotSwitch"
"""Reason of Events."""


# --- roles of Pods ---
def places(job: AscendJob, roles: JobRoles, pods: Mapping[str, Pod]) -> Mapping[str, Pod]:
    """Name of a place of the job -> the Pod that fills it: the Pod of this name, or the former backup of a Pod that is
    gone. ``pods``: all Pods of the job, by name."""
    names = {name for name, _, _ in members(job, roles)}
    if pods.keys() <= names:
        return pods
    found = {name: pod for name, pod in pods.items() if name in names}
    for name in sorted(pods.keys() - names):
        place = place_of(job, pods[name])
        if place in names and _source_of(pods[name]) not in pods:
            found.setdefault(place, pods[name])
    return found


def is_switched(pod: Pod, pods: Mapping[str, Pod]) -> bool:
    """Whether the deletion of a Pod leaves no place of its job empty: it was a backup, or has one. ``pods``: the other
    Pods of the job."""
    backup = pods.get(_marks(pod).get(BACKUP_NEW_POD, ""))
    return _source_of(pod) in pods or (
        backup is not None and _source_of(backup) == pod.metadata.name and _is_usable(backup)
    )


def marks_differ(old: Pod, new: Pod) -> bool:
    """Whether two versions of a Pod differ in what the steps depend on."""
    before, after = _marks(old), _marks(new)
    return before != after and any(before.get(mark) != after.get(mark) for mark in _MARKS)


# --- planning ---
def next_steps(
    job: AscendJob,
    roles: JobRoles,
    filled: Mapping[str, Pod],
    pods: Mapping[str, Pod],
    manifest_of: Callable[[Role, int], Json],
) -> Iterator[Effect]:
    """Yields the next step of each hot switch. ``filled``: the result of ``places`` for ``pods``; ``manifest_of``:
    returns the manifest of the Pod of a role with an index."""
    members_of = {
        filled[name].metadata.name: (name, role, i) for name, role, i in members(job, roles) if name in filled
    }
    backups = {_source_of(pod): pod for name, pod in pods.items() if name not in filled and _source_of(pod)}
    for name, pod in pods.items():
        marks, source = _marks(pod), _source_of(pod)
        if pod.metadata.deletion_timestamp is not None or not marks:
            continue
        if marks.get(NEED_OPERATOR_OPE) == _DELETE:
            yield _deleted(pod)
        elif source and source not in pods:
            yield _annotated(pod, {POD_TYPE: None, BACKUP_SOURCE_POD: None})
        elif source and name not in filled:
            yield from _of_backup(pod, pods[source])
        elif marks.get(NEED_OPERATOR_OPE) == _CREATE and name in members_of:
            place, role, index = members_of[name]
            if role is roles.leader:
                yield _annotated(pod, {NEED_OPERATOR_OPE: None, IN_HOT_SWITCH: None})
                text = f"Pod {name} gets no backup: it leads the job, and the Service of the job would select both."
                yield warning(ACJOB, job, _REASON, text)
            elif name in backups:
                yield from _of_source(pod, backups[name])
            elif pod.status.phase not in ENDED_PHASES:
                manifest = _backup(manifest_of(role, index), pod, _backup_name(pod, place))
                yield Create(POD, manifest, job.metadata.uid)
                text = f"Pod {manifest['metadata']['name']} is created as the backup of Pod {name}."
                yield normal(ACJOB, job, _REASON, text)
        elif BACKUP_NEW_POD in marks and (name not in backups or backups[name].metadata.name != marks[BACKUP_NEW_POD]):
            yield _annotated(pod, {IN_HOT_SWITCH: None, BACKUP_NEW_POD: None})


def _of_backup(backup: Pod, source: Pod) -> Iterator[Effect]:
    """Yields the effects on the backup of a Pod that exists."""
    marks = _marks(source)
    is_named = marks.get(BACKUP_NEW_POD) == backup.metadata.name
    if is_named and not _is_usable(backup):
        yield _annotated(source, {IN_HOT_SWITCH: None, BACKUP_NEW_POD: None})  # the next plan deletes the backup
    elif not is_named and (marks.get(NEED_OPERATOR_OPE) != _CREATE or not _is_usable(backup)):
        yield _deleted(backup)


def _of_source(pod: Pod, backup: Pod) -> Iterator[Effect]:
    """Yields the effects on a Pod whose backup was requested, and exists."""
    if _is_usable(backup):  # else it has to be gone first
        yield _annotated(pod, {NEED_OPERATOR_OPE: None, IN_HOT_SWITCH: _ON, BACKUP_NEW_POD: backup.metadata.name})


def _backup(manifest: Json, source: Pod, name: str) -> Json:
    """The manifest of a backup, which does not use the node of the Pod that it replaces. ``manifest``: the manifest of
    the Pod of its place."""
    meta, spec = manifest["metadata"], dict(manifest["spec"])
    marks = {IN_HOT_SWITCH: _ON, POD_TYPE: BACKUP, BACKUP_SOURCE_POD: source.metadata.name}
    if source.spec.node_name:
        spec["affinity"] = _avoiding(spec.get("affinity") or {}, source.spec.node_name)
    return {
        **manifest,
        "metadata": {**meta, "name": name, "annotations": {**meta["annotations"], **marks}},
        "spec": spec,
    }


def _avoiding(affinity: Json, node: str) -> Json:
    """An affinity that excludes a node. The terms of a node selector are alternatives, so each of them excludes it; an
    empty term matches no node."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    excluded = {"key": "metadata.name", "operator": "NotIn", "values": [node]}
    of_nodes = affinity.get("nodeAffinity") or {}
    terms = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), excluded]} if any(term.values()) else term
        for term in (of_nodes.get(required) or {}).get("nodeSelectorTerms") or ()
    ]
    selector = {"nodeSelectorTerms": terms or [{"matchFields": [excluded]}]}
    return {**affinity, "nodeAffinity": {**of_nodes, required: selector}}


def _backup_name(pod: Pod, place: str) -> str:
    """The name of the backup of a Pod. It is derived from the Pod, so a repeated creation makes no second backup."""
    number = crc32(pod.metadata.uid.encode()) % 10_000
    name = f"{place}-hot-{number:04}"
    return name if name != pod.metadata.name else f"{place}-hot-{(number + 1) % 10_000:04}"


def place_of(job: AscendJob, pod: Pod) -> str:
    """The name of the place that the labels of a Pod name."""
    labels = pod.metadata.labels or {}
    return f"{job.metadata.name}-{labels.get('replica-type', '')}-{labels.get('replica-index', '')}"


def _marks(pod: Pod) -> Mapping[str, str]:
    return pod.metadata.annotations or _NO_MARKS


def _source_of(pod: Pod) -> str:
    """The name of the Pod that a backup is to replace; "" if the Pod is no backup."""
    return _marks(pod)[BACKUP_SOURCE_POD] if is_backup(pod) else ""


def _is_usable(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None and pod.status.phase not in ENDED_PHASES


def _annotated(pod: Pod, annotations: Mapping[str, str | None]) -> Patch:
    return Patch(POD, *key_of(pod), {"metadata": {"annotations": annotations}}, pod.metadata.uid)


def _deleted(pod: Pod) -> Delete:
    """Deletes a Pod without a grace period, as the operator does: it takes part in no training."""
    return Delete(POD, *key_of(pod), pod.metadata.uid, grace_period=0)
