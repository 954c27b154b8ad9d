"""Answers to the questions of tenants, from a cluster in memory: without the names of others."""

from typing import TYPE_CHECKING, Any, Final

import msgspec

from scheduler.api.names import OVERVIEW, REVIEW, VISIBILITY_API_VERSION
from scheduler.api.queue import ancestors
from scheduler.cli.can_run_text import lines as run_lines
from scheduler.cli.errors import BAD_REQUEST, NOT_FOUND, CommandError
from scheduler.cli.explain_text import lines as explanation_lines
from scheduler.cli.input_warnings import WarningLog, field_warnings
from scheduler.cluster.manifests import Manifest, ManifestError, parse_manifests
from scheduler.cluster.mistakes import submission_warnings
from scheduler.explain import NotFoundError, explain
from scheduler.explain.can_run import can_run
from scheduler.explain.document import explanation_document, run_document
from scheduler.explain.overview import overview
from scheduler.explain.queues import queue_quotas
from scheduler.explain.submitted import number_of_pods, submitted
from scheduler.explain.tenant import for_tenant, hidden_names, run_for_tenant
from scheduler.observability.cluster_figures import CardDevices
from scheduler.observability.overview import Overview

if TYPE_CHECKING:
    from scheduler.cluster.memory import Simulation

MAX_PODS: Final = 10_000
"""Pods that the objects of a question may ask for together."""
Raw = dict[str, Any]


class Question(msgspec.Struct):
    """What is asked."""

    kind: str = ""
    """What to explain, a key of ``EXPLAINED``; OVERVIEW: of the web page; REVIEW: whether ``objects`` would run. "":
    the queues of all namespaces."""
    namespace: str = ""
    name: str = ""
    objects: str = ""
    """What would be submitted to the namespace, as JSON."""


def answer(simulation: "Simulation", question: Question, asked: list[Manifest]) -> Any:
    """The body of the answer. ``asked``: the objects of the question. The cluster changes. Raises CommandError; its
    status is 404 if the object does not exist, and 400 if the question is wrong."""
    if question.kind == OVERVIEW:
        return _overview(simulation)
    if question.kind == REVIEW:
        return _review(simulation, question.namespace, asked)
    return _explanation(simulation, question) if question.kind else queue_quotas(simulation)


def asked_objects(question: Question) -> list[Manifest]:
    """The objects of a question. Raises CommandError."""
    if not question.objects:
        return []
    try:
        found = list(parse_manifests(question.objects.encode(), "the request"))
    except ManifestError as error:
        raise CommandError(str(error), BAD_REQUEST) from None
    number = number_of_pods(found)
    if number > MAX_PODS:
        raise CommandError(f"the objects ask for {number} Pods; a question has at most {MAX_PODS}", BAD_REQUEST)
    return found


def _overview(simulation: "Simulation") -> Overview:
    simulation.cycle()
    last = simulation.last
    return Overview(0.0) if last is None else overview(last.session, CardDevices())


def _explanation(simulation: "Simulation", question: Question) -> Raw:
    try:
        found = explain(simulation, question.kind, question.namespace, question.name, search=False)
    except NotFoundError as error:
        raise CommandError(str(error), NOT_FOUND) from None
    queues = simulation.snapshot().queues
    hidden = hidden_names(simulation.cluster.server, question.namespace, (found.queue, *ancestors(queues, found.queue)))
    shown = for_tenant(found, hidden)
    return {
        "apiVersion": VISIBILITY_API_VERSION,
        "kind": "Explanation",
        "explanation": explanation_document(shown),
        "lines": list(explanation_lines(shown)),
    }


def _review(simulation: "Simulation", namespace: str, asked: list[Manifest]) -> Raw:
    """Whether objects would run if a tenant submitted them to a namespace. Raises CommandError."""
    log, names, configuration = WarningLog(), simulation.scheduler_names, simulation.configuration
    try:
        beside, jobs = submitted(asked, namespace)
        log.texts += submission_warnings(asked, simulation.cluster, names, configuration)
        answers = can_run(simulation, beside, jobs)
    except ManifestError as error:
        raise CommandError(str(error), BAD_REQUEST) from None
    queues = simulation.snapshot().queues
    own = {answer.now.queue for answer in answers if answer.now is not None} | {job.queue for job in jobs}
    above = (queue for name in own for queue in ancestors(queues, name))
    hidden = hidden_names(simulation.cluster.server, namespace, {*own, *above})
    shown = [run_for_tenant(answer, hidden) for answer in answers]
    head = {"apiVersion": VISIBILITY_API_VERSION, "kind": "RunReview"}
    keys = {(job.kind.name, f"{job.namespace}/{job.name}") for job in jobs}
    of_fields = [each for each in field_warnings(simulation.cluster.events()) if (each.kind, each.key) in keys]
    warnings = {key: [hidden.without_hint(text) for text in texts] for key, texts in log.document(of_fields).items()}
    return {**head, **run_document(shown), **warnings, "lines": list(run_lines(shown))}
