"""Combines the answers of several plugins: the functions of an extension point, tier by tier."""

from collections.abc import Callable, Sequence
from typing import Any

from scheduler.api.task import Task
from scheduler.framework.extension import Combine, ExtensionPoint, Vote

Function = Callable[..., Any]
Veto = Callable[[Any, Task], bool]
"""veto(preemptor, task): True if the task must not be a victim."""


class PluginFunctions:
    """The functions that plugins registered at all extension points."""

    def __init__(self, tiers: int) -> None:
        self._tiers = tiers
        self._by_point: dict[ExtensionPoint, list[list[Function]]] = {}
        self._vetoes: dict[ExtensionPoint, list[Veto]] = {}
        self._flat: dict[ExtensionPoint, list[Function]] = {}
        """The functions of all tiers, of the points that were used since the last function was added."""

    def insert(self, point: ExtensionPoint, tier: int, function: Function) -> None:
        self._flat.pop(point, None)
        self._by_point.setdefault(point, [[] for _ in range(self._tiers)])[tier].append(function)

    def insert_veto(self, point: ExtensionPoint, veto: Veto) -> None:
        """Adds a veto, which overrides the answers of all plugins and tiers."""
        self._vetoes.setdefault(point, []).append(veto)

    def functions(self, point: ExtensionPoint) -> list[list[Function]]:
        """Returns the functions registered at a point, tier by tier."""
        return self._by_point.get(point) or []

    def all_functions(self, point: ExtensionPoint) -> list[Function]:
        """Returns the functions of all tiers, the first tier's in front. Callers must not change the list."""
        functions = self._flat.get(point)
        if functions is None:
            functions = self._flat[point] = [function for tier in self.functions(point) for function in tier]
        return functions

    def combined_key(self, point: ExtensionPoint) -> Callable[..., tuple[Any, ...]]:
        """Returns the function that computes the sort key of a KEY point."""
        functions = self.all_functions(point)
        return lambda *subject: tuple([function(*subject) for function in functions])

    def ask(self, point: ExtensionPoint, *arguments: Any) -> Any:
        """Returns the combined answer. FIRST: the first answer that is not None (or None). KEY: a tuple. ALL, TIER and
        VOTE: a boolean. MOST (0 without any function) and SUM: a number. LEAST: a number no greater than the last
        argument, which functions do not receive. VICTIMS, UNION and CHAIN: a list of tasks, selected from the last
        argument. EACH: all answers."""
        functions = self.all_functions(point)
        match point.combine:
            case Combine.FIRST:
                answers = (function(*arguments) for function in functions)
                return next((answer for answer in answers if answer is not None), None)
            case Combine.ALL:
                return all(function(*arguments) for function in functions)
            case Combine.TIER:
                first = next(filter(None, self.functions(point)), None)
                return first is not None and all(function(*arguments) for function in first)
            case Combine.MOST:
                return max((function(*arguments) for function in functions), default=0)
            case Combine.LEAST:
                *about, least = arguments
                for function in functions:
                    least = min(least, function(*about))
                    if least <= 0:
                        return 0
                return least
            case Combine.SUM:
                return sum(function(*arguments) for function in functions)
            case Combine.VOTE:
                return self._vote(point, *arguments)
            case Combine.VICTIMS:
                return self._victims(point, *arguments)
            case Combine.UNION:
                return self._union(point, *arguments)
            case Combine.CHAIN:
                *about, left = arguments
                for function in functions:
                    left = function(*about, left)
                return left
            case Combine.KEY:
                return self.combined_key(point)(*arguments)
            case Combine.EACH:
                return [function(*arguments) for function in functions]
            case Combine.CALL:
                for function in functions:
                    function(*arguments)
                return None

    def _vote(self, point: ExtensionPoint, *arguments: object) -> bool:
        """Returns whether the vote passes, tier by tier: a rejection decides against it, else a permission decides for
        it. It passes if no function decides."""
        for tier in self.functions(point):
            permitted = False
            for function in tier:
                vote = function(*arguments)
                if vote is Vote.REJECT:
                    return False
                permitted = permitted or vote is Vote.PERMIT
            if permitted:
                return True
        return True

    def _victims(self, point: ExtensionPoint, preemptor: object, candidates: Sequence[Task]) -> list[Task]:
        """Returns the tasks that all functions of a tier return, of the first tier with any; functions that return None
        abstain. If functions have no task in common although each returns some, the next function starts again with its
        own tasks, as in Volcano."""
        candidates = self._unspared(point, preemptor, candidates)
        for tier in self.functions(point):
            victims: list[Task] | None = None
            for function in tier:
                chosen = function(preemptor, candidates)
                if chosen is None:
                    continue
                if not chosen:
                    victims = None
                    break
                if victims is None:
                    victims = list(chosen)
                else:
                    allowed = {task.uid for task in chosen}
                    victims = [task for task in victims if task.uid in allowed] or None
            if victims:
                return victims
        return []

    def _union(self, point: ExtensionPoint, candidates: Sequence[Task]) -> list[Task]:
        """Returns the tasks that any function of a tier returns, of the first tier with any."""
        candidates = self._unspared(point, None, candidates)
        for tier in self.functions(point):
            victims = {task.uid: task for function in tier for task in function(candidates) or ()}
            if victims:
                return list(victims.values())
        return []

    def _unspared(self, point: ExtensionPoint, preemptor: Any, candidates: Sequence[Task]) -> Sequence[Task]:
        vetoes = self._vetoes.get(point)
        return [t for t in candidates if not any(v(preemptor, t) for v in vetoes)] if vetoes else candidates
