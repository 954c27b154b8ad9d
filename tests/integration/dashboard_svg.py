"""Draws a dashboard with the answers of a Prometheus as an SVG image, in the layout of its panels.

The module draws only the features that the dashboards of the chart use: the types of panels, units and transformations
that `tests/unit/chart/test_dashboard_files.py` accepts.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from math import ceil, floor, isfinite, log2, log10
from typing import Any, NamedTuple

Json = Mapping[str, Any]
Labels = Mapping[str, str]

UNIT_WIDTH, UNIT_HEIGHT, GAP = 58, 32, 6
"""The pixels of a step of the grid, and the pixels between panels."""
COLORS = ("#3274d9", "#56a64b", "#ff780a", "#e02f44", "#8f3bb8", "#0da3a8", "#b877d9", "#8a6d00", "#5a5f66")
NAMED = {"green": "#37872d", "orange": "#d9730d", "red": "#c4162a", "blue": "#1f60c4", "purple": "#8f3bb8"}
LEGEND_ROWS = 5
_LABEL = re.compile(r"\{\{(\w+)\}\}")


class Series(NamedTuple):
    """One series of an answer."""

    labels: Labels
    points: Sequence[tuple[float, float]]
    """The Unix times and values of the series; only finite values."""

    @property
    def last(self) -> float:
        return self.points[-1][1]


Answers = Callable[[str], Sequence[Series]]
"""Returns the series of a query."""


def draw(dashboard: Json, answers: Answers, start: float, end: float) -> str:
    """The SVG document. ``start``, ``end``: the span of time axes."""
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    width_pixels, height_pixels = 24 * UNIT_WIDTH + GAP, height * UNIT_HEIGHT + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width_pixels}" height="{height_pixels}" '
        f'viewBox="0 0 {width_pixels} {height_pixels}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f"<title>{escape(dashboard['title'])}</title>",
        f'<rect width="{width_pixels}" height="{height_pixels}" fill="#f4f5f5"/>',
        _text(GAP + 4, 25, dashboard["title"], size=18, bold=True),
    ]
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        x, y = at["x"] * UNIT_WIDTH + GAP, at["y"] * UNIT_HEIGHT + 40
        width, height = at["w"] * UNIT_WIDTH - GAP, at["h"] * UNIT_HEIGHT - GAP
        if panel["type"] == "row":
            parts.append(_text(x + 4, y + 20, panel["title"], size=14, bold=True))
            continue
        parts.append(f'<g transform="translate({x} {y})">')
        parts.append(f'<rect width="{width}" height="{height}" rx="3" fill="#fff" stroke="#dcdee1"/>')
        parts.append(_text(8, 18, _cut(panel["title"], width - 16, 13), size=13, bold=True))
        parts += _DRAWINGS[panel["type"]](_Panel(panel, answers, width, height, start, end))
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


class _Panel:
    """A panel with its answers, and the area below its title."""

    def __init__(self, panel: Json, answers: Answers, width: int, height: int, start: float, end: float) -> None:
        self.panel, self.width, self.height, self.start, self.end = panel, width, height, start, end
        self.defaults: Json = panel["fieldConfig"]["defaults"]
        self.unit: str = self.defaults["unit"]
        self.found = [list(answers(target["expr"])) for target in panel["targets"]]

    def named(self) -> list[tuple[str, Series]]:
        """All series with their names."""
        return [
            (legend(target.get("legendFormat", ""), series.labels), series)
            for target, found in zip(self.panel["targets"], self.found, strict=True)
            for series in sorted(found, key=lambda each: sorted(each.labels.items()))
        ]

    def color(self, value: float) -> str:
        """The colour of a value by the thresholds of the panel."""
        chosen = "#24292e"
        for step in self.defaults.get("thresholds", {}).get("steps", ()):
            if step["value"] is None or value >= step["value"]:
                chosen = NAMED[step["color"]]
        return chosen


def legend(form: str, labels: Labels) -> str:
    """The name of a series. As in Grafana, a label that the series does not have is empty."""
    return _LABEL.sub(lambda found: labels.get(found[1], ""), form).strip()


def _stat(it: _Panel) -> Iterable[str]:
    named = it.named()
    for i, (name, series) in enumerate(named):
        middle = it.width * (2 * i + 1) / (2 * len(named))
        size = 30 if it.height > 100 else 24
        yield _text(
            middle, it.height / 2 + 18, number(series.last, it.unit), size, it.color(series.last), "middle", True
        )
        yield _text(middle, it.height - 8, name, 11, "#5a5f66", "middle")


def _time_series(it: _Panel) -> Iterable[str]:
    named = it.named()
    stacked = "stacking" in it.defaults.get("custom", {})
    fixed = {
        override["matcher"]["options"]: NAMED[override["properties"][0]["value"]["fixedColor"]]
        for override in it.panel["fieldConfig"]["overrides"]
    }
    colors = [fixed.get(name, COLORS[i % len(COLORS)]) for i, (name, _) in enumerate(named)]
    lines = [dict(series.points) for _, series in named]
    floors = _stack(lines) if stacked else [{} for _ in lines]
    top = nice(max((value for line in lines for value in line.values()), default=1.0), it.unit)
    left, right, upper = 62, it.width - 10, 30
    lower = it.height - 30 - 14 * min(len(named), LEGEND_ROWS)
    for step in range(5):
        y = lower - (lower - upper) * step / 4
        yield f'<line x1="{left}" x2="{right}" y1="{y:.0f}" y2="{y:.0f}" stroke="#e9eaeb"/>'
        yield _text(left - 5, y + 4, number(top * step / 4, it.unit), 10, "#5a5f66", "end")

    def place(moment: float, value: float) -> str:
        x = left + (right - left) * (moment - it.start) / (it.end - it.start)
        return f"{x:.1f},{lower - (lower - upper) * max(value, 0.0) / top:.1f}"

    for color, line, floor_of in zip(colors, lines, floors, strict=True):
        path = " ".join(place(*point) for point in sorted(line.items()))
        back = " ".join(place(*point) for point in sorted(floor_of.items(), reverse=True))
        if back:
            yield f'<polygon points="{path} {back}" fill="{color}" fill-opacity="0.4"/>'
        yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>'
    for i, (name, series) in enumerate(named[:LEGEND_ROWS]):
        y = lower + 20 + 14 * i
        yield f'<rect x="10" y="{y - 8}" width="10" height="8" fill="{colors[i]}"/>'
        more = len(named) - LEGEND_ROWS
        last = more > 0 and i == LEGEND_ROWS - 1
        text = f"{name}, and {more} more" if last else name or it.panel["title"]
        yield _text(25, y, _cut(text, it.width - 120, 11), 11)
        yield _text(it.width - 10, y, number(series.last, it.unit), 11, anchor="end")


def _stack(lines: Sequence[dict[float, float]]) -> list[dict[float, float]]:
    """Stacks each line on the preceding lines. Returns the lower edge of each line."""
    below = {moment: 0.0 for line in lines for moment in line}
    floors = []
    for line in lines:
        floors.append({moment: below[moment] for moment in line})
        for moment in line:
            line[moment] = below[moment] = below[moment] + line[moment]
    return floors


def _bars(it: _Panel) -> Iterable[str]:
    named = it.named()
    rows = max(1, (it.height - 34) // 24)
    for i, (name, series) in enumerate(named[:rows]):
        y, share = 34 + 24 * i, min(max(series.last / it.defaults["max"], 0.0), 1.0)
        yield _text(10, y + 13, _cut(name, it.width * 0.45, 11), 11)
        x, width = it.width * 0.48, it.width * 0.36
        yield f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="16" fill="#f0f1f2"/>'
        color = it.color(series.last)
        yield f'<rect x="{x:.0f}" y="{y}" width="{width * share:.0f}" height="16" fill="{color}"/>'
        yield _text(it.width - 10, y + 13, number(series.last, it.unit), 12, color, "end", True)


def _history(it: _Panel) -> Iterable[str]:
    named = it.named()[: max(1, (it.height - 50) // 22)]
    most = max((value for _, series in named for _, value in series.points), default=1.0) or 1.0
    left, right = it.width * 0.25, it.width - 40
    for i, (name, series) in enumerate(named):
        y = 32 + 22 * i
        yield _text(10, y + 14, _cut(name, left - 16, 11), 11)
        for moment, value in series.points[:: max(1, len(series.points) // 30)]:
            x = left + (right - left) * (moment - it.start) / (it.end - it.start)
            hue = 120 * value / most
            width = (right - left) / 30
            yield f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="18" fill="hsl({hue:.0f},55%,55%)"/>'
        yield _text(it.width - 8, y + 14, number(series.last, it.unit), 11, anchor="end")


def _table(it: _Panel) -> Iterable[str]:
    columns, rows = table(it.panel, it.found)
    room = max(1, (it.height - 56) // 20)
    shown = [[_cell(row.get(column, ""), it.unit) for row in rows[:room]] for column in columns]
    lengths = [max(map(len, (column, *cells))) + 1 for column, cells in zip(columns, shown, strict=True)]
    for j, column in enumerate(columns):
        x = 10 + (it.width - 20) * sum(lengths[:j]) / sum(lengths)
        width = (it.width - 20) * lengths[j] / sum(lengths) - 8
        yield _text(x, 38, _cut(column, width, 12), 12, "#1f60c4", bold=True)
        for i, cell in enumerate(shown[j]):
            yield _text(x, 58 + 20 * i, _cut(cell, width, 12), 12)
    for i in range(min(len(rows), room)):
        yield f'<line x1="8" x2="{it.width - 8}" y1="{44 + 20 * i}" y2="{44 + 20 * i}" stroke="#eeeff0"/>'


def _cell(value: str | float, unit: str) -> str:
    return value if isinstance(value, str) else number(value, unit)


def table(panel: Json, found: Sequence[Sequence[Series]]) -> tuple[list[str], list[dict[str, str | float]]]:
    """The columns and rows of a table after its transformations."""
    rows: list[dict[str, str | float]] = []
    names = [f"Value #{target['refId']}" if len(found) > 1 else "Value" for target in panel["targets"]]
    for name, answer in zip(names, found, strict=True):
        for series in answer:
            same = [row for row in rows if all(row.get(key) == value for key, value in series.labels.items())]
            if same and len(found) > 1:
                same[0][name] = series.last
            else:
                rows.append({**series.labels, name: series.last})
    columns = list(dict.fromkeys([*(key for row in rows for key in row if key not in names), *names]))
    for step in panel.get("transformations", ()):
        options = step["options"]
        if step["id"] == "organize":
            renamed = {column: options["renameByName"].get(column, column) for column in columns}
            columns = list(renamed.values())
            rows = [{renamed[key]: value for key, value in row.items()} for row in rows]
        elif step["id"] == "groupingToMatrix":
            row_field, column_field = options["rowField"], options["columnField"]
            title = f"{row_field}\\{column_field}"
            states = sorted({str(row[column_field]) for row in rows})
            matrix: dict[str, dict[str, str | float]] = {}
            for row in rows:
                cells = matrix.setdefault(
                    str(row[row_field]), {title: str(row[row_field]), **dict.fromkeys(states, 0.0)}
                )
                cells[str(row[column_field])] = row["Value"]
            columns, rows = [title, *states], list(matrix.values())
    return columns, rows


_DRAWINGS: Mapping[str, Callable[[_Panel], Iterable[str]]] = {
    "stat": _stat,
    "timeseries": _time_series,
    "bargauge": _bars,
    "status-history": _history,
    "table": _table,
}


def number(value: float, unit: str) -> str:
    """A value as Grafana writes it in a unit."""
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "bytes":
        return _scaled(value, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB"))
    if unit in ("s", "ms"):
        seconds = value / 1000 if unit == "ms" else value
        for size, name in ((86400, "days"), (3600, "hours"), (60, "min"), (1, "s"), (1e-3, "ms")):
            if abs(seconds) >= size:
                return f"{seconds / size:.3g} {name}"
        return f"{seconds * 1e6:.3g} µs" if seconds else "0 s"
    suffix = {"ops": "/s", "reqps": "/s"}.get(unit, "")
    text = _scaled(value, 1000, ("", "K", "M", "G", "T"))
    return f"{text} {suffix}".strip()


def _scaled(value: float, base: int, names: Sequence[str]) -> str:
    step = 0
    while abs(value) >= base and step < len(names) - 1:
        value, step = value / base, step + 1
    return f"{value:.3g} {names[step]}".strip()


def nice(value: float, unit: str) -> float:
    """The end of an axis: a round number in a unit that is at least ``value``."""
    if not isfinite(value) or value <= 0:
        return 1.0
    if unit == "bytes":
        return float(2 ** ceil(log2(value)))
    power = 10.0 ** floor(log10(value))
    return next((factor * power for factor in (1, 2, 4, 5, 8, 10) if factor * power >= value), 10 * power)


def _cut(text: str, width: float, size: int) -> str:
    """A text that is not wider than about ``width`` pixels."""
    room = max(1, int(width / (size * 0.55)))
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _text(
    x: float, y: float, text: str, size: int = 12, color: str = "#24292e", anchor: str = "start", bold: bool = False
) -> str:
    weight = ' font-weight="600"' if bold else ""
    at = f'x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{color}" text-anchor="{anchor}"{weight}'
    return f"<text {at}>{escape(text)}</text>"
