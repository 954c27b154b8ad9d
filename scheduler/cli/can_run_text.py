"""The answers of ``can-run`` as text: each verdict, what admission, quota and nodes say, and what holds the job."""

from collections.abc import Iterator, Sequence
from typing import Final

from scheduler.api.messages import listed
from scheduler.api.written_amounts import readable
from scheduler.cli.explain_text import alternative_lines, gate_lines, section_lines, sentence, turn_text
from scheduler.cli.output import Column, RowTable
from scheduler.cli.text import styled
from scheduler.explain.can_run import AskedAmounts, RunAnswer, Verdict

_COLOURS: Final = {Verdict.RUNS: "green", Verdict.WAITS: "yellow", Verdict.NEVER: "red"}
_SHOWN: Final = 3


def lines(answers: Sequence[RunAnswer]) -> Iterator[str]:
    """The lines to print. Of several answers, a table comes first."""
    if len(answers) > 1:
        yield from RowTable(_SUMMARY).lines(answers)
    for number, answer in enumerate(answers):
        if number or len(answers) > 1:
            yield ""
        yield from _answer(answer)


def _answer(it: RunAnswer) -> Iterator[str]:
    yield f"{it.kind} {it.namespace}/{it.name}: {styled(it.verdict.value, _COLOURS[it.verdict], bold=True)}"
    yield from sentence(f"  {it.state}")
    if it.refusal:
        yield from sentence(f"  {it.refusal}")
        return
    for key, text in _summary(it):
        yield from sentence(f"  {key + ':':<15} {text}", indent=18)
    columns = [column for column in _AMOUNTS if column is not _INQUEUE or any(its.inqueue for its in it.amounts)]
    yield from section_lines("Quota", columns, it.amounts)
    if it.now is not None:
        yield from alternative_lines(it.now.alternatives)
    if it.verdict is not Verdict.RUNS and it.now is not None:
        yield from gate_lines("Held by", it.now.gates)
    if it.fits_empty is False and it.empty is not None:
        yield from gate_lines("On an empty cluster, held by", it.empty.gates)


def _summary(it: RunAnswer) -> Iterator[tuple[str, str]]:
    now = it.now
    if now is not None and now.queue:
        turn = f", {turn_text(now.queue_position)}" if now.queue_position is not None else ""
        yield "Queue", f"{now.queue}{turn}"
    yield "Admitted", _admitted(it)
    yield "Quota", _quota(it) or "not known"
    yield "Nodes", f"{_nodes(it)} Pods find one now; {it.needed} are needed at once, {it.placed} get one"
    if it.evictions:
        names = f": {listed(it.evicted, _SHOWN)}" if it.evicted else ""
        yield "Evicted for it", f"{it.evictions} Pods{names}"
    yield "Empty cluster", _empty(it)


def _admitted(it: RunAnswer) -> str:
    return "refused" if it.refusal else "yes" if it.admitted else "no"


def _quota(it: RunAnswer) -> str:
    if not it.amounts:
        return "no limit" if it.now is not None and it.now.queue else ""
    over = [its for its in it.amounts if not its.within]
    if not over:
        return "within"
    return ("borrows " if all(its.borrows for its in over) else "exceeded by ") + listed(
        [f"{readable(its.resource, its.excess)} {its.resource}" for its in over], _SHOWN
    )


def _nodes(it: RunAnswer) -> str:
    return "" if it.refusal else f"{it.find_node} of {it.pods}"


def _empty(it: RunAnswer) -> str:
    return "" if it.refusal else {True: "it runs", False: "it does not run", None: "not known"}[it.fits_empty]


def _limit(its: AskedAmounts) -> str:
    return "" if its.limit is None else readable(its.resource, its.limit)


_SUMMARY: Final[tuple[Column[RunAnswer], ...]] = (
    Column("NAMESPACE", lambda it: it.namespace),
    Column("KIND", lambda it: it.kind),
    Column("NAME", lambda it: it.name),
    Column("VERDICT", lambda it: it.verdict.value, colour=lambda it: _COLOURS[it.verdict]),
    Column("ADMITTED", _admitted),
    Column("QUOTA", _quota),
    Column("NODES", _nodes),
    Column("EMPTY CLUSTER", _empty),
)
_INQUEUE: Final[Column[AskedAmounts]] = Column("INQUEUE", lambda its: readable(its.resource, its.inqueue))
_AMOUNTS: Final[tuple[Column[AskedAmounts], ...]] = (
    Column("QUEUE", lambda its: its.queue),
    Column("RESOURCE", lambda its: its.resource),
    Column("ASKED", lambda its: readable(its.resource, its.asked)),
    Column("USED", lambda its: readable(its.resource, its.used)),
    _INQUEUE,
    Column("LIMIT", _limit),
    Column("WITHIN", lambda its: "yes" if its.within else "no", colour=lambda its: "green" if its.within else "red"),
)
