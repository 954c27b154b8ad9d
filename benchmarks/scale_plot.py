"""Draws lines over the number of Pods as an SVG image: a logarithmic axis of Pods, and linear axes from 0."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import ceil, log10

Lines = Mapping[str, Sequence[float]]
"""Maps a name to one value for each number of Pods."""

WIDTH, HEIGHT = 440, 300
"""The pixels of a panel."""
LEFT, RIGHT, TOP, BOTTOM = 44, 16, 36, 64
"""The margins of the axes in a panel."""
COLORS = ("#3274d9", "#56a64b", "#ff780a", "#8f3bb8")


def draw(title: str, pods: Sequence[int], panels: Sequence[tuple[str, Lines]]) -> str:
    """The SVG document. ``panels``: (heading, lines), drawn from left to right."""
    width, height = WIDTH * len(panels), HEIGHT + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        _text(10, 22, title, size=16, weight="600"),
    ]
    for i, (heading, lines) in enumerate(panels):
        parts += [f'<g transform="translate({WIDTH * i} 30)">', *_panel(heading, pods, lines), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(heading: str, pods: Sequence[int], lines: Lines) -> Iterator[str]:
    step = _step(max(value for values in lines.values() for value in values))
    steps = ceil(max(value for values in lines.values() for value in values) / step)
    left, right, top, bottom = LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM

    def x(number: int) -> float:
        span = log10(max(pods)) - log10(min(pods))
        return left + (right - left - 30) * (log10(number) - log10(min(pods))) / (span or 1.0) + 15

    def y(value: float) -> float:
        return bottom - (bottom - top) * value / (step * steps)

    yield _text(10, 18, heading, size=13, weight="600")
    for i in range(steps + 1):
        yield f'<line x1="{left}" x2="{right}" y1="{y(step * i):.1f}" y2="{y(step * i):.1f}" stroke="#e4e6e8"/>'
        yield _text(left - 6, y(step * i) + 4, f"{step * i:g}", anchor="end")
    for number in pods:
        yield _text(x(number), bottom + 18, f"{number:,}", anchor="middle")
    yield _text((left + right) / 2, bottom + 36, "Pods", anchor="middle")
    for i, (color, (name, values)) in enumerate(zip(COLORS, lines.items(), strict=False)):
        points = [(x(number), y(value)) for number, value in zip(pods, values, strict=True)]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
        yield from (f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{color}"/>' for a, b in points)
        at = left + i * 128
        yield f'<rect x="{at}" y="{HEIGHT - 18}" width="12" height="4" fill="{color}"/>'
        yield _text(at + 17, HEIGHT - 12, name)


def _step(top: float) -> float:
    """The distance of grid lines: 1, 2 or 5 times a power of ten, so that there are four to eight."""
    power = 10.0 ** ceil(log10(top / 8))
    return next(step for step in (power / 5, power / 2, power) if top / step <= 8)


def _text(x: float, y: float, text: str, *, size: int = 11, anchor: str = "start", weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="#24292e" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )
