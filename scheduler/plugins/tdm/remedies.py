"""For ``explain``: the revocable nodes, and remedies that open them: revocable Pods, and longer hours of a zone."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.kinds import POD
from scheduler.api.names import REVOCABLE_ZONE
from scheduler.api.task import Task, revocable
from scheduler.framework.remedies.adjustments import (
    Adjustment,
    ChangeKind,
    Edit,
    Plan,
    Raw,
    Step,
    indivisible,
    join_names,
)
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import pod_details, remedies
from scheduler.framework.session import Session
from scheduler.plugins.tdm.plugin import ZONE, Hours, Tdm

_MINUTE: Final = 60
_DAY: Final = 24 * 60
"""Minutes."""
_ANY: Final = "*"
_ALWAYS: Final = "00:00-00:00"


@pod_details(Tdm)
def zones(session: Session, plugin: Tdm, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    if any("revocable" in reason for reason in reasons):
        codes, _ = session.nodes.facts.label_column(REVOCABLE_ZONE)
        number = int((codes >= 0).sum())
        clock = datetime.fromtimestamp(session.now).strftime("%H:%M")
        lent = f"{number} of {len(codes)} nodes are on loan"
        if revocable(task.cls.annotations):
            text = f"{lent}, {task.name} may use them; it is {clock}"
        else:
            text = f"{lent}, {task.name} may not, without annotation {REVOCABLE_ZONE}; it is {clock}"
        yield Gate(GateKind.NODES, text, Tdm.name)


@remedies(Tdm, ChangeKind.REVOCABLE)
def open_zones(evidence: Evidence, plugin: Tdm) -> Iterator[Plan]:
    """Proposes to make Pods revocable, and to start a zone earlier or end it later so that it is open now."""
    zones = _zones(evidence)
    if not zones:
        return
    with evidence.unplaced_tasks() as left:
        names = [task.name for task in left if not revocable(task.cls.annotations)]
    change = partial(_revocable, evidence.job.namespace, names)
    pods = (Adjustment(ChangeKind.REVOCABLE, len(names), len(names), change),) if names else ()
    if pods:
        yield pods
    for hours in sorted(_opened(evidence, plugin, zones), key=lambda adjustment: adjustment.estimate):
        yield (*pods, hours)


def _revocable(namespace: str, names: list[str], amount: int) -> Step:
    chosen = names[:amount]
    what = f"{len(chosen)} Pod{'s' * (len(chosen) > 1)} ({join_names(chosen)})"
    text = f"let {what} do with nodes on loan: annotation {REVOCABLE_ZONE}={_ANY}"
    return Step(text, tuple(Edit(POD, namespace, name, _made_revocable) for name in chosen))


def _made_revocable(pod: Raw) -> Raw:
    pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), REVOCABLE_ZONE: _ANY}
    return pod


def _opened(evidence: Evidence, plugin: Tdm, zones: list[str]) -> Iterator[Adjustment]:
    """Yields changes of the hours of zones that are closed now."""
    now = evidence.session.now
    for zone in zones:
        key, hours = f"{ZONE}{zone}", plugin.hours.get(zone)
        if hours is None:
            text = f"give revocable zone {zone} hours in tdm's arguments: {_ALWAYS}"
            yield indivisible(ChangeKind.HOURS, Step(text, arguments=_hours(key, _ALWAYS)), zone)
        elif not hours.contains(now):
            yield _widened(zone, key, hours, now)


def _widened(zone: str, key: str, hours: Hours, now: float) -> Adjustment:
    local = datetime.fromtimestamp(now)
    minute, start, end = local.hour * 60 + local.minute, hours.start // _MINUTE, hours.end // _MINUTE
    before, after = (start - minute) % _DAY, (minute - end) % _DAY + 1
    earlier = before <= after

    def at(amount: int) -> Step:
        first, last = (start - amount, end) if earlier else (start, end + amount)
        text = f"{_clock(first)}-{_clock(last)}"
        rather = f"{text} rather than {hours.text} (it is {_clock(minute)})"
        text_of_change = f"let revocable zone {zone} end {amount} min later: {rather}"
        if earlier:
            text_of_change = f"let revocable zone {zone} begin {amount} min earlier: {rather}"
        return Step(text_of_change, arguments=_hours(key, text))

    return Adjustment(ChangeKind.HOURS, min(before, after), _DAY - (end - start) % _DAY, at, zone)


def _clock(minute: int) -> str:
    return f"{minute % _DAY // 60:02}:{minute % 60:02}"


def _hours(key: str, text: str) -> dict[str, dict[str, str]]:
    return {"tdm": {key: text}}


def _zones(evidence: Evidence) -> list[str]:
    """Returns the zones that contain nodes."""
    codes, names = evidence.session.nodes.facts.label_column(REVOCABLE_ZONE)
    return [names[code] for code in np.unique(codes[codes >= 0]).tolist() if names[code]]
