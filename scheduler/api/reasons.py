"""Why something was refused, as data.

A refusal is recorded once, where it happens. Events, conditions, metrics and the command line show that record. Reasons
of nodes are counted per text, so that one line covers thousands of nodes.
"""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.api.names import EVENT_MALFORMED
from scheduler.api.resource import format_amount

_TYPE_NAMES: Final = re.compile("`([^`]*)`")
_JSON_TYPES: Final = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bool": "a boolean",
    "array": "a list",
    "object": "an object",
}
"""A type, as msgspec names it, in words."""


AFTER_ADMISSION: Final = "once it is admitted"
"""When the controller creates the Pods of a job that waits in its queue."""


def no_such_object(kind: str, namespace: str, name: str, creator: str = "", creates: str = AFTER_ADMISSION) -> str:
    """The answer to a question about an object that does not exist. ``creator``: the vcjob that will create a Pod of
    this name, or ""; ``creates``: when."""
    hint = f"; job {creator} creates it {creates}: explain job {creator}" if creator else ""
    return f"there is no {kind} {name} in namespace {namespace}{hint}"


class Shortage(msgspec.Struct, frozen=True):
    """A resource with less free than requested. Amounts are in the units of vectors."""

    resource: str
    """Name of the resource or the card."""
    asked: float
    used: float
    """The amount that is in use or reserved."""
    limit: float
    kind: str
    """Kind of the object that sets the limit; "Cluster" for the sum of all nodes."""
    name: str = ""
    """``namespace/name`` or name of the object; "" for a Node: the one with the most free."""

    @property
    def free(self) -> float:
        return self.limit - self.used

    @property
    def missing(self) -> float:
        """The amount that is missing to meet the request."""
        return max(self.asked - self.free, 0.0)


@dataclass(slots=True)
class FitErrors:
    """Why the tasks of one class found no node."""

    nodes: int
    """Number of nodes considered."""
    hyper_node: str = ""
    """The HyperNode of the considered nodes; "": all nodes of the cluster."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Reason -> number of nodes with it. A node may have several reasons."""
    shortages: list[Shortage] = field(default_factory=list)
    """The free amount of the node that has the most, for each insufficient resource."""
    note: str = ""
    """A refusal of the task regardless of nodes (quota, a missing claim). It precedes the counts in the message."""
    note_shortages: tuple[Shortage, ...] = ()
    """The numbers of the note, if it is about amounts."""

    def message(self) -> str:
        """``0/5 nodes are unavailable: 2 Insufficient cpu, 3 node(s) were unschedulable.``, then the shortages."""
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
    place = shortage.kind if shortage.kind not in ("Node", "Cluster") else "node"
    asked, free = (format_amount(shortage.resource, amount) for amount in (shortage.asked, shortage.free))
    return f"{shortage.resource}: asked {asked}, most free on one {place} {free}"


class Refusal(msgspec.Struct, frozen=True):
    """Why a job or a task was refused."""

    reason: str
    """CamelCase reason for conditions and metrics."""
    message: str
    """Message for users, with numbers: requested, used, limit, where."""
    shortages: tuple[Shortage, ...] = ()
    """The same numbers as data."""


IGNORED: Final = "ignored"
"""What usually follows from a malformed field."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """A field of an object that cannot be used and is ignored."""

    kind: str
    namespace: str
    name: str
    field: str
    problem: str
    consequence: str = IGNORED
    reason: str = EVENT_MALFORMED
    """Reason of the Event."""
    figures: str = dataclasses.field(default="", compare=False)
    """Present numbers. A change of them alone is not reported again."""
    uid: str = ""
    """uid of the object, if known."""
    resolved: str = dataclasses.field(default="", compare=False)
    """Message of a Normal Event when this is reported no longer; "": there is none."""

    @property
    def message(self) -> str:
        text = f"{self.field}: {self.problem}; {self.consequence}"
        return f"{text}: {self.figures}" if self.figures else text


MAX_FIELDS: Final = 10
"""Malformed fields of an object that are reported one by one."""


def first_fields(problems: Iterable[Malformed]) -> list[Malformed]:
    """Returns at most ten problems of each object, in their order. The last of more names the number of the others, so
    that an object with thousands of malformed fields does not cause as many Events."""
    by_object: dict[tuple[str, str, str], list[Malformed]] = {}
    for problem in problems:
        by_object.setdefault((problem.kind, problem.namespace, problem.name), []).append(problem)
    result = []
    for found in by_object.values():
        result += found[:MAX_FIELDS]
        if len(found) > MAX_FIELDS:
            last = result[-1]
            others = f"{last.field} and {len(found) - MAX_FIELDS} more fields"
            result[-1] = dataclasses.replace(last, field=others)
    return result


def field_and_problem(error: Exception) -> tuple[str, str]:
    """The field of an error of msgspec (such as ``spec.minMember``; "" for the object itself), and its problem, in the
    words of JSON: ``expected an integer, got a string``."""
    problem, _, path = str(error).partition(" - at `")
    if problem.startswith("Expected `"):
        problem = _TYPE_NAMES.sub(_json_types, problem.replace("Expected", "expected", 1))
    return path.rstrip("`").removeprefix("$").removeprefix("."), problem


def _json_types(names: re.Match[str]) -> str:
    return " or ".join(_JSON_TYPES.get(name, name) for name in names[1].split(" | "))
