"""Words for clusters with queues: what runs, what waits, what is promised."""

from typing import Any

from scheduler.api.task import TaskStatus
from tests.builders import Raw, World, group, pod


def runs(name: str, queue: str, asks: str, on: str, **rest: Any) -> list[Raw]:
    """A job of one Pod that runs; both are called alike."""
    return [group(name, queue, phase="Running"), pod(name, asks, name, on=on, **rest)]


def waits(name: str, queue: str, asks: str, **rest: Any) -> list[Raw]:
    """A job of one Pod that was let into its queue."""
    return [group(name, queue, phase="Inqueue"), pod(name, asks, name, **rest)]


def promised(world: World) -> dict[str, str]:
    """Pod -> node promised in the last cycle."""
    assert world.outcome is not None
    session = world.outcome.session
    return {
        task.name: session.nodes.names[job.placed[task.uid]]
        for job in session.jobs.values()
        for task in job.of(TaskStatus.PIPELINED).values()
    }
