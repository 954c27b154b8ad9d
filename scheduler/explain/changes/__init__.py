"""The kinds of changes that are tried, one family a file."""

from scheduler.explain.changes.catalogue import catalogue
from scheduler.explain.changes.evidence import Evidence
from scheduler.explain.changes.lever import SHARING, ChangeKind, Key, Lever, Plan, Step

__all__ = ["SHARING", "ChangeKind", "Evidence", "Key", "Lever", "Plan", "Step", "catalogue"]
