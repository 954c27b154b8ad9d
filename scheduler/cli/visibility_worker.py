"""The process that answers one question of a tenant for the scheduler: reads the cluster, explains, and leaves out the
names of others. It is started by the scheduler, and is no command.

Usage: ``python -m scheduler.cli.visibility_worker``, with a question on standard input.
"""

import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.cli.connection import Connection
from scheduler.cli.errors import NOT_FOUND, CommandError

COMMAND: Final = (sys.executable, "-P", "-m", "scheduler.cli.visibility_worker")
_NICE: Final = 10
"""The scheduler's sessions have priority."""
_OUTPUT: Final = 1
"""File descriptor of the answer, which is read by a program: nothing in it is escaped for a terminal."""
Raw = dict[str, Any]


class Question(msgspec.Struct):
    """A question, and where the cluster is."""

    kind: str = ""
    """What to explain, a key of ``EXPLAINED``; overview: of the web page. "": the queues of all namespaces."""
    namespace: str = ""
    name: str = ""
    kubeconfig: str = ""
    master: str = ""
    configuration: str = ""
    """Path of the scheduler configuration; "": the built-in one."""
    scheduler_names: tuple[str, ...] = ()
    plugins_dirs: tuple[str, ...] = ()


def main() -> None:
    with suppress(OSError):
        os.nice(_NICE)
    question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
    try:
        answer = {"status": 200, "body": _answer(question)}
    except CommandError as error:
        answer = {"status": error.status if error.status == NOT_FOUND else 500, "message": error.message}
    except Exception as error:
        answer = {"status": 500, "message": f"the cluster could not be simulated: {type(error).__name__}"}
        answer["trace"] = traceback.format_exc(limit=-20)
    with open(_OUTPUT, "wb", closefd=False) as output:
        output.write(msgspec.json.encode(answer))
    os._exit(0)  # without freeing the cluster object by object


def _answer(question: Question) -> Any:
    """The body of the answer. Raises CommandError; its status is 404 if the object does not exist."""
    from scheduler.cli.cluster_source import ClusterSource
    from scheduler.cli.plugins import load_plugins

    def load() -> None:
        load_plugins(*map(Path, question.plugins_dirs))

    connection = Connection(kubeconfig=question.kubeconfig, master=question.master, namespace=question.namespace)
    source = ClusterSource(connection, (), question.configuration or None, question.scheduler_names, load)
    about = (question.kind, question.name) if question.name else None
    with source.simulated("scheduler.cli.explain_text", about) as (_, simulation):
        simulation.checks_external_plugins = False  # as in the scheduler, whose decisions are shown
        if question.kind == "overview":
            return _overview(simulation)
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


if __name__ == "__main__":
    main()
