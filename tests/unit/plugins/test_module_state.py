"""Modules and classes of plugins, actions and the framework have no state: a memory keeps values across sessions.

A value of a module or a class is a constant if it cannot change, with all that it refers to. A dictionary, list or set
is a constant if no code of its module changes it by its name. A cache of a function may stay if it is bounded: it
depends on nothing but the arguments.
"""

import __future__

import ast
import dataclasses
import functools
import importlib
import inspect
import pkgutil
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from threading import Lock
from types import MappingProxyType, ModuleType
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import msgspec
import pytest

import scheduler.actions
import scheduler.framework
import scheduler.plugins
from scheduler.api.json_texts import JsonFormat
from scheduler.api.snapshot import Memory

PACKAGES: Final = (scheduler.plugins, scheduler.actions, scheduler.framework)
REGISTRIES: Final = {
    "scheduler.framework.registry": {"_plugins", "_actions", "_prefixes"},
    "scheduler.framework.remedies.registry": {"_remedies", "_pod_details", "_job_details", "_node_labels"},
    "scheduler.framework.signatures": {"_good"},
}
"""The values that modules register when they are imported, and facts about their code: equal for all schedulers."""
CHANGING: Final = frozenset({"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove"}) | {
    *("reverse", "setdefault", "sort", "update", "difference_update", "intersection_update")
}
"""The methods that change a container."""
IMMUTABLE: Final = (
    *(
        type(None),
        Enum,
        TypeVar,
        ParamSpec,
        type(__future__.annotations),
        msgspec.Raw,
        msgspec.json.Decoder,
        JsonFormat,
    ),
)
"""Types whose objects are hashed by identity, besides those of CEL."""


def modules() -> list[ModuleType]:
    packages = [found for each in PACKAGES for found in pkgutil.walk_packages(each.__path__, f"{each.__name__}.")]
    return [*PACKAGES, *(importlib.import_module(found.name) for found in packages)]


MODULES: Final = modules()


def values(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yields the values of a module and of its classes, apart from functions, classes and descriptors."""
    classes = {name: each for name, each in vars(module).items() if inspect.isclass(each)}
    own = {name: vars(each) for name, each in classes.items() if each.__module__ == module.__name__}
    for prefix, space in {"": vars(module), **own}.items():
        for name, value in space.items():
            generated = name.startswith("__") or name in ("_abc_impl", "_field_defaults", "_value_repr_")
            if not (generated or callable(value) or hasattr(value, "__get__") or isinstance(value, ModuleType)):
                yield f"{prefix}.{name}", value


def is_constant(value: Any) -> bool:
    """Returns whether a value and all that it refers to stay as they are, if no code changes dictionaries, lists and
    sets."""
    kind: Any = type(value)
    if isinstance(value, tuple | frozenset | list | set):
        return all(map(is_constant, value))
    if kind in (dict, MappingProxyType):
        return all(map(is_constant, value.values()))
    if isinstance(value, msgspec.Struct) and value.__struct_config__.frozen:
        return all(is_constant(getattr(value, name)) for name in value.__struct_fields__)
    if getattr(getattr(kind, "__dataclass_params__", None), "frozen", False):
        return all(is_constant(getattr(value, field.name)) for field in dataclasses.fields(kind))
    if callable(value) or isinstance(value, IMMUTABLE) or kind.__module__ == "cel_expr_python.cel":
        return True
    if kind.__hash__ in (None, object.__hash__):  # not compared by value, so it may change
        is_mark = kind.__module__.startswith("scheduler.") and getattr(value, "__dict__", None) == {}
        return is_mark or kind is object
    return True


def changed_names(module: ModuleType) -> Iterator[str]:
    """Yields the global names that functions of a module assign, and the containers of the module that they change."""
    containers = {name for name, value in vars(module).items() if isinstance(value, dict | list | set)}
    for node in ast.walk(ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))):
        match node:
            case ast.Global(names=names):
                yield from names
            case (
                ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del())
                | ast.AugAssign(target=ast.Name(id=name))
            ) if name in containers:
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if name in containers:
                if method in CHANGING:
                    yield name


def caches(module: ModuleType) -> Iterator[Any]:
    """Yields the cached functions and methods of a module."""
    for space in (module, *filter(inspect.isclass, vars(module).values())):
        yield from (each for each in vars(space).values() if isinstance(each, functools._lru_cache_wrapper))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_module_and_its_classes_hold_constants(module: ModuleType) -> None:
    assert [name for name, value in values(module) if not is_constant(value)] == []
    assert set(changed_names(module)) <= REGISTRIES.get(module.__name__, set())


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_cache_of_a_function_is_bounded(module: ModuleType) -> None:
    unbounded = [each for each in caches(module) if each.cache_parameters()["maxsize"] is None]
    assert [each for each in unbounded if inspect.signature(each).parameters] == []


@pytest.mark.parametrize("value", [OrderedDict(), WeakKeyDictionary(), Counter(), Memory(), deque(), {"a": (Lock(),)}])
def test_what_can_change_is_no_constant(value: object) -> None:
    assert not is_constant(value)
