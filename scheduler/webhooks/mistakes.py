"""Likely mistakes in objects that admission accepts: each is a warning with its field.

Names may be misspelt: a schedulerName, a resource, a card. Which names exist is known in part only, since a node or a
scheduler may be added later, so nothing is refused. ``simulate`` and ``explain`` know all nodes; the webhooks only know
the names in queues, and warn of a name if it resembles a known one.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from scheduler.api.cards import cards_of_pod, parse_quota, parse_request
from scheduler.api.device_amounts import device_class_of
from scheduler.api.json_texts import annotation_problems
from scheduler.api.kinds import (
    ACJOB,
    BATCH_JOB,
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB_TEMPLATE,
    POD,
    QUEUE,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    VCJOB,
    Kind,
)
from scheduler.api.names import (
    CARD_BORROWING_LIMIT,
    CARD_LENDING_LIMIT,
    CARD_QUOTA,
    CARD_REQUEST,
    CPU,
    GROUP_NAME,
    MEMORY,
    PODS,
    STORAGE,
)
from scheduler.api.objects import ENDED_PHASES
from scheduler.api.suggestions import closest, did_you_mean
from scheduler.webhooks.contract import Json

MAX_WARNINGS: Final = 10
"""Warnings about one object."""
KUBE_SCHEDULER: Final = "default-scheduler"
_MAX_NAMES: Final = 64
"""Names of an object that are looked at."""
_STANDARD: Final = frozenset({CPU, MEMORY, PODS, STORAGE, "ephemeral-storage"})
_STANDARD_PREFIXES: Final = ("count/", "hugepages-", "attachable-volumes-", "deviceclass.resource.kubernetes.io/")
_REQUESTED_ONLY: Final = ("mem", "memory", "core", "cores", "-percentage", "-number")
"""Endings of resources of shared devices, which Pods request and nodes need not offer."""
_WORKLOADS: Final = frozenset({DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, REPLICATION_CONTROLLER, BATCH_JOB})
_COUNTS: Final = {
    CARD_QUOTA: parse_quota,
    CARD_BORROWING_LIMIT: parse_quota,
    CARD_LENDING_LIMIT: parse_quota,
    CARD_REQUEST: parse_request,
}


class KnownNames(msgspec.Struct, frozen=True):
    """The names that exist in a cluster, as far as they are known."""

    schedulers: tuple[str, ...]
    resources: frozenset[str] = frozenset()
    cards: frozenset[str] = frozenset()
    complete: bool = False
    """Whether the resources and cards are those of all nodes, and all schedulers are named. If not, only names that
    resemble a known one are mistakes."""


def mistakes(kind: Kind, raw: Json, known: KnownNames) -> Iterator[str]:
    """The likely mistakes of an object, at most ten: field and problem."""
    return islice(_mistakes(kind, raw, known), MAX_WARNINGS)


def _mistakes(kind: Kind, raw: Json, known: KnownNames) -> Iterator[str]:
    metadata = _mapping(raw.get("metadata"))
    yield from _annotations(metadata, "", known)
    spec = _mapping(raw.get("spec"))
    if kind is POD:
        status = _mapping(raw.get("status"))
        if not spec.get("nodeName") and status.get("phase") not in ENDED_PHASES:
            yield from _pod(metadata, spec, "spec", known)
        return
    if kind is QUEUE:
        for field in ("capability", "deserved"):
            yield from _amounts(spec.get(field), f"spec.{field}", known, similar=True)
        return
    for path, part in _job_specs(kind, spec):
        yield from _scheduler(part.get("schedulerName"), path, known)
        yield from _amounts(part.get("minResources"), f"{path}.minResources", known)
    for path, template in _templates(kind, spec):
        own = _mapping(template.get("metadata"))
        yield from _annotations(own, f"{path}.", known)
        yield from _pod(own, _mapping(template.get("spec")), f"{path}.spec", known)


# --- where Pods are described ---
def _job_specs(kind: Kind, spec: Json) -> Iterator[tuple[str, Json]]:
    """The spec of each job in an object, with its path."""
    if kind is CRON_JOB:
        yield "spec.jobTemplate.spec", _mapping(_mapping(spec.get("jobTemplate")).get("spec"))
    elif kind.custom:
        yield "spec", spec


def _templates(kind: Kind, spec: Json) -> Iterator[tuple[str, Json]]:
    """The Pod templates of an object, each with its path."""
    if kind in _WORKLOADS:
        yield "spec.template", _mapping(spec.get("template"))
    elif kind is ACJOB:
        for name, role in _mapping(spec.get("replicaSpecs")).items():
            yield f"spec.replicaSpecs[{name[:64]}].template", _mapping(_mapping(role).get("template"))
    elif kind in (VCJOB, JOB_TEMPLATE, CRON_JOB):
        for path, part in _job_specs(kind, spec):
            for i, task in enumerate(_list(part.get("tasks"))):
                yield f"{path}.tasks[{i}].template", _mapping(_mapping(task).get("template"))


# --- what may be wrong ---
def _pod(metadata: Json, spec: Json, path: str, known: KnownNames) -> Iterator[str]:
    name = spec.get("schedulerName")
    yield from _scheduler(name, path, known)
    if name in (None, "", KUBE_SCHEDULER) and GROUP_NAME in _mapping(metadata.get("annotations")) and known.complete:
        ours = known.schedulers[0]
        problem = f"{'missing' if not name else repr(name)}, though the annotation {GROUP_NAME} names a PodGroup"
        yield f"{path}.schedulerName: {problem}: kube-scheduler ignores it; write {ours!r}"
    yield from _resources(spec.get("resources"), f"{path}.resources", known)
    yield from _amounts(spec.get("overhead"), f"{path}.overhead", known)
    for field in ("initContainers", "containers"):
        for i, container in enumerate(_list(spec.get(field))):
            yield from _resources(_mapping(container).get("resources"), f"{path}.{field}[{i}].resources", known)


def _scheduler(name: object, path: str, known: KnownNames) -> Iterator[str]:
    if not isinstance(name, str) or name in ("", KUBE_SCHEDULER, *known.schedulers):
        return
    hint = did_you_mean(name, known.schedulers)
    if hint or known.complete:
        names = ", ".join(known.schedulers)
        yield f"{path}.schedulerName: {name[:253]!r} is not a name of this scheduler ({names}){hint}"


def _resources(value: object, path: str, known: KnownNames) -> Iterator[str]:
    """The mistakes in requests and limits; a resource that is in both is reported once."""
    parts = _mapping(value)
    requests, limits = _mapping(parts.get("requests")), _mapping(parts.get("limits"))
    yield from _amounts(requests, f"{path}.requests", known)
    yield from _amounts({name: each for name, each in limits.items() if name not in requests}, f"{path}.limits", known)


def _amounts(value: object, path: str, known: KnownNames, *, similar: bool = False) -> Iterator[str]:
    """``similar``: only names that resemble a known one are mistakes."""
    for key in islice(_mapping(value), _MAX_NAMES):
        name = key.removeprefix("requests.").removeprefix("limits.")
        if name in known.resources or name in _STANDARD or name.startswith(_STANDARD_PREFIXES) or device_class_of(name):
            continue
        meant = closest(name, known.resources | _STANDARD)
        if name.endswith(_REQUESTED_ONLY):
            absent = meant.endswith(_REQUESTED_ONLY)
        else:
            absent = bool(meant) or (known.complete and not similar)
        if absent:
            hint = f"; did you mean {meant!r}?" if meant else ""
            yield f"{path}[{key[:253]}]: {_absent(known)} this resource{hint}"


def _annotations(metadata: Json, prefix: str, known: KnownNames) -> Iterator[str]:
    annotations = {k: v for k, v in _mapping(metadata.get("annotations")).items() if isinstance(v, str)}
    if not annotations:
        return
    for key, problem in annotation_problems(annotations):
        yield f"{prefix}metadata.annotations[{key}]: {problem}"
    named = [(key, name) for key, parse in _COUNTS.items() if key in annotations
             for names in parse(annotations[key]).amounts for name in names]  # fmt: skip
    key, listed = cards_of_pod(annotations)
    for at, name in (*named[:_MAX_NAMES], *((key, name) for name in listed.names)):
        if name not in known.cards and not _is_share(name, known.cards):
            hint = did_you_mean(name, known.cards)
            if hint or known.complete:
                yield f"{prefix}metadata.annotations[{at}]: {_absent(known)} the card {name[:253]!r}{hint}"


def _is_share(name: str, cards: frozenset[str]) -> bool:
    """Whether a name is for a share of a known card, such as ``NVIDIA-H200/mps-140g*1/4``, which may be written in
    several ways."""
    card, slash, _ = name.partition("/")
    return bool(slash) and any(each.partition("/")[0] == card for each in cards)


def _absent(known: KnownNames) -> str:
    return "no node has" if known.complete else "no queue names"


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
