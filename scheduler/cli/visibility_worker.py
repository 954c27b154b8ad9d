"""The process that answers the questions of tenants for the scheduler. It keeps a copy of the cluster, follows its
changes, and answers each question in a child process on this copy. It is started by the scheduler, and is no command.

Usage: ``python -m scheduler.cli.visibility_worker``, with questions (JSON) on standard input, a line each. Each answer
(JSON) is a line on standard output. The end of the input ends the process.
"""

import asyncio
import gc
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from scheduler.api import kinds
from scheduler.api.explained_kinds import EXPLAINED
from scheduler.api.usage import NodeUsage
from scheduler.cli.can_run import named_objects
from scheduler.cli.cluster_source import NamedObject, measured
from scheduler.cli.connection import Cluster
from scheduler.cli.errors import BAD_REQUEST, FORBIDDEN, NOT_FOUND, CommandError
from scheduler.cli.explain_live import more_sources
from scheduler.cli.plugins import load_plugins
from scheduler.cli.tenant_answers import Question, answer, asked_objects
from scheduler.cli.watched_cluster import MAX_DELETED, WatchedCluster
from scheduler.cluster.external_calls import HttpCalls
from scheduler.cluster.kube.scheduler.visibility.answers import ABANDON
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.credentials import Credentials, CredentialsError
from scheduler.cluster.kube.transport.sources import WatchSource
from scheduler.cluster.manifests import Manifest
from scheduler.cluster.memory import Simulation
from scheduler.cluster.usage import SourceError
from scheduler.framework.configuration_file import (
    DEFAULT_CONFIGURATION,
    ConfigurationError,
    parse_configuration,
    read_configuration,
)
from scheduler.observability import logs
from scheduler.observability.role_metrics import RoleMetrics

COMMAND: Final = (sys.executable, "-P", "-m", "scheduler.cli.visibility_worker")
_NICE: Final = 10
"""The scheduler's sessions have priority."""
_OUTPUT: Final = 1
"""File descriptor of the answers, which are read by a program: nothing in them is escaped for a terminal."""
_MAX_QUESTION: Final = 4 * 1024 * 1024
"""Bytes of a question."""
_BUSY: Final = 429
"""The least status with which an API server refuses what it may answer later."""
_TIMEOUT: Final = 300.0
"""Seconds for a page of a list."""
Raw = dict[str, Any]


class NumberedQuestion(Question):
    """A question, and where the cluster is."""

    number: int = 0
    """The answer has the same number."""
    kubeconfig: str = ""
    master: str = ""
    configuration: str = ""
    """Path of the scheduler configuration; "": the built-in one."""
    scheduler_names: tuple[str, ...] = ()
    plugins_dirs: tuple[str, ...] = ()


class _Prepared(msgspec.Struct):
    """What an answer needs."""

    simulation: Simulation
    """The copy; an answer changes it, in a child process."""
    asked: list[Manifest]
    """The objects of the question."""
    more: list[Manifest]
    """Objects that the question is about and that the copy does not have."""
    usages: Mapping[str, NodeUsage]
    """The usage of nodes by name, with moments in seconds from now."""


class QuestionLoop:
    """Reads questions and writes answers. Belongs to one event loop, and ``close`` comes last."""

    def __init__(self) -> None:
        self._input: asyncio.StreamReader | None = None
        self._client: ApiClient | None = None
        self._watched: WatchedCluster | None = None
        self._settings: tuple[object, ...] = ()
        """What ``_watched`` depends on."""
        self._external_calls = HttpCalls()
        self._child = 0
        """The process that computes an answer; 0: none does."""
        self._abandoned = False
        """Whether the client has given up the present question."""

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._input = asyncio.StreamReader(limit=_MAX_QUESTION)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(self._input), sys.stdin)  # type: ignore[arg-type]
        loop.add_signal_handler(ABANDON, self._abandon)

    async def close(self) -> None:
        if self._watched is not None:
            await self._watched.close()
        if self._client is not None:
            await self._client.close()
        self._watched = self._client = None

    async def next_question(self) -> NumberedQuestion | None:
        """The next question; None: there are no more. The copy follows the cluster meanwhile."""
        assert self._input is not None
        line = await self._input.readline()
        self._abandoned = False
        return msgspec.json.decode(line, type=NumberedQuestion) if line.endswith(b"\n") else None

    async def prepare(self, question: NumberedQuestion) -> _Prepared | None:
        """Brings the copy up to date, and reads what else the question needs. None: the client has given it up. Raises
        CommandError."""
        watched, client = await self._following(question)
        asked = asked_objects(question)
        named = [NamedObject(question.kind, question.name)] if question.name else named_objects(asked)
        cluster = Cluster(client, question.namespace, question.namespace, compressed=False)
        more = [raw for each in named for raw in await _about(cluster, watched, each)]
        simulation = await watched.simulation()
        usages: Mapping[str, NodeUsage] = {}
        if simulation.configuration.metrics is not None:
            with suppress(SourceError):
                usages = await measured(simulation.configuration.metrics, simulation.cluster.cache.node_names())
        return None if self._abandoned else _Prepared(simulation, asked, more, usages)

    async def relayed(self, child: int, output: int) -> tuple[bytes, int]:
        """What a child process writes to the file descriptor ``output``, until it ends, and its exit code."""
        self._child = child
        reader = asyncio.StreamReader()
        with open(output, "rb", buffering=0) as pipe:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
            if self._abandoned:
                self._abandon()
            written = await reader.read()
            transport.close()
        self._child = 0
        _, status = os.waitpid(child, 0)
        return written, os.waitstatus_to_exitcode(status)

    def _abandon(self) -> None:
        self._abandoned = True
        if self._child:
            os.kill(self._child, signal.SIGKILL)

    async def _following(self, question: NumberedQuestion) -> tuple[WatchedCluster, ApiClient]:
        """The copy for the settings of a question. Raises CommandError."""
        text = DEFAULT_CONFIGURATION
        try:
            if question.configuration:
                text = read_configuration(Path(question.configuration))
            names, directories = question.scheduler_names, question.plugins_dirs
            settings = (question.kubeconfig, question.master, text, names, directories)
            old = self._watched is None or self._watched.deleted > MAX_DELETED
            if settings != self._settings or old:
                await self.close()
                load_plugins(*map(Path, directories))
                client = self._client = ApiClient(
                    Credentials(kubeconfig=question.kubeconfig, master=question.master),
                    RoleMetrics(), qps=0, timeout=_TIMEOUT,
                )  # fmt: skip
                await client.start()
                configuration = parse_configuration(text, question.configuration)
                self._watched = WatchedCluster(client, configuration, names, self._external_calls)
                self._watched.start()
                self._settings = settings
        except (ConfigurationError, CredentialsError) as error:
            raise CommandError(str(error)) from None
        assert self._watched is not None and self._client is not None
        return self._watched, self._client


async def _about(cluster: Cluster, watched: WatchedCluster, about: NamedObject) -> list[Manifest]:
    """The objects that a question is about and that the copy does not have. Waits until the copy has the others in the
    version of now. Raises CommandError."""
    namespace = about.namespace or cluster.namespace
    more = more_sources(watched.kinds, namespace, about.kind, about.name)
    constants = EXPLAINED[about.kind].constants if about.kind in EXPLAINED else ()
    held = [kind for kind in (getattr(kinds, constant) for constant in constants) if kind in watched.kinds]
    sources = [*(WatchSource(kind, namespace, name=about.name) for kind in held), *dict.fromkeys(more)]
    lists = await asyncio.gather(*(_list(cluster, source) for source in sources))
    for kind, raws in zip(held, lists, strict=False):
        for raw in raws:
            await watched.await_version(kind, namespace, about.name, raw["metadata"]["resourceVersion"])
    return [
        Manifest(f"{source.kind.name} {raw['metadata']['name']}", source.kind, raw)
        for source, raws in zip(sources[len(held) :], lists[len(held) :], strict=True)
        for raw in raws
    ]


async def _list(cluster: Cluster, source: WatchSource) -> list[Raw]:
    """The objects of a source; none without the right to list them. Raises CommandError."""
    for pause in (0.2, 0.5, 1.0, None):
        try:
            return await cluster.fetch(source)
        except CommandError as failed:
            if failed.status in (NOT_FOUND, FORBIDDEN):
                return []
            if pause is None or failed.status < _BUSY:
                raise
            await asyncio.sleep(pause)
    raise AssertionError


# --- the answer -------------------------------------------------------------------------------------------------------
def _answer_in_child(prepared: _Prepared, question: NumberedQuestion, output: int) -> NoReturn:
    """Writes the answer to the file descriptor ``output``, and ends the process."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)  # it belongs to the event loop of the parent
        gc.disable()  # the process ends before garbage matters
        try:
            written = _line(question, {"status": 200, "body": _body(prepared, question)})
        except Exception as error:
            written = _line(question, _failure(error))
        with open(output, "wb") as pipe:
            pipe.write(written)
        code = 0
    finally:
        os._exit(code)  # without freeing the cluster object by object


def _body(prepared: _Prepared, question: Question) -> Any:
    """Raises CommandError."""
    simulation = prepared.simulation
    server = simulation.cluster.server
    server.clock = max(server.clock, datetime.now(UTC))
    simulation.cluster.load(prepared.more, lenient=True)
    simulation.take_usage(prepared.usages)
    return answer(simulation, question, prepared.asked)


def _failure(error: Exception) -> Raw:
    """An error as an answer."""
    if isinstance(error, CommandError):
        known = error.status in (BAD_REQUEST, NOT_FOUND)
        return {"status": error.status if known else 500, "message": error.message}
    if isinstance(error, RecursionError):
        return {"status": 500, "message": "an object of the cluster is nested too deeply to be simulated"}
    message = f"the cluster could not be simulated: {type(error).__name__}"
    return {"status": 500, "message": message, "trace": "".join(traceback.format_exception(error, limit=-20))}


def _line(question: NumberedQuestion, answered: Raw) -> bytes:
    return msgspec.json.encode({**answered, "number": question.number}) + b"\n"


def _answered(runner: asyncio.Runner, questions: QuestionLoop, question: NumberedQuestion) -> bytes:
    """The line with the answer to a question."""
    try:
        prepared = runner.run(questions.prepare(question))
    except Exception as error:
        return _line(question, _failure(error))
    if prepared is None:
        return _line(question, {"status": 503, "message": "the client has given up the question"})
    output, end_of_child = os.pipe()
    child = os.fork()
    if not child:
        _answer_in_child(prepared, question, end_of_child)
    os.close(end_of_child)
    written, code = runner.run(questions.relayed(child, output))
    return written if not code else _line(question, {"status": 500, "message": f"the answer ended with code {code}"})


def main() -> None:
    with suppress(OSError):
        os.nice(_NICE)
    logs.configure(0, "console")
    with asyncio.Runner() as runner:
        questions = QuestionLoop()
        runner.run(questions.start())
        while (question := runner.run(questions.next_question())) is not None:
            written = memoryview(_answered(runner, questions, question))
            while written:
                written = written[os.write(_OUTPUT, written) :]
    os._exit(0)  # without freeing the cluster object by object


if __name__ == "__main__":
    main()
