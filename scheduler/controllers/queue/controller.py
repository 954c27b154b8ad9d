"""queue-controller: every Queue has a parent and a state; Commands close and open it.

PodGroups are counted per Queue as they come and go, so that none is looked at twice.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast

from scheduler.api.batch import Action, Command
from scheduler.api.decisions import EventPost
from scheduler.api.kinds import COMMAND, POD_GROUP, QUEUE, Kind, find_kind
from scheduler.api.names import (
    CLOSED_BY_PARENT,
    DEFAULT_QUEUE,
    EVENT_WARNING,
    REASON_QUEUE_NOT_FOUND,
    ROOT_QUEUE,
)
from scheduler.api.objects import KubeObject, PodGroup, Queue
from scheduler.api.queue import OPEN
from scheduler.controllers.effects import Delete, Effect, Json, Patch, Plan, Post
from scheduler.controllers.posts import event, malformed, normal, warning
from scheduler.controllers.queue.state import SHUT, Verdict, decide
from scheduler.controllers.store import Key, Store

PATIENCE: Final = 30.0
"""Seconds that a Command waits for a Queue that is not there (yet)."""
_ACTIONS: Final = (Action.OPEN_QUEUE, Action.CLOSE_QUEUE, Action.SYNC_QUEUE)
_NO_COUNTS: Final[Mapping[str, int]] = {}


class QueueController:
    """See Controller."""

    name = "queue-controller"
    kinds: tuple[Kind, ...] = (QUEUE, POD_GROUP, COMMAND)

    def __init__(self, store: Store) -> None:
        self._store = store
        self._groups: dict[str, dict[str, int]] = {}
        """Queue -> phase -> PodGroups; no zeros."""
        self._children: dict[str, set[str]] = {}
        self._commands: dict[str, dict[Key, float]] = {}
        """Queue -> Commands aimed at it -> when they were first seen."""
        self._failures: dict[Key, EventPost] = {}
        """What to tell of the last write of a state, which failed."""

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """PodGroups per Queue and phase; a Queue without any is listed too, one that does not exist is not."""
        queues = self._store.all(QUEUE, Queue)
        return {q.metadata.name: dict(self._groups.get(q.metadata.name, _NO_COUNTS)) for q in queues}

    # --- what concerns whom -------------------------------------------------------------------------------------------
    def observe(self, kind: Kind, old: KubeObject | None, new: KubeObject | None, now: float) -> list[Key]:
        if kind is POD_GROUP:
            return self._observe_group(cast("PodGroup | None", old), cast("PodGroup | None", new))
        if kind is COMMAND:
            return self._observe_command(cast("Command | None", old), cast("Command | None", new), now)
        return self._observe_queue(cast("Queue | None", old), cast("Queue | None", new))

    def _observe_group(self, old: PodGroup | None, new: PodGroup | None) -> list[Key]:
        before, after = _place(old), _place(new)
        if before == after:
            return []
        if after is not None:
            queue, phase = after
            phases = self._groups.setdefault(queue, {})
            phases[phase] = phases.get(phase, 0) + 1
        if before is None:
            return []
        queue, phase = before
        phases = self._groups[queue]
        phases[phase] -= 1
        if not phases[phase]:
            del phases[phase]
        if phases:
            return []
        del self._groups[queue]
        return [("", queue)]

    def _observe_command(self, old: Command | None, new: Command | None, now: float) -> list[Key]:
        command = new or old
        if command is None or command.target is None or not command.target.name:
            return []
        if find_kind(command.target.api_version, command.target.kind) is not QUEUE:
            return []
        queue, key = command.target.name, (command.metadata.namespace, command.metadata.name)
        if new is not None:
            self._commands.setdefault(queue, {}).setdefault(key, now)
            return [("", queue)]
        commands = self._commands.get(queue, {})
        commands.pop(key, None)
        if not commands:
            self._commands.pop(queue, None)
        return [("", queue), *self._below(queue)]  # they may have waited for what it did

    def _observe_queue(self, old: Queue | None, new: Queue | None) -> list[Key]:
        before = None if old is None else (old.metadata.uid, _parent(old), old.status.state, _annotation(old))
        after = None if new is None else (new.metadata.uid, _parent(new), new.status.state, _annotation(new))
        queue = new or old
        if before == after or queue is None:
            return []
        name = queue.metadata.name
        if before is not None:
            children = self._children.get(before[1], set())
            children.discard(name)
            if not children:
                self._children.pop(before[1], None)
        if after is not None:
            self._children.setdefault(after[1], set()).add(name)
        return [("", name), *self._below(name)]

    def _below(self, queue: str) -> list[Key]:
        return [("", child) for child in self._children.get(queue, ())]

    # --- what to do ---------------------------------------------------------------------------------------------------
    def plan(self, key: Key, now: float) -> Plan:
        name = key[1]
        queue = self._store.get(QUEUE, Queue, "", name)
        command = self._next_command(name)
        if queue is None:
            return self._without(name, command, now)
        action, last = "", Plan()
        if command is not None:
            action, remark = _order(command, queue)
            last.then(*remark).then(Delete(COMMAND, *_key(command), command.metadata.uid))
        verdict = decide(queue, self._above(queue), action, name in self._groups)
        pause = self._pause(queue, command, now) if command is not None and verdict.refusal else 0.0
        if pause > 0:
            verdict, last = replace(verdict, refusal=""), Plan()
        plan = _carried_out(queue, verdict, action)
        plan.after = pause or None
        failure = self._failures.pop(key, None)
        if failure is not None:
            plan.stages.insert(0, [Post(failure)])
        plan.stages += last.stages
        return plan

    def _without(self, name: str, command: Command | None, now: float) -> Plan:
        """No such Queue: a Command for it waits a while, then goes."""
        if command is None:
            return Plan()
        if now - self._commands[name][_key(command)] < PATIENCE:
            return Plan(problem=f"queue {name} is not there")
        return Plan(
            [
                [_not_found(command, f"queue {name} is not there")],
                [Delete(COMMAND, *_key(command), command.metadata.uid)],
            ]
        )

    def _next_command(self, queue: str) -> Command | None:
        """The oldest Command aimed at a Queue; resource versions tell those of one second apart."""
        found = [self._store.get(COMMAND, Command, *key) for key in self._commands.get(queue, ())]
        commands = [command for command in found if command is not None]
        return min(commands, key=_age, default=None)

    def _pause(self, queue: Queue, command: Command, now: float) -> float:
        """Seconds that a refused Command may still wait because another one is about to open the Queue above."""
        above = [self._store.get(COMMAND, Command, *key) for key in self._commands.get(queue.spec.parent, ())]
        if not any(other is not None and other.action == Action.OPEN_QUEUE for other in above):
            return 0.0
        return max(0.0, self._commands[queue.metadata.name][_key(command)] + PATIENCE - now)

    def _above(self, queue: Queue) -> str:
        """The state of the Queue above; the root is always open."""
        name = _parent(queue)
        if name in (ROOT_QUEUE, queue.metadata.name):
            return OPEN
        parent = self._store.get(QUEUE, Queue, "", name)
        return "" if parent is None else parent.status.state

    # --- what came of it ----------------------------------------------------------------------------------------------
    def done(self, key: Key, now: float) -> None:
        pass

    def failed(self, key: Key, effect: Effect, error: str, now: float) -> None:
        queue = self._store.get(QUEUE, Queue, *key)
        if queue is None or not isinstance(effect, Patch) or effect.subresource != "status":
            return
        then = effect.body["status"]["state"]
        if then in SHUT:
            told = event(QUEUE, queue, EVENT_WARNING, Action.CLOSE_QUEUE, f"Close queue failed for {error}")
        else:
            message = f"Update queue status from {queue.status.state} to {then} failed for {error}"
            told = event(QUEUE, queue, EVENT_WARNING, Action.OPEN_QUEUE, message)
        self._failures[key] = told


def _carried_out(queue: Queue, verdict: Verdict, action: str) -> Plan:
    """The annotation says why before a Queue closes, and stops saying so only after it has opened: wherever this is cut
    short, the next look comes to the same end."""
    name, uid, now = queue.metadata.name, queue.metadata.uid, queue.status.state
    first: Json = {}
    last: Json = {}
    if not queue.spec.parent and name != ROOT_QUEUE:
        first["spec"] = {"parent": ROOT_QUEUE}
    if verdict.closed_by_parent is not None:
        value = "true" if verdict.closed_by_parent else "false"
        if _annotation(queue) != value:
            (first if verdict.closed_by_parent else last)["metadata"] = {"annotations": {CLOSED_BY_PARENT: value}}
    plan = Plan()
    if first:
        plan.then(Patch(QUEUE, "", name, first, uid))
    if verdict.state != now:
        plan.then(Patch(QUEUE, "", name, {"status": {"state": verdict.state}}, uid, subresource="status"))
    told: list[Effect] = []
    if verdict.state in SHUT and now not in SHUT:
        told.append(normal(QUEUE, queue, Action.CLOSE_QUEUE, "Close queue succeed"))
    if verdict.refusal and action == Action.CLOSE_QUEUE:
        told.append(warning(QUEUE, queue, action, f"Close queue failed for {verdict.refusal}"))
    elif verdict.refusal:
        told.append(warning(QUEUE, queue, action, verdict.refusal))
    if last:
        told.append(Patch(QUEUE, "", name, last, uid))
    return plan.then(*told)


def _order(command: Command, queue: Queue) -> tuple[str, list[Effect]]:
    """What a Command asks of a Queue, and what is to be told of one that asks nothing."""
    if command.target is not None and command.target.uid and command.target.uid != queue.metadata.uid:
        return "", [_not_found(command, f"queue {queue.metadata.name} ({command.target.uid}) is not there any more")]
    if command.action in _ACTIONS:
        return command.action, []
    problem = f"{command.action[:64]!r} is nothing a queue can do: {', '.join(_ACTIONS)}"
    return "", [malformed(COMMAND, command, "action", problem)]


def _not_found(command: Command, message: str) -> Post:
    return warning(COMMAND, command, REASON_QUEUE_NOT_FOUND, message)


def _key(obj: KubeObject) -> Key:
    return obj.metadata.namespace, obj.metadata.name


def _age(command: Command) -> tuple[str, int, str, Key]:
    version = command.metadata.resource_version
    return command.metadata.creation_timestamp or "", len(version), version, _key(command)


def _place(group: PodGroup | None) -> tuple[str, str] | None:
    """Queue and phase."""
    return None if group is None else (group.spec.queue or DEFAULT_QUEUE, group.status.phase or "Pending")


def _parent(queue: Queue) -> str:
    """The Queue above; "" above the root."""
    return "" if queue.metadata.name == ROOT_QUEUE else queue.spec.parent or ROOT_QUEUE


def _annotation(queue: Queue) -> str:
    return (queue.metadata.annotations or {}).get(CLOSED_BY_PARENT, "")
