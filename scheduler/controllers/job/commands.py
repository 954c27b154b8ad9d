"""Commands aimed at vcjobs: which wait, and what each asks for.

A Command is carried out first and deleted then, so that a crash between the two loses none; carrying one out twice does
no harm.
"""

from typing import Final

from scheduler.api import batch
from scheduler.api.batch import Action, Command
from scheduler.api.kinds import COMMAND, VCJOB, find_kind
from scheduler.api.names import EVENT_COMMAND_ISSUED
from scheduler.controllers.effects import Delete, Plan, Post
from scheduler.controllers.job.phases import ACTIONS
from scheduler.controllers.posts import malformed, warning
from scheduler.controllers.store import Key, Store

PATIENCE: Final = 30.0
"""Seconds that a Command waits for a job that is not there (yet)."""


class Commands:
    """Those that there are, by the job they are aimed at."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[Key, dict[str, float]] = {}
        """Job -> Command -> when it was first seen."""

    def observe(self, old: Command | None, new: Command | None, now: float) -> list[Key]:
        """The job to look at."""
        command = new or old
        target = command.target if command is not None else None
        if command is None or target is None or find_kind(target.api_version, target.kind) is not VCJOB:
            return []
        key, name = (command.metadata.namespace, target.name), command.metadata.name
        if new is not None:
            self._seen.setdefault(key, {}).setdefault(name, now)
            return [key]
        self._seen.get(key, {}).pop(name, None)
        if self._seen.get(key):
            return [key]
        self._seen.pop(key, None)
        return []

    def next(self, key: Key) -> Command | None:
        """The oldest Command aimed at a job; resource versions tell those of one second apart."""
        names = self._seen.get(key)
        if not names:
            return None
        found = [self._store.get(COMMAND, Command, key[0], name) for name in names]
        return min((command for command in found if command is not None), key=_age, default=None)

    def without_job(self, key: Key, now: float) -> Plan:
        """There is no such job: its Commands wait a while, then go."""
        command = self.next(key)
        if command is None:
            return Plan()
        waited = now - self._seen[key][command.metadata.name]
        if waited < PATIENCE:
            return Plan(after=PATIENCE - waited)
        message = f"job {key[0]}/{key[1]} is not there"
        return Plan([[warning(COMMAND, command, EVENT_COMMAND_ISSUED, message)], [delete(command)]], after=0.0)


def action_of(command: Command, job: batch.Job) -> tuple[Action | None, Post | None]:
    """What a Command asks of a job; None and what to tell of a Command that asks nothing of it."""
    uid = command.target.uid if command.target is not None else ""
    if uid and uid != job.metadata.uid:
        message = f"job {job.metadata.name} ({uid}) is not there any more"
        return None, warning(COMMAND, command, EVENT_COMMAND_ISSUED, message)
    if command.action in ACTIONS:
        return Action(command.action), None
    problem = f"{command.action[:64]!r} is nothing a job can do: {', '.join(sorted(ACTIONS))}"
    return None, malformed(COMMAND, command, "action", problem)


def delete(command: Command) -> Delete:
    return Delete(COMMAND, command.metadata.namespace, command.metadata.name, command.metadata.uid)


def _age(command: Command) -> tuple[str, int, str, str]:
    version = command.metadata.resource_version
    return command.metadata.creation_timestamp or "", len(version), version, command.metadata.name
