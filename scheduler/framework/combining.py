"""Combines the answers of several plugins: the functions of an extension point, tier by tier."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final, NoReturn, Protocol

import numpy as np

from scheduler.api.job import Job
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import PinUse
from scheduler.framework.eviction_candidates import Bound, Most
from scheduler.framework.extension import Combine, ExtensionPoint, Vote
from scheduler.framework.failures import AnswerError, name_of, place_of, raise_as

Function = Callable[..., Any]
Veto = Callable[[Any, Task], bool]
"""veto(preemptor, task): True if the task must not be a victim."""
Part = Callable[[Job], Hashable]
"""Returns what an answer depends on besides the class: a value of the job."""
_NUMBER: Final = "a whole number"
_BOOLEAN: Final = "True or False"
_VOTE: Final = "a Vote (PERMIT, ABSTAIN or REJECT)"
_TASKS: Final = "a list of tasks"


class AllocateHandler(Protocol):
    def __call__(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool, /) -> None:
        """Is called when tasks of one class are placed. It may raise AllocationError."""


class DeallocateHandler(Protocol):
    def __call__(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], /) -> None:
        """Is called when tasks of one class are evicted, or a placement is undone."""


class PluginFunctions:
    """The functions that plugins registered, at all extension points and besides. ``Registration`` adds them."""

    def __init__(self, tiers: int) -> None:
        """``tiers``: the number of tiers in the configuration."""
        self._tiers = tiers
        self._by_point: dict[ExtensionPoint, list[list[Function]]] = {}
        self._vetoes: dict[ExtensionPoint, list[Veto]] = {}
        self._owners: dict[Function, tuple[str, Function]] = {}
        """Registered function -> the plugin, and the plugin's function from which it is made."""
        self._flat: dict[ExtensionPoint, list[Function]] = {}
        """The functions of all tiers, of the points that were used since the last function was added."""
        self.allocate_handlers: list[AllocateHandler] = []
        self.deallocate_handlers: list[DeallocateHandler] = []
        self.bounds: dict[Function, Bound] = {}
        """Victim function -> its bound; a function without one may approve any task."""
        self.most_losses: list[Most] = []
        """The functions that say what queues can lose at most."""
        self.moving_orders: set[ExtensionPoint] = set()
        """The orders in which a placement may change the keys of other jobs or queues."""
        self.task_order_is_fixed = True
        """Whether the tasks of a job that waits have the same order in every session with the same configuration."""
        self.by_task: set[ExtensionPoint] = set()
        """The points with a function whose answer may depend on more than the demand (see ``add_preemptable`` and
        ``add_job_pipelined``)."""
        self.parts: list[Part] = []
        """The parts of a view's key besides the class."""
        self.part_points: list[ExtensionPoint] = []
        """The extension point of each part."""
        self.claim_states: list[Callable[[TaskClass], object]] = []
        self.pin_uses: set[PinUse] = set()
        """The ``pin`` of each function that returns Filters."""

    def insert(
        self, point: ExtensionPoint, tier: int, function: Function, plugin: str, source: Function | None = None
    ) -> None:
        """Adds a function of a plugin. ``source``: the plugin's function that ``function`` wraps."""
        self._flat.pop(point, None)
        self._by_point.setdefault(point, [[] for _ in range(self._tiers)])[tier].append(function)
        self._owners[function] = (plugin, source or function)

    def own(self, function: Function, plugin: str) -> None:
        """Remembers the plugin of a function that is not registered at an extension point itself."""
        self._owners.setdefault(function, (plugin, function))

    def plugin_of(self, function: Function) -> str:
        """Returns the plugin that registered a function."""
        return self._owners.get(function, ("", function))[0]

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

        def key(*subject: Any) -> tuple[Any, ...]:
            keys = []
            try:
                for function in functions:
                    keys.append(function(*subject))  # a comprehension would hide which function raised
            except Exception as error:  # the code of others may raise anything
                self._fail(point, function, error, *subject)
            return tuple(keys)

        return key

    def ask(self, point: ExtensionPoint, *arguments: Any) -> Any:
        """Returns the combined answer. FIRST: the first answer that is not None (or None). KEY: a tuple. ALL, TIER and
        VOTE: a boolean. MAX (0 without any function) and SUM: a number. MIN: a number no greater than the last
        argument, which functions do not receive. VICTIMS, UNION and CHAIN: a list of tasks, selected from the last
        argument. EACH: all answers. Raises PluginError if a function raises or returns anything else."""
        functions = self.all_functions(point)
        function: Function | None = None
        try:
            match point.combine:
                case Combine.FIRST:
                    for function in functions:
                        answer = function(*arguments)
                        if answer is not None:
                            if not isinstance(answer, point.gives):
                                self._wrong_answer(function, answer, f"{_named(point.gives)} or None")
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
                            self._wrong_answer(function, number, _NUMBER)
                        most = max(most, number)
                    return most
                case Combine.MIN:
                    *about, least = arguments
                    for function in functions:
                        number = function(*about)
                        if type(number) is not int and not is_whole(number):
                            self._wrong_answer(function, number, _NUMBER)
                        least = min(least, number)
                        if least <= 0:
                            return 0
                    return least
                case Combine.SUM:
                    total, length = 0, len(arguments[-1])
                    for function in functions:
                        column = function(*arguments)
                        if np.shape(column) != (length,) or not np.isfinite(column).all():
                            self._wrong_answer(function, column, f"a column of {length} finite numbers")
                        total = total + column
                    return total
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
                            self._wrong_answer(function, left, _TASKS)
                    return left
                case Combine.KEY:
                    return self.combined_key(point)(*arguments)
                case Combine.EACH:
                    answers = []
                    for function in functions:
                        answer = function(*arguments)
                        if not isinstance(answer, point.gives):
                            self._wrong_answer(function, answer, _named(point.gives))
                        # The code of a generator runs while it is read.
                        answers.append(list(answer) if isinstance(answer, Iterator) else answer)
                    return answers
                case Combine.CALL:
                    for function in functions:
                        function(*arguments)
                    return None
        except Exception as error:  # the code of others may raise anything
            self._fail(point, function, error, *arguments)

    def call(self, point: ExtensionPoint, function: Function, *arguments: Any) -> Any:
        """Returns the answer of one function of a point as it is. Raises PluginError."""
        try:
            return function(*arguments)
        except Exception as error:  # the code of others may raise anything
            self._fail(point, function, error, *arguments)

    def _fail(
        self, point: ExtensionPoint | str, function: Any, error: Exception, *about: Any, node: str = ""
    ) -> NoReturn:
        """Raises an exception of a function, or of the use of its answer, as a PluginError. ``about``: the arguments of
        the call, and whatever else it is about."""
        plugin = self.plugin_of(function)
        if not plugin:
            raise error
        raise_as(f"plugin {plugin}", point if isinstance(point, str) else point.name, error, *about, node=node)

    def _wrong_answer(self, function: Function, answer: object, wanted: str) -> NoReturn:
        shown = " ".join(repr(answer).split())
        self._refuse_answer(function, f"{shown:.66}, not {wanted}")

    def _refuse_answer(self, function: Function, problem: str) -> NoReturn:
        """Raises AnswerError."""
        _, source = self._owners.get(function, ("", function))
        raise AnswerError(f"function {name_of(source)}{place_of(source)} returned {problem}")

    def _agree(self, point: ExtensionPoint, functions: Sequence[Function], arguments: Sequence[Any]) -> bool:
        """Returns whether all functions return True."""
        try:
            for function in functions:
                answer = function(*arguments)
                if not isinstance(answer, bool | np.bool_):
                    self._wrong_answer(function, answer, _BOOLEAN)
                if not answer:
                    return False
        except Exception as error:  # the code of others may raise anything
            self._fail(point, function, error, *arguments)
        return True

    def _vote(self, point: ExtensionPoint, *arguments: object) -> bool:
        """Returns whether the vote passes, tier by tier: a rejection decides against it, else a permission decides for
        it. It passes if no function decides."""
        try:
            for tier in self.functions(point):
                permitted = False
                for function in tier:
                    vote = function(*arguments)
                    if vote is Vote.REJECT:
                        return False
                    if vote is Vote.PERMIT:
                        permitted = True
                    elif vote is not Vote.ABSTAIN:
                        self._wrong_answer(function, vote, _VOTE)
                if permitted:
                    return True
        except Exception as error:  # the code of others may raise anything
            self._fail(point, function, error, *arguments)
        return True

    def _victims(self, point: ExtensionPoint, preemptor: object, candidates: Sequence[Task]) -> list[Task]:
        """Returns the tasks that all functions of a tier return, of the first tier with any; functions that return None
        abstain. If functions have no task in common although each returns some, the next function starts again with its
        own tasks, as in Volcano."""
        candidates = self._without_vetoed(point, preemptor, candidates)
        try:
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
        except Exception as error:  # the code of others may raise anything
            self._fail(point, function, error, preemptor, candidates)
        return []

    def _union(self, point: ExtensionPoint, candidates: Sequence[Task]) -> list[Task]:
        """Returns the tasks that any function of a tier returns, of the first tier with any."""
        candidates = self._without_vetoed(point, None, candidates)
        try:
            for tier in self.functions(point):
                victims: dict[str, Task] = {}
                for function in tier:
                    victims.update((task.uid, task) for task in function(candidates) or ())
                if victims:
                    return list(victims.values())
        except Exception as error:  # the code of others may raise anything
            self._fail(point, function, error, candidates)
        return []

    def _without_vetoed(self, point: ExtensionPoint, preemptor: Any, candidates: Sequence[Task]) -> Sequence[Task]:
        for veto in self._vetoes.get(point, ()):
            try:
                candidates = [task for task in candidates if not veto(preemptor, task)]
            except Exception as error:  # the code of others may raise anything
                self._fail(point, veto, error, preemptor, candidates)
        return candidates


def is_whole(number: object) -> bool:
    """Returns whether a value is a whole number; True and False are none."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def _named(types: tuple[type, ...]) -> str:
    return " or ".join(f"a {type_.__name__}" for type_ in types)
