"""Commands for objects of one kind: which of them wait, and the action of each.

A Command is carried out first and deleted then, so that a crash between the two loses none; carrying one out twice does
no harm.
"""

from collections.abc import Collection
from typing import Final

from scheduler.api.batch import Action, Command
from scheduler.api.kinds import COMMAND, QUEUE, Kind, find_kind
from scheduler.api.objects import KubeObject
from scheduler.controllers.effects import Delete, Plan, RecordEvent, malformed, warning
from scheduler.controllers.store import Key, Store, key_of

TIMEOUT: Final = 30.0
"""Seconds that a Command waits for its target, or for another Command."""


class Commands:
    """The waiting Commands for the objects of one kind. One thread uses it."""

    def __init__(self, store: Store, target: Kind, actions: Collection[Action], not_there: str) -> None:
        """``target``: the kind; ``actions``: the actions that its objects support; ``not_there``: the reason of the
        Event about a Command whose target does not exist."""
        self._store = store
        self._target = target
        self._actions = actions
        self._not_there = not_there
        self._seen: dict[Key, dict[Key, float]] = {}
        """Target -> Command -> when it was first seen."""

    def observe(self, old: Command | None, new: Command | None, now: float) -> list[Key]:
        """A Command was added, changed or deleted. Returns the keys of the objects to reconcile."""
        before, after = self._target_key(old), self._target_key(new)
        if old is not None and before is not None and before != after:
            seen = self._seen.get(before, {})
            seen.pop(key_of(old), None)
            if not seen:
                self._seen.pop(before, None)
        if new is not None and after is not None:
            self._seen.setdefault(after, {}).setdefault(key_of(new), now)
        return [key for key in dict.fromkeys((before, after)) if key is not None]

    def of(self, key: Key) -> list[Command]:
        """The Commands for an object, the oldest first; within a second, resource versions decide."""
        found = [self._store.get(COMMAND, *each) for each in self._seen.get(key, ())]
        return sorted((command for command in found if command is not None), key=_age)

    def next(self, key: Key) -> Command | None:
        """The oldest Command for an object."""
        return next(iter(self.of(key)), None)

    def time_left(self, key: Key, command: Command, now: float) -> float:
        """Seconds that a Command for an object may still wait."""
        return max(0.0, self._seen[key][key_of(command)] + TIMEOUT - now)

    def without_target(self, key: Key, now: float) -> Plan:
        """Plans for an object that does not exist, or not yet: its Commands wait for a while, and are deleted then."""
        command = self.next(key)
        if command is None:
            return Plan()
        left = self.time_left(key, command, now)
        if left > 0:
            return Plan(after=left)
        message = f"{self._target.name.lower()} {'/'.join(filter(None, key))} is not there"
        return Plan([[self._missing(command, message)], [delete(command)]], after=0.0)

    def action_of(self, command: Command, target: KubeObject) -> tuple[Action | None, RecordEvent | None]:
        """The action that a Command requests; None, and an Event, for a Command without a valid action."""
        kind, meta = self._target.name.lower(), target.metadata
        uid = command.target.uid if command.target is not None else ""
        if uid and uid != meta.uid:
            return None, self._missing(command, f"{kind} {meta.name} ({uid}) is not there any more")
        if command.action in self._actions:
            return Action(command.action), None
        template = "{!r} is nothing a queue can do: {}" if self._target is QUEUE else "{!r} is nothing a job can do: {}"
        problem = template.format(command.action[:64], ", ".join(sorted(self._actions)))
        return None, malformed(COMMAND, command, "action", problem)

    def _missing(self, command: Command, message: str) -> RecordEvent:
        return warning(COMMAND, command, self._not_there, message)

    def _target_key(self, command: Command | None) -> Key | None:
        """The key of a Command's target, if that is of the right kind."""
        target = command.target if command is not None else None
        if command is None or target is None or find_kind(target.api_version, target.kind) is not self._target:
            return None
        return (command.metadata.namespace if self._target.namespaced else "", target.name)


def delete(command: Command) -> Delete:
    return Delete(COMMAND, *key_of(command), command.metadata.uid)


def _age(command: Command) -> tuple[str, int, str, Key]:
    version = command.metadata.resource_version
    return command.metadata.creation_timestamp or "", len(version), version, key_of(command)
