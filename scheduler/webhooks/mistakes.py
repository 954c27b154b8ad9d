"""Likely mistakes in objects that admission accepts: each is a warning with its field.

Names may be misspelt: a schedulerName, a resource, a card, a queue, a PriorityClass, the key of an annotation, label or
taint. Which names exist is known in part only, since a node or a scheduler may be added later, so nothing is refused.
``simulate`` and ``explain`` know all nodes; the webhooks only know queues and the names in them, and warn of a name if
it resembles a known one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final

from scheduler.api.card_alternatives import parse_alternatives
from scheduler.api.cards import cards_of_pod, parse_names, parse_quota, parse_request
from scheduler.api.json_texts import annotation_problems, config_map_problems, is_json_annotation
from scheduler.api.kinds import (
    ACJOB,
    BATCH_JOB,
    CONFIG_MAP,
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB_TEMPLATE,
    NODE,
    POD,
    QUEUE,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    VCJOB,
    Kind,
)
from scheduler.api.messages import REQUESTED_ONLY, closest, other_scheduler, similar_key, similar_resource
from scheduler.api.names import (
    CARD_ALTERNATIVES,
    CARD_BORROWING_LIMIT,
    CARD_CARD,
    CARD_LENDING_LIMIT,
    CARD_NAME,
    CARD_QUOTA,
    CARD_REQUEST,
    CPU,
    GROUP_NAME,
    HUAWEI_PREFIX,
    KUBE_SCHEDULER,
    MEMORY,
    PODS,
    QUEUE_NAME_ANNOTATION,
    STORAGE,
    VGPU_MEMORY_PERCENTAGE,
)
from scheduler.api.objects import ENDED_PHASES
from scheduler.api.printable import printable
from scheduler.api.queue import device_class_of
from scheduler.webhooks.annotation_values import LABELS_WITH_VALUES, has_value, value_problems
from scheduler.webhooks.contract import AdmissionRequest, ClusterView, Json, WebhookSettings
from scheduler.webhooks.job import quota_warnings, starting_warnings
from scheduler.webhooks.known_names import COMMON, READ_PREFIXES, KnownNames, QueueNames, read_keys

MAX_WARNINGS: Final = 10
"""Warnings about one object."""
MAX_LENGTH: Final = 512
"""Characters of a warning in an answer."""
MAX_COMPARED: Final = 32
"""Unknown names of an object for which similar ones are sought, which takes time."""
_LIKENESS: Final = 0.6
_CLOSE_LIKENESS: Final = 0.85
"""How much a name must resemble a known one where not all names are known."""
_STANDARD: Final = frozenset({CPU, MEMORY, PODS, STORAGE, "ephemeral-storage"})
_STANDARD_PREFIXES: Final = ("count/", "hugepages-", "attachable-volumes-", "deviceclass.resource.kubernetes.io/")
_ASCEND: Final = f"{HUAWEI_PREFIX}Ascend"
"""The beginning of resources that have a name for each model of chip."""
_COUNTS: Final = {
    CARD_QUOTA: parse_quota,
    CARD_BORROWING_LIMIT: parse_quota,
    CARD_LENDING_LIMIT: parse_quota,
    CARD_REQUEST: parse_request,
}


def warnings_of(request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> list[str]:
    """The warnings in the answer to a write that admission allows; none if an update changes neither the spec nor the
    annotations."""
    if not request.object:
        return []
    old, new = request.old, request.object
    if old and old.get("spec") == new.get("spec") and _annotations_of(old) == _annotations_of(new):
        return []
    found = mistakes(request.kind, new, QueueNames(cluster, settings))
    if request.dry_run and settings.dry_run_quota and request.kind is VCJOB:
        found = chain(found, islice(quota_warnings(new, old, cluster, settings), MAX_WARNINGS))
    return [printable(each)[:MAX_LENGTH] for each in found]


def mistakes(kind: Kind, raw: Json, known: KnownNames) -> Iterator[str]:
    """The likely mistakes of an object, at most ten: field and problem."""
    return islice(_Object(kind, raw, known).mistakes(), MAX_WARNINGS)


class _Object:
    """An object that is searched for mistakes."""

    def __init__(self, kind: Kind, raw: Json, known: KnownNames) -> None:
        self._kind = kind
        self._raw = raw
        self._known = known
        self._left = MAX_COMPARED

    def mistakes(self) -> Iterator[str]:
        kind, metadata, spec = self._kind, mapping(self._raw.get("metadata")), mapping(self._raw.get("spec"))
        yield from self._annotations(metadata, "")
        if kind is POD:
            status = mapping(self._raw.get("status"))
            if not spec.get("nodeName") and status.get("phase") not in ENDED_PHASES:
                yield from self._pod(metadata, spec, "spec")
            return
        if kind is CONFIG_MAP:
            data = {key: text for key, text in mapping(self._raw.get("data")).items() if isinstance(text, str)}
            for found in config_map_problems(str(metadata.get("name", "")), data):
                yield f"{found.field}: {found.problem}"
            return
        if kind is QUEUE:
            for field in ("capability", "deserved"):
                yield from self._amounts(spec.get(field), f"spec.{field}")
            return
        for path, part in job_specs(kind, spec):
            yield from self._scheduler(part.get("schedulerName"), path, served=True)
            yield from self._amounts(part.get("minResources"), f"{path}.minResources")
            yield from self._queue(part.get("queue"), f"{path}.queue")
            yield from self._priority_class(part, path)
            if kind in JOBS:
                stored = bool(metadata.get("uid"))
                yield from (f"{path}.tasks: {problem}" for problem in starting_warnings(part, stored=stored))
        for path, template in pod_templates(kind, spec):
            own = mapping(template.get("metadata"))
            yield from self._annotations(own, f"{path}.")
            yield from self._pod(own, mapping(template.get("spec")), f"{path}.spec")

    def _pod(self, metadata: Json, spec: Json, path: str) -> Iterator[str]:
        name, known = spec.get("schedulerName"), self._known
        yield from self._scheduler(name, path)
        if name in (None, "", KUBE_SCHEDULER) and GROUP_NAME in mapping(metadata.get("annotations")) and known.complete:
            problem = f"{'missing' if not name else repr(name)}, though the annotation {GROUP_NAME} names a PodGroup"
            yield f"{path}.schedulerName: {problem}: kube-scheduler ignores it; write {known.schedulers[0]!r}"
        yield from self._priority_class(spec, path)
        yield from self._selectors(spec, path)
        yield from self._resources(spec.get("resources"), f"{path}.resources")
        yield from self._amounts(spec.get("overhead"), f"{path}.overhead")
        for field in ("initContainers", "containers"):
            for i, container in enumerate(items(spec.get(field))):
                yield from self._resources(mapping(container).get("resources"), f"{path}.{field}[{i}].resources")

    def _scheduler(self, name: object, path: str, *, served: bool = False) -> Iterator[str]:
        """The mistake of a schedulerName. ``served``: whether only the known schedulers serve objects of the kind."""
        known = self._known
        if isinstance(name, str):
            problem = other_scheduler(name, known.schedulers, similar=not (known.complete or served))
            if problem:
                yield f"{path}.schedulerName: {problem}"

    def _queue(self, name: object, path: str) -> Iterator[str]:
        known = self._known.queues
        if isinstance(name, str) and name and name not in known:
            meant = self._closest(name, known, closest)
            if meant:
                yield f"{path}: there is no queue {name[:253]!r}{_hint(meant)}"

    def _priority_class(self, spec: Json, path: str) -> Iterator[str]:
        """The mistake in the name of a PriorityClass. A Pod that an API server has admitted has the priority, too."""
        name, known = spec.get("priorityClassName"), self._known.priority_classes
        if isinstance(name, str) and name and self._known.complete and name not in known and "priority" not in spec:
            hint = _hint(self._closest(name, known, closest))
            yield f"{path}.priorityClassName: there is no PriorityClass {name[:253]!r}{hint}"

    def _selectors(self, spec: Json, path: str) -> Iterator[str]:
        """The keys of labels and taints that resemble those of nodes."""
        required = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
        affinity = "requiredDuringSchedulingIgnoredDuringExecution"
        terms = items(mapping(required.get(affinity)).get("nodeSelectorTerms"))
        keys: list[tuple[str, object]] = [
            (f"{path}.nodeSelector[{key[:253]}]", key) for key in mapping(spec.get("nodeSelector"))
        ]
        for i, term in enumerate(terms):
            for j, expression in enumerate(items(mapping(term).get("matchExpressions"))):
                where = f"{path}.affinity.nodeAffinity.{affinity}.nodeSelectorTerms[{i}].matchExpressions[{j}].key"
                keys.append((where, mapping(expression).get("key")))
        yield from self._keys(keys, self._known.labels, "no node has the label")
        tolerations = [mapping(each).get("key") for each in items(spec.get("tolerations"))]
        tolerated = [(f"{path}.tolerations[{i}].key", key) for i, key in enumerate(tolerations)]
        yield from self._keys(tolerated, self._known.taints, "no node has a taint with the key")

    def _keys(self, keys: Iterable[tuple[str, object]], known: frozenset[str], problem: str) -> Iterator[str]:
        """The keys, each with its path, that are unknown and resemble a known one."""
        for path, key in keys:
            if isinstance(key, str) and key and key not in known:
                meant = self._closest(key, known, similar_key)
                if meant:
                    yield f"{path}: {problem} {key[:253]!r}{_hint(meant)}"

    def _resources(self, value: object, path: str) -> Iterator[str]:
        """The mistakes in requests and limits; a resource that is in both is reported once."""
        parts = mapping(value)
        requests, limits = mapping(parts.get("requests")), mapping(parts.get("limits"))
        yield from self._amounts(requests, f"{path}.requests")
        yield from self._amounts(
            {name: each for name, each in limits.items() if name not in requests}, f"{path}.limits"
        )

    def _amounts(self, value: object, path: str) -> Iterator[str]:
        complete = self._known.complete
        for key in mapping(value):
            name = key.removeprefix("requests.").removeprefix("limits.")
            if name in _STANDARD or name.startswith(_STANDARD_PREFIXES) or device_class_of(name):
                continue
            if not complete and (name in COMMON or name.startswith(_ASCEND)):
                continue
            if name in self._known.resources or name == VGPU_MEMORY_PERCENTAGE:  # which no node reports
                continue
            meant = self._closest(name, self._known.resources | _STANDARD, similar_resource)
            if meant or (complete and self._kind is not QUEUE and not name.endswith(REQUESTED_ONLY)):
                what = "no node has this resource" if complete else "unknown resource"
                yield f"{path}[{key[:253]}]: {what}{_hint(meant)}"

    def _annotations(self, metadata: Json, prefix: str) -> Iterator[str]:
        labels = mapping(metadata.get("labels"))
        for key, problem in value_problems({key: str(labels[key]) for key in LABELS_WITH_VALUES if key in labels}):
            yield f"{prefix}metadata.labels[{key}]: {problem}"
        given = mapping(metadata.get("annotations"))
        if not _has_checked_annotation(*given):
            return
        annotations = {k: v for k, v in given.items() if isinstance(v, str)}
        if self._kind is not NODE:
            unknown = [(f"{prefix}metadata.annotations[{key[:253]}]", key) for key in annotations if _is_unknown(key)]
            yield from self._keys(unknown, read_keys(), "unknown annotation")
        yield from self._queue(
            annotations.get(QUEUE_NAME_ANNOTATION), f"{prefix}metadata.annotations[{QUEUE_NAME_ANNOTATION}]"
        )
        for key, problem in (*annotation_problems(annotations), *value_problems(annotations)):
            yield f"{prefix}metadata.annotations[{key}]: {problem}"
        if CARD_ALTERNATIVES in annotations:
            yield from self._alternatives(annotations[CARD_ALTERNATIVES], prefix)
        complete = self._known.complete
        if self._kind is QUEUE and not complete:  # the queue may be the first with a card
            return
        for key, name in _cards(annotations):
            if name not in self._known.cards and not _is_share(name, self._known.cards):
                meant = self._closest(name, self._known.cards, closest)
                if meant or complete:
                    what = "no node has the card" if complete else "no queue has a quota of the card"
                    yield f"{prefix}metadata.annotations[{key}]: {what} {name[:253]!r}{_hint(meant)}"

    def _alternatives(self, text: str, prefix: str) -> Iterator[str]:
        """The mistakes in a list of alternatives. ``prefix``: the path of the Pod template; "": the object itself."""
        path = f"{prefix}metadata.annotations[{CARD_ALTERNATIVES}]"
        if self._kind not in JOBS or not prefix:
            yield f"{path}: ignored: only Pod templates of the tasks of a vcjob list alternatives"
            return
        for i, each in enumerate(parse_alternatives(text)[0]):
            yield from self._amounts({each.resource: each.count}, f"{path}[{i}].resource")

    def _closest(self, name: str, known: Iterable[str], find: Callable[[str, Iterable[str], float], str]) -> str:
        """The known name that resembles a name most, or ""; always "" after a number of names."""
        self._left -= 1
        return find(name, known, _LIKENESS if self._known.complete else _CLOSE_LIKENESS) if self._left >= 0 else ""


def _hint(meant: str) -> str:
    return f"; did you mean {meant!r}?" if meant else ""


@lru_cache(maxsize=16)  # few, because a user may write megabytes of keys
def _has_checked_annotation(*keys: str) -> bool:
    """Whether annotations with these keys may have mistakes. Most objects of a kind have the same keys."""
    checked = (*_COUNTS, CARD_NAME, CARD_CARD, QUEUE_NAME_ANNOTATION)
    return any(key in checked or is_json_annotation(key) or has_value(key) or _is_unknown(key) for key in keys)


def _is_unknown(key: str) -> bool:
    """Whether a key has a prefix of keys that the program reads, and is none of them."""
    return key.startswith(READ_PREFIXES) and key not in read_keys() and not key.startswith(_ASCEND)


def _cards(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The cards that annotations name, each with its annotation."""
    for key, parse in _COUNTS.items():
        if key in annotations:
            for names in parse(annotations[key]).amounts:
                yield from ((key, name) for name in names)
    key, listed = cards_of_pod(annotations)
    yield from ((key, name) for name in listed.names)
    if CARD_ALTERNATIVES in annotations:
        for each in parse_alternatives(annotations[CARD_ALTERNATIVES])[0]:
            yield from ((CARD_ALTERNATIVES, name) for name in parse_names(each.card).names)


def _is_share(name: str, cards: frozenset[str]) -> bool:
    """Whether a name is for a share of a known card, such as ``NVIDIA-H200/mps-140g*1/4``, which may be written in
    several ways."""
    card, slash, _ = name.partition("/")
    return bool(slash) and any(each.partition("/")[0] == card for each in cards)


def _annotations_of(raw: Json) -> object:
    return mapping(raw.get("metadata")).get("annotations")


_WORKLOADS: Final = frozenset({DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, REPLICATION_CONTROLLER, BATCH_JOB})


JOBS: Final = frozenset({VCJOB, JOB_TEMPLATE, CRON_JOB})
"""Kinds that contain the spec of a vcjob."""


def job_specs(kind: Kind, spec: Json) -> Iterator[tuple[str, Json]]:
    """The spec of each job in an object, with its path."""
    if kind is CRON_JOB:
        yield "spec.jobTemplate.spec", mapping(mapping(spec.get("jobTemplate")).get("spec"))
    elif kind.custom:
        yield "spec", spec


def pod_templates(kind: Kind, spec: Json) -> Iterator[tuple[str, Json]]:
    """The Pod templates of an object, each with its path."""
    if kind in _WORKLOADS:
        yield "spec.template", mapping(spec.get("template"))
    elif kind is ACJOB:
        for name, role in mapping(spec.get("replicaSpecs")).items():
            yield f"spec.replicaSpecs[{name[:64]}].template", mapping(mapping(role).get("template"))
    elif kind in JOBS:
        for path, part in job_specs(kind, spec):
            for i, task in enumerate(items(part.get("tasks"))):
                yield f"{path}.tasks[{i}].template", mapping(mapping(task).get("template"))


def mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
