"""How long a session searches for nodes: filters and scores apart, as Volcano's stages Predicate and Scoring.

A search finds nodes for all equal tasks that are placed together. The first search of a class also creates its filters
and scores.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class SearchDurations:
    """Seconds, one number for each search."""

    filters: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
