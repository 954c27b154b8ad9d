"""The changes that ``explain`` tries, one module for each area."""

from scheduler.explain.changes.catalogue import catalogue
from scheduler.framework.remedies.adjustments import REDISTRIBUTING, Adjustment, ChangeKind, Key, Plan, Step
from scheduler.framework.remedies.evidence import Evidence

__all__ = ["REDISTRIBUTING", "Adjustment", "ChangeKind", "Evidence", "Key", "Plan", "Step", "catalogue"]
