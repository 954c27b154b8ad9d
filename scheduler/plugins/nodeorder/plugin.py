"""The plugin: kube-scheduler's scores (1.36), each 0 to 100, times Volcano's weights.

A score that would be the same on every node is left out: it decides nothing, and costs.
"""

from typing import ClassVar

from scheduler.api.job import Job
from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Score
from scheduler.framework.extension import NODE_ORDER
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session
from scheduler.plugins.complaint import complaint
from scheduler.plugins.nodeorder.affinity_scores import node_affinity, taint_toleration
from scheduler.plugins.nodeorder.amounts import BalancedScore, LeastScore, MostScore
from scheduler.plugins.nodeorder.images import image_locality
from scheduler.plugins.nodeorder.pod_scores import pod_affinity, topology_spread
from scheduler.plugins.pod_counts import PodCounts


@register_plugin
class NodeOrder:
    """Arguments, all integers: ``leastrequested.weight`` 1, ``mostrequested.weight`` 0, ``nodeaffinity.weight`` 2,
    ``podaffinity.weight`` 2, ``balancedresource.weight`` 1, ``tainttoleration.weight`` 3, ``imagelocality.weight`` 1,
    ``podtopologyspread.weight`` 2. Weight 0 switches a score off."""

    name: ClassVar[str] = "nodeorder"

    def __init__(self, arguments: Arguments) -> None:
        self._least = arguments.integer("leastrequested.weight", 1)
        self._most = arguments.integer("mostrequested.weight", 0)
        self._node_affinity = arguments.integer("nodeaffinity.weight", 2)
        self._pod_affinity = arguments.integer("podaffinity.weight", 2)
        self._balanced = arguments.integer("balancedresource.weight", 1)
        self._taints = arguments.integer("tainttoleration.weight", 3)
        self._images = arguments.integer("imagelocality.weight", 1)
        self._spread = arguments.integer("podtopologyspread.weight", 2)

    def open(self, session: Session) -> None:
        self._session = session
        self._counts = session.once(PodCounts)
        session.add(NODE_ORDER, self._scores)

    def _scores(self, cls: TaskClass, job: Job) -> list[Score]:
        session, nodes = self._session, self._session.nodes
        complain = complaint(session, cls, job)
        scores: list[Score] = []
        if self._least:
            scores.append(LeastScore(nodes, cls, self._least))
        if self._most:
            scores.append(MostScore(nodes, cls, self._most))
        if self._balanced and not cls.best_effort:
            scores.append(BalancedScore(nodes, cls, self._balanced, session.dimensions))
        if self._node_affinity:
            scores += node_affinity(nodes.facts, cls, self._node_affinity, complain)
        if self._taints:
            scores += taint_toleration(nodes.facts, cls, self._taints)
        if self._images:
            scores += image_locality(nodes.facts, cls, self._images)
        if self._pod_affinity:
            scores += pod_affinity(session, self._counts, cls, self._pod_affinity, complain)
        if self._spread:
            scores += topology_spread(session, self._counts, cls, self._spread, complain)
        return scores
