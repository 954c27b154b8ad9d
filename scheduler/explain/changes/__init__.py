"""The kinds of changes that are tried, one family a file."""

from scheduler.explain.changes.catalogue import catalogue
from scheduler.explain.changes.evidence import Evidence
from scheduler.explain.changes.lever import ChangeKind, Lever, Plan, Step

__all__ = ["ChangeKind", "Evidence", "Lever", "Plan", "Step", "catalogue"]
