"""binpack: prefers nodes with high utilization, so that other nodes stay empty (Volcano's binpack plugin).

score = sum over requested resources of weight x (requested + used) / allocatable, divided by the sum of the weights,
x 100 x ``binpack.weight``; 0 on a node where one of these resources does not fit.
"""

from typing import ClassVar

from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Score
from scheduler.framework.plugin_session import PluginSession
from scheduler.framework.registry import register_plugin
from scheduler.plugins.support.utilization import UtilizationScore, resource_weights

FULL = 100.0


@register_plugin
class Binpack:
    """Arguments: ``binpack.weight`` (1; 0 disables the score), and those of ``resource_weights`` with the prefix
    ``binpack``."""

    name: ClassVar[str] = "binpack"

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("binpack.weight", 1)
        self._weights = resource_weights(arguments, "binpack")

    def open(self, session: PluginSession) -> None:
        self._session = session
        if self._weight:
            session.add_score(self._scores)

    def _scores(self, cls: TaskClass) -> list[Score]:
        known = ((self._session.dimensions.find(name), weight) for name, weight in self._weights.items())
        weights = {d: weight for d, weight in known if d is not None and cls.request[d] > 0}
        if not any(weights.values()):
            return []
        return [UtilizationScore(self._session.nodes, cls, weights, {}, FULL * self._weight)]
