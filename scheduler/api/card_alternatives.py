"""The alternatives of a vcjob: accelerators of different resources, of which the whole gang uses one.

A task lists them in the annotation ``volcano.sh/card.alternatives`` of its Pod template: a JSON list, the preferred
one first. A device plugin would allocate every resource that a Pod requests, so a Pod requests that of one alternative
only: the scheduler chooses one for the job, and the controller creates the Pods from the template with it. Tasks that
list none are the same with every alternative.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.api.batch import Job, JobSpec, TaskSpec
from scheduler.api.cards import parse_names
from scheduler.api.json_texts import JsonFormat, JsonTextError
from scheduler.api.names import CARD_ALTERNATIVE, CARD_ALTERNATIVES, CARD_CARD, CARD_NAME, CONDITION_ALTERNATIVE
from scheduler.api.objects import PodSpec, Wire
from scheduler.api.pod_amounts import pod_request
from scheduler.api.quantity import QuantityError
from scheduler.api.resource import Dimensions, is_native
from scheduler.api.scheduling import PodGroupSpec
from scheduler.api.text_cache import cache_texts

MAX_ALTERNATIVES: Final = 8
"""Alternatives of a task. The PodGroup carries the Pod templates of all."""
_NAME: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._/*+:|]{0,252}")
_RESOURCE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_Number = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Problem = tuple[str, str]
"""A field of the vcjob, and what is wrong with it."""


class CardAlternative(msgspec.Struct, rename="camel", kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What the Pods of a task request, run and see with one alternative. Fields that are left out are as in the
    template."""

    card: str
    """The name of the card, as in ``volcano.sh/card.name``; names of one resource may be joined by ``|``."""
    resource: str
    """The extended resource that counts the cards."""
    count: _Number = 1
    """The cards of each Pod."""
    name: str = ""
    """The name of the alternative; "": that of the card."""
    container: str = ""
    """The container that gets cards, image and variables; "": the first."""
    image: str = ""
    env: dict[str, str] = {}
    """Variables to set; those of the template with other names stay."""
    replicas: _Number | None = None
    """The number of Pods; None: that of the task."""
    min_available: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """The Pods that the task needs; None: all, if the task needs all its replicas, else its minAvailable."""
    node_selector: dict[str, str] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    @property
    def key(self) -> str:
        """The name by which the alternatives of the tasks belong together."""
        return self.name or self.card


_FORMAT: Final = JsonFormat(tuple[CardAlternative, ...])


class JobAlternatives(msgspec.Struct, frozen=True):
    """The alternatives of a vcjob."""

    names: tuple[str, ...]
    """The names, the preferred one first. Empty: the annotations cannot be used, and are set aside."""
    of_task: Mapping[int, Mapping[str, CardAlternative]]
    """Index of a task that lists them -> name -> what it lists."""
    problems: tuple[Problem, ...] = ()


# --- reading ----------------------------------------------------------------------------------------------------------
def alternatives_field(task: int) -> str:
    """The annotation of the task with this index, in messages."""
    return f"spec.tasks[{task}].template.metadata.annotations[{CARD_ALTERNATIVES}]"


def job_alternatives(spec: JobSpec) -> JobAlternatives | None:
    """The alternatives of a job; None: no task lists any. If anything is wrong with one of them, all are set aside."""
    texts = {i: text for i, task in enumerate(spec.tasks) if (text := _annotations(task).get(CARD_ALTERNATIVES))}
    if not texts:
        return None
    names: tuple[str, ...] = ()
    first, problems = -1, list[Problem]()
    of_task: dict[int, Mapping[str, CardAlternative]] = {}
    for index, text in texts.items():
        field = alternatives_field(index)
        found, problem = parse_alternatives(str(text))
        if problem is not None:
            problems.append((field + problem[0], problem[1]))
            continue
        of_task[index] = {each.key: each for each in found}
        problems += [(f"{field}{place}", what) for place, what in _container_problems(spec.tasks[index], found)]
        if first < 0:
            first, names = index, tuple(of_task[index])
        elif tuple(of_task[index]) != names:
            here, there = ", ".join(of_task[index]), ", ".join(names)
            differs = f"the names are {here}, and those of spec.tasks[{first}] are {there}"
            remedy = "the whole job uses one alternative, so list equal names in equal order"
            problems.append((field, f"{differs}: {remedy}"))
    return JobAlternatives((), {}, tuple(problems)) if problems else JobAlternatives(names, of_task)


@cache_texts(1024)
def parse_alternatives(text: str) -> tuple[tuple[CardAlternative, ...], Problem | None]:
    """The alternatives in an annotation, and the first problem with its place in the list."""
    try:
        found = _FORMAT.decode(text)
    except JsonTextError as error:
        return (), ("", f"{error}: write a JSON list of alternatives, each with card and resource")
    return found, next(_problems(found), None)


def _problems(found: tuple[CardAlternative, ...]) -> Iterator[Problem]:
    if not 1 <= len(found) <= MAX_ALTERNATIVES:
        yield "", f"{len(found)} alternatives are listed: list 1 to {MAX_ALTERNATIVES}"
    names = set[str]()
    for i, each in enumerate(found):
        listed = parse_names(each.card)
        if listed.problems:
            yield f"[{i}].card", listed.problems[0]
        if _NAME.fullmatch(each.key) is None:
            yield f"[{i}].name", f"{each.key[:64]!r} is not a name"
        if each.key in names:
            yield f"[{i}].name", f"{each.key!r} is given twice: give alternatives with the same card different names"
        names.add(each.key)
        if _RESOURCE.fullmatch(each.resource) is None or is_native(each.resource):
            yield f"[{i}].resource", f"{each.resource[:64]!r} is not an extended resource, such as nvidia.com/gpu"
        if each.min_available is not None and each.replicas is not None and each.min_available > each.replicas:
            yield f"[{i}].minAvailable", f"{each.min_available} is more than the {each.replicas} replicas"


def _container_problems(task: TaskSpec, found: tuple[CardAlternative, ...]) -> Iterator[Problem]:
    names = [str(_mapping(each).get("name")) for each in _containers(task.template)]
    for i, each in enumerate(found):
        if each.container and each.container not in names:
            yield f"[{i}].container", f"the template has no container {each.container[:64]!r} ({', '.join(names)})"


# --- the job with an alternative --------------------------------------------------------------------------------------
def with_alternative(job: Job, alternatives: JobAlternatives, name: str) -> Job:
    """The job as its Pods are created with an alternative: templates, replicas and minimums. All Pods, also of tasks
    that list no alternatives, have its name in the annotation ``volcano.sh/card.alternative``."""
    tasks, more = [], 0
    for index, task in enumerate(job.spec.tasks):
        of_task = alternatives.of_task.get(index, {})
        changed = _with_alternative(task, of_task.get(name), of_task)
        more += _minimum(changed) - _minimum(task)
        tasks.append(_marked(changed, name))
    minimum = job.spec.min_available
    return replace(job, spec=replace(job.spec, tasks=tasks, min_available=max(minimum + more, 1) if minimum else 0))


def _minimum(task: TaskSpec) -> int:
    return task.replicas if task.min_available is None else task.min_available


def _with_alternative(
    task: TaskSpec, chosen: CardAlternative | None, of_task: Mapping[str, CardAlternative]
) -> TaskSpec:
    if chosen is None:
        return task
    template = task.template
    metadata, spec = _mapping(template.get("metadata")), _mapping(template.get("spec"))
    annotations = {key: text for key, text in _mapping(metadata.get("annotations")).items() if key not in _REPLACED}
    metadata = {**metadata, "annotations": {**annotations, **chosen.annotations, CARD_NAME: chosen.card}}
    if chosen.labels:
        metadata["labels"] = {**_mapping(metadata.get("labels")), **chosen.labels}
    if chosen.node_selector:
        spec = {**spec, "nodeSelector": {**_mapping(spec.get("nodeSelector")), **chosen.node_selector}}
    resources = {each.resource for each in of_task.values()}
    spec = {
        **spec,
        "containers": [
            _container(each, chosen, resources) if _gets_cards(each, number, chosen) else each
            for number, each in enumerate(_containers(template))
        ],
    }
    replicas, minimum = chosen.replicas or task.replicas, chosen.min_available
    if minimum is not None:
        minimum = min(minimum, replicas)
    elif task.min_available is not None:
        minimum = replicas if task.min_available == task.replicas else min(task.min_available, replicas)
    template = {**template, "metadata": metadata, "spec": spec}
    return replace(task, template=template, replicas=replicas, min_available=minimum)


_REPLACED: Final = frozenset((CARD_ALTERNATIVES, CARD_CARD, CARD_NAME))
"""Annotations of the template that the Pods do not have."""


def _gets_cards(container: object, number: int, chosen: CardAlternative) -> bool:
    return _mapping(container).get("name") == chosen.container if chosen.container else number == 0


def _container(container: object, chosen: CardAlternative, resources: set[str]) -> object:
    """The container with the alternative. ``resources``: those of all alternatives."""
    if not isinstance(container, dict):
        return container  # the API server refuses it
    given = _mapping(container.get("resources"))
    cards = {chosen.resource: str(chosen.count)}
    others = {
        kind: {name: amount for name, amount in _mapping(given.get(kind)).items() if name not in resources}
        for kind in ("requests", "limits")
    }
    result = {**container, "resources": {**given, **{kind: {**of, **cards} for kind, of in others.items()}}}
    if chosen.image:
        result["image"] = chosen.image
    if chosen.env:
        kept = [each for each in _items(container.get("env")) if _mapping(each).get("name") not in chosen.env]
        result["env"] = [*kept, *({"name": name, "value": value} for name, value in chosen.env.items())]
    return result


def _marked(task: TaskSpec, name: str) -> TaskSpec:
    template = task.template
    metadata = _mapping(template.get("metadata"))
    annotations = {**_mapping(metadata.get("annotations")), CARD_ALTERNATIVE: name}
    return replace(task, template={**template, "metadata": {**metadata, "annotations": annotations}})


def _annotations(task: TaskSpec) -> dict[str, Any]:
    return _mapping(_mapping(task.template.get("metadata")).get("annotations"))


def _containers(template: Mapping[str, Any]) -> list[Any]:
    return _items(_mapping(template.get("spec")).get("containers"))


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


# --- what the scheduler reads -----------------------------------------------------------------------------------------
class AlternativeRole(Wire):
    """The Pods of one task, as far as their placement depends on it."""

    name: str = ""
    pods: Annotated[int, msgspec.Meta(ge=0)] = 0
    """At most as many as the gang can need of the task."""
    partition_size: Annotated[int, msgspec.Meta(ge=0)] = 0
    """The Pods of each partition; 0: the task has none."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class GangAlternative(Wire):
    """The gang of a vcjob with one alternative: an entry of the annotation ``CARD_GANGS`` of its PodGroup."""

    name: str = ""
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    card_request: str = ""
    roles: list[AlternativeRole] = msgspec.field(default_factory=list)

    @property
    def pods(self) -> int:
        """The number of Pods with which nodes are tried."""
        return sum(role.pods for role in self.roles)


def alternative_reasons(conditions: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Name of an alternative -> what the scheduler wrote about it: why it does not fit, or that it is chosen.
    ``conditions``: type and message of the conditions of a PodGroup."""
    message = next((text for type_, text in conditions if type_ == CONDITION_ALTERNATIVE), "")
    pairs = (line.partition(": ") for line in message.split("\n"))
    return {name: text for name, _, text in pairs if name}


_GANGS: Final = JsonFormat(tuple[GangAlternative, ...])
_encode = msgspec.json.Encoder(order="deterministic").encode


def gangs_text(gangs: tuple[GangAlternative, ...]) -> str:
    """The annotation with the gangs."""
    return _encode(gangs).decode()


@cache_texts(1024)
def parse_gangs(text: str) -> tuple[tuple[GangAlternative, ...], str]:
    """The gangs in an annotation, and why it cannot be used, or "". Users can change PodGroups, so all amounts are
    checked. Callers must not change the gangs."""
    try:
        gangs = _GANGS.decode(text)
        for gang in gangs:
            if gang.spec.min_member < 0:
                return (), f"alternative {gang.name[:64]}: minMember {gang.spec.min_member} is below 0"
            Dimensions().vector(gang.spec.min_resources)
            for role in gang.roles:
                pod_request(role.spec, Dimensions())
    except (JsonTextError, QuantityError) as error:
        return (), str(error)
    return gangs, ""
