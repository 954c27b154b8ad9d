"""The differences that a what-if change makes: jobs that start or stop, Pods that move, and the numbers of queues."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from scheduler.cli.output import Column, RowTable
from scheduler.cli.text import styled
from scheduler.explain.difference import Difference, JobPlacement, QueueDifference


class _Row(NamedTuple):
    """One difference."""

    what: str
    name: str
    before: str
    after: str
    note: str = ""


def difference_lines(difference: Difference, warnings: Iterable[str] = ()) -> Iterator[str]:
    """The lines to print. ``warnings``: a section of its own, about what the change adds."""
    if not difference:
        yield "It makes no difference."
    sections: tuple[tuple[str, str, list[_Row]], ...] = (
        ("Jobs", "PODGROUP", _jobs(difference)),
        ("Pods", "POD", _pods(difference)),
        ("Queues", "QUEUE", _queues(difference)),
    )
    first = True
    for title, subject, rows in sections:
        if rows:
            if not first:
                yield ""
            first = False
            yield styled(title, bold=True)
            yield from _table(subject, rows)
    for number, line in enumerate(warnings):
        if not number:
            yield ""
        yield line


def _table(subject: str, rows: Sequence[_Row]) -> list[str]:
    columns: list[Column[_Row]] = [
        Column("WHAT", lambda row: row.what),
        Column(subject, lambda row: row.name),
        Column("BEFORE", lambda row: row.before),
        Column("AFTER", lambda row: row.after),
    ]
    if any(row.note for row in rows):
        columns.append(Column("NOTE", lambda row: row.note, elastic=True))
    return RowTable(columns).lines(rows)


def _jobs(difference: Difference) -> list[_Row]:
    rows = [_Row("starts", key, "", _job(job), f"queue {job.queue}") for key, job in difference.starts.items()]
    rows += [
        _Row("stops", key, _job(old), _job(new) if new else "gone", f"queue {old.queue}")
        for key, (old, new) in difference.stops.items()
    ]
    rows += [
        _Row("gets more" if new.placed > old.placed else "loses some", key, _job(old), _job(new), f"queue {new.queue}")
        for key, (old, new) in difference.counts.items()
    ]
    return rows


def _job(job: JobPlacement) -> str:
    return f"{job.placed}/{job.size}, needs {job.needed}"


def _pods(difference: Difference) -> list[_Row]:
    rows = []
    for key, (old, new) in difference.moved.items():
        why = difference.evicted.get(key, "")
        what = "moves" if new else "evicted" if why else "loses its node"
        rows.append(_Row(what, key, old, new, why))
    moved = set(difference.moved)
    return rows + [_Row("evicted", key, "", "", why) for key, why in difference.evicted.items() if key not in moved]


def _queues(difference: Difference) -> list[_Row]:
    rows = []
    for name, (old, new) in difference.queues.items():
        for what, before, after in _numbers(old, new):
            rows.append(_Row(what, name, before, after))
    return rows


def _numbers(old: QueueDifference | None, new: QueueDifference | None) -> Iterator[tuple[str, str, str]]:
    """The differences between two pictures of a queue."""
    if old is None or new is None:
        yield "queue", "" if old is None else "there", "" if new is None else "there"
    before, after = _numbers_by_title(old), _numbers_by_title(new)
    for what in dict.fromkeys([*before, *after]):
        pair = before.get(what, ""), after.get(what, "")
        if pair[0] != pair[1]:
            yield what, *pair


def _numbers_by_title(queue: QueueDifference | None) -> dict[str, str]:
    if queue is None:
        return {}
    resources = {f"{kind} {name}": text for kind, amounts in queue.amounts.items() for name, text in amounts.items()}
    numbers = {"jobs running": queue.running, "jobs waiting": queue.waiting, "weight": queue.weight}
    return {"state": queue.state, **{what: str(number) for what, number in numbers.items()}, **resources}
