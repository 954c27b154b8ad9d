"""HyperNodes as the labels of Nodes describe them (Volcano's discovery with the source ``label``), and the
configuration of the discovery in the format of Volcano's ``volcano-controller.conf``.

Of the sources of a configuration this program knows ``label``: types of topologies, each with the labels that Nodes
carry, from the highest tier down to ``kubernetes.io/hostname``, which stands for the Node itself.

Nodes with the same value of the label of tier 1 make a HyperNode of tier 1; these make HyperNodes of tier 2 by the
values of the next label, and so on. A Node counts up to the first label that it lacks. A HyperNode that exists for a
label and a value keeps its name; a new one gets a name that follows from them, so discovery is repeatable.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from scheduler.api.kinds import HYPER_NODE
from scheduler.api.messages import type_of
from scheduler.api.names import HOSTNAME_LABEL, NETWORK_TOPOLOGY_SOURCE
from scheduler.api.objects import Node
from scheduler.api.scheduling import MEMBER_HYPER_NODE, MEMBER_NODE, HyperNode
from scheduler.controllers.effects import Json
from scheduler.framework.documents import DocumentError, read_yaml

SOURCES: Final = "networkTopologyDiscovery"
TYPES: Final = "networkTopologyTypes"
LABEL: Final = "label"
"""The source that reads labels of Nodes; also the value of the label by which its HyperNodes are known."""
MAX_TYPE_LENGTH: Final = 20
"""Characters in the name of a topology type, which becomes a part of names of HyperNodes."""
Topologies = Mapping[str, tuple[str, ...]]
"""Topology type -> the keys of the labels that distinguish its HyperNodes, tier 1 first."""
Problems = list[tuple[str, str]]
"""(field, problem) of the parts that are set aside."""


class DiscoveryError(ValueError):
    """The text cannot be used at all."""


class Discovery(msgspec.Struct, frozen=True):
    """The topologies that a configuration describes."""

    topologies: Topologies | None
    """None: HyperNodes are not made from labels."""
    problems: tuple[tuple[str, str], ...] = ()


def parse_discovery(text: str) -> Discovery:
    """Parses a configuration. A source or a topology type that cannot be used is left out, with its problem. Raises
    DiscoveryError."""
    try:
        document = read_yaml(text)
    except DocumentError as error:
        raise DiscoveryError(f"line {error.line}: {error}" if error.line else str(error)) from None
    sources = _mapping(document if document is not None else {}, "the file").get(SOURCES)
    problems: Problems = []
    for i, value in enumerate(_list(sources, SOURCES)):
        where = f"{SOURCES}[{i}]"
        source = _mapping(value, where)
        if source.get("enabled") is not True:
            continue
        if source.get("source") == LABEL:
            types = _mapping(_mapping(source.get("config"), f"{where}.config").get(TYPES), f"{where}.config.{TYPES}")
            return Discovery(_topologies(types, f"{where}.config.{TYPES}", problems), tuple(problems))
        problems.append((f"{where}.source", f"{str(source.get('source'))[:64]!r} is not supported, only {LABEL!r} is"))
    return Discovery(None, tuple(problems))


def _topologies(types: Mapping[Any, Any], where: str, problems: Problems) -> Topologies:
    topologies: dict[str, tuple[str, ...]] = {}
    for name, value in sorted(types.items(), key=lambda item: str(item[0])):
        place = f"{where}.{str(name)[:64]}"
        if not isinstance(name, str) or not 0 < len(name) <= MAX_TYPE_LENGTH:
            problems.append((place, f"the name of a topology type has between 1 and {MAX_TYPE_LENGTH} characters"))
            continue
        keys = [_label(each) for each in _list(value, place)]
        if not all(keys):
            problems.append((f"{place}[{keys.index('')}].nodeLabel", "it is not the key of a label"))
        elif len(set(keys)) < len(keys):
            problems.append((place, "there are duplicate labels"))
        else:
            if keys and keys[-1] != HOSTNAME_LABEL:
                problem = f"{keys[-1]} stands in the place of {HOSTNAME_LABEL} and makes no HyperNodes"
                problems.append((f"{place}[{len(keys) - 1}].nodeLabel", problem))
            topologies[name] = tuple(reversed(keys[:-1]))
    return topologies


def _label(value: object) -> str:
    key = value.get("nodeLabel") if isinstance(value, dict) else None
    return key if isinstance(key, str) else ""


def _mapping(value: object, where: str) -> Mapping[Any, Any]:
    if not isinstance(value, dict):
        raise DiscoveryError(f"{where}: expected a mapping, got {type_of(value)}")
    return value


def _list(value: object, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise DiscoveryError(f"{where}: expected a list, got {type_of(value)}")
    return value


_UNFIT: Final = re.compile(r"[^a-z0-9.-]")
_DIGITS: Final = 5
"""Hexadecimal digits at the end of a name."""


@dataclass(slots=True)
class Discovered:
    """The desired state of a HyperNode."""

    name: str
    tier: int
    key: str
    """The label of the Nodes below it, which is also the name of the tier."""
    value: str
    members: set[str] = field(default_factory=set)
    """Names of Nodes for tier 1, of HyperNodes for others."""

    @property
    def labels(self) -> dict[str, str]:
        return {NETWORK_TOPOLOGY_SOURCE: LABEL, self.key: self.value}

    @property
    def spec(self) -> Json:
        kind = MEMBER_NODE if self.tier == 1 else MEMBER_HYPER_NODE
        members = [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in sorted(self.members)]
        return {"tier": self.tier, "tierName": self.key, "members": members}

    @property
    def manifest(self) -> Json:
        metadata: dict[str, Any] = {"name": self.name, "labels": self.labels}
        return {"apiVersion": HYPER_NODE.api_version, "kind": HYPER_NODE.name, "metadata": metadata, "spec": self.spec}

    def is_met_by(self, obj: HyperNode) -> bool:
        """Whether the object matches."""
        labels = obj.metadata.labels or {}
        kind = MEMBER_NODE if self.tier == 1 else MEMBER_HYPER_NODE
        members = [(m.type, m.selector.exact_match and m.selector.exact_match.name) for m in obj.spec.members or ()]
        return (
            (obj.spec.tier, obj.spec.tier_name) == (self.tier, self.key)
            and all(labels.get(key) == value for key, value in self.labels.items())
            and members == [(kind, name) for name in sorted(self.members)]
        )


def discovered_by_label(obj: HyperNode) -> bool:
    """Whether an object was made by this discovery."""
    return (obj.metadata.labels or {}).get(NETWORK_TOPOLOGY_SOURCE) == LABEL


def discover(nodes: Iterable[Node], topologies: Topologies, existing: Iterable[HyperNode]) -> list[Discovered]:
    """The HyperNodes of these Nodes, low tiers first. ``existing``: all existing HyperNodes."""
    names = _Names(existing)
    found: dict[tuple[str, str], Discovered] = {}
    for node in sorted(nodes, key=lambda each: each.metadata.name):
        labels = node.metadata.labels or {}
        for topology, keys in topologies.items():
            member = node.metadata.name
            for tier, key in enumerate(keys, 1):
                value = labels.get(key)
                if value is None:
                    break
                one = found.get((key, value))
                if one is None:
                    one = found[key, value] = Discovered(names.of(topology, tier, key, value), tier, key, value)
                one.members.add(member)
                member = one.name
    return sorted(found.values(), key=lambda one: (one.tier, one.name))


class _Names:
    """Gives HyperNodes their names."""

    def __init__(self, existing: Iterable[HyperNode]) -> None:
        self._taken: set[str] = set()
        self._known: dict[tuple[str, str], list[str]] = {}
        for obj in existing:
            self._taken.add(obj.metadata.name)
            if discovered_by_label(obj):
                for label in (obj.metadata.labels or {}).items():
                    self._known.setdefault(label, []).append(obj.metadata.name)

    def of(self, topology: str, tier: int, key: str, value: str) -> str:
        """The name of the HyperNode that exists for the label and value, else a new one."""
        prefix = f"hypernode-{_UNFIT.sub('-', topology.lower())}-tier{tier}-"
        known = sorted(name for name in self._known.get((key, value), ()) if name.startswith(prefix))
        if known:
            return known[0]
        digest = hashlib.sha256(f"{topology}/{key}={value}".encode()).hexdigest()
        name = next(name for n in range(_DIGITS, len(digest)) if (name := prefix + digest[:n]) not in self._taken)
        self._taken.add(name)
        return name
