"""An explanation as text: the object, what holds it, why nodes refuse it, and changes that let it run."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from scheduler.api.explained_kinds import EXPLAINED
from scheduler.api.messages import listed
from scheduler.api.reasons import Shortage
from scheduler.api.written_amounts import quantity, readable
from scheduler.cli.layout import hanging
from scheduler.cli.output import Column, RowTable, terminal_width
from scheduler.cli.text import styled
from scheduler.explain.explanation import (
    AlternativeState,
    Explanation,
    Outlook,
    QueueAmounts,
    QueuePosition,
    RankedNode,
    Ranking,
    RefusingNodes,
    ResizedPod,
)
from scheduler.framework.remedies.gates import Gate

T = TypeVar("T")
_COLOURS: Final = {
    Outlook.PLACED: "green",
    Outlook.STARTS: "yellow",
    Outlook.WAITS: "red",
}
_SHOWN: Final = 3


def lines(it: Explanation) -> Iterator[str]:
    """The lines to print."""
    outlook = styled(it.outlook.value, _COLOURS.get(it.outlook), bold=True)
    title = EXPLAINED[it.kind].title if it.kind in EXPLAINED else it.kind
    yield f"{title} {it.namespace}/{it.name}: {outlook}"
    yield from sentence(f"  {it.state}")
    yield from _summary(it)
    yield from gate_lines("Held by", it.gates)
    yield from alternative_lines(it.alternatives)
    yield from _nodes(it.nodes)
    yield from _resizing(it.resizing)
    yield from _queues(it.queues)
    if it.ranking is not None:
        yield from _ranking(it.ranking)
    yield from _changes(it)


def _summary(it: Explanation) -> Iterator[str]:
    fields: list[tuple[str, str]] = []
    if it.subject is not None:
        fields.append((it.subject[0], f"{it.namespace}/{it.subject[1]}"))
    if it.group and it.kind != "podgroup":
        fields.append(("PodGroup", it.group))
    if it.queue:
        turn = f", {turn_text(it.queue_position)}" if it.queue_position is not None else ""
        fields.append(("Queue", f"{it.queue}{turn}"))
        fields.append(("Phase", f"{it.phase}, priority {it.priority}"))
        pods = f"{it.size}, of which {it.needed} are needed at once; {it.placed} have a node"
        fields.append(("Pods", pods + (f", {it.placeable} more would find one" if it.placeable else "")))
    for key, text in fields:
        yield from sentence(f"  {key + ':':<10} {text}", indent=13)


def turn_text(turn: QueuePosition) -> str:
    """The position in the queue in words."""
    text = f"number {turn.position} of {turn.waiting} that wait"
    before = turn.before
    if not before:
        return text
    return f"{text}; before it {listed(before, _SHOWN)}"


def sentence(text: str, *, indent: int = 4) -> list[str]:
    """The lines of a text on the terminal."""
    return hanging(text, terminal_width(), indent=indent)


def heading(text: str) -> str:
    """The title of a section."""
    return styled(text, bold=True)


# --- what holds it ----------------------------------------------------------------------------------------------------
def gate_lines(title: str, gates: Sequence[Gate]) -> Iterator[str]:
    """The section about what holds a job; no line without gates."""
    if not gates:
        return
    yield ""
    yield heading(title)
    for block in RowTable(_GATES, indent=2).blocks(gates)[1:]:
        yield from block


_GATES: tuple[Column[Gate], ...] = (
    Column("", lambda gate: gate.kind.value + (f" ({gate.plugin})" if gate.plugin else "")),
    Column("", lambda gate: gate.message, elastic=True),
)


def section_lines(title: str, columns: Sequence[Column[T]], rows: Sequence[T]) -> Iterator[str]:
    """A blank line, a title and a table; nothing if there are no rows."""
    if rows:
        yield ""
        yield heading(title)
        yield from RowTable(columns, indent=2).lines(rows)


def alternative_lines(alternatives: Sequence[AlternativeState]) -> Iterator[str]:
    """The alternatives of a job, each with the reason if it does not fit."""
    return section_lines("Alternatives (the whole job uses one)", _ALTERNATIVES, alternatives)


_ALTERNATIVES: tuple[Column[AlternativeState], ...] = (
    Column("NAME", lambda it: it.name),
    Column("STATE", lambda it: it.state),
    Column("WHY", lambda it: it.reason, elastic=True),
)


def _nodes(groups: Sequence[RefusingNodes]) -> Iterator[str]:
    return section_lines(f"Nodes ({sum(len(group.names) for group in groups)} refuse it)", _NODES, groups)


def _names(group: RefusingNodes) -> str:
    names = group.names
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def _amounts(shortage: Shortage) -> str:
    asked, free = (quantity(shortage.resource, amount) for amount in (shortage.asked, shortage.free))
    where = f" on {shortage.name}" if shortage.name else ""
    return f"{shortage.resource}: asked {asked}, most free {free}{where}"


_NODES: tuple[Column[RefusingNodes], ...] = (
    Column("NODES", lambda group: len(group.names)),
    Column("NAMES", _names),
    Column("WHY", lambda group: "; ".join(group.reasons), elastic=True),
    Column("NUMBERS", lambda group: "; ".join(map(_amounts, group.shortages)), elastic=True),
)


def _resizing(pods: Sequence[ResizedPod]) -> Iterator[str]:
    return section_lines("Pods that hold more than they request, because they are resized", _RESIZING, pods)


_RESIZING: tuple[Column[ResizedPod], ...] = (
    Column("POD", lambda it: it.pod),
    Column("NODE", lambda it: it.node),
    Column("RESOURCE", lambda it: it.resource),
    Column("REQUESTED", lambda it: readable(it.resource, it.requested)),
    Column("HELD", lambda it: readable(it.resource, it.held)),
)


def _queues(numbers: Sequence[QueueAmounts]) -> Iterator[str]:
    if numbers:
        yield ""
        alone = len({its.queue for its in numbers}) == 1
        yield heading(f"Queue {numbers[0].queue}" if alone else "Queue and those above it")
        known = {key for key in _OPTIONAL if any(getattr(its, key) is not None for its in numbers)}
        if alone:
            known.discard("queue")
        columns = [column for key, column in _QUEUES.items() if key in known or key not in _OPTIONAL]
        yield from RowTable(columns, indent=2).lines(numbers)


def _quantity(key: str, numbers: QueueAmounts) -> str:
    amount: float | None = getattr(numbers, key)
    return "" if amount is None else readable(numbers.resource, amount)


_AMOUNTS: Final = ("used", "counted", "deserved", "capability", "inqueue", "requested", "borrowed", "lent")
"""The amounts that say why a job waits."""
_OPTIONAL: Final = ("queue", "counted", "deserved", "inqueue", "requested", "borrowed", "lent")
"""The columns that are shown only if there is more than one queue, or if one of the amounts is known."""
_QUEUES: Final[dict[str, Column[QueueAmounts]]] = {
    "queue": Column("QUEUE", lambda numbers: numbers.queue),
    "resource": Column("RESOURCE", lambda numbers: numbers.resource),
    **{key: Column(key.upper(), partial(_quantity, key)) for key in _AMOUNTS},
}


# --- scores of nodes -----------------------------------------------------------------------------------------
def _ranking(ranking: Ranking) -> Iterator[str]:
    if not ranking.best:
        return
    plugins = list(dict.fromkeys(plugin for node in ranking.best for plugin in node.by_plugin))
    columns: list[Column[RankedNode]] = [
        Column("NODE", lambda node: node.name + (" *" if node.name == ranking.chosen else "")),
        Column("SCORE", lambda node: _score(node.total)),
    ]
    columns += [Column(plugin, partial(_of_plugin, plugin)) for plugin in plugins]
    what = f"best nodes of the {ranking.nodes} that take it"
    yield ""
    if ranking.chosen:
        yield heading(f"Why node {ranking.chosen}: {what} (Pod {ranking.pod})")
    else:
        yield heading(f"Pod {ranking.pod}, if nothing else held it: {what}")
    yield from RowTable(columns, indent=2).lines(ranking.best)


def _of_plugin(plugin: str, node: RankedNode) -> str:
    return _score(node.by_plugin.get(plugin, 0.0))


def _score(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


# --- changes that help -----------------------------------------------------------------------------------------------
def _changes(it: Explanation) -> Iterator[str]:
    if not it.searched:
        return
    yield ""
    if not it.changes and it.pipelined:
        yield heading("Nothing has to change: it gets its nodes when the Pods that terminate there are gone")
        return
    if not it.changes:
        yield heading("No change was found that would let it run")
        yield from sentence(
            "  (tried: what can be changed of the job, its queue, quotas, nodes, volumes, devices, and arguments)"
        )
        return
    if it.pipelined:
        yield heading("Smallest change found that would let it run sooner")
    else:
        yield heading("Smallest change found that would let it run")
    for i, change in enumerate(it.changes):
        before = "  or " if i else "  "
        yield from (styled(line, "green") for line in sentence(before + change.text + _evicted(change.evicted)))


def _evicted(pods: Sequence[str]) -> str:
    return f"; evicted for it: {listed(pods, _SHOWN)}" if pods else ""
