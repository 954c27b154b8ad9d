"""Builders of running and pending jobs in queues."""

from typing import Any

from scheduler.api.task import TaskStatus
from tests.builders import Raw, World, group, pod


def runs(name: str, queue: str, asks: str, on: str, **rest: Any) -> list[Raw]:
    """A running job of one Pod with the same name."""
    return [group(name, queue, phase="Running"), pod(name, asks, name, on=on, **rest)]


def waits(name: str, queue: str, asks: str, **rest: Any) -> list[Raw]:
    """An admitted, pending job of one Pod."""
    return [group(name, queue, phase="Inqueue"), pod(name, asks, name, **rest)]


def pipelined_tasks(world: World) -> dict[str, str]:
    """Maps each Pod to the node to which the last session pipelined it."""
    assert world.outcome is not None
    session = world.outcome.session
    return {
        task.name: session.nodes.names[job.placed[task.uid]]
        for job in session.jobs.values()
        for task in job.of(TaskStatus.PIPELINED).values()
    }
