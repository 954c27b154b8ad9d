"""The kinds of changes that are tried, one family a file."""

from scheduler.explain.changes.catalogue import catalogue
from scheduler.framework.remedies.adjustments import SHARING, Adjustment, ChangeKind, Key, Plan, Step
from scheduler.framework.remedies.evidence import Evidence

__all__ = ["SHARING", "Adjustment", "ChangeKind", "Evidence", "Key", "Plan", "Step", "catalogue"]
