"""Likely mistakes in manifests, each with its file, object and field: what an API server would refuse raises
ManifestError, everything else is a warning.

An object with a uid was accepted by the API server of its cluster, so its fields are not checked. The fields of every
kind come from ``known_fields.json``, which ``make crds`` makes (``controlplane/crds/fields.py``).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from scheduler.api.batch import JobFlow
from scheduler.api.kinds import DEVICE_CLASS, JOB_FLOW, JOB_TEMPLATE, KINDS, NODE, PRIORITY_CLASS, QUEUE, Kind
from scheduler.api.messages import closest, did_you_mean, value_of
from scheduler.api.names import DEFAULT_NAMESPACE, DEFAULT_QUEUE, ROOT_QUEUE, SYSTEM_CRITICAL_CLASSES
from scheduler.api.quantity import QuantityError, is_quantity, parse_quantity
from scheduler.cluster.manifests import Manifest, ManifestError
from scheduler.cluster.memory.cluster import MemoryCluster
from scheduler.framework.arguments import Arguments
from scheduler.framework.configuration import Configuration
from scheduler.plugins.capacity_card.card_labels import read_cards
from scheduler.plugins.capacity_card.card_resources import CardResources
from scheduler.plugins.capacity_card.plugin import CapacityCard
from scheduler.webhooks.jobflow import missing_templates
from scheduler.webhooks.known_names import ClusterNames
from scheduler.webhooks.mistakes import MAX_WARNINGS, items, mapping, mistakes

MAX_OBJECTS: Final = 5
"""Objects with the same mistake that are named."""
MAX_TEXTS: Final = 12
"""Texts that a field may have which are named."""
_NAMED: Final = (NODE, DEVICE_CLASS, QUEUE, PRIORITY_CLASS)
"""The kinds of objects to whose names others refer."""
_NO_EFFECT: Final = frozenset(
    (group, kind)
    for group, kinds in {
        "": ("ServiceAccount", "Endpoints", "Event"),
        "admissionregistration.k8s.io": (
            "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ),
        "apiextensions.k8s.io": ("CustomResourceDefinition",),
        "apps": ("ControllerRevision",),
        "autoscaling": ("HorizontalPodAutoscaler",),
        "coordination.k8s.io": ("Lease",),
        "discovery.k8s.io": ("EndpointSlice",),
        "networking.k8s.io": ("Ingress", "IngressClass", "NetworkPolicy"),
        "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    }.items()
    for kind in kinds
)  # fmt: skip
"""Groups and kinds of Kubernetes that often stand beside jobs and that no decision depends on."""


def manifest_warnings(
    manifests: Sequence[Manifest],
    schedulers: Sequence[str],
    nodes: Iterable[Manifest] = (),
    configuration: Configuration | None = None,
) -> list[str]:
    """The warnings about manifests. Of the objects with the same mistake, five are named and the others counted.

    ``schedulers``: the names of the scheduler; ``nodes``: further manifests, with the nodes and JobTemplates of the
    cluster; ``configuration``: the configuration of the scheduler, which may have rules for names of cards. Raises
    ManifestError.
    """
    everything = [*manifests, *nodes]
    known = known_names(everything, schedulers, configuration)
    templates = _job_templates(everything)
    titles: dict[str, list[str]] = {}
    others: Counter[str] = Counter()
    for manifest in manifests:
        for problem in (*_problems(manifest, known), *_missing_templates(manifest, templates)):
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


def submission_warnings(
    manifests: Sequence[Manifest], cluster: MemoryCluster, schedulers: Sequence[str], configuration: Configuration
) -> list[str]:
    """The warnings about manifests that are submitted to a cluster. Raises ManifestError."""
    named = (*_NAMED, JOB_TEMPLATE)
    there = [Manifest("the cluster", kind, raw) for kind in named for raw in cluster.server.of(kind)]
    return manifest_warnings(manifests, schedulers, there, configuration)


def known_names(
    manifests: Iterable[Manifest], schedulers: Sequence[str], configuration: Configuration | None = None
) -> ClusterNames:
    """The names of the schedulers, and those of the objects. Without a node, resources and cards are not known."""
    options = [] if configuration is None else [option for tier in configuration.tiers for option in tier]
    arguments = next((option.arguments for option in options if option.name == CapacityCard.name), {})
    card_resources = CardResources.configured(Arguments(arguments))
    resources, cards, labels, taints = set[str](), set[str](), set[str](), set[str]()
    names: dict[Kind, set[str]] = {QUEUE: {ROOT_QUEUE, DEFAULT_QUEUE}, PRIORITY_CLASS: set(SYSTEM_CRITICAL_CLASSES)}
    complete = False
    for manifest in manifests:
        kind, raw = manifest.kind, manifest.raw
        if kind is NODE:
            complete = True
            own_labels, status = _texts(raw["metadata"].get("labels")), mapping(raw.get("status"))
            labels |= own_labels.keys()
            taints.update(str(mapping(each).get("key")) for each in items(mapping(raw.get("spec")).get("taints")))
            own = {*mapping(status.get("capacity")), *mapping(status.get("allocatable"))}
            resources |= own
            of_node = read_cards(raw["metadata"]["name"], own_labels, own, card_resources)
            cards.update(of_node.by_resource.values())
            cards.update(name for family in of_node.families for name in (family.product, family.mps) if name)
        elif kind is DEVICE_CLASS:
            extended = mapping(raw.get("spec")).get("extendedResourceName")
            resources |= {extended} if isinstance(extended, str) else set()
        elif kind in names:
            names[kind].add(raw["metadata"].get("name") or "")
    return ClusterNames(
        schedulers=tuple(schedulers),
        resources=frozenset(resources),
        cards=frozenset(cards),
        queues=frozenset(names[QUEUE]),
        priority_classes=frozenset(names[PRIORITY_CLASS]),
        labels=frozenset(labels),
        taints=frozenset(taints),
        complete=complete,
    )


def _problems(manifest: Manifest, known: ClusterNames) -> Iterator[str]:
    """The warnings about a manifest, without the object. Raises ManifestError."""
    kind, raw = manifest.kind, manifest.raw
    if kind is None and (raw["apiVersion"].rpartition("/")[0], raw["kind"]) in _NO_EFFECT:
        return
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


def _job_templates(manifests: Iterable[Manifest]) -> dict[str, set[str]]:
    """The names of JobTemplates by namespace."""
    found: dict[str, set[str]] = {}
    for manifest in manifests:
        if manifest.kind is JOB_TEMPLATE:
            found.setdefault(_namespace(manifest), set()).add(manifest.raw["metadata"].get("name") or "")
    return found


def _missing_templates(manifest: Manifest, templates: dict[str, set[str]]) -> list[str]:
    """The warnings about JobTemplates of a new JobFlow that do not exist. A stored flow may have run its steps."""
    if manifest.kind is not JOB_FLOW or manifest.raw["metadata"].get("uid"):
        return []
    try:
        steps = msgspec.convert(manifest.raw, JobFlow).spec.flows or ()
    except msgspec.ValidationError:  # another message says what is malformed
        return []
    return missing_templates(
        ((i, step.name) for i, step in enumerate(steps)), templates.get(_namespace(manifest), set())
    )


def _namespace(manifest: Manifest) -> str:
    return manifest.raw["metadata"].get("namespace") or DEFAULT_NAMESPACE


def _others(number: int) -> str:
    """The end of a warning that is also about other objects."""
    return f" ({number} more object{'s' if number > 1 else ''} with it)" if number else ""


def _title(manifest: Manifest) -> str:
    """File, document, kind and name of an object."""
    meta, kind = manifest.raw["metadata"], manifest.kind
    if kind is None:
        return manifest.where
    name = meta.get("name") or meta.get("generateName")
    namespace = f"{_namespace(manifest)}/" if kind.namespaced else ""
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


def _texts(value: Any) -> dict[str, str]:
    return {key: each for key, each in mapping(value).items() if isinstance(each, str)}


def object_warnings(
    cluster: MemoryCluster, schedulers: Sequence[str], configuration: Configuration, *objects: tuple[Kind, str, str]
) -> list[str]:
    """The warnings about objects of a live cluster, given by kind, namespace and name; missing ones are skipped."""
    server = cluster.server
    manifests = (Manifest("", kind, raw) for kind in _NAMED for raw in server.of(kind))
    known = known_names(manifests, schedulers, configuration)
    return [
        f"{kind.name} {f'{namespace}/' if namespace else ''}{name}: {problem}"
        for kind, namespace, name in objects
        if (raw := server.find(kind, namespace, name)) is not None
        for problem in mistakes(kind, raw, known)
    ]


ANY: Final = 0
"""The type of fields whose values are not looked into."""
QUANTITY: Final = 1
EVERY_KEY: Final = "*"
"""The key of a type whose fields all have one type."""


class FieldProblem(NamedTuple):
    """A field that an API server would refuse or ignore."""

    field: str
    problem: str
    refused: bool
    """Whether every API server refuses it. An unknown field is only ignored, unless the client asks for more."""


class _KnownFields(msgspec.Struct, frozen=True):
    kinds: dict[str, int]
    enums: list[list[str]]
    """Types -1, -2 and so on: the texts that a field may have."""
    types: list[dict[str, int]]


@cache
def _known_fields() -> _KnownFields:
    data = Path(__file__).with_name("known_fields.json").read_bytes()
    return msgspec.json.decode(data, type=_KnownFields)


def field_problems(kind: Kind, raw: dict[str, Any]) -> Iterator[FieldProblem]:
    """The problems of the fields of an object. Values of a wrong type are left to its decoder."""
    known = _known_fields()
    type_ = known.kinds.get(f"{kind.api_version} {kind.name}", ANY)
    if type_ != ANY and not _fits(raw, type_):
        yield from _field_problems(raw, type_, "", kind.custom)


def _fits(value: object, type_: int) -> bool:
    """Whether a value certainly has no problem. Almost all have none, and finding the problems takes longer."""
    if type_ == QUANTITY:
        return isinstance(value, str) and is_quantity(value)
    if type_ < ANY and not isinstance(value, list):
        return _is_one_of(value, type_)
    if isinstance(value, dict):
        inner = _checked_fields(type_, *value)
        if inner is None:
            return False
        for name, type_ in inner:
            if not _fits(value[name], type_):
                return False
    elif isinstance(value, list):
        for item in value:
            if not _fits(item, type_):
                return False
    return True


@lru_cache(maxsize=4096)
def _checked_fields(type_: int, *names: str) -> list[tuple[str, int]] | None:
    """The fields with these names whose values are looked into, each with its type; None if the type lacks one of the
    names. Most objects of a kind have the same fields."""
    fields = _known_fields().types[type_]
    every = fields.get(EVERY_KEY)
    types = [fields.get(name) if every is None else every for name in names]
    if None in types:
        return None
    return [(name, inner) for name, inner in zip(names, types, strict=True) if inner]


def _is_one_of(value: object, type_: int) -> bool:
    """Whether a value is one of the texts that a field may have. API servers take an empty one for the default."""
    return not isinstance(value, str) or not value or value in _known_fields().enums[-1 - type_]


def _field_problems(value: object, type_: int, path: str, custom: bool) -> Iterator[FieldProblem]:
    """``custom``: whether the texts that fields may have are those of our resource definitions. Those of Kubernetes'
    kinds grow with its versions."""
    if type_ == QUANTITY:
        try:
            parse_quantity(value if isinstance(value, str | int | float) else value_of(value))
        except QuantityError as error:
            yield FieldProblem(path, str(error), True)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _field_problems(item, type_, f"{path}[{i}]", custom)
    elif type_ < ANY:
        if not _is_one_of(value, type_):
            known, text = [each for each in _known_fields().enums[-1 - type_] if each], str(value)
            listed = ", ".join(known[:MAX_TEXTS]) + (", ..." if len(known) > MAX_TEXTS else "")
            problem = f"unsupported value {text[:64]!r}; it may be {listed}{did_you_mean(text, known)}"
            yield FieldProblem(path, problem, custom)
    elif isinstance(value, dict):
        fields = _known_fields().types[type_]
        every = fields.get(EVERY_KEY)
        for name, part in value.items():
            inner = fields.get(name) if every is None else every
            if inner is None:
                hint = did_you_mean(name, fields)
                yield FieldProblem(_inner(path, name), f"unknown field is ignored{hint}", False)
            elif inner != ANY:
                at = _inner(path, name) if every is None else f"{path}[{name}]"
                yield from _field_problems(part, inner, at, custom)


def _inner(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
