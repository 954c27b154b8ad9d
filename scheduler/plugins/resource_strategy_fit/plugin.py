"""The plugin: scores by strategy and by scarce resources, and a filter that keeps cpu and memory for cards."""

from typing import ClassVar

from scheduler.api.task import TaskClass
from scheduler.framework.arguments import Arguments
from scheduler.framework.columns import Filter, PinUse, Score, StaticScore
from scheduler.framework.registry import register_plugin
from scheduler.framework.session import Session
from scheduler.plugins.resource_strategy_fit.scarce import Proportions, ScarceResourceScore
from scheduler.plugins.resource_strategy_fit.strategy import (
    FULL,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    StrategyError,
    read_strategies,
    strategies_of,
)
from scheduler.plugins.support.utilization import UtilizationScore

DEFAULT_WEIGHT = 10


@register_plugin
class ResourceStrategyFit:
    """Arguments: ``resourceStrategyFitWeight`` (10; 0 switches the strategies off),
    ``resources`` (name or ``prefix*`` -> ``type`` LeastAllocated or MostAllocated, and ``weight``; default: cpu and
    memory LeastAllocated 1), ``sra`` and ``proportional`` (see ``scarce``). The annotations
    ``volcano.sh/resource-strategy-scoring-type`` and ``volcano.sh/resource-strategy-weight`` (JSON) of a Pod override
    the strategies."""

    name: ClassVar[str] = "resource-strategy-fit"

    def __init__(self, arguments: Arguments) -> None:
        self._weight = arguments.integer("resourceStrategyFitWeight", DEFAULT_WEIGHT, least=0)
        self._strategies = read_strategies(arguments)
        self._sra = ScarceResourceScore(arguments.nested("sra"))
        self._proportions = Proportions(arguments.nested("proportional"))

    def open(self, session: Session) -> None:
        self._session = session
        session.add_filter(self._filters, pin=PinUse.IGNORED)
        session.add_score(self._scores)

    def _filters(self, cls: TaskClass) -> list[Filter]:
        return [*self._proportions.filters(self._session.nodes, self._session.dimensions, cls)]

    def _scores(self, cls: TaskClass) -> list[Score]:
        session, nodes = self._session, self._session.nodes
        scores: list[Score] = []
        if self._weight:
            try:
                strategies = strategies_of(cls, session.dimensions, self._strategies)
            except StrategyError as error:
                session.malformed_pod(cls, f"metadata.{error.field}", error.problem)
                strategies = {}
            if strategies:
                taken, left = (
                    {d: s.weight for d, s in strategies.items() if s.type == t}
                    for t in (MOST_ALLOCATED, LEAST_ALLOCATED)
                )
                scores.append(UtilizationScore(nodes, cls, taken, left, FULL * self._weight))
        if self._sra.weight:
            scores.append(StaticScore(self._sra.column(nodes, session.dimensions, cls)))
        return scores
