"""Why a job waits, what would let it run, and what would come of a change: read from sessions over a cluster in memory.

Nothing here decides anything. The very sessions that schedule are looked on (``witness``), questions are put to them
afterwards (``gates``, ``nodes``, ``scores``, ``evictions``), and changes are tried on copies of the cluster
(``search``), so that what is said is what would be.
"""

from scheduler.explain.difference import Difference, Picture, compare, picture
from scheduler.explain.explaining import explain
from scheduler.explain.explanation import Change, Explanation, NotThereError, Outlook
from scheduler.explain.laboratory import with_arguments

__all__ = [
    "Change",
    "Difference",
    "Explanation",
    "NotThereError",
    "Outlook",
    "Picture",
    "compare",
    "explain",
    "picture",
    "with_arguments",
]
