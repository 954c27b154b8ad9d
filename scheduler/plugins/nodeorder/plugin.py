"""nodeorder: the scores of kube-scheduler 1.36, each from 0 to 100, multiplied by Volcano's weights.

A score that is equal on all nodes is left out, because it changes no decision.
"""

from typing import ClassVar

from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Score
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session
from scheduler.plugins.nodeorder.images import image_locality
from scheduler.plugins.nodeorder.node_scores import node_affinity, taint_toleration
from scheduler.plugins.nodeorder.pod_scores import pod_affinity, topology_spread
from scheduler.plugins.nodeorder.utilization import BalancedAllocation, LeastAllocated, MostAllocated
from scheduler.plugins.support.field_reporter import field_reporter
from scheduler.plugins.support.pod_counts import PodCounts


@register_plugin
class NodeOrder:
    """Arguments, all integers: ``leastrequested.weight`` 1, ``mostrequested.weight`` 0, ``nodeaffinity.weight`` 2,
    ``podaffinity.weight`` 2, ``balancedresource.weight`` 1, ``tainttoleration.weight`` 3, ``imagelocality.weight`` 1,
    ``podtopologyspread.weight`` 2. Weight 0 disables a score."""

    name: ClassVar[str] = "nodeorder"

    def __init__(self, arguments: Arguments) -> None:
        self._least_requested = arguments.integer("leastrequested.weight", 1)
        self._most_requested = arguments.integer("mostrequested.weight", 0)
        self._node_affinity = arguments.integer("nodeaffinity.weight", 2)
        self._pod_affinity = arguments.integer("podaffinity.weight", 2)
        self._balanced = arguments.integer("balancedresource.weight", 1)
        self._taints = arguments.integer("tainttoleration.weight", 3)
        self._images = arguments.integer("imagelocality.weight", 1)
        self._spread = arguments.integer("podtopologyspread.weight", 2)

    def open(self, session: Session) -> None:
        self._session = session
        self._counts = session.once(PodCounts)
        session.add_score(self._scores)

    def _scores(self, cls: TaskClass) -> list[Score]:
        session, nodes = self._session, self._session.nodes
        report = field_reporter(session, cls)
        scores: list[Score] = []
        if self._least_requested:
            scores.append(LeastAllocated(nodes, cls, self._least_requested))
        if self._most_requested:
            scores.append(MostAllocated(nodes, cls, self._most_requested))
        if self._balanced and not cls.best_effort:
            scores.append(BalancedAllocation(nodes, cls, self._balanced, session.dimensions))
        if self._node_affinity:
            scores += node_affinity(nodes.facts, cls, self._node_affinity, report)
        if self._taints:
            scores += taint_toleration(nodes.facts, cls, self._taints)
        if self._images:
            scores += image_locality(nodes.facts, cls, self._images)
        if self._pod_affinity:
            scores += pod_affinity(session, self._counts, cls, self._pod_affinity, report)
        if self._spread:
            scores += topology_spread(session, self._counts, cls, self._spread, report)
        return scores
