"""Higher thresholds of load, so that busy nodes take Pods."""

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
"""Per cent."""


@remedies(Usage, ChangeKind.LOAD)
def raise_thresholds(evidence: Evidence, plugin: Usage) -> Iterator[Plan]:
    """Let nodes take Pods that are busier than the thresholds of ``usage`` say, by as much as the idlest of them is."""
    usage = evidence.session.snapshot.usage
    if usage is None:
        return
    rows = evidence.rows[usage.known(evidence.session.now)[evidence.rows]]
    settings = Settings(evidence.session.arguments("usage"))
    measured = (("cpu", CPU, usage.cpu, settings.most_cpu), ("mem", MEMORY, usage.memory, settings.most_memory))
    adjustments = []
    for key, resource, load, most in measured:
        busy = load[rows][load[rows] > most]
        if len(busy):
            change, over = partial(_with_threshold, key, resource, int(most)), ceil(float(busy.min()) - most)
            adjustments.append(Adjustment(ChangeKind.LOAD, over, _ALL - int(most), change, resource))
    if adjustments:
        yield tuple(adjustments)


def _with_threshold(key: str, resource: str, now: int, degree: int) -> Step:
    text = f"raise usage's threshold of {resource} from {now}% to {now + degree}%"
    return Step(text, arguments={"usage": {"thresholds": {key: now + degree}}})
