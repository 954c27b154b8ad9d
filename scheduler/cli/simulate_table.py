"""The tables of ``simulate``: bound Pods, waiting Pods with their reasons, PodGroups, and usage of queues and cards."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from scheduler.api.kinds import EVENT, POD, POD_GROUP, QUEUE, Kind, find_kind
from scheduler.api.names import CHIP_ANNOTATIONS, GROUP_NAME, NO_QUEUE, POD_SCHEDULED
from scheduler.api.quantity import format_milli
from scheduler.api.written_amounts import readable_text
from scheduler.cli.output import Column, RowTable
from scheduler.cli.text import styled
from scheduler.cluster.memory import SimulationReport
from scheduler.explain.unconsidered import why_unconsidered, why_without_pods
from scheduler.framework.charged_namespaces import cards_without_queue
from scheduler.framework.figures import QueueUsage
from scheduler.framework.session import Session

_SHOWN_PODS: Final = 200
_DONE: Final = ("Running", "Completed")
"""Phases of PodGroups that wait for nothing."""
Raw = dict[str, Any]


def report_lines(report: SimulationReport, warnings: Iterable[str] = ()) -> Iterator[str]:
    """The lines to print. ``warnings``: a section of its own."""
    objects = report.cluster.objects()
    pods = _of(POD, objects)
    bound = [pod for pod in pods if pod["spec"].get("nodeName")]
    yield from _section(f"Bound ({len(bound)})", _BOUND, bound[:_SHOWN_PODS], len(bound) - _SHOWN_PODS)
    unbound = [pod for pod in pods if not pod["spec"].get("nodeName")]
    waiting = _waiting(report, unbound, _of(EVENT, objects))
    yield from _section(f"Waiting ({len(unbound)})", _WAITING, waiting)
    yield from _section("PodGroups", _GROUPS, _groups(report, _of(POD_GROUP, objects), pods, waiting))
    queues = list(_queues(_of(QUEUE, objects)))
    divided = any(row.deserved for row in queues)
    yield from _section("Queues", (*_QUEUES, *((_DESERVED,) if divided else ()), _CAPABILITY), queues)
    if report.last is not None:
        cards = list(_cards(report.last.session))
        borrows = any(row.usage.borrowed is not None for row in cards)
        yield from _section("Cards", (*_CARDS, *(_LOANS if borrows else ())), cards)
    section = list(warnings)
    yield from (*section, "") if section else ()
    yield f"{report.cycles} cycles"


def _of(kind: Kind, objects: Sequence[Raw]) -> list[Raw]:
    """The objects of a kind; another group may have a kind with that name."""
    return [each for each in objects if each["kind"] == kind.name and find_kind(each["apiVersion"], kind.name) is kind]


def _section(title: str, columns: Sequence[Column[Any]], rows: Sequence[Any], more: int = 0) -> Iterator[str]:
    """A table, if it has rows. ``more``: the number of rows that are left out, if it is positive."""
    if not rows:
        return
    yield styled(title, bold=True)
    yield from RowTable(columns).lines(rows)
    if more > 0:
        yield f"... and {more} more"
    yield ""


# --- Pods -------------------------------------------------------------------------------------------------------------
def _annotations(pod: Raw) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}


def _chips(pod: Raw) -> str:
    """``Ascend910 0-2,5`` for ``Ascend910-0,Ascend910-1,Ascend910-2,Ascend910-5``."""
    annotations = _annotations(pod)
    annotation = next((annotations[key] for key in CHIP_ANNOTATIONS if key in annotations), "")
    kind = annotation.partition("-")[0]
    names = annotation.split(",")
    if not kind or not all(name.startswith(f"{kind}-") for name in names):
        return annotation
    return f"{kind} {','.join(_ranges([name.removeprefix(f'{kind}-') for name in names]))}"


def _ranges(numbers: Sequence[str]) -> Iterator[str]:
    """The numbers, three or more consecutive ones as ``0-2``."""
    runs: list[list[str]] = []
    for number in numbers:
        last = runs[-1][-1] if runs else ""
        if last.isdecimal() and number.isdecimal() and int(number) == int(last) + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    for run in runs:
        yield from [f"{run[0]}-{run[-1]}"] if len(run) > 2 else run


_BOUND: tuple[Column[Raw], ...] = (
    Column("NAMESPACE", lambda pod: pod["metadata"]["namespace"]),
    Column("POD", lambda pod: pod["metadata"]["name"]),
    Column("PODGROUP", lambda pod: _annotations(pod).get(GROUP_NAME, "")),
    Column("NODE", lambda pod: pod["spec"]["nodeName"], colour=lambda _: "green"),
    Column("CHIPS", _chips),
    Column(
        "STATUS",
        lambda pod: "Terminating" if pod["metadata"].get("deletionTimestamp") else pod["status"].get("phase", ""),
    ),
)


class _Waiting(NamedTuple):
    """Pods of one PodGroup that wait for the same reason."""

    namespace: str
    group: str
    pods: list[str]
    why: str


def _waiting(report: SimulationReport, pods: list[Raw], events: list[Raw]) -> list[_Waiting]:
    about: dict[tuple[str, str], list[Raw]] = defaultdict(list)
    for event in events:
        involved = event["involvedObject"]
        if involved.get("kind") == POD.name:
            about[str(involved.get("namespace")), str(involved.get("name"))].append(event)
    lines: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for pod in pods:
        meta = pod["metadata"]
        condition: Raw = next((c for c in pod["status"].get("conditions") or [] if c.get("type") == POD_SCHEDULED), {})
        why = condition.get("message") or why_unconsidered(
            report.cluster, pod, report.scheduler_names, about[meta["namespace"], meta["name"]]
        )
        lines[meta["namespace"], _annotations(pod).get(GROUP_NAME, ""), why].append(meta["name"])
    return [_Waiting(namespace, group, names, why) for (namespace, group, why), names in lines.items()]


_WAITING: tuple[Column[_Waiting], ...] = (
    Column("NAMESPACE", lambda row: row.namespace),
    Column("PODGROUP", lambda row: row.group),
    Column("PODS", lambda row: row.pods[0] + (f" and {len(row.pods) - 1} more" if len(row.pods) > 1 else "")),
    Column("WHY", lambda row: row.why, elastic=True, colour=lambda _: "yellow"),
)


# --- PodGroups --------------------------------------------------------------------------------------------------------
class _Group(NamedTuple):
    """A PodGroup, and the numbers of its Pods."""

    raw: Raw
    bound: int
    pods: int
    waits: str
    """Why a Pod waits, or why there are none; "" if it is not known."""

    @property
    def phase(self) -> str:
        return str((self.raw.get("status") or {}).get("phase", ""))

    @property
    def why(self) -> str:
        conditions = (self.raw.get("status") or {}).get("conditions") or []
        if self.phase in _DONE:
            return ""
        found = next((str(c.get("message", "")) for c in conditions if c["type"] == "Unschedulable"), "")
        return found or self.waits or ("" if self.pods else "it has no Pods")


def _groups(report: SimulationReport, groups: list[Raw], pods: list[Raw], waiting: list[_Waiting]) -> list[_Group]:
    why = {(row.namespace, row.group): row.why for row in reversed(waiting)}
    members: dict[tuple[str, str], list[Raw]] = defaultdict(list)
    for pod in pods:
        members[pod["metadata"]["namespace"], _annotations(pod).get(GROUP_NAME, "")].append(pod)
    rows = []
    for group in groups:
        key = group["metadata"]["namespace"], group["metadata"]["name"]
        own = members[key]
        waits = why.get(key, "") if own else why_without_pods(report.cluster.server, group)
        rows.append(_Group(group, sum(1 for pod in own if pod["spec"].get("nodeName")), len(own), waits))
    return rows


_GROUPS: tuple[Column[_Group], ...] = (
    Column("NAMESPACE", lambda group: group.raw["metadata"]["namespace"]),
    Column("NAME", lambda group: group.raw["metadata"]["name"]),
    Column("QUEUE", lambda group: group.raw["spec"].get("queue", "")),
    Column("PHASE", lambda group: group.phase, colour=lambda group: "green" if group.phase in _DONE else "yellow"),
    Column("BOUND", lambda group: f"{group.bound}/{group.pods}"),
    Column("MIN", lambda group: group.raw["spec"].get("minMember", 0)),
    Column("WHY", lambda group: group.why, elastic=True),
)


# --- queues -----------------------------------------------------------------------------------------------------------
class _Amount(NamedTuple):
    """What a queue uses, deserves and may use of a resource. Its first line has the queue, others only the amounts."""

    queue: Sequence[object]
    """Name, weight and state."""
    resource: str
    used: Mapping[str, Any]
    deserved: Mapping[str, Any]
    capability: Mapping[str, Any]


def _queues(queues: list[Raw]) -> Iterator[_Amount]:
    for queue in queues:
        used, deserved = ((queue.get("status") or {}).get(field) or {} for field in ("allocated", "deserved"))
        limit = queue["spec"].get("capability") or {}
        given = dict.fromkeys([*deserved, *limit])
        names = [n for n in dict.fromkeys([*used, *given]) if n in given or used.get(n) not in (None, "0")] or [""]
        first = (queue["metadata"]["name"], queue["spec"].get("weight", 1), queue["status"].get("state", ""))
        for i, name in enumerate(names):
            yield _Amount(("", "", "") if i else first, name, used, deserved, limit)
    for held in filter(None, ((queue.get("status") or {}).get("withoutQueue") for queue in queues)):
        used = held["allocated"]
        for i, name in enumerate(name for name, amount in used.items() if amount != "0"):
            yield _Amount((NO_QUEUE if not i else "", "", ""), name, used, {}, {})


def _written(resource: str, amounts: Mapping[str, Any]) -> str:
    """An amount of a queue; "" if there is none."""
    return readable_text(resource, amounts[resource]) if resource in amounts else ""


_QUEUES: tuple[Column[_Amount], ...] = (
    Column("NAME", lambda row: row.queue[0]),
    Column("WEIGHT", lambda row: row.queue[1]),
    Column("STATE", lambda row: row.queue[2]),
    Column("RESOURCE", lambda row: row.resource),
    Column("USED", lambda row: _written(row.resource, row.used)),
)
_DESERVED: Column[_Amount] = Column("DESERVED", lambda row: _written(row.resource, row.deserved))
_CAPABILITY: Column[_Amount] = Column("CAPABILITY", lambda row: _written(row.resource, row.capability))


# --- cards ------------------------------------------------------------------------------------------------------------
class _Card(NamedTuple):
    """The usage of a card. Only the first line of a queue has its name."""

    queue: str
    name: str
    usage: QueueUsage


def _cards(session: Session) -> Iterator[_Card]:
    """The usage and quota of cards, which plugins report."""
    for name in sorted(session.queues):
        for i, (card, usage) in enumerate(session.queue_usage(session.queues[name]).items()):
            yield _Card("" if i else name, card, usage)
    for i, (card, usage) in enumerate(cards_without_queue(session.cards_in_use()).items()):
        yield _Card("" if i else NO_QUEUE, card, usage)


_CARDS: tuple[Column[_Card], ...] = (
    Column("QUEUE", lambda row: row.queue),
    Column("CARD", lambda row: row.name),
    Column(
        "USED",
        lambda row: format_milli(row.usage.used),
        colour=lambda row: "green" if row.usage.used < row.usage.limit else "yellow",
    ),
    Column("QUOTA", lambda row: format_milli(row.usage.limit)),
    Column("INQUEUE", lambda row: format_milli(row.usage.inqueue)),
    Column("REQUESTED", lambda row: format_milli(row.usage.requested)),
)
_LOANS: tuple[Column[_Card], ...] = (
    Column("BORROWED", lambda row: format_milli(row.usage.borrowed or 0.0)),
    Column("LENT", lambda row: format_milli(row.usage.lent or 0.0)),
)
