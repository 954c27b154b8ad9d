"""Checks whether a function that a plugin registers accepts the parameters of its extension point.

The check at registration compares the number of positional parameters and, if they are annotated with domain types or,
without an annotation, named after one (``job``), these types. A session registers the same functions as the one before,
so accepted functions are remembered.
"""

import functools
import inspect
from collections.abc import Sequence
from types import CodeType
from typing import Any, Final

from scheduler.framework.combining import Function
from scheduler.framework.failures import RegistrationError, name_of, place_of

_DOMAIN: Final = frozenset(
    {"Task", "TaskClass", "Job", "SubJob", "Queue", "EvictionContext", "ReclaimContext", "HyperNode"}
)
"""Domain types that are compared; type checkers check other annotations (protocols, aliases)."""
_TYPES: Final = {"job": "Job", "queue": "Queue", "task": "Task", "cls": "TaskClass", "sub_job": "SubJob"}
"""The domain types that names of parameters stand for, where no annotation says otherwise."""
_NAMES: Final = frozenset({"job", "queue", "task"})
"""Names of parameters with a default that a plugin expects to be given."""
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_ADVICE: Final = (
    "; its answer is kept for the class, for all jobs and queues: a function that needs the queue or the job is "
    "registered with per_queue=True or per_job=True"
)
_good: set[tuple[CodeType, int, tuple[str, ...]]] = set()


def check(plugin: str, point: str, function: Function, takes: Sequence[str], *, per_class: bool = False) -> None:
    """Raises RegistrationError if the function cannot be called with positional arguments of the types ``takes``."""
    key = _key(function, tuple(takes))
    if key is not None and key in _good:
        return
    if not callable(function):
        raise RegistrationError(plugin, point, f"{function!r:.66} is not a function")
    try:
        signature = inspect.signature(function)
    except ValueError:  # of some built-in functions nothing is known
        return
    problem = _problem(signature, takes)
    if problem:
        given = f"({', '.join(takes)})" if takes else "nothing"
        text = f"function {name_of(function)}{signature}{place_of(function)}: {problem}, and is called with {given}"
        raise RegistrationError(plugin, point, text + (_ADVICE if per_class and len(takes) == 1 else ""))
    if key is not None:
        _good.add(key)


def _problem(signature: inspect.Signature, takes: Sequence[str]) -> str:
    """Returns why a function cannot be called with these types, or ""."""
    try:
        bound = signature.bind(*takes)
    except TypeError as error:
        return str(error)
    for name, wanted in bound.arguments.items():
        parameter = signature.parameters[name]
        annotated = _simple_name(parameter.annotation)
        if parameter.kind not in _POSITIONAL or wanted not in _DOMAIN:
            continue
        if annotated in _DOMAIN and annotated != wanted:
            return f"parameter {name} is a {annotated}"
        if annotated not in _DOMAIN and _TYPES.get(name, wanted) != wanted:
            return f"parameter {name} would receive a {wanted}"
    for name, parameter in signature.parameters.items():
        if name not in bound.arguments and (name in _NAMES or _simple_name(parameter.annotation) in _DOMAIN):
            return f"parameter {name} would never be given"
    return ""


def _simple_name(annotation: Any) -> str:
    """Returns the last part of the name of a class; the class may be written as a string."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return text.strip("'\"").rpartition(".")[2]


def _key(function: Function, takes: tuple[str, ...]) -> tuple[CodeType, int, tuple[str, ...]] | None:
    """Returns a key for the signature of a function; None: it must be inspected each time."""
    if isinstance(function, functools.partial) or hasattr(function, "__wrapped__"):
        return None
    code = getattr(function, "__code__", None)  # of a bound method, that of its function
    if not isinstance(code, CodeType):
        return None
    defaults = getattr(function, "__defaults__", None) or ()
    return code, len(defaults) + 1000 * hasattr(function, "__self__"), takes
