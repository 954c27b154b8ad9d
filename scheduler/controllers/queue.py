"""queue-controller: every Queue has a parent and a state; Commands close and open it.

PodGroups are counted per Queue incrementally, as they are added and removed.

Whether a Queue is open also depends on its parent (as in Volcano's queue controller). A Queue that is closed because
its parent is closed carries an annotation, and opens again with it; a Queue that was closed for itself stays closed,
also if it was closed already when its owner closed it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.api.batch import Action, Command
from scheduler.api.decisions import EventRecord
from scheduler.api.kinds import COMMAND, POD_GROUP, QUEUE
from scheduler.api.names import (
    CLOSED_BY_PARENT,
    DEFAULT_QUEUE,
    EVENT_WARNING,
    REASON_QUEUE_NOT_FOUND,
    ROOT_QUEUE,
)
from scheduler.api.queue import CLOSED, CLOSING, OPEN, UNKNOWN
from scheduler.api.scheduling import PodGroup, Queue
from scheduler.controllers.commands import Commands, delete
from scheduler.controllers.controller import Controller, latest, observes
from scheduler.controllers.effects import Effect, Json, Patch, Plan, RecordEvent, event, normal, warning
from scheduler.controllers.store import Key, Store

SHUT = (CLOSING, CLOSED)


class DesiredState(msgspec.Struct, frozen=True):
    """The desired state of a Queue."""

    state: str
    closed_by_parent: bool | None = None
    """The desired annotation; None: unchanged."""
    refusal: str = ""
    """Why a Command was refused, or ""."""


def decide(queue: Queue, above: str, action: Action | None, populated: bool) -> DesiredState:
    """The desired state of a Queue. ``above``: the state of its parent, "" if that is not known. ``action``: the action
    that a Command requests. ``populated``: whether the Queue has PodGroups."""
    if queue.metadata.name == ROOT_QUEUE:
        return DesiredState(OPEN, refusal="the root queue cannot be closed" if action == Action.CLOSE_QUEUE else "")
    state = queue.status.state or OPEN
    inherited = (queue.metadata.annotations or {}).get(CLOSED_BY_PARENT) == "true"
    shut = CLOSING if populated else CLOSED
    refusal = ""
    if action == Action.OPEN_QUEUE and above in SHUT:
        refusal = (
            f"Failed to open queue {queue.metadata.name} because its parent queue {queue.spec.parent} is closing or "
            "closed. Open the parent queue first."
        )
    elif action == Action.OPEN_QUEUE and state != OPEN:
        return DesiredState(OPEN, False)
    elif action == Action.CLOSE_QUEUE and (inherited or state not in SHUT):
        return DesiredState(CLOSED if state == CLOSED else shut, False if inherited else None)
    if state in SHUT:
        if inherited and above == OPEN:
            return DesiredState(OPEN, False)
        return DesiredState(CLOSED if state == CLOSED else shut, refusal=refusal)
    if above in SHUT:
        return DesiredState(shut, True, refusal)
    return DesiredState(OPEN if state == OPEN else UNKNOWN, False if inherited else None)


_ACTIONS: Final = (Action.OPEN_QUEUE, Action.CLOSE_QUEUE, Action.SYNC_QUEUE)
_NO_COUNTS: Final[Mapping[str, int]] = {}


class QueueController(Controller):
    """Opens and closes Queues."""

    name = "queue-controller"

    def __init__(self, store: Store) -> None:
        self._store = store
        self._groups: dict[str, dict[str, int]] = {}
        """Queue -> phase -> PodGroups; no zeros."""
        self._children: dict[str, set[str]] = {}
        self._commands = Commands(store, QUEUE, _ACTIONS, REASON_QUEUE_NOT_FOUND)
        self._failures: dict[Key, EventRecord] = {}
        """Events about last writes of a state that failed."""

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """PodGroups per Queue and phase. Queues without PodGroups are listed; Queues that do not exist are not."""
        queues = self._store.all(QUEUE)
        return {q.metadata.name: dict(self._groups.get(q.metadata.name, _NO_COUNTS)) for q in queues}

    # --- observing ----------------------------------------------------------------------------------------------------
    @observes(POD_GROUP)
    def _observe_group(self, old: PodGroup | None, new: PodGroup | None, now: float) -> list[Key]:
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

    @observes(COMMAND)
    def _observe_command(self, old: Command | None, new: Command | None, now: float) -> list[Key]:
        keys = self._commands.observe(old, new, now)
        if new is None:  # others may have waited for what it did
            keys += [child for _, queue in keys for child in self._below(queue)]
        return keys

    @observes(QUEUE)
    def _observe_queue(self, old: Queue | None, new: Queue | None, now: float) -> list[Key]:
        before = None if old is None else (old.metadata.uid, _parent(old), old.status.state, _annotation(old))
        after = None if new is None else (new.metadata.uid, _parent(new), new.status.state, _annotation(new))
        if before == after:
            return []
        name = latest(old, new).metadata.name
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

    # --- planning -----------------------------------------------------------------------------------------------------
    def plan(self, key: Key, now: float) -> Plan:
        name = key[1]
        queue = self._store.get(QUEUE, "", name)
        if queue is None:
            self._failures.pop(key, None)
            return self._commands.without_target(key, now)
        command, action, last = self._commands.next(key), None, Plan()
        if command is not None:
            action, remark = self._commands.action_of(command, queue)
            last.then(*([remark] if remark else [])).then(delete(command))
        desired = decide(queue, self._above(queue), action, name in self._groups)
        pause = self._pause(queue, command, now) if command is not None and desired.refusal else 0.0
        if pause > 0:
            desired, last = replace(desired, refusal=""), Plan()
        plan = _carried_out(queue, desired, action)
        plan.after = pause or None
        failure = self._failures.pop(key, None)
        if failure is not None:
            plan.stages.insert(0, [RecordEvent(failure)])
        plan.stages += last.stages
        return plan

    def _pause(self, queue: Queue, command: Command, now: float) -> float:
        """Seconds that a refused Command may still wait because another one is about to open the Queue above."""
        above = self._commands.of(("", queue.spec.parent))
        if not any(other.action == Action.OPEN_QUEUE for other in above):
            return 0.0
        return self._commands.time_left(("", queue.metadata.name), command, now)

    def _above(self, queue: Queue) -> str:
        """The state of the Queue above; the root is always open."""
        name = _parent(queue)
        if name in (ROOT_QUEUE, queue.metadata.name):
            return OPEN
        parent = self._store.get(QUEUE, "", name)
        return "" if parent is None else parent.status.state

    # --- results ------------------------------------------------------------------------------------------------------
    def failed(self, key: Key, effect: Effect, error: str, now: float) -> None:
        queue = self._store.get(QUEUE, *key)
        if queue is None or not isinstance(effect, Patch) or effect.subresource != "status":
            return
        then = effect.body["status"]["state"]
        if then in SHUT:
            failure = event(QUEUE, queue, EVENT_WARNING, Action.CLOSE_QUEUE, f"Close queue failed for {error}")
        else:
            message = f"Update queue status from {queue.status.state} to {then} failed for {error}"
            failure = event(QUEUE, queue, EVENT_WARNING, Action.OPEN_QUEUE, message)
        self._failures[key] = failure


def _carried_out(queue: Queue, desired: DesiredState, action: Action | None) -> Plan:
    """The writes that reach the desired state. The annotation is set before a Queue closes, and removed only after it
    has opened: if this is interrupted anywhere, the next reconciliation reaches the same result."""
    name, uid, now = queue.metadata.name, queue.metadata.uid, queue.status.state
    first: Json = {}
    last: Json = {}
    if not queue.spec.parent and name != ROOT_QUEUE:
        first["spec"] = {"parent": ROOT_QUEUE}
    if desired.closed_by_parent is not None:
        value = "true" if desired.closed_by_parent else "false"
        if _annotation(queue) != value:
            (first if desired.state in SHUT else last)["metadata"] = {"annotations": {CLOSED_BY_PARENT: value}}
    plan = Plan()
    if first:
        plan.then(Patch(QUEUE, "", name, first, uid))
    if desired.state != now:
        plan.then(Patch(QUEUE, "", name, {"status": {"state": desired.state}}, uid, subresource="status"))
    last_stage: list[Effect] = []
    closed_for_itself = action is Action.CLOSE_QUEUE and bool(first.get("metadata"))
    if desired.state in SHUT and (now not in SHUT or closed_for_itself):
        last_stage.append(normal(QUEUE, queue, Action.CLOSE_QUEUE, "Close queue succeed"))
    if desired.refusal and action is not None:
        closing = action is Action.CLOSE_QUEUE
        text = f"Close queue failed for {desired.refusal}" if closing else desired.refusal
        last_stage.append(warning(QUEUE, queue, action, text))
    if last:
        last_stage.append(Patch(QUEUE, "", name, last, uid))
    return plan.then(*last_stage)


def _place(group: PodGroup | None) -> tuple[str, str] | None:
    """Queue and phase of a PodGroup, by which it is counted."""
    return None if group is None else (group.spec.queue or DEFAULT_QUEUE, group.status.phase or "Pending")


def _parent(queue: Queue) -> str:
    """The Queue above; "" above the root."""
    return "" if queue.metadata.name == ROOT_QUEUE else queue.spec.parent or ROOT_QUEUE


def _annotation(queue: Queue) -> str:
    return (queue.metadata.annotations or {}).get(CLOSED_BY_PARENT, "")
