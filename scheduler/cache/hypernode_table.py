"""HyperNodes: watched objects in, the tree of HyperNodes out.

The tree is built when a HyperNode, or a relevant field of a Node, has changed, and shared until then. A member that is
in another HyperNode already, or that would close a cycle, is left out and reported. Members that do not exist (yet)
are ignored.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import re2
from numpy.typing import NDArray

from scheduler.api.hypernode import CLUSTER_TOP, HyperNodes, HyperNodeSeed
from scheduler.api.node import NodeFacts, Rows
from scheduler.api.objects import LabelSelector, NodeSelectorTerm
from scheduler.api.reasons import Malformed
from scheduler.api.scheduling import MEMBER_HYPER_NODE, MEMBER_NODE, HyperNode, HyperNodeMember
from scheduler.api.selectors import ignore_field, is_valid, nodes_of_term, nodes_with_labels
from scheduler.cache.malformed_fields import Faults, MalformedFields
from scheduler.cache.versioning import Version
from scheduler.framework.patterns import options, pattern_fault

HIGHEST_TIER: Final = 2**31 - 1


@dataclass(slots=True)
class _Entry:
    """A HyperNode object and its well-formed members."""

    obj: HyperNode
    nodes: set[str] = field(default_factory=set)
    """Names of member nodes."""
    patterns: list[str] = field(default_factory=list)
    """Patterns of the names of member nodes."""
    selectors: list[LabelSelector] = field(default_factory=list)
    """Selectors of the labels of member nodes."""
    children: list[str] = field(default_factory=list)
    """Names of member HyperNodes."""
    faults: Faults = field(default_factory=dict)


class HyperNodeTable:
    """All HyperNode objects and their tree."""

    def __init__(self, version: Version, malformed: MalformedFields) -> None:
        self._version = version
        self._malformed = malformed
        self._entries: dict[str, _Entry] = {}
        self._tree: HyperNodes | None = None
        self._facts: NodeFacts | None = None
        """The nodes for which the tree was built."""
        self._conflicts: dict[str, Faults] = {}
        """HyperNode -> members and tier names that the last tree left out."""

    # --- objects in ---
    def upsert(self, obj: HyperNode) -> None:
        """Stores an object."""
        for field_, problem in self._store(obj).items():
            self._malformed.add(field_, problem)

    def _store(self, obj: HyperNode) -> Faults:
        """Stores an object, unless its name or tier is malformed. Returns the malformed fields."""
        name = obj.metadata.name
        old = self._entries.get(name)
        if old is not None and old.obj.spec == obj.spec:
            return old.faults
        if name == CLUSTER_TOP:
            return {"metadata.name": "this is the name of the virtual HyperNode above all others"}
        if not 0 <= obj.spec.tier <= HIGHEST_TIER:
            return {"spec.tier": f"{str(obj.spec.tier)[:32]} is not between 0 and {HIGHEST_TIER}"}
        entry = _Entry(obj)
        for i, member in enumerate(obj.spec.members or ()):
            _read_member(entry, f"spec.members[{i}]", member)
        self._entries[name] = entry
        self._tree = None
        self._version.changed()
        return entry.faults

    def delete(self, name: str) -> None:
        """Removes a deleted HyperNode."""
        if self._entries.pop(name, None) is not None:
            self._tree = None
            self._version.changed()

    # --- the tree out ---
    def tree(self, facts: NodeFacts) -> HyperNodes:
        """Returns the tree over the given nodes. Reports the problems that the previous tree did not have."""
        if self._tree is not None and self._facts is facts:
            return self._tree
        conflicts: dict[str, Faults] = {}
        parents = self._parents(conflicts)
        by_pattern = self._matched(facts)
        seeds = [
            HyperNodeSeed(name, entry.obj.spec.tier, _rows(facts, entry, by_pattern), parents.get(name, ""))
            for name, entry in self._entries.items()
        ]
        self._tree, self._facts = HyperNodes(len(facts), seeds, self._tier_names(conflicts)), facts
        before, self._conflicts = self._conflicts, conflicts
        self._malformed.report(
            Malformed("HyperNode", "", name, place, problem)
            for name, faults in conflicts.items()
            for place, problem in faults.items()
            if before.get(name, {}).get(place) != problem
        )
        return self._tree

    def _matched(self, facts: NodeFacts) -> dict[str, list[int]]:
        """Pattern -> rows of the nodes whose names contain a match. One search per name tries all patterns."""
        patterns = list(dict.fromkeys(pattern for entry in self._entries.values() for pattern in entry.patterns))
        rows: dict[str, list[int]] = {pattern: [] for pattern in patterns}
        if patterns:
            wanted = options()
            wanted.max_mem = 1 << 34  # an upper bound, not an allocation; with too little memory a set misses matches
            together = re2.Set.SearchSet(wanted)
            for pattern in patterns:
                together.Add(pattern)
            together.Compile()
            for row, name in enumerate(facts.names):
                for number in together.Match(name.encode(errors="replace")) or ():
                    rows[patterns[number]].append(row)
        return rows

    def _parents(self, conflicts: dict[str, Faults]) -> dict[str, str]:
        """HyperNode -> its parent. If it has several, the parent with the lowest tier counts, then the first by
        name."""
        parents: dict[str, str] = {}
        for name, entry in sorted(self._entries.items(), key=lambda item: (item[1].obj.spec.tier, item[0])):
            for child in entry.children:
                if child not in self._entries or parents.get(child) == name:
                    continue
                if child in parents:
                    problem = f"HyperNode {child} is a member of {parents[child]} already; left out of this one"
                elif _is_above(parents, child, name):
                    problem = f"HyperNode {child} is or contains this one; left out of it"
                else:
                    parents[child] = name
                    continue
                conflicts.setdefault(name, {})[f"spec.members[{child}]"] = problem
        return parents

    def _tier_names(self, conflicts: dict[str, Faults]) -> dict[str, int]:
        tiers: dict[str, int] = {}
        for name, entry in sorted(self._entries.items()):
            spec = entry.obj.spec
            tier = tiers.setdefault(spec.tier_name, spec.tier) if spec.tier_name else spec.tier
            if tier != spec.tier:
                lower = tiers[spec.tier_name] = min(tier, spec.tier)
                conflicts.setdefault(name, {})["spec.tierName"] = (
                    f"{spec.tier_name[:64]!r} is the name of tier {tier} as well as of {spec.tier}; taken for {lower}"
                )
        return tiers


def _is_above(parents: dict[str, str], upper: str, name: str) -> bool:
    """Whether ``upper`` is ``name`` or contains it."""
    while name and name != upper:
        name = parents.get(name, "")
    return name == upper


def _rows(facts: NodeFacts, entry: _Entry, by_pattern: dict[str, list[int]]) -> Rows:
    members: NDArray[np.bool_] = np.zeros(len(facts), dtype=bool)
    for name in entry.nodes:
        row = facts.index.get(name)
        if row is not None:
            members[row] = True
    for pattern in entry.patterns:
        members[by_pattern[pattern]] = True
    for selector in entry.selectors:
        selected = nodes_with_labels(facts, selector.match_labels or {})
        if selector.match_expressions:
            selected &= nodes_of_term(
                facts, NodeSelectorTerm(match_expressions=selector.match_expressions), ignore_field
            )
        members |= selected
    return np.flatnonzero(members)


def _read_member(entry: _Entry, place: str, member: HyperNodeMember) -> None:
    selector = member.selector
    if member.type == MEMBER_HYPER_NODE:
        if selector.exact_match is None or not selector.exact_match.name:
            entry.faults[f"{place}.selector"] = "a HyperNode is a member by exactMatch only"
        elif selector.exact_match.name not in entry.children:
            entry.children.append(selector.exact_match.name)
        return
    if member.type != MEMBER_NODE:
        entry.faults[f"{place}.type"] = f"{member.type[:32]!r} is neither {MEMBER_NODE} nor {MEMBER_HYPER_NODE}"
        return
    if selector.exact_match is not None:
        entry.nodes.add(selector.exact_match.name)
    if selector.regex_match is not None:
        problem = pattern_fault(selector.regex_match.pattern)
        if problem:
            entry.faults[f"{place}.selector.regexMatch.pattern"] = problem
        else:
            entry.patterns.append(selector.regex_match.pattern)
    labels = selector.label_match
    if labels is not None and (labels.match_labels or labels.match_expressions):  # an empty one selects nothing
        problems: list[str] = []
        if is_valid(labels, lambda key, problem: problems.append(f"{key}: {problem}")):
            entry.selectors.append(labels)
        else:
            entry.faults[f"{place}.selector.labelMatch"] = "; ".join(problems)
