"""The CEL selectors of claims: compiled, analyzed and evaluated once, and kept across sessions with their results.

A result depends on the values of a device that the expression reads, so it is found once for all devices with equal
values. The expressions used last are kept. The memory for them suffices for the largest claim that an API server stores
(1,024 expressions) on 128 devices several times over, so that a claim that takes many sessions comes to an end.

The CEL runtime is the package of the extra ``dra``. It is imported when the first selector is compiled; without it,
each selector yields an ExpressionError that names the extra.
"""

from collections import OrderedDict
from collections.abc import Hashable
from functools import partial
from typing import TYPE_CHECKING, Final

from scheduler.plugins.predicates.dynamic_resources.budget import POD_STEPS, Budget
from scheduler.plugins.predicates.dynamic_resources.cel_values import ExpressionError
from scheduler.plugins.predicates.dynamic_resources.devices import SlicedDevice

if TYPE_CHECKING:
    from scheduler.plugins.predicates.dynamic_resources.expressions import Expression

NO_RUNTIME: Final = (
    "CEL selectors cannot be evaluated without the Python package cel-expr-python: install volcano-py with the extra "
    "dra, as in pip install 'volcano-py[dra]'"
)
LOOKUP_STEPS: Final = 10
"""Steps to find a known result."""
EVALUATION_STEPS: Final = 100
"""Steps of an evaluation besides those of the expression."""
COMPILING_STEPS: Final = 2000
CHARACTER_STEPS: Final = 50
"""Steps to compile one character."""
MAX_BYTES: Final = 256 * 2**20
"""Memory of all expressions and results."""
_EXPRESSION_BYTES: Final = 5000
_CHARACTER_BYTES: Final = 120
"""Memory of a compiled character."""
_RESULT_BYTES: Final = 250


class Selector:
    """One expression with its results."""

    def __init__(self, text: str) -> None:
        """Compiles the expression."""
        self._program = _compiled(text)
        self._results: dict[Hashable, bool | ExpressionError] = {}
        self.bytes = _EXPRESSION_BYTES + _CHARACTER_BYTES * len(text)
        """The memory that it takes, about."""

    def result(self, device: SlicedDevice, budget: Budget) -> bool | ExpressionError:
        """Whether the expression selects a device, or why it fails for it. Raises OverBudgetError."""
        budget.spend(LOOKUP_STEPS)
        program = self._program
        if isinstance(program, ExpressionError):
            return program
        try:
            values = device.values
        except ExpressionError as error:
            return error
        key = values.key(program.reads)
        found = self._results.get(key)
        if found is None:
            evaluates = partial(budget.spend_evaluation, EVALUATION_STEPS + program.steps)
            evaluates()
            try:
                found = program.selects(values.driver, values.shared, values.attributes, values.capacity, evaluates)
            except ExpressionError as error:
                found = error
            self._results[key] = found
            self.bytes += _RESULT_BYTES
        return found


class Selectors:
    """The selectors used last, by the text of their expressions."""

    def __init__(self) -> None:
        self._selectors: OrderedDict[str, Selector] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._selectors)

    def result(self, text: str, device: SlicedDevice, budget: Budget) -> bool | ExpressionError:
        """Whether an expression selects a device, or why it fails for it. Raises OverBudgetError."""
        selector = self._selectors.get(text)
        if selector is None:
            budget.spend(COMPILING_STEPS + CHARACTER_STEPS * len(text))
            selector = self._selectors[text] = Selector(text)
            before = 0
        else:
            self._selectors.move_to_end(text)
            before = selector.bytes
        try:
            return selector.result(device, budget)
        finally:
            self._bytes += selector.bytes - before
            while self._bytes > MAX_BYTES and len(self._selectors) > 1:
                self._bytes -= self._selectors.popitem(last=False)[1].bytes


def _compiled(text: str) -> "Expression | ExpressionError":
    """Returns a compiled expression that can be evaluated within the budget of a Pod, or the error."""
    try:
        from scheduler.plugins.predicates.dynamic_resources.expressions import Expression

        program = Expression(text)
    except ExpressionError as error:
        return error
    except ImportError as error:  # the package is not installed, or does not work on this machine
        return ExpressionError(f"{NO_RUNTIME} ({error})")
    most = POD_STEPS // 2 - LOOKUP_STEPS - EVALUATION_STEPS  # one that fails is evaluated twice
    if program.steps > most:
        return ExpressionError(
            f"CEL expression is too complex: up to {program.steps} steps for one device, the limit is {most}"
        )
    return program
