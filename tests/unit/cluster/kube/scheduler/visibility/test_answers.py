"""Answers from a process: one at a time, within limits of time, number and size."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from scheduler.cluster.kube.scheduler.visibility import answers as module
from scheduler.cluster.kube.scheduler.visibility.answers import BusyError, Worker, WorkerAnswers

PROGRAM = """
import json, os, signal, sys, time
for line in sys.stdin:
    question = json.loads(line)
    log = open(question["log"], "a")
    print("begin", os.getpid(), file=log, flush=True)
    time.sleep(question["sleep"])
    print("end", file=log, flush=True)
    {ending}
"""
ANSWERING = 'print(json.dumps({"status": 200, "body": question, "number": question["number"]}), flush=True)'


OPEN: list[WorkerAnswers] = []
"""Closed at the end of a scenario."""


class World:
    def __init__(
        self, directory: Path, ending: str = ANSWERING, sleep: float = 0.0, program: str = PROGRAM, **options: Any
    ) -> None:
        self._log = directory / "log"
        self._log.touch()
        program = program.replace("{ending}", ending)
        settings = {"log": str(self._log), "sleep": sleep}
        self.answers = WorkerAnswers(Worker((sys.executable, "-c", program), settings), **options)
        OPEN.append(self.answers)

    @property
    def log(self) -> list[str]:
        return self._log.read_text().splitlines()

    @property
    def runs(self) -> int:
        return sum(line.startswith("begin") for line in self.log)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def closed() -> None:
        try:
            await scenario()
        finally:
            while OPEN:
                await OPEN.pop().close()

    asyncio.run(asyncio.wait_for(closed(), 60))


def test_the_question_reaches_the_process_and_its_answer_comes_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        answer = await world.answers.explain("job", "research", "train")
        body = json.loads(bytes(answer.body))
        assert (answer.status, body["kind"], body["namespace"], body["name"]) == (200, "job", "research", "train")

    run(scenario)


@pytest.mark.slow
def test_one_process_runs_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, sleep=0.05)
        await asyncio.gather(*(world.answers.explain("job", "ns", f"j{i}") for i in range(4)))
        assert [line.split()[0] for line in world.log] == ["begin", "end"] * 4

    run(scenario)


def pids(world: "World") -> list[int]:
    """The processes of the questions so far."""
    return [int(line.split()[1]) for line in world.log if line.startswith("begin")]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.02)


def test_the_process_answers_further_questions(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        for name in ("first", "second"):
            body = json.loads(bytes((await world.answers.explain("job", "ns", name)).body))
            assert body["name"] == name
        assert len(set(pids(world))) == 1
        await world.answers.close()

    run(scenario)


def test_a_process_that_died_while_it_waited_is_replaced(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        await world.answers.explain("job", "ns", "first")
        os.kill(pids(world)[0], 9)
        await until(lambda: not is_running(pids(world)[0]))
        assert (await world.answers.explain("job", "ns", "second")).status == 200

    run(scenario)


def test_the_process_starts_before_the_first_question_and_ends_with_the_scheduler(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path)
        world.answers.start()
        await until(lambda: world.runs == 1)
        await world.answers.explain("job", "ns", "first")
        (process,) = set(pids(world))
        assert is_running(process)
        await world.answers.close()
        assert not is_running(process)

    run(scenario)


HANDLED = PROGRAM.replace("for line", "signal.signal(signal.SIGUSR1, lambda *_: None)\nfor line")
"""Completes the answer to a question that was given up."""


@pytest.mark.slow
def test_the_answer_to_a_question_that_was_given_up_is_not_taken_for_that_of_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, program=HANDLED, sleep=1.0, timeout=3.0)
        asking = asyncio.create_task(world.answers.explain("job", "ns", "first"))
        await until(lambda: world.runs == 1)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        answer = await world.answers.explain("job", "ns", "second")
        assert json.loads(bytes(answer.body))["name"] == "second"
        assert len(set(pids(world))) == 1
        await world.answers.close()

    run(scenario)


@pytest.mark.slow
def test_a_process_without_an_answer_for_long_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENT", 0.5)

    async def scenario() -> None:
        world = World(tmp_path, program=HANDLED, sleep=600, timeout=1.0)
        with pytest.raises(BusyError):
            await world.answers.explain("job", "ns", "j")
        await is_gone(pids(world)[0])

    run(scenario)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_figures_of_queues_are_read_once_for_all_namespaces_and_kept_a_while(tmp_path: Path) -> None:
    async def scenario() -> None:
        now = 0.0
        answered = ANSWERING.replace("question,", '{"research": {"items": [1]}},')
        world = World(tmp_path, answered, clock=lambda: now)
        found = await asyncio.gather(*(world.answers.queues(name, b"{}") for name in ("research", "other", "research")))
        assert [bytes(answer.body) for answer in found] == [b'{"items": [1]}', b"{}", b'{"items": [1]}']
        assert world.runs == 1
        now = module.KEEP + 1
        await world.answers.queues("research", b"{}")
        assert world.runs == 2

    run(scenario)


@pytest.mark.slow
def test_an_answer_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, sleep=600, timeout=1.0)
        with pytest.raises(BusyError, match="no answer within 1 s"):
            await world.answers.explain("job", "ns", "j")
        await is_gone(int(world.log[0].split()[1]))

    run(scenario)


def test_the_process_ends_when_its_client_goes_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, sleep=600)
        asking = asyncio.create_task(world.answers.explain("job", "ns", "j"))
        while not world.log:
            await asyncio.sleep(0.01)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        await is_gone(int(world.log[0].split()[1]))

    run(scenario)


async def is_gone(pid: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"process {pid} runs")


def test_a_limited_number_of_questions_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, sleep=600)
        asking = [asyncio.create_task(world.answers.explain("job", "ns", "j")) for _ in range(module.WAITING)]
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError, match="16 questions wait"):
            await world.answers.explain("job", "ns", "j")
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    run(scenario)


@pytest.mark.parametrize(
    ("ending", "message"),
    [
        ("sys.exit(3)", "ended with code 3"),
        ("print('not JSON', flush=True)", "the answer is malformed"),
        ("break", "ended with code 0"),
        ("os.kill(os.getpid(), 9)", "ended with code -9"),
    ],
)
def test_a_process_that_fails_is_an_error_of_this_question_only(tmp_path: Path, ending: str, message: str) -> None:
    async def scenario() -> None:
        answer = await World(tmp_path, ending).answers.explain("job", "ns", "j")
        assert answer.status == 500 and message in answer.message

    run(scenario)


def test_without_a_process_the_question_is_refused_for_now(tmp_path: Path) -> None:
    async def scenario() -> None:
        answers = WorkerAnswers(Worker((str(tmp_path / "missing"),), {}))
        answer = await answers.explain("job", "ns", "j")
        assert (answer.status, answer.message) == (503, "no process could be started to answer")

    run(scenario)


def test_an_answer_beyond_all_bounds_is_not_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER", 100_000)

    async def scenario() -> None:
        answer = await World(tmp_path, "while True: sys.stdout.write('x' * 10_000)").answers.explain("job", "ns", "j")
        assert answer.status == 500 and "more than 100000 bytes" in answer.message

    run(scenario)


def test_after_an_answer_there_is_a_pause_as_long_as_it_took_but_a_bounded_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Before each answer the clock is read three times, after it once.
    times = iter([100.0, 100.0, 100.0, 104.0, 105.0, 108.0, 108.0, 208.0, 209.0, 218.0, 218.0, 219.0])
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def scenario() -> None:
        world = World(tmp_path, clock=lambda: next(times))
        monkeypatch.setattr(asyncio, "sleep", pause)
        for name in ("a", "b", "c"):
            await world.answers.explain("job", "ns", name)

    run(scenario)
    assert pauses == [0.0, 3.0, 9.0]
