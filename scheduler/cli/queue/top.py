"""``queue top``: queues as a tree, with their quota and use; live on a terminal."""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import click

from scheduler.api.names import VISIBILITY_API_VERSION
from scheduler.cli.cluster_source import ClusterSource, cluster_source_options
from scheduler.cli.errors import FORBIDDEN, NOT_FOUND, CommandError, Interrupted
from scheduler.cli.layout import hanging
from scheduler.cli.output import (
    JSON,
    TABLE,
    YAML,
    nothing_found,
    output_option,
    print_object,
    terminal_width,
)
from scheduler.cli.target import name_argument
from scheduler.cli.text import duration, echo, on_terminal
from scheduler.cluster.kube.process.waiting import cancel

Raw = dict[str, Any]
_PROGRAM: Final = (sys.executable, "-P", "-m", "scheduler.cli.main")
_FAILED: Final = "Failed to queue top: "
"""Begins the message of an error, after the warnings."""


@click.command("top")
@name_argument("QUEUE", "-n", "--name", missing=None)
@click.option("-r", "--resource", "resources", multiple=True, metavar="NAME", help="Only this resource (repeatable).")
@click.option(
    "-w/-W", "--watch/--no-watch", default=None, show_default="on a terminal", help="Show changes as they occur."
)
@click.option(
    "--interval", type=click.IntRange(1), default=10, show_default=True, metavar="SECONDS",
    help="Seconds between two readings of the cluster."
)  # fmt: skip
@output_option(TABLE, JSON, YAML)
@cluster_source_options()
def top_command(
    source: ClusterSource, name: str, resources: tuple[str, ...], watch: bool | None, interval: int, output: str
) -> None:
    """Show queues as a tree, with their quota and use. With a NAME, that queue and those below it.

    The cluster is read and a session is run in memory; without the right to, the scheduler is asked. The full part of a
    bar is the use of the capability; its mark is the deserved amount. A live view ends with q or Ctrl-C.
    """
    from scheduler.cli.queue.tree import blocks_of

    terminal = on_terminal() and output == TABLE
    if watch and not terminal:
        raise click.UsageError("--watch draws a table on a terminal")
    if source.paths and watch:
        raise click.UsageError("manifests do not change: leave out --watch")
    if terminal and not source.paths and watch is not False:
        try:
            asyncio.run(_live(interval))
        except KeyboardInterrupt:
            raise Interrupted from None
        return
    queues, cards, owners = _queues(source)
    items = _of_resources(_below(queues, name), resources)
    if name or resources:
        wanted = resources or {one["resource"] for item in items for one in item["amounts"]}
        cards = [card for card in cards if card["card"] in wanted]
        names = {item["queue"] for item in items}
        owners = [owner for owner in owners if owner["card"] in wanted and owner["queue"] in names]
    more = {key: rows for key, rows in (("cards", cards), ("owners", owners)) if rows}
    document = {"apiVersion": VISIBILITY_API_VERSION, "kind": "QueueQuotaList", "items": items, **more}
    if output != TABLE:
        print_object(document, output)
    elif not items:
        nothing_found()
    else:
        for line in chain.from_iterable(blocks_of(document)):
            echo(line)


def _queues(source: ClusterSource) -> tuple[list[Raw], list[Raw], list[Raw]]:
    """The queues, as in a ``QueueQuotaList``; and if the user may read the cluster, its cards and the owners of Pods
    without a queue. Raises CommandError."""
    try:
        with source.simulated("scheduler.explain.queues") as (_, simulation):
            from scheduler.explain.queues import all_cards, all_owners, every_queue

            return every_queue(simulation), all_cards(simulation), all_owners(simulation)
    except CommandError as error:
        if error.status != FORBIDDEN or source.paths:
            raise
        from scheduler.cli.visibility import quotas

        return list(quotas(source.connection, error).get("items", ())), [], []


def _below(items: Sequence[Raw], name: str) -> list[Raw]:
    """A queue and those below it; "": all. Raises CommandError if there is no such queue."""
    if not name:
        return list(items)
    wanted = {name}
    for _ in items:  # at most as many levels as queues
        wanted |= {item["queue"] for item in items if item.get("parent") in wanted}
    found = [item for item in items if item["queue"] in wanted]
    if not any(item["queue"] == name for item in found):
        raise CommandError(f"queue {name} not found", NOT_FOUND)
    return [item | {"amounts": [one for one in item["amounts"] if one["queue"] in wanted]} for item in found]


def _of_resources(items: Sequence[Raw], resources: Sequence[str]) -> list[Raw]:
    """The queues with their amounts of these resources; none given: of all."""
    if not resources:
        return list(items)
    return [item | {"amounts": [one for one in item["amounts"] if one["resource"] in resources]} for item in items]


# --- live -------------------------------------------------------------------------------------------------------------
async def _live(interval: int) -> None:
    """Draws the queues until the user leaves. Raises CommandError if the first reading of the cluster fails."""
    from scheduler.cli.live import live_screen
    from scheduler.cli.queue.tree import blocks_of

    changed = asyncio.Event()
    readings = _Readings(changed, interval)
    await readings.first()
    task = asyncio.create_task(readings.repeat())
    try:
        async with live_screen(changed) as screen:
            while not screen.left:
                changed.clear()
                titles, *lines = blocks_of(readings.document)
                screen.draw([[*hanging(readings.note(), terminal_width(), indent=2), *titles], *lines])
                await screen.pause()
    finally:
        await cancel(task)


class _Readings:
    """The queues as this command prints them with ``-o json``.

    A separate process reads the cluster: keys are answered meanwhile, and its end frees the memory of the cluster.
    """

    def __init__(self, changed: asyncio.Event, interval: int) -> None:
        self.document: Raw = {"items": []}
        self._changed = changed
        self._interval = interval
        self._read = 0.0
        """When the last reading ended, in seconds of the monotonic clock."""
        self._took = 0.0
        """How many seconds it took."""
        self._error = ""

    def note(self) -> str:
        """The age of the data, and why it is not newer."""
        text = f"Read {duration(time.monotonic() - self._read)} ago"
        return f"{text}; the last reading failed: {self._error}" if self._error else text

    async def first(self) -> None:
        """Raises CommandError."""
        for line in await self._read_once():
            echo(line, err=True)

    async def repeat(self) -> None:
        while True:
            await asyncio.sleep(max(self._interval, self._took))  # at most half of the time is spent on reading
            try:
                await self._read_once()
                self._error = ""
            except CommandError as error:
                self._error = error.message
            self._changed.set()

    async def _read_once(self) -> list[str]:
        """Returns the warnings. Raises CommandError."""
        started = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *_PROGRAM,
            *with_flags(sys.argv[1:], "-o", JSON, "--no-watch"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the process with the terminal
        )
        try:
            printed, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        messages = errors.decode("utf-8", "replace")
        if process.returncode:
            raise CommandError((messages.partition(_FAILED)[2] or messages).strip())
        self.document = json.loads(printed)
        self._read = time.monotonic()
        self._took = self._read - started
        return messages.splitlines()


def with_flags(words: Sequence[str], *flags: str) -> list[str]:
    """The words of a command line with more flags, before the words that are no flags."""
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], *flags, *words[end:]]
