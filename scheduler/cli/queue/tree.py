"""Queues as a tree: a line for each queue, and below it a line for each resource with its use and quota."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from scheduler.api.messages import usage_note
from scheduler.api.names import NO_QUEUE
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.resource import scale_of
from scheduler.api.written_amounts import readable
from scheduler.cli.layout import bar
from scheduler.cli.output import Column, RowTable
from scheduler.cli.text import colour_of

Raw = dict[str, Any]


class _Line(NamedTuple):
    """A queue or a resource."""

    cells: tuple[object, ...]
    """As many as ``_COLUMNS``, or one less for a queue."""
    colour: str | None = None
    """The colour of the second cell, which is a state or a bar."""


_TITLES: Final = _Line(("  Resource", "Use", "Used", "Deserved", "Capability", "Guarantee"))
"""The titles of resources, below those of queues."""
_COLUMNS: Final[tuple[Column[_Line], ...]] = (
    Column("Queue", lambda line: line.cells[0]),
    Column("State", lambda line: line.cells[1], colour=lambda line: line.colour),
    Column("Weight", lambda line: line.cells[2]),
    Column("Running", lambda line: line.cells[3]),
    Column("Waiting", lambda line: line.cells[4]),
)
_GUARANTEE: Final[Column[_Line]] = Column("", lambda line: line.cells[5] if len(line.cells) > len(_COLUMNS) else "")
"""Is shown if a queue has a guarantee of a resource or card."""


def blocks_of(document: Raw) -> list[list[str]]:
    """The lines of what ``queue top`` prints as JSON: the queues, the cards of the cluster, and the owners of Pods
    without a queue."""
    return [
        *tree_blocks(document["items"]),
        *card_blocks(document.get("cards", ())),
        *owner_blocks(document.get("owners", ())),
    ]


def tree_blocks(items: Sequence[Raw]) -> list[list[str]]:
    """The titles and the lines of queues, each followed by its resources and its children in the order of their names.

    ``items``: the queues, as in a ``QueueQuotaList``. Of queues above them that are not listed, only amounts are known.
    """
    queues = {item["queue"]: item for item in items}
    parents = {name: item.get("parent", "") for name, item in queues.items()}
    amounts: dict[str, dict[str, Raw]] = {}
    for item in items:
        below = item["queue"]
        for one in item.get("amounts", ()):
            amounts.setdefault(one["queue"], {})[one["resource"]] = one
            if one["queue"] not in queues:
                parents.setdefault(one["queue"], "")
                if below != one["queue"] and not parents.get(below):
                    parents[below] = one["queue"]
            below = one["queue"]
    children: dict[str, list[str]] = {}
    for name, parent in _without_cycles(parents).items():
        children.setdefault(parent, []).append(name)
    guaranteed = any("guarantee" in one for its in amounts.values() for one in its.values())
    columns = (*_COLUMNS, _GUARANTEE) if guaranteed else _COLUMNS
    titles, *lines = RowTable(columns).blocks([_TITLES, *_subtree("", children, queues, amounts, "")])
    return [[*titles, *lines[0]], *lines[1:]]


def _without_cycles(parents: Mapping[str, str]) -> dict[str, str]:
    """Queue -> its parent, in the order of the names, ``NO_QUEUE`` last; "" for one that does not exist, and where a
    cycle closes."""
    found: dict[str, str] = {}
    for name in sorted(parents, key=lambda name: (name == NO_QUEUE, name)):
        parent = above = parents[name] if parents[name] in parents else ""
        while above not in ("", name):
            above = found.get(above, "")
        found[name] = "" if above == name else parent
    return found


def _subtree(
    parent: str,
    children: Mapping[str, list[str]],
    queues: Mapping[str, Raw],
    amounts: Mapping[str, Mapping[str, Raw]],
    before: str,
) -> Iterator[_Line]:
    """The lines of the queues below one. ``before``: the branches of the tree, drawn before them."""
    names = children.get(parent, [])
    for name in names:
        branch, continuation = ("└─ ", "   ") if name == names[-1] else ("├─ ", "│  ")
        if not parent:
            branch = continuation = ""
        item = queues.get(name, {})
        state, jobs = item.get("state", ""), item.get("jobs", {})
        cells = (
            before + branch + name,
            state,
            item.get("weight", ""),
            jobs.get("running", ""),
            jobs.get("waiting", ""),
        )
        yield _Line(cells, colour_of(state))
        beside = before + continuation + ("│ " if children.get(name) else "  ")
        yield from (_resource(beside, one) for one in amounts.get(name, {}).values())
        yield from _subtree(name, children, queues, amounts, before + continuation)


# --- resources --------------------------------------------------------------------------------------------------------
_AMOUNTS: Final = ("used", "deserved", "capability", "guarantee")


def _resource(before: str, amounts: Mapping[str, str]) -> _Line:
    """``amounts``: resource, used, deserved, capability and guarantee, in Kubernetes' notation; a missing one is not
    limited. If queues borrow from each other also borrowed and lent; counted, if not all that is used counts against
    the capability."""
    resource = amounts["resource"]
    used, deserved, capability, _ = (_parsed(resource, amounts.get(key)) for key in _AMOUNTS)
    texts = [_written(resource, amounts.get(key)) for key in _AMOUNTS]
    counted = _parsed(resource, amounts.get("counted"))
    limited = (used if counted is None else counted) or 0
    drawn = _bar(limited, deserved, capability)
    note = usage_note({key: amounts.get(key) for key in ("borrowed", "lent")})
    colour = "yellow" if amounts.get("borrowed", "0") != "0" else _colour(limited, deserved, capability)
    used_text = texts[0] + (f" ({note})" if note else "")
    return _Line((before + resource, drawn, used_text, *texts[1:]), colour)


def _bar(used: float, deserved: float | None, capability: float | None) -> str:
    """The use of the capability, with a mark at the deserved amount; "" without both."""
    limit = deserved if capability is None else capability
    if limit is None:
        return ""
    return bar(int(used), int(limit if deserved is None else min(deserved, limit)), int(limit))


def _colour(used: float, deserved: float | None, capability: float | None) -> str:
    if capability is not None and used > capability:
        return "red"
    return "yellow" if deserved is not None and used > deserved else "green"


def _parsed(resource: str, text: str | None) -> float | None:
    try:
        return None if text is None else parse_quantity(text, scale_of(resource))
    except QuantityError:
        return None


def _written(resource: str, text: str | None) -> str:
    """An amount to read; "" if there is none."""
    amount = _parsed(resource, text)
    return text or "" if amount is None else readable(resource, amount)


# --- owners of Pods without a queue -----------------------------------------------------------------------------------
_OWNERS: Final[tuple[Column[Raw], ...]] = tuple(
    Column(title, lambda row, key=key: row.get(key) or None)  # type: ignore[misc]
    for title, key in (
        ("Without a queue", "namespace"),
        ("Owner", "owner"),
        ("Card", "card"),
        ("Used", "used"),
        ("Workload", "workload"),
        ("Counts in", "queue"),
    )
)


def owner_blocks(owners: Sequence[Raw]) -> list[list[str]]:
    """An empty line, the titles, and a line for each owner of Pods without a queue that use cards; nothing without
    owners. ``owners``: as in ``all_owners``."""
    if not owners:
        return []
    titles, *lines = RowTable(_OWNERS).blocks(owners)
    return [["", *titles], *lines]


# --- cards of the cluster ---------------------------------------------------------------------------------------------
_CARDS: Final[tuple[Column[Raw], ...]] = (
    Column("Card", lambda card: card.get("card")),
    *(
        Column(key.capitalize(), lambda card, key=key: card.get(key))  # type: ignore[misc]
        for key in ("used", "granted", "existing", "healthy", "elastic")
    ),
    Column("Problem", lambda card: card.get("problem"), colour=lambda _: "red"),
)


def card_blocks(cards: Sequence[Raw]) -> list[list[str]]:
    """An empty line, the titles, and a line for each card of the cluster; nothing without cards. ``cards``: as in
    ``all_cards``."""
    if not cards:
        return []
    titles, *lines = RowTable(_CARDS).blocks(cards)
    return [["", *titles], *lines]
