"""Which Nodes are members of a HyperNode by its selectors."""

from collections.abc import Iterable
from typing import Any

import re2

from scheduler.api.objects import LabelSelector, Node
from scheduler.api.scheduling import HyperNode
from scheduler.api.selectors import ignore_field, is_valid, matches
from scheduler.framework.patterns import options, pattern_fault


class Members:
    """The Nodes that one version of a HyperNode selects; ``count`` is what its status says (Volcano's actualNodeCnt).

    A selector that cannot be used selects nothing.
    """

    def __init__(self, obj: HyperNode, nodes: Iterable[Node]) -> None:
        self.spec = obj.spec
        self._exact: set[str] = set()
        self._patterns: list[Any] = []
        self._selectors: list[LabelSelector] = []
        for member in obj.spec.members or ():
            selector = member.selector
            if selector.exact_match is not None:
                self._exact.add(selector.exact_match.name)
            if selector.regex_match is not None and not pattern_fault(selector.regex_match.pattern):
                self._patterns.append(re2.compile(selector.regex_match.pattern, options()))
            labels = selector.label_match
            if labels is None or not (labels.match_labels or labels.match_expressions):
                continue
            if is_valid(labels, ignore_field):
                self._selectors.append(labels)
        self._names = {node.metadata.name for node in nodes if self._holds(node)}

    @property
    def count(self) -> int:
        return len(self._names)

    def update(self, name: str, node: Node | None) -> bool:
        """A Node was added, changed or deleted (None). Returns whether the count has changed."""
        before = len(self._names)
        if node is not None and self._holds(node):
            self._names.add(name)
        else:
            self._names.discard(name)
        return len(self._names) != before

    def _holds(self, node: Node) -> bool:
        name = node.metadata.name
        return (
            name in self._exact
            or any(pattern.search(name) for pattern in self._patterns)
            or any(matches(selector, node.metadata.labels or {}) for selector in self._selectors)
        )
