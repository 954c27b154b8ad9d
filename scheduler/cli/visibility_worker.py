"""The process that answers one question of a tenant for the scheduler: reads the cluster, explains, and leaves out the
names of others. It is started by the scheduler, and is no command.

Usage: ``python -m scheduler.cli.visibility_worker``, with a question on standard input.
"""

import os
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from scheduler.api.names import OVERVIEW, REVIEW
from scheduler.cli.connection import Connection
from scheduler.cli.errors import BAD_REQUEST, NOT_FOUND, CommandError

if TYPE_CHECKING:
    from scheduler.cluster.manifests import Manifest
    from scheduler.cluster.memory import Simulation

COMMAND: Final = (sys.executable, "-P", "-m", "scheduler.cli.visibility_worker")
_NICE: Final = 10
"""The scheduler's sessions have priority."""
_OUTPUT: Final = 1
"""File descriptor of the answer, which is read by a program: nothing in it is escaped for a terminal."""
_NEEDED: Final = (
    "scheduler.actions",
    "scheduler.plugins",
    "scheduler.cli.can_run_text",
    "scheduler.cli.cluster_source",
    "scheduler.cli.explain_live",
    "scheduler.cluster.kube.transport.client",
    "scheduler.explain.document",
    "scheduler.explain.submitted",
)
"""What most answers need."""
Raw = dict[str, Any]


class Question(msgspec.Struct):
    """A question, and where the cluster is."""

    kind: str = ""
    """What to explain, a key of ``EXPLAINED``; OVERVIEW: of the web page; REVIEW: whether ``objects`` would run. "":
    the queues of all namespaces."""
    namespace: str = ""
    name: str = ""
    objects: str = ""
    """What would be submitted to the namespace, as JSON."""
    kubeconfig: str = ""
    master: str = ""
    configuration: str = ""
    """Path of the scheduler configuration; "": the built-in one."""
    scheduler_names: tuple[str, ...] = ()
    plugins_dirs: tuple[str, ...] = ()


def main() -> None:
    with suppress(OSError):
        os.nice(_NICE)
    for module in _NEEDED:  # while there is no question yet
        import_module(module)
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    try:
        answer = {"status": 200, "body": _answer(question)}
    except CommandError as error:
        known = error.status in (BAD_REQUEST, NOT_FOUND)
        answer = {"status": error.status if known else 500, "message": error.message}
    except Exception as error:
        answer = {"status": 500, "message": f"the cluster could not be simulated: {type(error).__name__}"}
        answer["trace"] = traceback.format_exc(limit=-20)
    with open(_OUTPUT, "wb", closefd=False) as output:
        output.write(msgspec.json.encode(answer))
    os._exit(0)  # without freeing the cluster object by object


def _answer(question: Question) -> Any:
    """The body of the answer. Raises CommandError; its status is 404 if the object does not exist, and 400 if the
    question is wrong."""
    from scheduler.cli.can_run import named_objects
    from scheduler.cli.cluster_source import ClusterSource, NamedObject
    from scheduler.cli.plugins import load_plugins

    def load() -> None:
        load_plugins(*map(Path, question.plugins_dirs))

    connection = Connection(
        kubeconfig=question.kubeconfig, master=question.master, namespace=question.namespace, compressed=False
    )
    source = ClusterSource(connection, (), question.configuration or None, question.scheduler_names, load)
    asked = _asked(question)
    about = [NamedObject(question.kind, question.name)] if question.name else named_objects(asked)
    with source.simulated("scheduler.cli.explain_text", about) as (_, simulation):
        simulation.checks_external_plugins = False  # as in the scheduler, whose decisions are shown
        if question.kind == OVERVIEW:
            return _overview(simulation)
        if question.kind == REVIEW:
            return _review(simulation, question.namespace, asked)
        if question.kind:
            return _explanation(simulation, question)
        from scheduler.explain.queues import queue_quotas

        return queue_quotas(simulation)


def _overview(simulation: Any) -> Any:
    from scheduler.explain.overview import overview
    from scheduler.observability.cluster_figures import CardDevices
    from scheduler.observability.overview import Overview

    simulation.cycle()
    last = simulation.last
    return Overview(0.0) if last is None else overview(last.session, CardDevices())


def _explanation(simulation: Any, question: Question) -> Raw:
    from scheduler.api.names import VISIBILITY_API_VERSION
    from scheduler.api.queue import ancestors
    from scheduler.cli.explain_text import lines
    from scheduler.explain import NotFoundError, explain
    from scheduler.explain.document import explanation_document
    from scheduler.explain.tenant import for_tenant, hidden_names

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
        "lines": list(lines(shown)),
    }


MAX_PODS: Final = 10_000
"""Pods that the objects of a question may ask for together."""


def _asked(question: Question) -> "list[Manifest]":
    """The objects of a question. Raises CommandError."""
    if not question.objects:
        return []
    from scheduler.cluster.manifests import ManifestError, parse_manifests
    from scheduler.explain.submitted import number_of_pods

    try:
        found = list(parse_manifests(question.objects.encode(), "the request"))
    except ManifestError as error:
        raise CommandError(str(error), BAD_REQUEST) from None
    number = number_of_pods(found)
    if number > MAX_PODS:
        raise CommandError(f"the objects ask for {number} Pods; a question has at most {MAX_PODS}", BAD_REQUEST)
    return found


def _review(simulation: "Simulation", namespace: str, asked: "list[Manifest]") -> Raw:
    """Whether objects would run if a tenant submitted them to a namespace. Raises CommandError."""
    from scheduler.api.names import VISIBILITY_API_VERSION
    from scheduler.api.queue import ancestors
    from scheduler.cli.can_run_text import lines
    from scheduler.cluster.manifests import ManifestError
    from scheduler.explain.can_run import can_run
    from scheduler.explain.document import run_document
    from scheduler.explain.submitted import submitted
    from scheduler.explain.tenant import hidden_names, run_for_tenant

    try:
        beside, jobs = submitted(asked, namespace)
        answers = can_run(simulation, beside, jobs)
    except ManifestError as error:
        raise CommandError(str(error), BAD_REQUEST) from None
    queues = simulation.snapshot().queues
    own = {answer.now.queue for answer in answers if answer.now is not None} | {job.queue for job in jobs}
    above = (queue for name in own for queue in ancestors(queues, name))
    hidden = hidden_names(simulation.cluster.server, namespace, {*own, *above})
    shown = [run_for_tenant(answer, hidden) for answer in answers]
    head = {"apiVersion": VISIBILITY_API_VERSION, "kind": "RunReview"}
    return {**head, **run_document(shown), "lines": list(lines(shown))}


if __name__ == "__main__":
    main()
