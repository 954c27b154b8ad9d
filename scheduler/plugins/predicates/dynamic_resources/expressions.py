"""CEL expressions that select devices: compiled once, asked of a device at a time.

The environment is Kubernetes': ``device.driver``, ``device.attributes[domain].name``, ``device.capacity[domain].name``
and ``device.allowMultipleAllocations``; the extensions and functions that the API server lets expressions use. An
expression that does not compile, or errs on a device, is an ExpressionError that says why.
"""

import re
from collections.abc import Mapping
from functools import cache
from itertools import permutations
from typing import Any, Final

import yaml
from cel_expr_python import cel

from scheduler.plugins.predicates.dynamic_resources.cel_functions import VALUE, functions
from scheduler.plugins.predicates.dynamic_resources.cel_values import Domains, ExpressionError

LONGEST: Final = 10 * 1024
"""Characters of an expression, by the schema of claims."""
_LITERAL: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'')
_DRIVER, _SHARED = "device.driver", "device.allowMultipleAllocations"
_ATTRIBUTES, _CAPACITY = "device.attributes", "device.capacity"
_EXTENSIONS: Final = ("optional", "bindings", "strings", "lists", "sets", "two-var-comprehensions")
_COMPARISONS: Final = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
_NUMBERS: Final = {"int": "int64", "uint": "uint64", "double": "double"}
"""Types of numbers -> how overloads call them."""
_OTHERS: Final = ("bool", "string", "bytes", "timestamp", "duration")


@cache
def _environment() -> cel.Env:
    def by_domain(values: cel.Type) -> cel.Type:
        return cel.Type.Map(cel.Type.STRING, cel.Type.Map(cel.Type.STRING, values))

    return cel.NewEnv(
        variables={
            _DRIVER: cel.Type.STRING,
            _SHARED: cel.Type.BOOL,
            _ATTRIBUTES: by_domain(cel.Type.DYN),
            _CAPACITY: by_domain(VALUE),
        },
        config=cel.NewEnvConfigFromYaml(yaml.safe_dump(_language())),
        functions=functions(),
    )


def _language() -> dict[str, Any]:
    """The extensions, and comparisons declared anew so that numbers of two types can be compared."""
    same = [(kind, kind, _NUMBERS.get(kind, kind)) for kind in (*_NUMBERS, *_OTHERS)]
    mixed = [(a, b, f"{_NUMBERS[a]}_{_NUMBERS[b]}") for a, b in permutations(_NUMBERS, 2)]
    comparisons = [
        {
            "name": operator,
            "overloads": [
                {
                    "id": f"{word}_{kinds}",
                    "args": [{"type_name": left}, {"type_name": right}],
                    "return": {"type_name": "bool"},
                }
                for left, right, kinds in (*same, *mixed)
            ],
        }
        for operator, word in _COMPARISONS.items()
    ]
    return {
        "extensions": [{"name": name} for name in _EXTENSIONS],
        "stdlib": {"exclude_functions": [{"name": operator} for operator in _COMPARISONS]},
        "functions": comparisons,
    }


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


def _first_line(text: str) -> str:
    """The message of the CEL runtime without its code and the lines that quote the expression."""
    line = text.strip().splitlines()[0]
    return re.sub(r"^[A-Z_]+: (?:ERROR: <input>:)?|\s*\[[A-Z_]+\]$", "", line)[:200]
