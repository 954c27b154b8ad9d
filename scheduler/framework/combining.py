"""Combines the answers of several plugins: the functions of an extension point, tier by tier."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from scheduler.api.task import Task
from scheduler.framework.extension import Combine, ExtensionPoint, Vote
from scheduler.framework.failures import AnswerError, name_of, place_of

Function = Callable[..., Any]
Veto = Callable[[Any, Task], bool]
"""veto(preemptor, task): True if the task must not be a victim."""
_NUMBER: Final = "a whole number"
_BOOLEAN: Final = "True or False"
_VOTE: Final = "a Vote (PERMIT, ABSTAIN or REJECT)"
_TASKS: Final = "a list of tasks"


class PluginFunctions:
    """The functions that plugins registered at all extension points."""

    def __init__(self, tiers: int) -> None:
        self._tiers = tiers
        self._by_point: dict[ExtensionPoint, list[list[Function]]] = {}
        self._vetoes: dict[ExtensionPoint, list[Veto]] = {}
        self._owners: dict[Function, tuple[str, Function]] = {}
        """Registered function -> the plugin, and the plugin's function from which it is made."""
        self._flat: dict[ExtensionPoint, list[Function]] = {}
        """The functions of all tiers, of the points that were used since the last function was added."""

    def insert(self, point: ExtensionPoint, tier: int, function: Function) -> None:
        self._flat.pop(point, None)
        self._by_point.setdefault(point, [[] for _ in range(self._tiers)])[tier].append(function)

    def move(self, point: ExtensionPoint, function: Function, behind: Function | None) -> None:
        """Moves a function right behind another one of the point, into its tier; None: in front of all."""
        self._flat.pop(point, None)
        tiers = self._by_point[point]
        for tier in tiers:
            tier[:] = [other for other in tier if other is not function]
        target = next((tier for tier in tiers if behind in tier), tiers[0])
        target.insert(target.index(behind) + 1 if behind is not None else 0, function)

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
        VOTE: a boolean. MAX (0 without any function) and SUM: a number. MIN: a number no greater than the last
        argument, which functions do not receive. VICTIMS, UNION and CHAIN: a list of tasks, selected from the last
        argument. EACH: all answers. Raises AnswerError if a function returns anything else."""
        functions = self.all_functions(point)
        match point.combine:
            case Combine.FIRST:
                for function in functions:
                    answer = function(*arguments)
                    if answer is not None:
                        if not isinstance(answer, point.gives):
                            self._wrong_answer(point, function, answer, f"{_named(point.gives)} or None")
                        return answer
                return None
            case Combine.ALL:
                return self._agree(point, functions, arguments)
            case Combine.TIER:
                first = next(filter(None, self.functions(point)), None)
                return first is not None and self._agree(point, first, arguments)
            case Combine.MAX:
                most = 0
                for function in functions:
                    number = function(*arguments)
                    if type(number) is not int and not is_whole(number):
                        self._wrong_answer(point, function, number, _NUMBER)
                    most = max(most, number)
                return most
            case Combine.MIN:
                *about, least = arguments
                for function in functions:
                    number = function(*about)
                    if type(number) is not int and not is_whole(number):
                        self._wrong_answer(point, function, number, _NUMBER)
                    least = min(least, number)
                    if least <= 0:
                        return 0
                return least
            case Combine.SUM:
                return sum(self._column(point, function, arguments) for function in functions)
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
                    if not isinstance(left, Sequence):
                        self._wrong_answer(point, function, left, _TASKS)
                return left
            case Combine.KEY:
                return self.combined_key(point)(*arguments)
            case Combine.EACH:
                answers = [function(*arguments) for function in functions]
                for function, answer in zip(functions, answers, strict=True):
                    if not isinstance(answer, point.gives):
                        self._wrong_answer(point, function, answer, _named(point.gives))
                return answers
            case Combine.CALL:
                for function in functions:
                    function(*arguments)
                return None

    def _agree(self, point: ExtensionPoint, functions: Sequence[Function], arguments: Sequence[Any]) -> bool:
        """Returns whether all functions return True."""
        for function in functions:
            answer = function(*arguments)
            if not isinstance(answer, bool | np.bool_):
                self._wrong_answer(point, function, answer, _BOOLEAN)
            if not answer:
                return False
        return True

    def _column(self, point: ExtensionPoint, function: Function, arguments: Sequence[Any]) -> Any:
        """Returns the answer of a function about each item of its last argument."""
        answer, number = function(*arguments), len(arguments[-1])
        if np.shape(answer) != (number,) or not np.isfinite(answer).all():
            self._wrong_answer(point, function, answer, f"a column of {number} finite numbers")
        return answer

    def _wrong_answer(self, point: ExtensionPoint, function: Function, answer: object, wanted: str) -> NoReturn:
        shown = " ".join(repr(answer).split())
        self._refuse_answer(point, function, f"{shown:.66}, not {wanted}")

    def _refuse_answer(self, point: ExtensionPoint, function: Function, problem: str) -> NoReturn:
        """Raises AnswerError. ``failures`` finds the plugin by the variables ``point`` and ``source``."""
        _, source = self._owners.get(function, ("", function))
        raise AnswerError(f"function {name_of(source)}{place_of(source)} returned {problem}")

    def _vote(self, point: ExtensionPoint, *arguments: object) -> bool:
        """Returns whether the vote passes, tier by tier: a rejection decides against it, else a permission decides for
        it. It passes if no function decides."""
        for tier in self.functions(point):
            permitted = False
            for function in tier:
                vote = function(*arguments)
                if vote is Vote.REJECT:
                    return False
                if vote is Vote.PERMIT:
                    permitted = True
                elif vote is not Vote.ABSTAIN:
                    self._wrong_answer(point, function, vote, _VOTE)
            if permitted:
                return True
        return True

    def _victims(self, point: ExtensionPoint, preemptor: object, candidates: Sequence[Task]) -> list[Task]:
        """Returns the tasks that all functions of a tier return, of the first tier with any; functions that return None
        abstain. If functions have no task in common although each returns some, the next function starts again with its
        own tasks, as in Volcano."""
        candidates = self._without_vetoed(point, preemptor, candidates)
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
        candidates = self._without_vetoed(point, None, candidates)
        for tier in self.functions(point):
            victims = {task.uid: task for function in tier for task in function(candidates) or ()}
            if victims:
                return list(victims.values())
        return []

    def _without_vetoed(self, point: ExtensionPoint, preemptor: Any, candidates: Sequence[Task]) -> Sequence[Task]:
        vetoes = self._vetoes.get(point)
        return [t for t in candidates if not any(v(preemptor, t) for v in vetoes)] if vetoes else candidates


def is_whole(number: object) -> bool:
    """Returns whether a value is a whole number; True and False are none."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _named(types: tuple[type, ...]) -> str:
    return " or ".join(f"a {type_.__name__}" for type_ in types)
