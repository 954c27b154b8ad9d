"""Reads YAML as plain data, within bounds.

A small text can be too large once read: nested so deeply that recursive code exhausts the stack, or with aliases of
aliases that expand to gigabytes. The composer of PyYAML has no bound for either, and in C it ends the process. So
documents are built here from the events of the parser, which does not recurse. A text that exceeds a bound is refused
at that position.
"""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from scheduler.api.messages import type_of

MAX_DEPTH: Final = 100
"""The maximum depth of nesting; the content of an alias counts with its levels."""
MAX_ALIASED: Final = 10_000_000
"""The most that the aliases of one document may add to its size: characters of scalars, and ten for every value."""
_VALUE: Final = 10
MAX_NUMBER_LENGTH: Final = 4300
"""The longest number, in characters: the time to parse it grows with the square of its length."""
_TAG: Final = "tag:yaml.org,2002:"
_COLLECTIONS: Final = (None, "!", f"{_TAG}map", f"{_TAG}seq")
_UNSET: Final = object()
_MERGE_KEY: Final = object()
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBERS: Final = (f"{_TAG}int", f"{_TAG}float")
_SCALARS: Final = {
    f"{_TAG}{name}": _Base.yaml_constructors[f"{_TAG}{name}"]
    for name in ("null", "bool", "int", "float", "str", "binary", "timestamp")
}


class DocumentError(ValueError):
    """A text is invalid or exceeds a bound."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        """``line``: from 1; None if the problem has no line."""
        super().__init__(problem)
        self.line = line


class _Loader(_Base):  # type: ignore[misc]
    """Resolves scalars as Kubernetes does: dates are strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}


def read_yaml(text: str) -> Any:
    """Returns the only document of a text; None if the text is empty. Raises DocumentError."""
    documents = list(_bounded(text, at_most=1))
    return documents[0] if documents else None


def read_yaml_documents(text: str) -> Iterator[Any]:
    """Yields the documents of a text. Raises DocumentError."""
    return _bounded(text)


def _bounded(text: str, at_most: int | None = None) -> Iterator[Any]:
    try:
        builder = _Builder(_Loader(text))
        number = 0
        while builder.another():
            number += 1
            if at_most is not None and number > at_most:
                raise DocumentError("expected a single document", builder.line)
            yield builder.document()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise DocumentError(error.problem or error.context or "not YAML", line) from None
    except yaml.reader.ReaderError as error:  # a character that YAML does not allow
        raise DocumentError(f"not YAML: {str(error).splitlines()[0]}") from None


class _Collection:
    """A list or mapping that is not complete yet."""

    __slots__ = ("anchor", "height", "key", "merged", "start", "value")

    def __init__(self, value: Any, anchor: str | None, start: int) -> None:
        self.value = value
        self.anchor = anchor
        self.start = start
        """The size of the document before this collection."""
        self.height = 1
        """The number of levels within it, including itself."""
        self.key: Any = _UNSET
        """The key of the next value, in a mapping."""
        self.merged: Any = None
        """The value of ``<<``, in a mapping."""


class _Builder:
    """Builds documents from the events of a parser."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._event = loader.get_event  # StreamStart comes first
        self._event()
        self._plain: dict[str, Any] = {}
        """Plain scalar -> value. Most files repeat few scalars."""
        self.line = 1
        """The line of the last event."""

    def another(self) -> bool:
        """Returns whether another document begins."""
        event = self._event()
        self.line = event.start_mark.line + 1
        return not isinstance(event, yaml.StreamEndEvent)

    def document(self) -> Any:
        """Returns the document that has begun. Raises DocumentError, YAMLError."""
        scalar, sequence, mapping, alias = (
            yaml.ScalarEvent, yaml.SequenceStartEvent, yaml.MappingStartEvent, yaml.AliasEvent,
        )  # fmt: skip
        next_event, plain = self._event, self._plain
        stack: list[_Collection] = []
        anchors: dict[str, tuple[Any, int, int] | None] = {}
        """Anchor -> (value, size, levels); None while its collection is open."""
        size = aliased = 0
        root: Any = None
        while True:
            event = next_event()
            kind = type(event)
            height = 0
            if kind is scalar:
                text = event.value
                size += _VALUE + len(text)
                if event.tag is None and event.implicit[0]:
                    value = plain.get(text, _UNSET)
                    if value is not _UNSET:
                        pass
                    elif text == "<<" and stack and type(stack[-1].value) is dict and stack[-1].key is _UNSET:
                        value = _MERGE_KEY
                    else:
                        value = plain[text] = self._scalar(event)
                else:
                    value = text if event.tag is None else self._scalar(event)
                if event.anchor is not None:
                    anchors[event.anchor] = value, _VALUE + len(text), 0
            elif kind is mapping or kind is sequence:
                if event.tag not in _COLLECTIONS:
                    raise self._error(event, f"expected a list or a mapping, got {event.tag!r:.64}")
                if len(stack) >= MAX_DEPTH:
                    raise self._error(event, f"nested more than {MAX_DEPTH} deep")
                if event.anchor is not None:
                    anchors[event.anchor] = None
                stack.append(_Collection({} if kind is mapping else [], event.anchor, size))
                size += _VALUE
                continue
            elif kind is alias:
                if event.anchor not in anchors:
                    raise self._error(event, f"undefined alias {event.anchor!r:.64}")
                anchored = anchors[event.anchor]
                if anchored is None:
                    raise self._error(event, f"{event.anchor!r:.64} is nested in itself by an alias")
                value, weight, height = anchored
                size += weight
                aliased += weight
                if aliased > MAX_ALIASED:
                    raise self._error(event, f"aliases add {aliased} characters, at most {MAX_ALIASED} are read")
                if len(stack) + height > MAX_DEPTH:
                    raise self._error(
                        event, f"nested {len(stack) + height} deep by an alias, at most {MAX_DEPTH} are read"
                    )
            elif kind is yaml.DocumentEndEvent:
                return root
            else:  # the end of a collection
                done = stack.pop()
                value = done.value if done.merged is None else {**done.merged, **done.value}
                height = done.height
                if done.anchor is not None:
                    anchors[done.anchor] = value, size - done.start, height
            if not stack:
                root = value
                continue
            around = stack[-1]
            if height >= around.height:
                around.height = height + 1
            if type(around.value) is list:
                around.value.append(value)
            elif around.key is _UNSET:
                around.key = value
            else:
                self._put(event, around, value)

    def _put(self, event: Any, mapping: _Collection, value: Any) -> None:
        key, mapping.key = mapping.key, _UNSET
        if key is _MERGE_KEY:
            bases = list(reversed(value)) if isinstance(value, list) else [value]
            if not all(isinstance(base, dict) for base in bases):
                raise self._error(event, "<<: expected a mapping or a list of mappings")
            mapping.merged = mapping.merged or {}
            for base in bases:
                mapping.merged.update(base)
            return
        try:
            mapping.value[key] = value
        except TypeError:
            raise self._error(event, f"expected a scalar as a key, got {type_of(key)}") from None

    def _scalar(self, event: Any) -> Any:
        """Returns the value of a scalar that is plain or has a tag."""
        text, tag = event.value, event.tag
        if tag in (None, "!"):
            tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit)
        construct = _SCALARS.get(tag)
        if construct is None:
            raise self._error(event, f"{text!r:.64} cannot be read: its tag is {tag!r:.64}")
        if len(text) > MAX_NUMBER_LENGTH and tag in _NUMBERS:
            raise self._error(event, f"a number of {len(text)} characters, at most {MAX_NUMBER_LENGTH} are read")
        try:
            return construct(self._loader, yaml.ScalarNode(tag, text, event.start_mark, event.end_mark))
        except (ArithmeticError, AttributeError, LookupError, ValueError):
            raise self._error(event, f"{text!r:.64} is no {tag.removeprefix(_TAG)}") from None

    @staticmethod
    def _error(event: Any, problem: str) -> DocumentError:
        return DocumentError(problem, event.start_mark.line + 1)
