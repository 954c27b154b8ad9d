"""Why something was refused, as data that a person can read.

A refusal is written once, where it happens, and everything that speaks of it (Events, conditions, metrics, the command
line) is a view of that record. Reasons of nodes are aggregated per text, so that five thousand nodes cost one line.
"""

import dataclasses
from collections import Counter
from dataclasses import dataclass, field

from scheduler.api.names import EVENT_MALFORMED
from scheduler.api.resource import format_amount


@dataclass(frozen=True, slots=True)
class Shortage:
    """One resource of which less is left than was asked for. Amounts are in the units of vectors."""

    resource: str
    """Its name, or that of a card."""
    asked: float
    used: float
    """In use or promised."""
    limit: float
    kind: str
    """Of what there is a limit: the kind of an object; "Cluster" for the sum of all nodes."""
    name: str = ""
    """``namespace/name`` or name of the object; for a Node "": the one that has most free."""

    @property
    def free(self) -> float:
        return self.limit - self.used

    @property
    def missing(self) -> float:
        """How much more would have to be free."""
        return max(self.asked - self.free, 0.0)


@dataclass(slots=True)
class FitErrors:
    """Why the tasks of one class found no node."""

    nodes: int
    """Number of nodes looked at."""
    hyper_node: str = ""
    """The HyperNode whose nodes these are; "": they are all there are."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Text -> number of nodes it holds on. One node may have several."""
    shortages: list[Shortage] = field(default_factory=list)
    """For each resource that some node lacks, what the node has that has most."""
    note: str = ""
    """A refusal that concerns the task, not a node (quota, a claim that does not exist); stands before the counts."""
    note_shortages: tuple[Shortage, ...] = ()
    """The numbers behind the note, where it is about amounts."""

    def message(self) -> str:
        """``0/5 nodes are unavailable: 2 Insufficient cpu, 3 node(s) were unschedulable.``, then what lacks."""
        if self.note and not self.reasons:
            return self.note
        if not self.reasons:
            return "all nodes are unavailable"
        parts = sorted(f"{count} {reason}" for reason, count in self.reasons.items())
        text = f"0/{self.nodes} nodes are unavailable: {', '.join(parts)}."
        if self.shortages:
            text += f" ({'; '.join(map(_most_free, self.shortages))})"
        if self.hyper_node:
            text = f"In hyperNode {self.hyper_node}: {text}"
        return f"{self.note}; {text}" if self.note else text


def _most_free(shortage: Shortage) -> str:
    """``cpu: asked 4, most free on one node 1500m``"""
    asked, free = (format_amount(shortage.resource, amount) for amount in (shortage.asked, shortage.free))
    return f"{shortage.resource}: asked {asked}, most free on one node {free}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A job or task is refused, by what and why."""

    reason: str
    """CamelCase word for conditions and metrics."""
    message: str
    """The sentence for people, with numbers: asked, used, limit, where."""
    shortages: tuple[Shortage, ...] = ()
    """The same numbers as data."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A field of an object that could not be used and was set aside."""

    kind: str
    namespace: str
    name: str
    field: str
    problem: str
    consequence: str = "ignored"
    reason: str = EVENT_MALFORMED
    """Of the Event about it."""
    figures: str = dataclasses.field(default="", compare=False)
    """Numbers of the moment; that they change is not reported again."""
    uid: str = ""
    """Of the object, where it is known."""

    @property
    def message(self) -> str:
        text = f"{self.field}: {self.problem}; {self.consequence}"
        return f"{text}: {self.figures}" if self.figures else text
