"""Carries out bindings that wait for other objects, on the cluster in memory; ``cluster.kube.write.preparer`` does it
on a real one.

What is to be written is written at once; what others have to do is looked for whenever ``run`` is called.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.api.decisions import Bind
from scheduler.api.kinds import POD
from scheduler.api.preparation import Fail, Patch, Preparation, Wait
from scheduler.cluster.memory.server import Json, MemoryServer
from scheduler.cluster.words import why_not_prepared

Prepared = Callable[[Bind], object]
NotPrepared = Callable[[Bind, str, bool], None]
"""Told of a binding that will not be made, why, and whether its own Pod is at fault."""


class _Failure(Exception):  # noqa: N818  it is told, not raised further
    """A Pod cannot be prepared."""

    def __init__(self, bind: Bind, message: str) -> None:
        super().__init__(message)
        self.bind = bind


@dataclass(slots=True)
class _PreparationRun:
    """One preparation, for a binding or several, with those that follow from it."""

    bind: Bind
    preparation: Preparation
    accepted: bool = False
    written: list[Preparation] = field(default_factory=list)
    done: bool = False


@dataclass(slots=True)
class _Gang:
    """Bindings that come about together, and what they still wait for."""

    binds: Sequence[Bind]
    runs: list[_PreparationRun]
    begun: float
    """Seconds since the epoch."""
    last: bool = False
    """What is left is done right before a binding."""


class Preparing:
    """The bindings of one cluster that wait."""

    def __init__(self, server: MemoryServer, prepared: Prepared, not_prepared: NotPrepared) -> None:
        self._server = server
        self._prepared = prepared
        self._not_prepared = not_prepared
        self._gangs: list[_Gang] = []

    def __len__(self) -> int:
        """How many bindings, or gangs of them, wait."""
        return len(self._gangs)

    def begin(self, binds: Iterable[Bind]) -> None:
        """Bindings of one session, in order; those with one number come about together."""
        together: dict[int, list[Bind]] = {}
        for bind in binds:
            together.setdefault(bind.together, []).append(bind)
        for gang in together.values():
            self._gangs.append(_Gang(gang, _first(gang, at_binding=False), self._server.now))

    def run(self) -> bool:
        """Go on as far as possible; whether anything changed."""
        waiting, self._gangs = self._gangs, []
        changed = False
        while waiting:
            gang = waiting.pop(0)
            try:
                changed |= self._advance(gang)
            except _Failure as failure:
                self._give_up(gang, failure)
                changed = True
                continue
            if not all(one.done for one in gang.runs):
                self._gangs.append(gang)
                continue
            changed = True
            for bind in gang.binds:
                left = [] if gang.last else _first((bind,), at_binding=True)
                if left:
                    waiting.append(_Gang((bind,), left, self._server.now, last=True))
                else:
                    self._prepared(bind)
        return changed

    def _advance(self, gang: _Gang) -> bool:
        """Raises _Failure."""
        changed = False
        for bind in gang.binds:
            pod = self._server.find(POD, bind.task.namespace, bind.task.name)
            if pod is None or pod["metadata"]["uid"] != bind.task.uid:
                raise _Failure(bind, "pod does not exist any more")
        for one in gang.runs:
            while not one.done:
                step = self._step(one)
                if isinstance(step, Fail):
                    raise _Failure(one.bind, step.message)
                if isinstance(step, Wait):
                    if self._server.now - gang.begun >= one.preparation.timeout:
                        seconds = f"{one.preparation.timeout:g}"
                        raise _Failure(one.bind, f"timed out after {seconds} s waiting for {step.what}")
                    break
                if isinstance(step, Patch):
                    changed = True
                    one.accepted = True
                    one.written.append(one.preparation)
                    self._write(one.preparation, step)
                elif isinstance(step, Preparation):
                    one.preparation, one.accepted = step, False
                else:
                    one.done = True
        return changed

    def _step(self, one: _PreparationRun) -> object:
        preparation = one.preparation
        found = self._server.decoded(preparation.kind, preparation.namespace, preparation.name)
        ask = preparation.follow_up if one.accepted else preparation.step
        return ask(found, self._server.now)

    def _write(self, preparation: Preparation, patch: Patch) -> None:
        kind, namespace, name = preparation.kind, preparation.namespace, preparation.name
        raw = self._server.find(kind, namespace, name)
        if patch.strategic and raw is not None:
            self._server.update(kind, namespace, name, _strategic(raw, patch.body))
        else:
            self._server.patch(kind, namespace, name, patch.body)

    def _give_up(self, gang: _Gang, failure: _Failure) -> None:
        for one in gang.runs:
            for preparation in reversed(one.written):
                found = self._server.decoded(preparation.kind, preparation.namespace, preparation.name)
                patch = None if found is None else preparation.undo(found, self._server.now)
                if patch is not None:
                    self._write(preparation, patch)
        for bind in gang.binds:
            self._not_prepared(bind, why_not_prepared(bind, failure.bind, str(failure)), bind is failure.bind)


def _first(binds: Iterable[Bind], *, at_binding: bool) -> list[_PreparationRun]:
    """The preparations of bindings, each once."""
    found: dict[int, _PreparationRun] = {}
    for bind in binds:
        for preparation in bind.preparations:
            if preparation.at_binding is at_binding:
                found.setdefault(id(preparation), _PreparationRun(bind, preparation))
    return list(found.values())


def _strategic(target: Any, patch: Json) -> Json:
    """A strategic merge patch, as far as our preparations use it: lists of objects are merged by uid, lists of words
    united, and ``$patch: delete`` takes an entry out."""
    result: Json = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        old = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _strategic(old, value)
        elif isinstance(value, list) and any(isinstance(entry, dict) and "uid" in entry for entry in value):
            entries = {entry.get("uid"): entry for entry in old or ()}
            for entry in value:
                if entry.get("$patch") == "delete":
                    entries.pop(entry["uid"], None)
                else:
                    entries[entry["uid"]] = _strategic(entries.get(entry["uid"]), entry)
            result[key] = list(entries.values())
        elif isinstance(value, list) and all(isinstance(entry, str) for entry in value):
            result[key] = list(dict.fromkeys([*(old or ()), *value]))
        else:
            result[key] = value
    return result
