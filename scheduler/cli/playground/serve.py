"""``playground``: creates simulated Nodes and runs them until it is interrupted."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from scheduler.cli.connection import Cluster, Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.flags import Duration
from scheduler.cli.output import JSON, TABLE, output_option
from scheduler.cli.playground.shapes import chosen_families, node_options
from scheduler.cli.target import connection_options
from scheduler.cli.text import echo
from scheduler.cluster.kube.process.waiting import cancel

if TYPE_CHECKING:
    from scheduler.cluster.kube.transport.sources import WatchSource


T = TypeVar("T")


async def request(what: str, cluster: Cluster, awaitable: Awaitable[T]) -> T:
    """The result. Raises CommandError."""
    from scheduler.cluster.kube.transport.errors import ApiError, TransportError

    try:
        return await awaitable
    except ApiError as error:
        raise CommandError(f"{what}: {error.message or error}", error.status) from None
    except TransportError as error:
        raise CommandError(f"{what}: no answer from the API server at {cluster.client.host} ({error})") from None
    except ValueError as error:  # a name that no API server accepts makes no URL
        raise CommandError(
            f"{what}: the API server at {cluster.client.host} sent a malformed object: {error}"
        ) from None


class Watcher(Protocol):
    """Simulates components with the state of a cluster that it watches."""

    @property
    def sources(self) -> "tuple[WatchSource, ...]":
        """What it watches."""
        ...

    def watching(self) -> AbstractAsyncContextManager[None]:
        """Watches during the block."""
        ...


@asynccontextmanager
async def watching(cluster: Cluster, watcher: Watcher) -> AsyncIterator[None]:
    """Watches what a simulation needs. Raises CommandError if the API server refuses to list it."""
    for source in watcher.sources:
        await cluster.fetch(source, at_most=1)
    async with watcher.watching():
        yield


@click.group("playground", invoke_without_command=True)
@node_options
@click.option(
    "--taint", is_flag=True, help="Keep Pods that do not tolerate playground.volcano-py/family off the Nodes."
)
@click.option("--for", "seconds", type=Duration(), help="Stop after this time; by default when interrupted.")
@click.option("--keep", is_flag=True, help="Leave the Nodes and what runs on them behind.")
@output_option(TABLE, JSON)
@connection_options()
@click.pass_context
def playground_group(
    context: click.Context, connection: Connection, nodes: int, families: Sequence[str], prefix: str, division: str,
    super_pod_size: int, taint: bool, seconds: float | None, keep: bool, output: str,
) -> None:  # fmt: skip
    """Run simulated NPU nodes in a cluster, until interrupted.

    Creates Nodes, and does what kubelet, Ascend device plugin, NodeD and ClusterD would do there. Everything is removed
    at the end. No NPU is needed, and no container runs.

    \b
    volcano-py playground --nodes 8 --family 910b-8
    volcano-py playground fail npu-910b-8-0 --chip 3
    volcano-py playground recover npu-910b-8-0
    """
    if context.invoked_subcommand is not None:
        return
    chosen = chosen_families(families, division)

    async def work(cluster: Cluster) -> None:
        from scheduler.cluster.kube.playground.role import Playground
        from scheduler.playground.node import new_machines

        def progress(kind: str, node: str, text: str) -> None:
            show(output, kind, node, text)

        playground = Playground(cluster.client, progress)
        async with watching(cluster, playground):
            existing = playground.state.nodes
            try:
                machines = new_machines(chosen, nodes, prefix, division, super_pod_size, existing)
            except ValueError as error:
                raise CommandError(str(error)) from None
            progress("node", "", f"{len(existing)} simulated nodes exist, {len(machines)} are created")
            if taken := await request("create simulated nodes", cluster, playground.create(machines, taint=taint)):
                raise CommandError(f"Node {taken[0]} exists and is not simulated: choose other names with --prefix")
            await run_until_stopped(playground.run(), seconds)
            if not keep:
                removed = await request("remove simulated nodes", cluster, playground.clean_up())
                progress("node", "", "removed {} nodes and {} Pods".format(*removed))

    connection.run(work)


async def run_until_stopped(work: Coroutine[Any, Any, None], seconds: float | None) -> None:
    """Runs a simulation until a signal, or for a time."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    running = asyncio.create_task(work)
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((running, stopping), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        await cancel(running, stopping)
        for number in (signal.SIGINT, signal.SIGTERM):  # the next signal ends the process at once
            loop.remove_signal_handler(number)


def show(output: str, kind: str, node: str, text: str) -> None:
    """Prints what happened."""
    if output == JSON:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        echo(json.dumps({"time": now, "kind": kind, "node": node, "text": text}))
    else:
        echo(f"{datetime.now():%H:%M:%S}  {f'{node}: ' if node else ''}{text}")
