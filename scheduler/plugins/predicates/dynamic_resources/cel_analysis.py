"""What a compiled CEL expression costs at most, and which values of a device it reads: both are read off its syntax
tree, before it is evaluated.

An evaluation cannot be interrupted, so its cost is bounded beforehand. A step is about a tenth of a microsecond: four
literals or operators are one step, a function is as many as it takes. What a macro repeats counts as often as its range
has elements: those of a literal list are counted, of other ranges a limit is known. The runtime ends an evaluation
after 10,000 iterations, so nothing counts more often than that.

The tree is read from the serialized form of the expression (``cel.expr.CheckedExpr``, Protocol Buffers).
"""

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

import msgspec

DRIVER, SHARED = "device.driver", "device.allowMultipleAllocations"
ATTRIBUTES, CAPACITY = "device.attributes", "device.capacity"
Read = tuple[str, str, str]
"""A variable; for attributes and capacities also domain and name."""
MAX_ITERATIONS: Final = 10_000
"""Iterations of all macros of one evaluation, after which the CEL runtime ends it."""
_MAX_ENTRIES: Final = 32
"""Attributes and capacities of one device, at most."""
_MAX_TEXT: Final = 64
"""Characters of an attribute, at most."""
_DEPTH: Final = 64
"""Depth to which the size of a range is looked for."""
_MAX_PATTERN_STEPS: Final = 100_000
"""Steps to compile a regular expression: those with counted repetitions take up to 10 ms, whatever their length."""
_MAX_DOUBLINGS: Final = 20
_PATTERNS: Final = ("matches", "find", "findAll")
_REPEATED: Final = re.compile(r"[{,]([0-9]{1,4})")
"""The counts of a repetition in a regular expression, as in ``{3,8}``."""
_UNICODE_STEPS: Final = 1000
"""Steps for a class of characters such as ``\\p{L}``."""
_TARGET: Final = 1
"""The role of the object of a method call."""
_SPLITTING: Final = ("split", "findAll")
_GROWING: Final = ("replace", "join")
_SUMMING: Final = ("isSorted", "sum", "min", "max")
_STEPS: Final = {
    **dict.fromkeys(("find", "findAll"), 300),
    **dict.fromkeys(("cidr", "containsIP", "containsCIDR", "masked", "prefixLength", "isCIDR"), 250),
    **dict.fromkeys(("ip", "isIP", "family", "ip.isCanonical", "isUnspecified", "isLoopback", "isGlobalUnicast"), 100),
    **dict.fromkeys(("isLinkLocalMulticast", "isLinkLocalUnicast"), 100),
    **dict.fromkeys(("quantity", "isQuantity", "sign", "isInteger", "asInteger", "asApproximateFloat"), 30),
    **dict.fromkeys(("add", "sub", "compareTo", "isLessThan", "isGreaterThan"), 30),
    **dict.fromkeys(("semver", "isSemver", "major", "minor", "patch"), 50),
    **dict.fromkeys(("isSorted", "sum", "min", "max"), 30),
    "matches": 60,
    "format": 30,
}
"""Functions that are expensive, most of which are implemented in Python."""
_OPERATORS: Final = frozenset(
    (
        *("_&&_", "_||_", "!_", "_?_:_", "_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "@in"),
        *("_[_]", "_-_", "-_", "_*_", "_/_", "_%_", "@not_strictly_false", "size"),
    )
)
"""What takes a quarter of a step, however large its operands are."""
_OTHER_STEPS: Final = 10
_OPERATORS_PER_STEP: Final = 4
_CONST, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 3, 4, 5, 6, 7, 8, 9
"""Kinds of nodes: fields of ``cel.expr.Expr``."""
_STRING: Final = 6
"""The field of a string in ``cel.expr.Constant``."""
_NAMES: Final = {_IDENT: 1, _SELECT: 2, _CALL: 2}
"""Kind -> the field of its name."""
_RANGE, _INITIAL, _CONDITION, _STEP, _RESULT = 2, 4, 5, 6, 7
"""Fields of ``cel.expr.Expr.Comprehension``."""
_CHILDREN: Final = {
    _SELECT: (1,),
    _CALL: (1, 3),
    _LIST: (1,),
    _COMPREHENSION: (_RANGE, _INITIAL, _CONDITION, _STEP, _RESULT),
}
"""Kind -> the fields of its operands."""


class Analysis(msgspec.Struct, frozen=True):
    """The result for one expression."""

    steps: int
    """Steps of one evaluation, at most."""
    reads: tuple[Read, ...] | None
    """What it reads of a device, in order; None: possibly everything."""


def analyze(serialized: bytes) -> Analysis:
    """Analyzes a compiled expression in its serialized form."""
    checked = dict(_fields(memoryview(serialized)))[2]
    tree = [_Node(0, dict(_fields(checked))[4])]
    for node in tree:  # grows
        node.children = [_Node(*part) for part in node.parts]
        tree += node.children
    return Analysis(_steps(tree), _reads(tree[0]))


# --- the tree ---
class _Node:
    """One node of a syntax tree. It parses only itself, since a tree may be deeper than Python calls may be nested."""

    __slots__ = ("children", "kind", "name", "parts", "role", "text")

    def __init__(self, role: int, message: memoryview) -> None:
        """``role``: the field of its parent."""
        self.role = role
        self.children: list[_Node] = []
        self.kind, body = next((entry for entry in _fields(message) if entry[0] >= _CONST), (_CONST, memoryview(b"")))
        self.name = ""
        """The name of an identifier, a selected field, or a function."""
        self.text: str | None = None
        """The value of a string literal."""
        self.parts: list[tuple[int, memoryview]] = []
        """Role and message of each child."""
        name, operands = _NAMES.get(self.kind), _CHILDREN.get(self.kind, ())
        for number, value in _fields(body):
            if number == name:
                self.name = str(value, "utf-8", "replace")
            elif number in operands:
                self.parts.append((number, value))
            elif self.kind == _CONST and number == _STRING:
                self.text = str(value, "utf-8", "replace")
            elif self.kind == _STRUCT and number == 2:
                self.parts += [part for part in _fields(value) if part[0] in (3, 4)]  # key and value of an entry

    def child(self, role: int) -> "_Node":
        return next(child for child in self.children if child.role == role)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yields number and value of the fields of a message that are messages, strings or bytes, except in constants of
    other types, whose values nothing here needs."""
    position, end = 0, len(message)
    while position < end:
        key, position = _varint(message, position)
        match key & 7:
            case 2:
                size, position = _varint(message, position)
                yield key >> 3, message[position : position + size]
                position += size
            case 0:
                _, position = _varint(message, position)
            case 1:
                position += 8
            case _:
                position += 4


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """Decodes a number. Returns it with the position after it."""
    number = shift = 0
    while True:
        byte = message[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7


# --- steps ---
class _Sizes(msgspec.Struct, frozen=True):
    """Limits of the sizes of values that the tree does not show where they are used."""

    text: int
    """Characters of a string."""
    elements: int
    """Elements of a list or map."""


def _sizes(tree: Sequence[_Node]) -> _Sizes:
    text = _MAX_TEXT + sum(len(node.text) for node in tree if node.text is not None)
    elements = max(_MAX_ENTRIES, sum(len(node.children) for node in tree if node.kind in (_LIST, _STRUCT)))
    names = {node.name for node in tree if node.kind == _CALL}
    if "_+_" in names:  # a variable may be added to itself, its sum to itself, and so on
        doublings = sum(node.kind == _COMPREHENSION and not node.child(_RANGE).children for node in tree)
        text, elements = (value << min(doublings, _MAX_DOUBLINGS) for value in (text, elements))
    if not names.isdisjoint(_SPLITTING):
        elements = max(elements, text)
    if any(name.endswith("range") for name in names):
        elements = max(elements, MAX_ITERATIONS)
    return _Sizes(text, elements)


def _steps(tree: Sequence[_Node]) -> int:
    """The steps of one evaluation, at most."""
    sizes = _sizes(tree)
    operators, steps, todo = 0, 0, [(tree[0], 1)]
    while todo:
        node, times = todo.pop()
        operators += times
        steps += times * _own_steps(node, sizes)
        repeated = times
        if node.kind == _COMPREHENSION:
            repeated = min(MAX_ITERATIONS, times * max(1, _size(node.child(_RANGE), sizes.elements, _DEPTH)))
        for child in node.children:
            in_loop = node.kind == _COMPREHENSION and child.role in (_CONDITION, _STEP)
            todo.append((child, repeated if in_loop else times))
    return steps + operators // _OPERATORS_PER_STEP


def _own_steps(node: _Node, sizes: _Sizes) -> int:
    """The steps of a node without its children, beyond those of an operator."""
    name = node.name
    if node.kind in (_LIST, _STRUCT):
        return 1 + len(node.children) // _OPERATORS_PER_STEP
    if node.kind != _CALL or name in _OPERATORS:
        return 0
    if name == "_+_":
        lists = any(child.kind == _LIST for child in node.children)
        return 10 if lists else sizes.text // 128
    steps = _STEPS.get(name, _OTHER_STEPS) + sizes.text // 32
    if name in _PATTERNS:
        steps += _pattern_steps(node)
    elif name in _GROWING:
        steps += sizes.text * max(sizes.text, sizes.elements) // 64
    elif name in _SUMMING:
        steps += 5 * sizes.elements
    return steps


def _pattern_steps(node: _Node) -> int:
    """The steps to compile the regular expression of a call."""
    patterns = [child.text for child in node.children if child.role != _TARGET or len(node.children) == 1]
    pattern = patterns[0] if patterns else None
    if pattern is None:
        return _MAX_PATTERN_STEPS
    repeated = prod(int(number) for number in _REPEATED.findall(pattern))
    unicode = _UNICODE_STEPS * pattern.count("{")
    return min(_MAX_PATTERN_STEPS, 200 + (50 * len(pattern) + unicode) * max(1, repeated))


def _size(node: _Node, unknown: int, depth: int) -> int:
    """The number of elements of a range, at most; ``unknown`` if its definition does not show it."""
    if not depth:
        return unknown
    if node.kind == _LIST:
        return len(node.children)
    if node.kind == _STRUCT:
        return len(node.children) // 2
    if node.kind == _CALL and node.name == "_+_":
        return sum(_size(child, unknown, depth - 1) for child in node.children)
    if node.kind == _COMPREHENSION and node.child(_INITIAL).kind == _LIST:
        return _size(node.child(_RANGE), unknown, depth - 1)
    return unknown


# --- reads ---
def _reads(root: _Node) -> tuple[Read, ...] | None:
    """What an expression reads of a device; None: possibly everything."""
    found: set[Read] = set()
    todo = [root]
    while todo:
        node = todo.pop()
        read = _read(node)
        if read is not None:
            found.add(read)
        elif node.kind == _IDENT and node.name in (ATTRIBUTES, CAPACITY):
            return None  # the variable as a whole
        else:
            todo += node.children
    return tuple(sorted(found))


def _read(node: _Node) -> Read | None:
    """The value that a node reads: a variable, or a name in a domain of one."""
    if node.kind == _IDENT and node.name in (DRIVER, SHARED):
        return node.name, "", ""
    operand, name = _step_into(node)
    if operand is None:
        return None
    variable, domain = _step_into(operand)
    if variable is None or variable.kind != _IDENT or variable.name not in (ATTRIBUTES, CAPACITY):
        return None
    return variable.name, domain, name


def _step_into(node: _Node) -> tuple[_Node | None, str]:
    """The map that a node reads a constant key of, and the key; (None, "") for other nodes."""
    if node.kind == _SELECT:
        return node.children[0], node.name
    if node.kind == _CALL and node.name == "_[_]":
        key = node.children[1].text
        if key is not None:
            return node.children[0], key
    return None, ""
