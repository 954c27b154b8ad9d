"""hyperNode-controller: the number of nodes in the status of each HyperNode, and HyperNodes made from labels of Nodes
where the configuration asks for that."""

from collections.abc import Iterable
from typing import Any, Final

import re2

from scheduler.api.kinds import CONFIG_MAP, HYPER_NODE, NODE
from scheduler.api.names import CONTROLLER_CONFIGURATION
from scheduler.api.objects import ConfigMap, LabelSelector, Node
from scheduler.api.scheduling import HyperNode
from scheduler.api.selectors import ignore_field, is_valid, matches
from scheduler.controllers.controller import Controller, latest, observes
from scheduler.controllers.effects import Create, Delete, Effect, Patch, Plan, malformed
from scheduler.controllers.hypernode.discovery import (
    Discovery,
    DiscoveryError,
    discover,
    discovered_by_label,
    parse_discovery,
)
from scheduler.controllers.store import Key, Store, key_of
from scheduler.framework.patterns import options, pattern_fault

DISCOVERY: Final[Key] = ("", "*")
"""The key of all HyperNodes that are created from labels; no object can have this name."""
_NONE: Final = Discovery(None)


class HyperNodeController(Controller):
    """Counts the Nodes of HyperNodes, and creates HyperNodes from labels of Nodes."""

    name = "hyperNode-controller"

    def __init__(self, store: Store, configuration: Key) -> None:
        """``configuration``: namespace and name of the ConfigMap with the configuration."""
        self._store = store
        self._place = configuration
        self._discovery = _NONE
        self._problems: dict[str, str] = {}
        """Problems of the configuration to report in Events, by field."""
        self._members: dict[str, Members] = {}
        """HyperNode -> its Nodes."""

    # --- observing ----------------------------------------------------------------------------------------------------
    @observes(NODE)
    def _observe_node(self, old: Node | None, new: Node | None, now: float) -> list[Key]:
        before, after = (None if node is None else node.metadata.labels or {} for node in (old, new))
        if before == after:
            return []
        name = latest(old, new).metadata.name
        changed = [hn for hn, members in self._members.items() if members.update(name, new)]
        keys: list[Key] = [("", hn) for hn in changed]
        used = {key for labels in (self._discovery.topologies or {}).values() for key in labels}
        if any((before or {}).get(key) != (after or {}).get(key) for key in used):
            keys.append(DISCOVERY)
        return keys

    @observes(HYPER_NODE)
    def _observe_hyper_node(self, old: HyperNode | None, new: HyperNode | None, now: float) -> list[Key]:
        if new is None:
            if old is not None:
                self._members.pop(old.metadata.name, None)
            return [DISCOVERY] if old is not None and discovered_by_label(old) else []
        name = new.metadata.name
        counted = self._members.get(name)
        if counted is None or counted.spec != new.spec:
            self._members[name] = Members(new, self._store.all(NODE))
        keys: list[Key] = [("", name)]
        if any(obj is not None and discovered_by_label(obj) for obj in (old, new)) and not _same_members(old, new):
            keys.append(DISCOVERY)
        return keys

    @observes(CONFIG_MAP)
    def _observe_configuration(self, old: ConfigMap | None, new: ConfigMap | None, now: float) -> list[Key]:
        if key_of(latest(old, new)) != self._place:
            return []
        try:
            text = "" if new is None else (new.data or {}).get(CONTROLLER_CONFIGURATION, "")
            self._discovery = parse_discovery(text)
            self._problems = dict(self._discovery.problems)
        except DiscoveryError as error:  # the last good one stays in force
            self._problems = {"": str(error)}
        return [DISCOVERY]

    # --- planning -----------------------------------------------------------------------------------------------------
    def plan(self, key: Key, now: float) -> Plan:
        return self._discover() if key == DISCOVERY else self._count(key[1])

    def _count(self, name: str) -> Plan:
        obj = self._store.get(HYPER_NODE, "", name)
        members = self._members.get(name)
        if obj is None or members is None or obj.status.node_count == members.count:
            return Plan()
        body = {"status": {"nodeCount": members.count}}
        return Plan().then(Patch(HYPER_NODE, "", name, body, obj.metadata.uid, subresource="status", deferrable=True))

    def _discover(self) -> Plan:
        plan = Plan().then(*self._configuration_events())
        if self._discovery.topologies is None:
            return plan
        existing = {obj.metadata.name: obj for obj in self._store.all(HYPER_NODE)}
        wanted = discover(self._store.all(NODE), self._discovery.topologies, existing.values())
        tiers: dict[int, list[Effect]] = {}
        for one in wanted:
            obj = existing.get(one.name)
            if obj is None:
                tiers.setdefault(one.tier, []).append(Create(HYPER_NODE, one.manifest))
            elif not one.is_met_by(obj):
                body = {"metadata": {"labels": one.labels}, "spec": one.spec}
                tiers.setdefault(one.tier, []).append(Patch(HYPER_NODE, "", one.name, body, obj.metadata.uid))
        for _, effects in sorted(tiers.items()):
            plan.then(*effects)
        names = {one.name for one in wanted}
        return plan.then(
            *(
                Delete(HYPER_NODE, "", name, obj.metadata.uid)
                for name, obj in sorted(existing.items())
                if name not in names and discovered_by_label(obj)
            )
        )

    def _configuration_events(self) -> list[Effect]:
        """Events about the configuration, once for each version of it."""
        problems, self._problems = self._problems, {}
        obj = self._store.get(CONFIG_MAP, *self._place)
        field = f"data[{CONTROLLER_CONFIGURATION}]"
        if obj is None:
            return []
        return [malformed(CONFIG_MAP, obj, f"{field}.{at}" if at else field, text) for at, text in problems.items()]


def _same_members(old: HyperNode | None, new: HyperNode | None) -> bool:
    """Whether spec, labels and uid are equal; the status may differ."""
    if old is None or new is None:
        return False
    return (old.spec, old.metadata.labels, old.metadata.uid) == (new.spec, new.metadata.labels, new.metadata.uid)


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
