"""Chips of nodes as a grid: a row for each node, a column for each chip, and a gap between rings, cards or halves.

A cell is a sign for the state of a chip without Pods, or a letter for the Pod that holds or gets it. The letters begin
again on each node, and the last column names the Pods, after what is wrong with the node as a whole. On a terminal that
is too narrow, the chips of a node take several lines.
"""

import string
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from scheduler.api.device_states import Device, DeviceState
from scheduler.api.printable import printable
from scheduler.cli.text import duration, styled


class _Sign(NamedTuple):
    """How the chips of one state are shown."""

    text: str
    """The letter of a chip without a Pod, or a mark after the letter of a Pod."""
    meaning: str
    colour: str | None
    marks_pod: bool = False


_SIGNS: Final = {
    DeviceState.FREE: _Sign(".", "free", "green"),
    DeviceState.NETWORK_UNHEALTHY: _Sign("~", "free, with a network fault", "yellow"),
    DeviceState.SUB_HEALTHY: _Sign("=", "free, sub-healthy", "yellow"),
    DeviceState.USED: _Sign("", "used", None, marks_pod=True),
    DeviceState.TERMINATING: _Sign("-", "used by a Pod that is being deleted", "yellow", marks_pod=True),
    DeviceState.BINDING: _Sign("+", "assigned by the next session", "cyan", marks_pod=True),
    DeviceState.PIPELINED: _Sign(">", "reserved for a Pod that waits", "magenta", marks_pod=True),
    DeviceState.DIVIDED: _Sign("/", "divided; * for several Pods", None, marks_pod=True),
    DeviceState.UNHEALTHY: _Sign("!", "unhealthy", "red"),
    DeviceState.RECOVERING: _Sign("^", "recovering", "yellow"),
    DeviceState.UNKNOWN: _Sign("?", "given to no Pod", "red"),
}
FREE_STATES: Final = frozenset({DeviceState.FREE, DeviceState.NETWORK_UNHEALTHY, DeviceState.SUB_HEALTHY})
_LETTERS: Final = string.ascii_letters + string.digits
_MORE: Final = "#"
"""Stands for every Pod after those that have a letter."""
_SEVERAL: Final = "*"
"""Stands for the Pods that have parts of one chip."""
_CELL: Final = 3
"""Width of a cell: letter and mark, or a number of two digits; and a blank."""
_UNIT: Final = 8
"""Chips that stay on one line where chips have no groups."""
_GAP: Final = "  "
_MIN_PODS: Final = 24
"""The least width of the column of Pods; if there is less room, the Pods follow on lines of their own."""
_Cells = list[tuple[str, str | None]]
"""Texts and colours."""


def grid_lines(devices: Sequence[Device], now: float, limit: int | None) -> list[str]:
    """The grid, one table for each resource and kind of group, and the meanings of the signs.

    ``now``: Unix time, for the ages of reports; ``limit``: width of the terminal, None for any width.
    """
    lines: list[str] = []
    tables: dict[tuple[str, str], list[Device]] = {}
    for device in devices:
        tables.setdefault((device.resource, device.grouped_by), []).append(device)
    for (resource, grouped_by), shown in tables.items():
        lines += ["", printable(resource) + (f", by {grouped_by}" if grouped_by else "")]
        lines += _Grid(shown, now, limit).lines()
    lines.append("")
    states = {device.state for device in devices}
    meanings = [
        f"{('a' if sign.marks_pod else '') + sign.text} {sign.meaning}"
        for state, sign in _SIGNS.items()
        if state in states
    ]
    return [*lines[1:], *_wrapped(meanings, limit)]


class _Grid:
    """The nodes with one resource, whose chips have groups of one kind."""

    def __init__(self, devices: Sequence[Device], now: float, limit: int | None) -> None:
        self._now = now
        self._limit = limit
        self._nodes = [list(group) for _, group in groupby(devices, key=lambda device: device.node)]
        self._grouped = bool(devices[0].grouped_by)
        groups = {_number(device): device.group for device in devices}
        numbers = sorted(groups)
        if self._grouped:
            self._units = [list(unit) for _, unit in groupby(numbers, key=lambda number: groups[number])]
        else:
            self._units = [numbers[at : at + _UNIT] for at in range(0, len(numbers), _UNIT)]

    def lines(self) -> Iterator[str]:
        heads = [("Node", "Free", "Report"), *(self._head(chips) for chips in self._nodes)]
        widths = [max(len(head[i]) for head in heads) for i in range(3)]
        texts = [_GAP.join(text.ljust(width) for text, width in zip(head, widths, strict=True)) for head in heads]
        indent = len(texts[0]) + len(_GAP)
        blocks = list(self._blocks(indent))
        room = max(map(self._width, blocks))
        beside = self._limit is None or self._limit - indent - room - len(_GAP) >= _MIN_PODS
        for i, block in enumerate(blocks):
            first = "Pods" if beside and not i else ""
            yield self._line(
                texts[0] if not i else "", indent, [(str(n), None) for n in _of(block)], block, room, first
            )
        for text, chips in zip(texts[1:], self._nodes, strict=True):
            yield from self._row(text, indent, chips, blocks, room, beside=beside)

    def _row(
        self,
        text: str,
        indent: int,
        chips: Sequence[Device],
        blocks: Sequence[list[list[int]]],
        room: int,
        *,
        beside: bool,
    ) -> Iterator[str]:
        letters = _letters(chips)
        cells = {_number(chip): _cell(chip, letters) for chip in chips}
        names = [f"[{printable(chips[0].note)}]"] if chips[0].note else []
        names += [f"{letter} {printable(pod)}" for pod, letter in letters.items()]
        start = indent + room + len(_GAP) if beside else len(_GAP)
        pods = _wrapped(names, None if self._limit is None else self._limit - start)
        for i, block in enumerate(blocks):
            shown = [cells.get(number, ("", None)) for number in _of(block)]
            yield self._line(text if not i else "", indent, shown, block, room, pods.pop(0) if beside and pods else "")
        yield from (" " * start + line for line in pods)

    def _head(self, chips: Sequence[Device]) -> tuple[str, str, str]:
        """Name of the node, how many of its chips are free, and the age of the report."""
        free = sum(chip.state in FREE_STATES for chip in chips)
        reported = chips[0].reported
        return printable(chips[0].node), f"{free}/{len(chips)}", duration(self._now - reported) if reported else "-"

    def _blocks(self, indent: int) -> Iterator[list[list[int]]]:
        """The units on each line."""
        block: list[list[int]] = []
        for unit in self._units:
            if block and self._limit is not None and indent + self._width([*block, unit]) > self._limit:
                yield block
                block = []
            block.append(unit)
        yield block

    def _width(self, block: Sequence[Sequence[int]]) -> int:
        return sum(len(unit) * _CELL for unit in block) + (len(block) - 1) * self._grouped

    def _line(self, text: str, indent: int, cells: _Cells, block: Sequence[Sequence[int]], room: int, pods: str) -> str:
        parts, left = [], iter(cells)
        for i, unit in enumerate(block):
            parts.append(" " * (self._grouped and i > 0))
            for _ in unit:
                shown, colour = next(left)
                parts.append((styled(shown, colour) if colour else shown) + " " * (_CELL - len(shown)))
        padding = " " * (room - self._width(block) + len(_GAP))
        return (text.ljust(indent) + "".join(parts) + padding + pods).rstrip()


def _cell(chip: Device, letters: dict[str, str]) -> tuple[str, str | None]:
    sign = _SIGNS[chip.state]
    pod = letters[chip.pods[-1]] if chip.pods else ""
    if chip.state is DeviceState.DIVIDED and len(chip.pods) > 1:
        pod = _SEVERAL
    return pod + sign.text or _MORE, sign.colour


def _letters(chips: Iterable[Device]) -> dict[str, str]:
    """Pod -> its letter, in the order of the chips."""
    pods = dict.fromkeys(pod for chip in chips for pod in chip.pods)
    return {pod: _LETTERS[i] if i < len(_LETTERS) else _MORE for i, pod in enumerate(pods)}


def _wrapped(items: Sequence[str], width: int | None) -> list[str]:
    """Joins items; begins a new line where the next item does not fit."""
    lines: list[str] = []
    for item in items:
        if lines and (width is None or len(lines[-1]) + len(_GAP) + len(item) <= width):
            lines[-1] += _GAP + item
        else:
            lines.append(item)
    return lines


def _of(block: Sequence[Sequence[int]]) -> list[int]:
    return [number for unit in block for number in unit]


def _number(device: Device) -> int:
    return int(device.name.rpartition("-")[2])
