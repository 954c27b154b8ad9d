"""Devices that fail under running Pods: a condition of the PodGroup while the fault lasts, and one Event for each fault
on the Pod, its job and the node.

The condition lists the faults, so it also says which ones have had their Events: a new scheduler repeats none.
"""

from collections.abc import Iterable
from typing import Final

from scheduler.api.decisions import ObjectRef, group_ref, pod_ref
from scheduler.api.device_states import DeviceFault
from scheduler.api.job import GroupCondition, Job
from scheduler.api.names import CONDITION_DEVICE_UNHEALTHY, EVENT_DEVICE_UNHEALTHY, EVENT_WARNING
from scheduler.framework.extension import DEVICE_FAULTS
from scheduler.framework.session import Session

_LISTED: Final = 64
"""The largest number of faults of a gang that are listed and have Events."""
_SEPARATOR: Final = "; "


def report_device_faults(session: Session) -> None:
    """Asks plugins for devices that have failed; adds conditions to their jobs, and Events about new faults."""
    by_job: dict[str, list[DeviceFault]] = {}
    for faults in session.ask(DEVICE_FAULTS):
        for fault in faults:
            if fault.task.job in session.jobs:
                by_job.setdefault(fault.task.job, []).append(fault)
    for key, found in by_job.items():
        by_text = {fault.text: fault for fault in found}  # two plugins may report the same chip
        _report(session, session.jobs[key], [by_text[text] for text in sorted(by_text)])


def faults_of(job: Job) -> str:
    """Returns the message of the condition that this session gives to a job, or ""."""
    return next((new.message for new in job.new_conditions if new.type == CONDITION_DEVICE_UNHEALTHY), "")


def _report(session: Session, job: Job, faults: list[DeviceFault]) -> None:
    listed, more = faults[:_LISTED], len(faults) - _LISTED
    text = _SEPARATOR.join(fault.text for fault in listed)
    session.touch(job)
    message = f"{text}{_SEPARATOR}and {more} more" if more > 0 else text
    job.new_conditions += (GroupCondition(CONDITION_DEVICE_UNHEALTHY, EVENT_DEVICE_UNHEALTHY, message),)
    known = {
        part
        for condition in job.conditions
        if condition.type == CONDITION_DEVICE_UNHEALTHY and condition.status == "True"
        for part in condition.message.split(_SEPARATOR)
    }
    new: dict[tuple[str, str, str], list[DeviceFault]] = {}
    for fault in listed:
        if fault.text not in known:
            new.setdefault((fault.node, fault.task.uid, fault.problem), []).append(fault)
    for together in new.values():
        _record(session, job, together)


def _record(session: Session, job: Job, faults: list[DeviceFault]) -> None:
    """Records the Events about new faults of one kind that one Pod has."""
    first = faults[0]
    devices, pod = _listed(fault.device for fault in faults), first.task.key
    problem = first.problem if len(faults) == 1 else first.problem.replace("is ", "are ", 1).replace("has ", "have ", 1)
    where = f"{devices} of node {first.node} {problem}"
    row = session.nodes.index.get(first.node)
    uid = "" if row is None else session.nodes.facts.objects[row].metadata.uid
    owner = _owner(job)
    for about, text in (
        (pod_ref(first.task), f"{where}; the Pod uses {'it' if len(faults) == 1 else 'them'}"),
        *((each, f"{where}, used by Pod {pod}") for each in (group_ref(job), *owner)),
        (ObjectRef("v1", "Node", "", first.node, uid), f"{devices} {problem}, used by Pod {pod}"),
    ):
        session.event(about, EVENT_WARNING, EVENT_DEVICE_UNHEALTHY, text)


def _owner(job: Job) -> tuple[ObjectRef, ...]:
    """Returns the vcjob or AscendJob, if one owns the PodGroup."""
    kind, name = job.owner_kind, job.owner_name
    return (ObjectRef(kind.api_version, kind.name, job.namespace, name, job.owner_uid),) if kind and name else ()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
