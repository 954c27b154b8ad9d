"""What the PodGroup of a job says about its alternatives: the one for which it is prepared, the cards that the job
requests with it, and for the scheduler the gang with each alternative."""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from scheduler.api import batch
from scheduler.api.card_alternatives import (
    AlternativeRole,
    CardAlternative,
    GangAlternative,
    JobAlternatives,
    alternatives_field,
    gangs_text,
    with_alternative,
)
from scheduler.api.cards import SEPARATOR, cards_of_pod
from scheduler.api.names import CARD_ALTERNATIVE, CARD_GANGS, CARD_REQUEST, PREPARED_ALTERNATIVE, QUEUE_NAME
from scheduler.api.objects import ClaimSource, PodSpec, Volume, Wire
from scheduler.api.pod_amounts import total_requests
from scheduler.api.quantity import QuantityError
from scheduler.api.resource import is_native
from scheduler.api.scheduling import PodGroupSpec
from scheduler.api.task import without_variables
from scheduler.controllers.job.parsed_spec import ParsedSpec, ParsedTask, Problem
from scheduler.controllers.job.podgroup import first_pods, group_spec, min_resources
from scheduler.controllers.store import Store


class GroupAnnotations(NamedTuple):
    """The annotations of a PodGroup, and the problems of templates. With a problem, the scheduler does not choose."""

    annotations: dict[str, str]
    problems: list[Problem]


def group_annotations(job: batch.Job, alternatives: JobAlternatives, name: str, store: Store) -> GroupAnnotations:
    """The annotations of a PodGroup that is prepared for an alternative. ``job``: as the user wrote it."""
    gangs: dict[str, GangAlternative] = {}
    problems: list[Problem] = []
    for each in alternatives.names:
        try:
            gangs[each] = _gang(job, alternatives, each, store)
        except (QuantityError, msgspec.ValidationError) as error:
            problems.append((alternatives_field(min(alternatives.of_task)), f"alternative {each}: {error}"))
    annotations = {PREPARED_ALTERNATIVE: name}
    if not problems:
        annotations[CARD_GANGS] = gangs_text(tuple(gangs.values()))
    if name in gangs and gangs[name].card_request:
        annotations[CARD_REQUEST] = gangs[name].card_request
    return GroupAnnotations(annotations, problems)


class _Metadata(Wire):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Template(Wire):
    """A Pod template, as far as placement depends on it."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


def _gang(job: batch.Job, alternatives: JobAlternatives, name: str, store: Store) -> GangAlternative:
    """The gang with an alternative. Raises QuantityError and ValidationError."""
    changed = with_alternative(job, alternatives, name)
    parsed_spec = ParsedSpec(changed)
    resources, bad = min_resources(changed, parsed_spec, store)
    if bad:
        raise QuantityError(": ".join(bad[0]))
    chosen = {changed.spec.tasks[i].name: of_task[name] for i, of_task in alternatives.of_task.items()}
    request = _card_request(changed, parsed_spec, chosen, store)
    return GangAlternative(
        name=name,
        spec=msgspec.convert(group_spec(changed, parsed_spec, resources), PodGroupSpec),
        card_request=json.dumps(request, sort_keys=True) if request else "",
        roles=[_role(task, changed.spec.min_available, parsed_spec) for task in parsed_spec.tasks.values()],
    )


def _role(task: ParsedTask, minimum: int, parsed_spec: ParsedSpec) -> AlternativeRole:
    """The Pods of a task. ``minimum``: minAvailable of the job."""
    template = msgspec.convert(task.spec.template, _Template)
    claims = [Volume(persistent_volume_claim=ClaimSource(claim_name=each.claim)) for each in parsed_spec.volumes]
    spec = without_variables(template.spec)
    partitions = task.spec.partition_policy
    return AlternativeRole(
        name=task.name,
        pods=task.replicas if partitions else min(task.replicas, max(task.group_minimum, minimum)),
        partition_size=partitions.partition_size if partitions else 0,
        labels={**(template.metadata.labels or {}), QUEUE_NAME: parsed_spec.queue},
        annotations={
            key: text for key, text in (template.metadata.annotations or {}).items() if key != CARD_ALTERNATIVE
        },
        spec=replace(spec, volumes=[*(spec.volumes or ()), *claims]) if claims else spec,
    )


def _card_request(
    job: batch.Job, parsed_spec: ParsedSpec, chosen: Mapping[str, CardAlternative], store: Store
) -> dict[str, int]:
    """Cards -> how many the first ``minAvailable`` Pods request. ``chosen``: task -> its alternative. Of another task
    that names its cards, the extended resource with the largest request counts them."""
    request: dict[str, int] = {}
    for task, pods in first_pods(list(parsed_spec.tasks.values()), job.spec.min_available, parsed_spec.minimum, store):
        alternative = chosen.get(task.spec.name)
        if alternative is not None:
            cards, number = alternative.card, alternative.count
        else:
            template = msgspec.convert(task.spec.template, _Template)
            cards = SEPARATOR.join(cards_of_pod(template.metadata.annotations or {})[1].names)
            number = max(_extended(template.spec), default=0)
        if cards and number:
            request[cards] = request.get(cards, 0) + number * pods
    return request


def _extended(spec: PodSpec) -> Iterator[int]:
    """The requests of a Pod for extended resources, as whole numbers."""
    return (amount.nano // 10**9 for name, amount in total_requests(spec).items() if not is_native(name))
