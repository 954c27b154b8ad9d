"""Takes the overview of the web page from a session. The numbers are those of ``queue top`` and ``job list``."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scheduler.api.device_states import Availability
from scheduler.api.job import Job
from scheduler.api.node import NODE_CONDITIONS, node_conditions
from scheduler.api.resource import MEMORY_INDEX, PODS_INDEX
from scheduler.api.written_amounts import readable
from scheduler.explain.explanation import QueueAmounts
from scheduler.explain.queues import queue_totals, queues_by_namespace, waiting_in_order
from scheduler.explain.without_queue import in_no_queue, in_no_queue_by_namespace
from scheduler.framework.device_faults import faults_of
from scheduler.framework.figures import DeviceCounts
from scheduler.framework.session import Session
from scheduler.framework.status import unschedulable_message
from scheduler.framework.waiting import origin_reason
from scheduler.observability.cluster_figures import CardDevices
from scheduler.observability.overview import (
    Amount,
    NodeRow,
    Overview,
    QueueRow,
    RunningRow,
    WaitingRow,
    without_queue_row,
)

REASON: Final = 1000
"""Maximum of characters of a reason."""
CHIPS: Final = 64
"""Maximum of devices of a node that are listed one by one."""
USES: Final = 3
"""Maximum of resources that are named of what a gang holds."""
_LETTERS: Final = "fdaun"
"""The letters of the states, in the order of ``Availability``."""
_NO_DEVICE: Final = "."
Conditions = Mapping[str, tuple[str, ...]]
"""Node -> its conditions."""
_UNUSABLE: Final = [state in (Availability.UNHEALTHY, Availability.UNKNOWN) for state in Availability]


def overview(session: Session, cards: CardDevices) -> Overview:
    """The overview of a session whose actions are done."""
    totals = queue_totals(session)
    conditions = node_conditions(session.nodes.facts)
    devices = _devices(session, cards)
    return Overview(
        session.now,
        tuple(
            QueueRow(
                name,
                queue.parent,
                queue.state,
                queue.weight,
                totals[name].running,
                totals[name].waiting,
                tuple(map(_amount, totals[name].amounts)),
            )
            for name, queue in sorted(session.queues.items())
        )
        + without_queue_row(tuple(map(_amount, in_no_queue(session)))),
        _waiting(session),
        tuple(_nodes(devices, conditions)),
        {namespace: tuple(sorted(names)) for namespace, names in queues_by_namespace(session).items()},
        _running(session),
        tuple(sorted(_totals(devices).items())),
        _node_counts(session, conditions),
        {name: tuple(map(_amount, amounts)) for name, amounts in in_no_queue_by_namespace(session).items()},
    )


# --- queues -----------------------------------------------------------------------------------------------------------
def _amount(its: QueueAmounts) -> Amount:
    def text(amount: float | None) -> str:
        return "" if amount is None else readable(its.resource, amount)

    limit = its.deserved if its.capability is None else its.capability
    use = mark = -1.0
    if limit is not None:
        use = round(its.limited / limit, 3) if limit > 0 else float(its.limited > 0)
        if its.capability and its.deserved is not None:
            mark = round(min(1.0, its.deserved / its.capability), 3)
    over = ""
    if its.capability is not None and its.limited > its.capability and its.borrowed is None:
        over = "capability"
    elif its.deserved is not None and its.used > its.deserved:
        over = "deserved"
    return Amount(
        its.resource,
        text(its.used),
        text(its.deserved),
        text(its.capability),
        use,
        mark,
        over,
        counted=text(its.counted),
        inqueue=text(its.inqueue or None),
        requested=text(None if its.requested == its.used else its.requested),
        borrowed=text(its.borrowed or None),
        lent=text(its.lent or None),
    )


# --- waiting gangs ----------------------------------------------------------------------------------------------------
def _waiting(session: Session) -> tuple[WaitingRow, ...]:
    return tuple(
        WaitingRow(
            job.namespace,
            job.name,
            queue,
            "admission" if admission else "nodes",
            position,
            len(jobs),
            job.owner_name,
            int(job.creation),
            _reason(job),
            _pods(job),
            _shortened(faults_of(job)),
        )
        for (queue, admission), jobs in sorted(waiting_in_order(session).items())
        for position, job in enumerate(jobs, 1)
    )


# --- running gangs ----------------------------------------------------------------------------------------------------
def _running(session: Session) -> tuple[RunningRow, ...]:
    """The gangs that have their minimum: those with failed devices first, then the newest ones."""
    resources = session.dimensions.names
    rows = [
        _with_alert(
            job,
            job.remember("running row", len(resources), lambda job=job: _running_row(job, resources)),  # type: ignore[misc]
        )
        for job in session.jobs.values()
        if job.ready_count >= max(job.min_member, 1)
    ]
    return tuple(sorted(rows, key=lambda row: (not row.alert, -row.since, row.namespace, row.group)))


def _with_alert(job: Job, row: RunningRow) -> RunningRow:
    """The row with the devices that fail under the job now."""
    faults = faults_of(job)
    return replace(row, alert=_shortened(faults)) if faults else row


def _running_row(job: Job, resources: Sequence[str]) -> RunningRow:
    held = [
        f"{readable(resources[dim], float(job.allocated[dim]))} {resources[dim]}"
        for dim in np.flatnonzero(job.allocated > 0).tolist()
        if dim not in (MEMORY_INDEX, PODS_INDEX)
    ]
    uses = ", ".join(held[-USES:][::-1])  # extended resources first
    return RunningRow(job.namespace, job.name, job.queue, job.owner_name, int(job.creation), _pods(job), uses)


def _pods(job: Job) -> tuple[int, int, int]:
    return job.ready_count, job.min_member, job.size


def _reason(job: Job) -> str:
    """Why a job waits, in the words of the conditions of its PodGroup and Pods, so that their owners may read it."""
    return _shortened(unschedulable_message(job) or origin_reason(job).removeprefix(":").strip())


def _shortened(text: str) -> str:
    return text if len(text) <= REASON else f"{text[: REASON - 1]}…"


# --- nodes ------------------------------------------------------------------------------------------------------------
def _devices(session: Session, cards: CardDevices) -> list[DeviceCounts]:
    """Devices that plugins count, and cards that no plugin counts as devices."""
    devices = [counts for one in session.figures() for counts in one.devices]
    counted = {each.resource for each in devices}
    return devices + [each for each in cards.of(session.nodes, session.dimensions) if each.resource not in counted]


def _totals(devices: Sequence[DeviceCounts]) -> dict[str, tuple[int, ...]]:
    """Resource -> numbers of devices by state."""
    totals: dict[str, NDArray[np.int64]] = {}
    for each in devices:
        counts = each.counts.sum(axis=0, dtype=np.int64)
        totals[each.resource] = totals.get(each.resource, 0) + counts
    return {resource: tuple(total.tolist()) for resource, total in totals.items()}


def _node_counts(session: Session, conditions: Conditions) -> dict[str, int]:
    counts = Counter(word for words in conditions.values() for word in words)
    return {"": len(session.nodes.facts), **{word: counts[word] for word in NODE_CONDITIONS if counts[word]}}


def _nodes(devices: Sequence[DeviceCounts], conditions: Conditions) -> list[NodeRow]:
    found: list[tuple[int, NodeRow]] = []
    for each in devices:
        unusable: list[int] = each.counts[:, _UNUSABLE].sum(axis=1).tolist()
        found += zip(unusable, _rows(each, conditions), strict=True)
    shown = {node for each in devices for node in each.nodes}
    found += [(0, NodeRow(node, conditions=words)) for node, words in conditions.items() if node not in shown]
    found.sort(key=lambda it: (not it[0] and not it[1].conditions, it[1].node, it[1].resource))
    return [row for _, row in found]


def _rows(devices: DeviceCounts, conditions: Conditions) -> list[NodeRow]:
    counts: list[list[int]] = devices.counts.tolist()
    numbered = [""] * len(counts) if devices.masks is None else _by_number(devices.masks)
    return [
        NodeRow(
            node,
            devices.resource,
            chips or _by_state(numbers),
            tuple(numbers),
            chips != "",
            conditions.get(node, ()),
        )
        for node, chips, numbers in zip(devices.nodes, numbered, counts, strict=True)
    ]


def _by_number(masks: NDArray[np.uint64]) -> list[str]:
    """The letters of devices with numbers. ``masks``: shape (nodes, states)."""
    present = int(np.bitwise_or.reduce(masks, axis=None)) if masks.size else 0
    letters = np.full((len(masks), present.bit_length()), ord(_NO_DEVICE), dtype=np.uint8)
    for state, letter in enumerate(_LETTERS):
        for number in range(letters.shape[1]):
            letters[(masks[:, state] >> np.uint64(number)) & np.uint64(1) == 1, number] = ord(letter)
    return [row.tobytes().decode().rstrip(_NO_DEVICE) for row in letters]


def _by_state(counts: list[int]) -> str:
    """The letters of devices without numbers, by state; "" if there are too many."""
    if sum(counts) > CHIPS:
        return ""
    return "".join(letter * number for letter, number in zip(_LETTERS, counts, strict=True))
