"""The configuration of the discovery of network topologies, in the format of Volcano's ``volcano-controller.conf``.

Of its sources this program knows ``label``: types of topologies, each with the labels that Nodes carry, from the
highest tier down to ``kubernetes.io/hostname``, which stands for the Node itself.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler.api.names import HOSTNAME_LABEL
from scheduler.api.written_values import type_of
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
    """The HyperNodes that a configuration asks for."""

    topologies: Topologies | None
    """None: HyperNodes are not made from labels."""
    problems: tuple[tuple[str, str], ...] = ()


def parse_discovery(text: str) -> Discovery:
    """Raises DiscoveryError. A source or a topology type that cannot be used is left out, with its problem."""
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
