"""A remedy: higher load thresholds."""

from collections.abc import Iterator
from functools import partial
from math import ceil
from typing import Final

from scheduler.api.names import CPU, MEMORY
from scheduler.framework.remedies.adjustments import Adjustment, ChangeKind, Plan, Step
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.registry import remedies
from scheduler.plugins.usage.plugin import Usage
from scheduler.plugins.usage.settings import Settings

_ALL: Final = 100
"""Per cent: the highest threshold."""


@remedies(Usage, ChangeKind.LOAD)
def raise_thresholds(evidence: Evidence, plugin: Usage) -> Iterator[Plan]:
    """Proposes to raise the thresholds of ``usage`` so that the least loaded of the refusing nodes passes."""
    usage = evidence.session.snapshot.usage
    if usage is None:
        return
    rows = evidence.rows[usage.known(evidence.session.now)[evidence.rows]]
    settings = Settings(evidence.session.arguments("usage"))
    measured = (("cpu", CPU, usage.cpu, settings.max_cpu), ("mem", MEMORY, usage.memory, settings.max_memory))
    adjustments = []
    for key, resource, load, most in measured:
        busy = load[rows][load[rows] > most]
        if len(busy):
            change, over = partial(_with_threshold, key, resource, int(most)), ceil(float(busy.min()) - most)
            adjustments.append(Adjustment(ChangeKind.LOAD, over, _ALL - int(most), change, resource))
    if adjustments:
        yield tuple(adjustments)


def _with_threshold(key: str, resource: str, now: int, amount: int) -> Step:
    text = f"raise usage's threshold of {resource} from {now}% to {now + amount}%"
    return Step(text, arguments={"usage": {"thresholds": {key: now + amount}}})
