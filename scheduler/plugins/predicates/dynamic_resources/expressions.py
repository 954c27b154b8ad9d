"""CEL expressions that select devices: compiled once, asked of a device at a time.

The environment is Kubernetes': ``device.driver``, ``device.attributes[domain].name``, ``device.capacity[domain].name``
and ``device.allowMultipleAllocations``; optional values, ``cel.bind``, and functions on strings, quantities, versions
and sets. An expression that does not compile, or errs on a device, is an ExpressionError that says why.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from scheduler.plugins.predicates.dynamic_resources.cel_values import functions

LONGEST: Final = 10 * 1024
"""Characters of an expression, by the schema of claims."""
_LITERAL: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'')
_DRIVER, _SHARED = "device.driver", "device.allowMultipleAllocations"
_ATTRIBUTES, _CAPACITY = "device.attributes", "device.capacity"
Domains = dict[str, dict[str, Any]]
"""Domain -> name -> value."""


class ExpressionError(ValueError):
    """An expression cannot be asked."""


@cache
def _environment() -> cel.Env:
    def by_domain(values: cel.Type) -> cel.Type:
        return cel.Type.Map(cel.Type.STRING, cel.Type.Map(cel.Type.STRING, values))

    return cel.NewEnv(
        variables={
            _DRIVER: cel.Type.STRING,
            _SHARED: cel.Type.BOOL,
            _ATTRIBUTES: by_domain(cel.Type.DYN),
            _CAPACITY: by_domain(cel.Type.BYTES),
        },
        extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()],
        functions=functions(),
    )


class Expression:
    """One expression."""

    def __init__(self, text: str) -> None:
        """Raises ExpressionError where it does not compile."""
        if len(text) > LONGEST:
            raise ExpressionError(f"CEL compile error: longer than {LONGEST} characters")
        try:
            self._program = _environment().compile(text)
        except (RuntimeError, TypeError) as error:  # the latter for text that is not Unicode
            raise ExpressionError(f"CEL compile error: {_first_line(str(error))}") from None
        returns = self._program.return_type()
        if returns not in (cel.Type.BOOL, cel.Type.DYN):
            raise ExpressionError(f"CEL compile error: must evaluate to bool, not {returns.name().lower()}")
        self._named = [double or single for double, single in _LITERAL.findall(text)]

    def selects(self, driver: str, shared: bool, attributes: Domains, capacity: Domains) -> bool:
        """Whether a device is selected; values as ``cel_values`` makes them. Raises ExpressionError where it errs."""
        data = {_DRIVER: driver, _SHARED: shared, _ATTRIBUTES: attributes, _CAPACITY: capacity}
        answer = self._ask(data)
        if answer.type() == cel.Type.ERROR:
            # A domain of which the device has nothing is an empty one, wherever it is looked up.
            data |= {_ATTRIBUTES: self._widened(attributes), _CAPACITY: self._widened(capacity)}
            answer = self._ask(data)
        value = answer.value()
        if answer.type() == cel.Type.BOOL:
            return bool(value)
        if answer.type() == cel.Type.ERROR:
            raise ExpressionError(f"CEL runtime error: {_first_line(str(value))}")
        raise ExpressionError(f"CEL runtime error: result is {answer.type().name().lower()}, not bool")

    def _ask(self, data: Mapping[str, Any]) -> cel.Value:
        try:
            return self._program.eval(data=data)
        except (RuntimeError, TypeError, UnicodeError) as error:
            raise ExpressionError(f"CEL runtime error: {_first_line(str(error))}") from None

    def _widened(self, domains: Domains) -> Domains:
        return {**{name: {} for name in self._named}, **domains}


@lru_cache(maxsize=1024)
def compiled(text: str) -> Expression | ExpressionError:
    """The expression of a text, or why it is none."""
    try:
        return Expression(text)
    except ExpressionError as error:
        return error


def _first_line(text: str) -> str:
    """The message of the CEL runtime without its code and the lines that quote the expression."""
    line = text.strip().splitlines()[0]
    return re.sub(r"^[A-Z_]+: (?:ERROR: <input>:)?|\s*\[[A-Z_]+\]$", "", line)[:200]
