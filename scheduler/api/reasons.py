"""Why something was refused, as data that a person can read.

A refusal is written once, where it happens, and everything that speaks of it (Events, conditions, metrics, the command
line) is a view of that record. Reasons of nodes are aggregated per text, so that five thousand nodes cost one line.
"""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class FitErrors:
    """Why the tasks of one class found no node."""

    nodes: int
    """Number of nodes looked at."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Text -> number of nodes it holds on. One node may have several."""
    shortages: list[str] = field(default_factory=list)
    """``cpu: asked 4, most free on one node 1500m``, for each resource that some node lacks."""
    note: str = ""
    """A refusal that concerns the task, not a node (quota, a claim that does not exist); stands before the counts."""

    def message(self) -> str:
        """``0/5 nodes are unavailable: 2 Insufficient cpu, 3 node(s) were unschedulable.``, then what lacks."""
        if self.note and not self.reasons:
            return self.note
        if not self.reasons:
            return "all nodes are unavailable"
        parts = sorted(f"{count} {reason}" for reason, count in self.reasons.items())
        text = f"0/{self.nodes} nodes are unavailable: {', '.join(parts)}."
        if self.shortages:
            text += f" ({'; '.join(self.shortages)})"
        return f"{self.note}; {text}" if self.note else text


@dataclass(frozen=True, slots=True)
class Refusal:
    """A job or task is refused, by what and why."""

    reason: str
    """CamelCase word for conditions and metrics."""
    message: str
    """The sentence for people, with numbers: asked, used, limit, where."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A field of an object that could not be used and was set aside."""

    kind: str
    namespace: str
    name: str
    field: str
    problem: str
    consequence: str = "ignored"

    @property
    def message(self) -> str:
        return f"{self.field}: {self.problem}; {self.consequence}"
