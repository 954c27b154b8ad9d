"""Explains why a job waits, which changes would let it run, what the effect of a change is, and whether a job would run
if it were submitted (``can_run``).

This package makes no scheduling decision. It traces real sessions over an in-memory cluster (``traced_session``), reads
their end state (``gates``, ``nodes``, ``evictions``), and tries changes on copies of the cluster
(``search``, ``trials``). An explanation therefore matches what the scheduler does.
"""

from scheduler.explain.difference import ClusterState, Difference, cluster_state, compare
from scheduler.explain.explaining import explain
from scheduler.explain.explanation import Change, Explanation, NotFoundError, Outlook
from scheduler.explain.trials import with_arguments

__all__ = [
    "Change",
    "ClusterState",
    "Difference",
    "Explanation",
    "NotFoundError",
    "Outlook",
    "cluster_state",
    "compare",
    "explain",
    "with_arguments",
]
