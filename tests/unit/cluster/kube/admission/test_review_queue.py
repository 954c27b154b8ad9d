"""The worker process that decides on large reviews: its death, time-out, idle exit and overload."""

import asyncio
import json
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from scheduler.cluster.kube.admission import worker_process
from scheduler.cluster.kube.admission.decision import MAX_LOGGED_NAME, ReviewOutcome, WatchedView
from scheduler.cluster.kube.admission.review_queue import (
    MAX_INLINE_BYTES,
    MAX_INLINE_OBJECTS,
    QueueFullError,
    ReviewQueue,
    is_small,
)
from scheduler.cluster.kube.admission.worker_process import WorkerError
from scheduler.webhooks.contract import ResourceGroup, WebhookSettings
from scheduler.webhooks.fields import MAX_MESSAGE_LENGTH
from tests.unit.cluster.kube.admission.test_server import patch_of, review
from tests.unit.cluster.kube.fake_api import until

pytestmark = pytest.mark.slow

PATH = "/queues/validate"
SETTINGS = WebhookSettings()


def body(size: int = 1) -> bytes:
    return review(PATH, {"metadata": {"name": "q", "annotations": {"a": "x" * size}}, "spec": {"weight": 1}})


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a scenario on the event loop that the server uses; test_server uses asyncio's default loop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())


@asynccontextmanager
async def running_queue(**options: Any) -> AsyncIterator[ReviewQueue]:
    review_queue = ReviewQueue(WatchedView(), **options)
    try:
        yield review_queue
    finally:
        await review_queue.close()


def decide(review_queue: ReviewQueue, size: int = 1) -> Awaitable[ReviewOutcome]:
    return review_queue.decide(PATH, body(size), (), SETTINGS)


async def pid_of(review_queue: ReviewQueue) -> int:
    """The process id of the worker, once it has started."""
    assert (await decide(review_queue)).result == "allowed"
    assert review_queue.worker is not None
    return review_queue.worker.pid


def is_gone(pid: int) -> bool:
    """Whether the process neither runs nor is a zombie."""
    return not Path(f"/proc/{pid}").exists()


def command_running(code: str) -> tuple[str, ...]:
    """A command that runs this code in place of the worker process."""
    return (sys.executable, "-P", "-c", textwrap.dedent(code))


def test_a_review_is_small_by_its_bytes_and_by_its_objects() -> None:
    assert is_small(b"x" * MAX_INLINE_BYTES) and not is_small(b"x" * (MAX_INLINE_BYTES + 1))
    assert is_small(b"{" * MAX_INLINE_OBJECTS) and not is_small(b"{" * (MAX_INLINE_OBJECTS + 1))


# --- the worker process fails ---
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_dies_fails_its_review_and_the_next_worker_takes_those_that_wait(number: signal.Signals) -> None:
    async def scenario() -> None:
        async with running_queue() as review_queue:
            pid = await pid_of(review_queue)
            os.kill(pid, signal.SIGSTOP)
            first, second = (asyncio.ensure_future(decide(review_queue)) for _ in range(2))
            await until(lambda: review_queue.deciding)
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)
            with pytest.raises(WorkerError, match=f"^the worker process was killed by {number.name}$"):
                await first
            assert (await second).result == "allowed"
            assert is_gone(pid)

    run(scenario)


def test_a_worker_that_dies_between_reviews_fails_none() -> None:
    async def scenario() -> None:
        async with running_queue() as review_queue:
            pid = await pid_of(review_queue)
            os.kill(pid, signal.SIGKILL)
            await until(lambda: review_queue.worker is not None and review_queue.worker.exited)
            assert await pid_of(review_queue) != pid

    run(scenario)


def test_a_review_that_times_out_fails_and_its_worker_is_killed() -> None:
    async def scenario() -> None:
        command = command_running("import time; time.sleep(60)")
        async with running_queue(timeout=0.2, command=command) as review_queue:
            task = asyncio.ensure_future(decide(review_queue))
            await until(lambda: review_queue.worker is not None)
            assert review_queue.worker is not None
            pid = review_queue.worker.pid
            with pytest.raises(WorkerError, match=r"came to no decision within 0\.2 s"):
                await task
            assert is_gone(pid) and review_queue.worker is None

    run(scenario)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("/no/such/program",), "the worker process could not be started: .*No such file"),
        (command_running("raise SystemExit(3)"), "the worker process ended with exit code 3"),
        (
            command_running(
                "import sys, time; sys.stdout.buffer.write(bytes(3) + b'\\x01?'); sys.stdout.flush(); time.sleep(60)"
            ),
            "gave an answer that cannot be read",
        ),
    ],
)
def test_a_worker_that_cannot_start_fails_each_review_with_the_reason(command: tuple[str, ...], text: str) -> None:
    async def scenario() -> None:
        async with running_queue(command=command) as review_queue:
            for _ in range(2):
                with pytest.raises(WorkerError, match=text):
                    await decide(review_queue)

    run(scenario)


def test_a_decision_that_needs_too_much_memory_fails_and_the_next_one_succeeds() -> None:
    async def scenario() -> None:
        command = command_running(
            """
            import scheduler.cluster.kube.admission.worker as worker
            worker.MEMORY_LIMIT = 96 * 1024 * 1024
            worker.main()
            """
        )
        async with running_queue(command=command) as review_queue:
            many = review(PATH, {"metadata": {"name": "q"}, "spec": {"x": [{"a": {}}] * 400_000}})
            with pytest.raises(WorkerError, match=r"a decision on \d+ bytes needs more than the 96 MiB of memory"):
                await review_queue.decide(PATH, many, (), SETTINGS)
            assert (await decide(review_queue)).result == "allowed"

    run(scenario)


def test_output_printed_in_the_worker_is_not_taken_for_an_answer() -> None:
    async def scenario() -> None:
        command = command_running(
            """
            import scheduler.cluster.kube.admission.worker as worker
            decide = worker.decide
            worker.decide = lambda *given: (print("hello"), decide(*given))[1]
            worker.main()
            """
        )
        async with running_queue(command=command) as review_queue:
            assert (await decide(review_queue)).result == "allowed"

    run(scenario)


# --- start and exit ---
def test_the_worker_starts_with_the_first_review_and_exits_when_idle() -> None:
    async def scenario() -> None:
        async with running_queue(idle_timeout=0.05) as review_queue:
            assert review_queue.worker is None
            pid = await pid_of(review_queue)
            await until(lambda: review_queue.worker is None)
            assert is_gone(pid)
            assert await pid_of(review_queue) != pid

    run(scenario)


def test_close_ends_the_worker_in_any_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_process, "EXIT_TIMEOUT", 0.2)

    async def scenario() -> None:
        async with running_queue() as review_queue:
            idle = await pid_of(review_queue)
        assert is_gone(idle)
        async with running_queue(command=command_running("import time; time.sleep(60)")) as review_queue:
            tasks = [asyncio.ensure_future(decide(review_queue)) for _ in range(2)]
            await until(lambda: review_queue.worker is not None and review_queue.deciding)
            assert review_queue.worker is not None
            busy = review_queue.worker.pid
        assert is_gone(busy)
        assert all(task.cancelled() for task in (await asyncio.wait(tasks))[0])

    run(scenario)


def test_the_worker_exits_when_the_server_has_exited() -> None:
    async def scenario() -> None:
        async with running_queue() as review_queue:
            await pid_of(review_queue)
            assert review_queue.worker is not None
            review_queue.worker._requests.close()
            await until(lambda: review_queue.worker is not None and review_queue.worker.exited)
            assert review_queue.worker._process.returncode == 0

    run(scenario)


def test_signals_of_the_terminal_do_not_reach_the_worker() -> None:
    async def scenario() -> None:
        async with running_queue() as review_queue:
            assert os.getpgid(await pid_of(review_queue)) != os.getpgid(0)

    run(scenario)


# --- the queue of reviews ---
def test_the_smallest_waiting_review_is_next_and_of_equal_ones_the_first() -> None:
    async def scenario() -> None:
        async with running_queue() as review_queue:
            pid, order = await pid_of(review_queue), list[str]()

            async def asked(name: str, size: int) -> None:
                await decide(review_queue, size)
                order.append(name)

            os.kill(pid, signal.SIGSTOP)
            tasks = [asyncio.create_task(asked("at hand", 9))]
            await until(lambda: review_queue.deciding)
            for name, size in (("third", 5), ("fourth", 5), ("last", 7), ("second", 3)):
                tasks.append(asyncio.create_task(asked(name, size)))
            await until(lambda: len(review_queue._queued) == 4)
            os.kill(pid, signal.SIGCONT)
            await asyncio.gather(*tasks)
            assert order == ["at hand", "second", "third", "fourth", "last"]

    run(scenario)


def test_reviews_beyond_the_limit_are_rejected_and_cancelled_ones_are_not_decided() -> None:
    async def scenario() -> None:
        async with running_queue(max_queued=2) as review_queue:
            pid = await pid_of(review_queue)
            os.kill(pid, signal.SIGSTOP)
            first = asyncio.ensure_future(decide(review_queue))
            await until(lambda: review_queue.deciding)
            given_up, last = (asyncio.ensure_future(decide(review_queue)) for _ in range(2))
            await until(lambda: len(review_queue._queued) == 2)
            with pytest.raises(QueueFullError, match="2 large reviews wait already"):
                await decide(review_queue)
            given_up.cancel()
            assert review_queue.worker is not None
            sent = list[bytes]()
            real = review_queue.worker.decide

            async def counted(path: str, content: bytes, *others: Any) -> ReviewOutcome:
                sent.append(content)
                return await real(path, content, *others)

            review_queue.worker.decide = counted  # type: ignore[method-assign,assignment]
            os.kill(pid, signal.SIGCONT)
            assert [(await task).result for task in (first, last)] == ["allowed", "allowed"]
            assert len(sent) == 1

    run(scenario)


def test_long_names_are_truncated_in_the_log() -> None:
    async def scenario() -> None:
        async with running_queue() as review_queue:
            long = review(PATH, {"metadata": {"name": "q" * 2_000_000}, "spec": {"weight": 1}}, "CREATE")
            outcome = await review_queue.decide(PATH, long, (), SETTINGS)
            assert len(outcome.name) == MAX_LOGGED_NAME and len(outcome.refusal) < 2 * MAX_MESSAGE_LENGTH

    run(scenario)


# --- settings ---
def test_the_worker_gets_all_settings_and_their_changes() -> None:
    async def scenario() -> None:
        async with running_queue() as review_queue:
            toleration = {"key": "a", "operator": "Exists"}
            group = ResourceGroup("g", "namespace", ("default",), "other", (toleration,), {"pool": "x"}, {"a": [1]})
            pod = review("/pods/mutate", {"metadata": {"name": "p"}, "spec": {}})
            for settings, patches in ((WebhookSettings(), 0), (WebhookSettings(resource_groups=(group,)), 4)):
                outcome = await review_queue.decide("/pods/mutate", pod, (), settings)
                answer = json.loads(outcome.answer)["response"]
                assert len(patch_of(answer) if patches else ()) == patches

    run(scenario)
