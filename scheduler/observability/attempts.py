"""Counts of attempts that Volcano names without ``_total``. The client library adds that suffix to every counter, so
these are exported as untyped metrics.
"""

from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import UnknownMetricFamily
from prometheus_client.registry import Collector


class AttemptFigures(Collector):
    """Since the process started."""

    def __init__(self) -> None:
        self._preemptions = 0
        self._retries: Counter[str] = Counter()

    def count(self, preemptions: int, unready: Iterable[str], present: Iterable[str]) -> None:
        """``preemptions``: nodes on which a session tried to evict for a Pod of the same queue; ``unready``: names of
        the jobs whose gang it left waiting, once for each; ``present``: of all there are."""
        self._preemptions += preemptions
        known = set(present)
        retries = self._retries.copy()
        retries.update(unready)
        self._retries = Counter({name: number for name, number in retries.items() if name in known})

    def collect(self) -> Iterable[UnknownMetricFamily]:
        yield UnknownMetricFamily(
            "volcano_total_preemption_attempts",
            "Nodes on which preempt tried to make room for a Pod",
            value=self._preemptions,
        )
        retries = UnknownMetricFamily(
            "volcano_job_retry_counts", "Sessions that left the gang of a job waiting", labels=["job_id"]
        )
        for name, number in sorted(self._retries.items()):
            retries.add_metric([name], number)
        yield retries
