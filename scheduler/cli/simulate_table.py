"""The tables of ``simulate``: bound Pods, waiting Pods with their reasons, PodGroups, and usage of queues and cards."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scheduler.api.names import CHIP_ANNOTATIONS, GROUP_NAME, POD_SCHEDULED
from scheduler.api.quantity import QuantityError, format_milli, parse_quantity
from scheduler.api.resource import scale_of
from scheduler.api.written_amounts import quantity
from scheduler.cli.text import cell
from scheduler.cluster.memory import Report
from scheduler.framework.extension import QUEUE_USAGE
from scheduler.framework.session import Session

_SHOWN_PODS = 200


def print_report(report: Report, console: Console) -> None:
    """Prints the tables to the console."""
    objects = report.cluster.objects()
    pods = [o for o in objects if o["kind"] == "Pod"]
    _print_bound(console, [p for p in pods if p["spec"].get("nodeName")])
    _print_waiting(console, [p for p in pods if not p["spec"].get("nodeName")])
    _print_groups(console, [o for o in objects if o["kind"] == "PodGroup"], pods)
    _print_queues(console, [o for o in objects if o["kind"] == "Queue"])
    if report.last is not None:
        _print_cards(console, report.last.session)
    console.print(f"{report.cycles} cycles")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _row(table: Table, *cells: str | Text) -> None:
    table.add_row(*(each if isinstance(each, Text) else cell(each) for each in cells))


def _print_bound(console: Console, pods: list[dict[str, Any]]) -> None:
    table = _table(f"Bound ({len(pods)})", "NAMESPACE", "POD", "PODGROUP", "NODE", "CHIPS", "STATUS")
    for pod in pods[:_SHOWN_PODS]:
        annotations = pod["metadata"].get("annotations") or {}
        _row(
            table,
            pod["metadata"]["namespace"],
            pod["metadata"]["name"],
            annotations.get(GROUP_NAME, ""),
            cell(pod["spec"]["nodeName"], "green"),
            _chips(next((annotations[key] for key in CHIP_ANNOTATIONS if key in annotations), "")),
            "Terminating" if pod["metadata"].get("deletionTimestamp") else pod["status"].get("phase", ""),
        )
    if pods:
        console.print(table)
        if len(pods) > _SHOWN_PODS:
            console.print(f"... and {len(pods) - _SHOWN_PODS} more")
        console.print()


def _chips(annotation: str) -> str:
    """``Ascend910 0,1,4`` for ``Ascend910-0,Ascend910-1,Ascend910-4``."""
    kind = annotation.partition("-")[0]
    names = annotation.split(",")
    if not kind or not all(name.startswith(f"{kind}-") for name in names):
        return annotation
    return f"{kind} {','.join(name.removeprefix(f'{kind}-') for name in names)}"


def _print_waiting(console: Console, pods: list[dict[str, Any]]) -> None:
    """Prints waiting Pods; Pods of one PodGroup with the same reason share a line."""
    lines: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for pod in pods:
        meta = pod["metadata"]
        condition: dict[str, Any] = next(
            (c for c in pod["status"].get("conditions") or [] if c.get("type") == POD_SCHEDULED), {}
        )
        group = (meta.get("annotations") or {}).get(GROUP_NAME, "")
        lines[meta["namespace"], group, condition.get("message", "")].append(meta["name"])
    table = _table(f"Waiting ({len(pods)})", "NAMESPACE", "PODGROUP", "PODS", "WHY")
    for (namespace, group, message), names in lines.items():
        shown = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        _row(table, namespace, group, shown, cell(message, "yellow"))
    if pods:
        console.print(table)
        console.print()


def _print_groups(console: Console, groups: list[dict[str, Any]], pods: list[dict[str, Any]]) -> None:
    members: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for pod in pods:
        group = (pod["metadata"].get("annotations") or {}).get(GROUP_NAME)
        if group:
            members[pod["metadata"]["namespace"], group].append(pod)
    table = _table("PodGroups", "NAMESPACE", "NAME", "QUEUE", "PHASE", "BOUND", "MIN", "WHY")
    for group in groups:
        meta, status = group["metadata"], group.get("status") or {}
        own = members[meta["namespace"], meta["name"]]
        bound = sum(1 for pod in own if pod["spec"].get("nodeName"))
        conditions = status.get("conditions") or []
        phase = status.get("phase", "")
        why = next((c.get("message", "") for c in conditions if c["type"] == "Unschedulable"), "")
        colour = "green" if phase in ("Running", "Completed") else "yellow"
        _row(
            table,
            meta["namespace"],
            meta["name"],
            group["spec"].get("queue", ""),
            cell(phase, colour),
            f"{bound}/{len(own)}",
            str(group["spec"].get("minMember", 0)),
            "" if phase in ("Running", "Completed") else why,
        )
    if groups:
        console.print(table)
        console.print()


def _print_queues(console: Console, queues: list[dict[str, Any]]) -> None:
    table = _table("Queues", "NAME", "WEIGHT", "STATE", "RESOURCE", "USED", "CAPABILITY")
    for queue in queues:
        used = (queue.get("status") or {}).get("allocated") or {}
        limit = queue["spec"].get("capability") or {}
        names = [n for n in dict.fromkeys([*used, *limit]) if n in limit or used.get(n) not in (None, "0")] or [""]
        for i, name in enumerate(names):
            first = (queue["metadata"]["name"], str(queue["spec"].get("weight", 1)), queue["status"].get("state", ""))
            _row(table, *(first if i == 0 else ("",) * 3), name, _written(name, used), _written(name, limit))
    console.print(table)
    console.print()


def _written(resource: str, amounts: Mapping[str, Any]) -> str:
    """An amount of a queue with the unit for people; "" if there is none."""
    if resource not in amounts:
        return ""
    try:
        return quantity(resource, parse_quantity(amounts[resource], scale_of(resource)))
    except QuantityError:
        return str(amounts[resource])


def _print_cards(console: Console, session: Session) -> None:
    """Prints the usage and quota of cards, which plugins report."""
    table = _table("Cards", "QUEUE", "CARD", "USED", "QUOTA")
    for name in sorted(session.queues):
        usage: dict[str, tuple[float, float]] = {}
        for limited in session.ask(QUEUE_USAGE, session.queues[name]):
            usage.update(limited)
        for i, (card, (used, quota)) in enumerate(usage.items()):
            colour = "green" if used < quota else "yellow"
            _row(table, name if i == 0 else "", card, cell(format_milli(used), colour), format_milli(quota))
    if table.row_count:
        console.print(table)
        console.print()
