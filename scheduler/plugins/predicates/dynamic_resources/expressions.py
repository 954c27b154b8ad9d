"""CEL expressions that select devices: compiled once, and evaluated for one device at a time.

The environment is Kubernetes': ``device.driver``, ``device.attributes[domain].name``, ``device.capacity[domain].name``
and ``device.allowMultipleAllocations``; the extensions and functions that the API server lets expressions use. An
expression that does not compile, or fails for a device, raises an ExpressionError with the reason.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import permutations
from typing import Any, Final

import yaml
from cel_expr_python import cel

from scheduler.plugins.predicates.dynamic_resources.cel_analysis import ATTRIBUTES, CAPACITY, DRIVER, SHARED, analyze
from scheduler.plugins.predicates.dynamic_resources.cel_functions import VALUE, functions
from scheduler.plugins.predicates.dynamic_resources.cel_values import Domains, ExpressionError

MAX_LENGTH: Final = 10 * 1024
"""Maximum length of an expression in characters, from the schema of claims."""
_LITERAL: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'((?:[^\'\\\n]|\\.)*)\'')
_EXTENSIONS: Final = ("optional", "bindings", "strings", "lists", "sets", "two-var-comprehensions")
_COMPARISONS: Final = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
_NUMBERS: Final = {"int": "int64", "uint": "uint64", "double": "double"}
"""Numeric types -> their names in overload ids."""
_OTHERS: Final = ("bool", "string", "bytes", "timestamp", "duration")


@cache
def _environment() -> cel.Env:
    def by_domain(values: cel.Type) -> cel.Type:
        return cel.Type.Map(cel.Type.STRING, cel.Type.Map(cel.Type.STRING, values))

    return cel.NewEnv(
        variables={
            DRIVER: cel.Type.STRING,
            SHARED: cel.Type.BOOL,
            ATTRIBUTES: by_domain(cel.Type.DYN),
            CAPACITY: by_domain(VALUE),
        },
        config=cel.NewEnvConfigFromYaml(yaml.safe_dump(_language())),
        functions=functions(),
    )


def _language() -> dict[str, Any]:
    """The extensions, and comparison operators that also compare numbers of different types."""
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
    """One compiled expression."""

    def __init__(self, text: str) -> None:
        """Raises ExpressionError if the text does not compile."""
        if len(text) > MAX_LENGTH:
            raise ExpressionError(f"CEL compile error: longer than {MAX_LENGTH} characters")
        try:
            self._program = _environment().compile(text)
        except (RuntimeError, TypeError) as error:  # the latter for text that is not Unicode
            raise ExpressionError(f"CEL compile error: {_first_line(str(error))}") from None
        returns = self._program.return_type()
        if returns not in (cel.Type.BOOL, cel.Type.DYN):
            raise ExpressionError(f"CEL compile error: must evaluate to bool, not {returns.name().lower()}")
        analysis = analyze(self._program.serialize())
        self.steps = analysis.steps
        """Steps of one evaluation, at most (``cel_analysis``)."""
        self.reads = analysis.reads
        """What it reads of a device; None: possibly everything."""
        self._literals = [double or single for double, single in _LITERAL.findall(text)]

    def selects(
        self,
        driver: str,
        shared: bool,
        attributes: Domains,
        capacity: Domains,
        repeats: Callable[[], None] = lambda: None,
    ) -> bool:
        """Whether the expression selects a device. Attribute and capacity values are encoded by ``cel_values``.
        ``repeats`` is called before a second evaluation, which follows one that fails. Raises ExpressionError if the
        evaluation fails."""
        data = {DRIVER: driver, SHARED: shared, ATTRIBUTES: attributes, CAPACITY: capacity}
        answer = self._evaluate(data)
        if answer.type() == cel.Type.ERROR:
            # A domain without values of the device is an empty map, as in Kubernetes; add the domains that the text
            # names.
            repeats()
            data |= {ATTRIBUTES: self._with_named_domains(attributes), CAPACITY: self._with_named_domains(capacity)}
            answer = self._evaluate(data)
        value = answer.value()
        if answer.type() == cel.Type.BOOL:
            return bool(value)
        if answer.type() == cel.Type.ERROR:
            raise ExpressionError(f"CEL runtime error: {_first_line(str(value))}")
        raise ExpressionError(f"CEL runtime error: result is {answer.type().name().lower()}, not bool")

    def _evaluate(self, data: Mapping[str, Any]) -> cel.Value:
        try:
            return self._program.eval(data=data)
        except (RuntimeError, TypeError, UnicodeError) as error:
            raise ExpressionError(f"CEL runtime error: {_first_line(str(error))}") from None

    def _with_named_domains(self, domains: Domains) -> Domains:
        return {**{name: {} for name in self._literals}, **domains}


def _first_line(text: str) -> str:
    """The message of the CEL runtime, without its error code and the lines that quote the expression."""
    line = text.strip().splitlines()[0]
    return re.sub(r"^[A-Z_]+: (?:ERROR: <input>:)?|\s*\[[A-Z_]+\]$", "", line)[:200]
