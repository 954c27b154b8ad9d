"""``queue list`` and ``queue get``: queues with their numbers of PodGroups by phase, and what they have of each
resource and card. Users who may not read queues get the scheduler's answer about those of their namespace."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from scheduler.api.messages import card_summary, cards_in
from scheduler.api.names import DEFAULT_QUEUE, NO_QUEUE, ROOT_QUEUE
from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import FORBIDDEN, CommandError
from scheduler.cli.listing import ListFlags, list_flags, show_list, show_once
from scheduler.cli.output import TABLE, WIDE, Column, Raw, RowTable, mapping_in, output_option, print_object
from scheduler.cli.target import connection_options, name_argument
from scheduler.cli.text import echo, pairs
from scheduler.cli.view import View

if TYPE_CHECKING:
    from scheduler.api.scheduling import PodGroup, Queue


Amounts = Mapping[str, Any]
"""``resource``, and quantities in Kubernetes' notation: those of ``_AMOUNTS`` that are known. Perhaps ``queue``, and
``spec``: the deserved amount of the spec, if it is another."""
_AMOUNTS: Final = (
    *("used", "counted", "deserved", "capability", "guarantee", "inqueue", "requested", "elastic", "borrowed", "lent"),
    *("granted", "existing", "healthy", "online", "offline", "problem"),
)
_ALWAYS: Final = ("used", "capability")
"""The amounts that have a column even if none of them is known."""


@dataclass(frozen=True)
class QueueTotals:
    queue: "Queue"
    groups: Counter[str] | None
    """The number of PodGroups by phase; None: the row is what Pods hold that count in no queue."""


def _amounts(amounts: "Mapping[str, object] | None") -> str:
    from scheduler.api.written_amounts import readable_text

    return pairs((name, readable_text(name, amount)) for name, amount in (amounts or {}).items())


def deserved_amounts(specified: "Mapping[str, object] | None", computed: object) -> dict[str, tuple[object, object]]:
    """Resource -> what a queue deserves, and the amount in its spec if that is another one, or else None. ``computed``:
    what the scheduler wrote into the status; None: nothing yet, so the spec applies."""
    from scheduler.api.written_amounts import equal

    spec = specified or {}
    if not isinstance(computed, dict):
        return {name: (amount, None) for name, amount in spec.items()}
    shown = {name: computed.get(name, "0") for name in (*spec, *computed)}
    return {
        name: (amount, spec[name] if name in spec and not equal(name, amount, spec[name]) else None)
        for name, amount in shown.items()
    }


def _deserved(queue: "Queue") -> str:
    from scheduler.api.written_amounts import readable_text

    def text(name: str, amount: object, specified: object) -> str:
        note = "" if specified is None else f" (spec {readable_text(name, specified)})"
        return readable_text(name, amount) + note

    listed = deserved_amounts(queue.spec.deserved, queue.status.deserved)
    return pairs((name, text(name, *amounts)) for name, amounts in listed.items())


def _count(phase: str) -> "Column[QueueTotals]":
    return Column(phase, lambda row: "" if row.groups is None else row.groups[phase], 8)


_CARD_FIELDS: Final = {"quota": "capability"}
"""Names of amounts in ``status.cards`` -> their names for resources."""
_COLUMNS: tuple[Column[QueueTotals], ...] = (
    Column("Name", lambda row: row.queue.metadata.name, 25),
    Column("Weight", lambda row: "" if row.groups is None else row.queue.spec.weight, 8),
    Column("State", lambda row: row.queue.status.state, 8, phase=True),
    Column("Parent", lambda row: row.queue.spec.parent, 8),
    *(_count(phase) for phase in ("Inqueue", "Pending", "Running", "Unknown", "Completed")),
    Column("Deserved", lambda row: _deserved(row.queue), wide=True, elastic=True),
    Column("Capability", lambda row: _amounts(row.queue.spec.capability), wide=True, elastic=True),
    Column("Allocated", lambda row: _amounts(row.queue.status.allocated), wide=True, elastic=True),
    Column("Cards", lambda row: card_summary(row.queue.status.cards) or None, wide=True, elastic=True),
)
_QUOTAS: tuple[Column[Raw], ...] = (
    Column("Name", lambda row: row.get("queue"), 25),
    Column("Weight", lambda row: row.get("weight"), 8),
    Column("State", lambda row: row.get("state"), 8, phase=True),
    Column("Parent", lambda row: row.get("parent"), 8),
    Column("Running", lambda row: row.get("jobs", {}).get("running"), 8),
    Column("Waiting", lambda row: row.get("jobs", {}).get("waiting"), 8),
)


def queue_view(wanted: "Callable[[Queue], bool]", labels: str = "", *, none_only: bool = False) -> View[QueueTotals]:
    """The table of the queues for which ``wanted`` is true, and a row for what counts in no queue if the root is one of
    them. ``none_only``: only this row."""
    from scheduler.api.kinds import POD_GROUP, QUEUE
    from scheduler.cluster.kube.transport.sources import WatchSource

    return View(
        (WatchSource(QUEUE, labels=labels), WatchSource(POD_GROUP)),
        lambda objects: [
            row
            for row in _rows([q for q in objects[QUEUE] if wanted(q)], objects[POD_GROUP])
            if row.groups is None or not none_only
        ],
        _COLUMNS,
        lambda row: row.queue,
    )


def _rows(queues: "list[Queue]", groups: "list[PodGroup]") -> list[QueueTotals]:
    counts: dict[str, Counter[str]] = {queue.metadata.name: Counter() for queue in queues}
    for group in groups:
        counter = counts.get(group.spec.queue or DEFAULT_QUEUE)
        if counter is not None:
            counter[group.status.phase or "Pending"] += 1
    rows = [QueueTotals(queue, counts[queue.metadata.name]) for queue in queues]
    none = [found for queue in queues if (found := _without_queue(queue)) is not None]
    return rows + [QueueTotals(queue, None) for queue in none]


def _without_queue(queue: "Queue") -> "Queue | None":
    """A queue with what Pods hold that count in no queue, as the status of the root has it; None: it has nothing."""
    from msgspec import ValidationError, convert

    from scheduler.api.scheduling import Queue

    held = queue.status.without_queue
    if not isinstance(held, dict) or not held:
        return None
    try:
        return convert({"metadata": {"name": NO_QUEUE}, "spec": {}, "status": held}, Queue)
    except ValidationError:
        return None


def amounts_of(raw: Raw) -> list[Amounts]:
    """What a Queue says of each resource and card."""
    spec, status = mapping_in(raw, "spec"), mapping_in(raw, "status")
    cards = cards_in(status.get("cards"))
    deserved = deserved_amounts(mapping_in(spec, "deserved"), status.get("deserved"))
    fields = {
        "used": mapping_in(status, "allocated"),
        "deserved": {name: amount for name, (amount, _) in deserved.items()},
        "spec": {name: amount for name, (_, amount) in deserved.items() if amount is not None},
        "capability": mapping_in(spec, "capability"),
        "guarantee": mapping_in(mapping_in(spec, "guarantee"), "resource"),
    }
    names = dict.fromkeys(name for amounts in fields.values() for name in amounts if name not in cards)
    resources: list[Amounts] = [
        {"resource": name, **{key: amounts[name] for key, amounts in fields.items() if name in amounts}}
        for name in names
        if name != "pods"
    ]
    return resources + [
        {"resource": name, **{_CARD_FIELDS.get(key, key): amount for key, amount in its.items()}}
        for name, its in cards.items()
    ]


@click.command("list")
@list_flags(namespaced=False)
def list_command(connection: Connection, flags: ListFlags) -> None:
    """List queues; without the right to read them, those that the namespace of the context uses."""
    try:
        show_list(connection, flags, lambda _: queue_view(lambda _: True, flags.labels))
    except CommandError as error:
        _show_answer(connection, error, flags.output, "")


@click.command("get")
@name_argument("QUEUE", "-n", "--name", missing="name is mandatory to get the particular queue details")
@output_option()
@connection_options()
def get_command(connection: Connection, name: str, output: str) -> None:
    """Show a queue, and below it what it uses of each resource and card."""
    from scheduler.api.kinds import QUEUE

    async def work(cluster: Cluster) -> None:
        if name == NO_QUEUE:
            await _show_no_queue(cluster, output)
            return
        raw = await cluster.get(QUEUE, "", name)
        if output in (TABLE, WIDE):
            await show_once(cluster, queue_view(lambda queue: queue.metadata.name == name), output)
            amounts = amounts_of(raw)
            for line in ("", *amount_lines(amounts)) if amounts else ():
                echo(line)
        else:
            print_object(raw, output, QUEUE)

    try:
        connection.run(work)
    except CommandError as error:
        _show_answer(connection, error, output, name)


async def _show_no_queue(cluster: Cluster, output: str) -> None:
    """Prints what Pods hold that count in no queue, which the status of the root has."""
    from scheduler.api.kinds import QUEUE

    root = await cluster.get(QUEUE, "", ROOT_QUEUE)
    held = mapping_in(mapping_in(root, "status"), "withoutQueue")
    if output not in (TABLE, WIDE):
        print_object(held, output)
        return
    await show_once(cluster, queue_view(lambda queue: queue.metadata.name == ROOT_QUEUE, none_only=True), output)
    amounts = amounts_of({"status": held})
    for line in ("", *amount_lines(amounts)) if amounts else ():
        echo(line)


def _show_answer(connection: Connection, error: CommandError, output: str, name: str) -> None:
    """Prints what the scheduler answers to a user who may not read queues; raises any other error. ``name``: only this
    queue."""
    if error.status != FORBIDDEN:
        raise error
    from scheduler.cli.visibility import quotas

    items = [item for item in quotas(connection, error).get("items", ()) if name in ("", item.get("queue"))]
    if name and not items:
        raise error
    if output in (TABLE, WIDE):
        _print_quotas(items)
    else:
        print_object(items[0] if name else {"items": items}, output)


def _print_quotas(items: list[Raw]) -> None:
    """Prints queues, and the amounts of each and of the queues above it."""
    for line in RowTable(_QUOTAS).lines(items):
        echo(line)
    amounts = [numbers for item in items for numbers in item.get("amounts", ())]
    distinct = list({(numbers.get("queue"), numbers.get("resource")): numbers for numbers in amounts}.values())
    if distinct:
        echo()
        for line in amount_lines(distinct):
            echo(line)


def amount_lines(rows: Sequence[Amounts]) -> Iterator[str]:
    """The lines of the table; for queues without resources, none."""
    if not rows:
        return
    columns: list[Column[Amounts]] = [Column("Resource", lambda row: row.get("resource"))]
    if any("queue" in row for row in rows):
        columns.insert(0, Column("Queue", lambda row: row.get("queue")))
    shown = (key for key in _AMOUNTS if key in _ALWAYS or any(key in row for row in rows))
    columns += [Column(key.capitalize(), partial(_readable, key)) for key in shown]
    yield from RowTable(columns).lines(rows)


def _readable(key: str, row: Amounts) -> str:
    from scheduler.api.written_amounts import readable_text  # it loads numpy

    def text(amount: object) -> str:
        return readable_text(str(row.get("resource")), amount)

    if key not in row:
        return ""
    if key == "problem":
        return str(row[key])
    return text(row[key]) + (f" (spec {text(row['spec'])})" if key == "deserved" and "spec" in row else "")
