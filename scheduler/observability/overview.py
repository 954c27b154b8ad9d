"""What the web page shows, as plain data: queues, gangs, nodes with their chips; and what a viewer sees of it.

An overview does not change, so it may be read while the next session runs. Texts may come from users.
"""

from collections.abc import Mapping, Sized
from typing import Any, Final

import msgspec

from scheduler.api.names import NO_QUEUE

WAITING: Final = 2000
"""Maximum of waiting gangs in a view, which has the first gangs of each queue."""
RUNNING: Final = 2000
"""Maximum of running gangs in a view: those with failed devices, then the newest ones."""
NODES: Final = 10_000
"""Maximum of rows of nodes in a view. Nodes with conditions or unusable chips come first, then names decide."""


class Amount(msgspec.Struct, frozen=True, omit_defaults=True):
    """The usage and limits of a queue for one resource. Amounts are texts to read, such as ``18.2Gi``."""

    resource: str
    used: str
    deserved: str = ""
    capability: str = ""
    use: float = -1.0
    """The used part of the capability, or of the deserved amount if there is no capability. -1: there is neither."""
    mark: float = -1.0
    """The deserved part of the capability. -1: there are not both."""
    over: str = ""
    """The limit that it exceeds: ``capability``, ``deserved`` or "". Borrowed amounts are within the rules."""
    counted: str = ""
    """The part of the used amount that counts against the capability; "": all of it."""
    inqueue: str = ""
    """Still needed by admitted jobs; "": nothing."""
    requested: str = ""
    """What Pods hold, and what waiting Pods request; "": all of it is in use."""
    borrowed: str = ""
    lent: str = ""
    """Borrowed from other queues, and lent to them; "": nothing."""


class QueueRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A queue; numbers of jobs include those of its descendants."""

    name: str
    parent: str = ""
    state: str = ""
    weight: int = 0
    running: int = 0
    waiting: int = 0
    amounts: tuple[Amount, ...] = ()
    partial: bool = False
    """Only the name and the amounts are known to the viewer."""
    note: str = ""
    """What the row is, if it is no queue."""


class WaitingRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A gang (PodGroup) that waits."""

    namespace: str
    group: str
    """Name of the PodGroup."""
    queue: str
    waits: str
    """What the gang waits for: ``admission`` to the queue, or ``nodes``."""
    position: int
    of: int
    """Number of jobs that wait in the queue for the same."""
    job: str = ""
    """Name of the vcjob or AscendJob, if one owns the PodGroup."""
    since: int = 0
    """Unix time of its creation."""
    reason: str = ""
    pods: tuple[int, int, int] = (0, 0, 0)
    """The counts of its Pods, as in a RunningRow."""
    alert: str = ""
    """Failed devices of its running Pods, or ""."""


class RunningRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A gang (PodGroup) that has its minimum."""

    namespace: str
    group: str
    queue: str
    job: str = ""
    """Name of the vcjob or AscendJob, if one owns the PodGroup."""
    since: int = 0
    """Unix time of its creation."""
    pods: tuple[int, int, int] = (0, 0, 0)
    """Pods that have a node or have succeeded, the minimum, and all Pods that exist."""
    uses: str = ""
    """What its Pods hold: cpu and extended resources."""
    alert: str = ""
    """Devices of its Pods that have failed, or ""."""


class NodeRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node with its devices of one resource, or a node without devices that has conditions."""

    node: str
    resource: str = ""
    """"": the node has no devices."""
    chips: str = ""
    """A letter for each device: the first one of its ``Availability``, except ``n`` for unknown; ``.`` for a number
    without a device. "": there are too many."""
    counts: tuple[int, ...] = ()
    """Numbers of devices in the order of ``Availability``."""
    numbered: bool = False
    """Whether ``chips`` is in the order of numbers; otherwise it is by state."""
    conditions: tuple[str, ...] = ()
    """The conditions of the node that ``node_conditions`` finds."""


class Overview(msgspec.Struct, frozen=True):
    """The cluster at the end of a session."""

    at: float
    """Unix time of the session."""
    queues: tuple[QueueRow, ...] = ()
    waiting: tuple[WaitingRow, ...] = ()
    """The gangs that wait, in the order of their positions."""
    nodes: tuple[NodeRow, ...] = ()
    """The nodes; those with conditions or unusable devices come first."""
    queues_of: dict[str, tuple[str, ...]] = {}
    """Namespace -> the queues that its jobs use."""
    running: tuple[RunningRow, ...] = ()
    """The gangs that run; those with failed devices come first, then the newest ones."""
    devices: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Resource -> numbers of devices in the order of ``Availability``."""
    node_counts: dict[str, int] = {}
    """Nodes by condition; "": all nodes."""
    without_queue: dict[str, tuple[Amount, ...]] = {}
    """Namespace -> what its Pods hold that count in no queue."""


def without_queue_row(amounts: tuple[Amount, ...]) -> tuple[QueueRow, ...]:
    """The row below the queues for Pods that count in no queue; none without amounts."""
    return (QueueRow(NO_QUEUE, amounts=amounts, note="other schedulers, no PodGroup"),) if amounts else ()


class Rights(msgspec.Struct, frozen=True):
    """The rights of a viewer to read the whole cluster."""

    queues: bool = False
    pod_groups: bool = False
    nodes: bool = False


class Summary(msgspec.Struct, frozen=True):
    """The numbers at the top of the page; None where the viewer may not see what is counted."""

    queues: int | None
    running: int | None
    waiting: int | None
    """Gangs."""
    devices: tuple[tuple[str, tuple[int, ...]], ...] | None
    """The numbers of devices by state, as in an Overview."""
    nodes: Mapping[str, int] | None
    """The numbers of nodes by condition, as ``node_counts`` of an Overview."""


class OverviewView(msgspec.Struct, frozen=True, eq=False):
    """What a viewer sees. A section that is None may not be seen. Compared by identity."""

    at: float
    queues: Mapping[str, QueueRow] | None = msgspec.field(default_factory=dict)
    waiting: Mapping[str, WaitingRow] | None = msgspec.field(default_factory=dict)
    running: Mapping[str, RunningRow] | None = msgspec.field(default_factory=dict)
    nodes: Mapping[str, NodeRow] | None = msgspec.field(default_factory=dict)
    omitted: tuple[int, int, int] = (0, 0, 0)
    """Numbers of waiting gangs, of running gangs and of rows of nodes beyond the maximum."""
    summary: Summary = Summary(0, 0, 0, (), {})


_SECTIONS: Final = ("queues", "waiting", "running", "nodes")
_LIMITED: Final = ("waiting", "running", "nodes")


def view(overview: Overview, namespace: str, rights: Rights) -> OverviewView:
    """What is seen of a namespace, or of the whole cluster ("").

    The viewer of a namespace sees its waiting gangs, the queues that its jobs use, and what its Pods hold that count in
    no queue; of the queues above those, the names and amounts. ``rights`` add the other queues and the nodes. For the
    whole cluster they decide alone.
    """
    waiting: list[WaitingRow] | None = None
    running: list[RunningRow] | None = None
    if namespace:
        waiting = [row for row in overview.waiting if row.namespace == namespace]
        running = [row for row in overview.running if row.namespace == namespace]
    elif rights.pod_groups:
        waiting, running = list(overview.waiting), list(overview.running)
    if waiting is not None and len(waiting) > WAITING:
        waiting.sort(key=lambda row: row.position)
    nodes = overview.nodes if rights.nodes else None
    queues = _queues(overview, namespace, rights)
    return OverviewView(
        overview.at,
        queues,
        None if waiting is None else {f"{row.namespace}/{row.group}": row for row in waiting[:WAITING]},
        None if running is None else {f"{row.namespace}/{row.group}": row for row in running[:RUNNING]},
        None if nodes is None else {f"{row.node}/{row.resource}": row for row in nodes[:NODES]},
        (
            max(0, len(waiting or ()) - WAITING),
            max(0, len(running or ()) - RUNNING),
            max(0, len(nodes or ()) - NODES),
        ),
        Summary(
            _number_of_queues(queues),
            _number(running),
            _number(waiting),
            overview.devices if rights.nodes else None,
            overview.node_counts if rights.nodes else None,
        ),
    )


def _number(rows: Sized | None) -> int | None:
    return None if rows is None else len(rows)


def _number_of_queues(rows: Mapping[str, QueueRow] | None) -> int | None:
    return None if rows is None else sum(not row.note for row in rows.values())


def _queues(overview: Overview, namespace: str, rights: Rights) -> dict[str, QueueRow] | None:
    queues = {row.name: row for row in overview.queues}
    if rights.queues:
        return queues
    if not namespace:
        return None
    found: dict[str, QueueRow] = {}
    own = overview.queues_of.get(namespace, ())
    for name in own:
        row = queues.get(name)
        while row is not None and row.name not in found:
            partial = row.name not in own
            found[row.name] = QueueRow(row.name, row.parent, amounts=row.amounts, partial=True) if partial else row
            row = queues.get(row.parent)
    found.update({row.name: row for row in without_queue_row(overview.without_queue.get(namespace, ()))})
    return found


def changes(before: OverviewView | None, after: OverviewView) -> dict[str, Any]:
    """What has to be sent to a page that shows ``before`` (None: nothing), so that it shows ``after``.

    For each section that differs: ``set``, the rows that are new or have changed, and ``gone``, the keys of those that
    no longer exist; None for a section that may not be seen. The summary is sent as a whole.
    """
    found: dict[str, Any] = {"at": after.at}
    if before is None or before.summary != after.summary:
        found["summary"] = after.summary
    if before is None or before.omitted != after.omitted:
        found["omitted"] = dict(zip(_LIMITED, after.omitted, strict=True))
    for section in _SECTIONS:
        old: Mapping[str, msgspec.Struct] | None = None if before is None else getattr(before, section)
        new: Mapping[str, msgspec.Struct] | None = getattr(after, section)
        if new is None:
            if before is None or old is not None:
                found[section] = None
            continue
        known = old or {}
        rows = {key: row for key, row in new.items() if known.get(key) != row}
        gone = [key for key in known if key not in new]
        if rows or gone or old is None:
            found[section] = {"set": rows, "gone": gone}
    return found
