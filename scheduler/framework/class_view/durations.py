"""How long a session searches for nodes: filters and scores apart, as Volcano's stages Predicate and Scoring.

A search finds nodes for all equal tasks that are placed together. The creation of filters and scores of a class counts
to the next search, which is in most cases the first one of that class.

All views of a session share the object, because they are many: each attribute of a view costs time.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class SearchDurations:
    """Durations in seconds."""

    filters: list[float] = field(default_factory=list)
    """One number for each search."""
    scores: list[float] = field(default_factory=list)
    """One number for each search."""
    creating_filters: float = 0.0
    """Not yet added to a search."""
    creating_scores: float = 0.0
    """Not yet added to a search."""
    filtering: float = 0.0
    """Seconds that the current search has spent in filters."""
