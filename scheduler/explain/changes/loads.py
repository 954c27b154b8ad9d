"""Changes to plugins' arguments that say how full the cluster may be: what is promised of it, how busy nodes are."""

from collections.abc import Iterator
from functools import partial
from math import ceil
from typing import Final

from scheduler.api.names import CPU, MEMORY
from scheduler.explain.changes.evidence import Evidence
from scheduler.explain.changes.lever import ChangeKind, Lever, Plan, Step
from scheduler.plugins.overcommit import DEFAULT_FACTOR
from scheduler.plugins.usage.settings import Settings

_HUNDREDTHS: Final = 100
_ALL: Final = 100
"""Per cent."""
_SPARE: Final = 4


# --- overcommit ---
def raise_overcommit(evidence: Evidence) -> Iterator[Plan]:
    """Let more be promised than the cluster has."""
    shortages = [s for gate in evidence.gates if gate.plugin == "overcommit" for s in gate.shortages]
    if not shortages:
        return
    session = evidence.session
    factor = evidence.session.arguments("overcommit").number("overcommit-factor", DEFAULT_FACTOR, least=1)
    total = {name: float(session.total[d]) for d, name in enumerate(session.dimensions.names)}
    parts = [s.missing / total[s.resource] for s in shortages if total.get(s.resource)]
    guess = max([1, *(ceil(part * _HUNDREDTHS) for part in parts)])

    def at(degree: int) -> Step:
        then = round(factor + degree / _HUNDREDTHS, 2)
        text = f"raise overcommit's argument overcommit-factor from {factor:g} to {then:g}"
        return Step(text, arguments={"overcommit": {"overcommit-factor": then}})

    yield (Lever(ChangeKind.OVERCOMMIT, guess, guess * _SPARE + _HUNDREDTHS, at),)


# --- usage ---
def raise_thresholds(evidence: Evidence) -> Iterator[Plan]:
    """Let nodes take Pods that are busier than the thresholds of ``usage`` say, by as much as the idlest of them is."""
    usage = evidence.session.snapshot.usage
    if usage is None or "usage" not in evidence.plugins():
        return
    rows = evidence.rows[usage.known(evidence.session.now)[evidence.rows]]
    settings = Settings(evidence.session.arguments("usage"))
    measured = (("cpu", CPU, usage.cpu, settings.most_cpu), ("mem", MEMORY, usage.memory, settings.most_memory))
    levers = []
    for key, resource, load, most in measured:
        busy = load[rows][load[rows] > most]
        if len(busy):
            change, over = partial(_with_threshold, key, resource, int(most)), ceil(float(busy.min()) - most)
            levers.append(Lever(ChangeKind.LOAD, over, _ALL - int(most), change, resource))
    if levers:
        yield tuple(levers)


def _with_threshold(key: str, resource: str, now: int, degree: int) -> Step:
    text = f"raise usage's threshold of {resource} from {now}% to {now + degree}%"
    return Step(text, arguments={"usage": {"thresholds": {key: now + degree}}})
