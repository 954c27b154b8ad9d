"""Likely mistakes in manifests, each with its file, object and field: what an API server would refuse raises
ManifestError, everything else is a warning.

An object with a uid was accepted by the API server of its cluster, so its fields are not checked.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from scheduler.api.kinds import DEVICE_CLASS, KINDS, NODE, Kind
from scheduler.api.names import DEFAULT_NAMESPACE
from scheduler.api.suggestions import closest
from scheduler.cluster.known_fields import field_problems
from scheduler.cluster.manifests import Manifest, ManifestError
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.plugins.capacity_card.card_labels import read_node
from scheduler.webhooks.known_names import NodeNames
from scheduler.webhooks.mistakes import MAX_WARNINGS, mistakes

MAX_OBJECTS: Final = 5
"""Objects with the same mistake that are named."""


def manifest_warnings(
    manifests: Sequence[Manifest], schedulers: Sequence[str], nodes: Iterable[Manifest] = ()
) -> list[str]:
    """The warnings about manifests. Of the objects with the same mistake, five are named and the others counted.

    ``schedulers``: the names of the scheduler; ``nodes``: further manifests with the nodes of the cluster. Raises
    ManifestError.
    """
    known = known_names([*manifests, *nodes], schedulers)
    titles: dict[str, list[str]] = {}
    others: Counter[str] = Counter()
    for manifest in manifests:
        for problem in _problems(manifest, known):
            named = titles.setdefault(problem, [])
            if len(named) < MAX_OBJECTS:
                named.append(_title(manifest))
            else:
                others[problem] += 1
    return [
        f"{title}: {problem}" + (_others(others[problem]) if title is named[-1] else "")
        for problem, named in titles.items()
        for title in named
    ]


def known_names(manifests: Iterable[Manifest], schedulers: Sequence[str]) -> NodeNames:
    """The names of the schedulers, and of the resources and cards of all nodes. Without a node nothing is known."""
    resources: set[str] = set()
    cards: set[str] = set()
    complete = False
    for manifest in manifests:
        if manifest.kind is NODE:
            complete = True
            labels = _texts(manifest.raw["metadata"].get("labels"))
            status = _mapping(manifest.raw.get("status"))
            own = {*_mapping(status.get("capacity")), *_mapping(status.get("allocatable"))}
            resources |= own
            of_node = read_node(manifest.raw["metadata"]["name"], labels, own)
            cards.update(of_node.by_resource.values())
            cards.update(name for family in of_node.families for name in (family.product, family.mps) if name)
        elif manifest.kind is DEVICE_CLASS:
            extended = _mapping(manifest.raw.get("spec")).get("extendedResourceName")
            resources |= {extended} if isinstance(extended, str) else set()
    return NodeNames(tuple(schedulers), frozenset(resources), frozenset(cards), complete)


def _problems(manifest: Manifest, known: NodeNames) -> Iterator[str]:
    """The warnings about a manifest, without the object. Raises ManifestError."""
    kind, raw = manifest.kind, manifest.raw
    if kind is None:
        yield f"unknown kind {raw['kind']} of {raw['apiVersion']} is carried through{_similar_kind(raw)}"
        return
    if not raw["metadata"].get("uid"):
        for number, problem in enumerate(field_problems(kind, raw)):
            if problem.refused:
                raise ManifestError(f"{_title(manifest)}: {problem.field}: {problem.problem}")
            if number < MAX_WARNINGS:
                yield f"{problem.field}: {problem.problem}"
    yield from mistakes(kind, raw, known)


def _others(number: int) -> str:
    """The end of a warning that is also about other objects."""
    return f" ({number} more object{'s' if number > 1 else ''} with it)" if number else ""


def _title(manifest: Manifest) -> str:
    """File, document, kind and name of an object."""
    meta, kind = manifest.raw["metadata"], manifest.kind
    if kind is None:
        return manifest.where
    name = meta.get("name") or meta.get("generateName")
    namespace = f"{meta.get('namespace') or DEFAULT_NAMESPACE}/" if kind.namespaced else ""
    return f"{manifest.where}: {kind.name} {namespace}{name}"


def _similar_kind(raw: dict[str, Any]) -> str:
    """The end of a warning about an unknown kind: a known one that resembles it, or ""."""
    group, name = raw["apiVersion"].rpartition("/")[0], raw["kind"]
    own: dict[str, Kind] = {kind.name: kind for kind in KINDS if kind.group == group}
    found = own.get(closest(name, own))
    if found is None and not own:
        groups: dict[str, Kind] = {kind.group: kind for kind in KINDS if kind.name == name}
        found = groups.get(closest(group, groups)) if group else None
    return f"; did you mean {found.name} of {found.api_version}?" if found else ""


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> dict[str, str]:
    return {key: each for key, each in _mapping(value).items() if isinstance(each, str)}


def object_warnings(cluster: MemoryCluster, schedulers: Sequence[str], *objects: tuple[Kind, str, str]) -> list[str]:
    """The warnings about objects of a live cluster, given by kind, namespace and name; missing ones are skipped."""
    server = cluster.server
    known = known_names(
        (Manifest("", kind, raw) for kind in (NODE, DEVICE_CLASS) for raw in server.of(kind)), schedulers
    )
    return [
        f"{kind.name} {f'{namespace}/' if namespace else ''}{name}: {problem}"
        for kind, namespace, name in objects
        if (raw := server.find(kind, namespace, name)) is not None
        for problem in mistakes(kind, raw, known)
    ]
