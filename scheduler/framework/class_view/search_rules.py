"""How a session searches for nodes, and how long it takes.

Durations count filters and scores apart, as Volcano's stages Predicate and Scoring. A search finds nodes for all equal
tasks that are placed together. The creation of filters and scores of a class counts to the next search, which is in
most cases the first one of that class.
"""

from dataclasses import dataclass, field
from typing import NoReturn

import msgspec

from scheduler.framework.columns import ColumnFailure


@dataclass(slots=True)
class SearchDurations:
    """Durations in seconds."""

    filters: list[float] = field(default_factory=list)
    """What each search spent in filters."""
    scores: list[float] = field(default_factory=list)
    """What each search spent in scores."""
    creating_filters: float = 0.0
    """What the creation of filters took that no search counts yet."""
    creating_scores: float = 0.0
    """What the creation of scores took that no search counts yet."""
    filtering: float = 0.0
    """What the current search has spent in filters."""


def _raise(column: object, method: str, error: Exception, row: int | None = None) -> NoReturn:
    raise error


class SearchRules(msgspec.Struct, frozen=True):
    """What all views of a session have in common. They share it because they are many: each attribute of a view costs
    time."""

    limit: int = 0
    """The largest number of candidate nodes, in the order of names (``--percentage-nodes-to-find``); 0: no limit."""
    durations: SearchDurations = msgspec.field(default_factory=SearchDurations)
    """Where searches are recorded."""
    fail: ColumnFailure = _raise
    """Raises exceptions of filters and scores; by default unchanged."""
