"""Bindings with preparations on the cluster in memory; ``cluster.kube.write.preparation_run`` handles them on a real
one.

Writes are immediate; ``run`` checks the conditions that the preparations wait for.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.api.decisions import Bind, preparation_message
from scheduler.api.kinds import POD
from scheduler.api.preparation import Fail, Preparation, PreparationPatch, Wait
from scheduler.cluster.memory.raw_objects import Json
from scheduler.cluster.memory.server import MemoryServer

Prepared = Callable[[Bind], object]
PreparationFailed = Callable[[Bind, str, bool], None]
"""Called with a binding that failed, the message, and whether its own Pod caused the failure."""


class _Failure(Exception):  # noqa: N818  caught in this module
    """The preparation of a Pod failed."""

    def __init__(self, bind: Bind, message: str) -> None:
        super().__init__(message)
        self.bind = bind


@dataclass(slots=True)
class _PreparationRun:
    """A preparation that one or several bindings share, followed by its successors."""

    bind: Bind
    preparation: Preparation
    accepted: bool = False
    written: list[Preparation] = field(default_factory=list)
    done: bool = False


@dataclass(slots=True)
class _Gang:
    """Bindings that are made together, with their unfinished preparations."""

    binds: Sequence[Bind]
    runs: list[_PreparationRun]
    started: float
    """Seconds since the epoch."""
    at_binding: bool = False
    """Whether the preparations are those right before a binding."""


class MemoryPreparer:
    """The bindings of a cluster that wait for their preparations."""

    def __init__(self, server: MemoryServer, on_prepared: Prepared, on_failed: PreparationFailed) -> None:
        self._server = server
        self._on_prepared = on_prepared
        self._on_failed = on_failed
        self._gangs: list[_Gang] = []

    def __len__(self) -> int:
        """The number of gangs and single bindings that wait."""
        return len(self._gangs)

    def add(self, binds: Iterable[Bind]) -> None:
        """Adds the bindings of a session in order; those with the same number are made together."""
        together: dict[int, list[Bind]] = {}
        for bind in binds:
            together.setdefault(bind.together, []).append(bind)
        for gang in together.values():
            self._gangs.append(_Gang(gang, _new_runs(gang, at_binding=False), self._server.now))

    def run(self) -> bool:
        """Advances all preparations as far as possible. Returns whether anything changed."""
        pending, self._gangs = self._gangs, []
        changed = False
        while pending:
            gang = pending.pop(0)
            try:
                changed |= self._advance(gang)
            except _Failure as failure:
                self._fail(gang, failure)
                changed = True
                continue
            if not all(run.done for run in gang.runs):
                self._gangs.append(gang)
                continue
            changed = True
            for bind in gang.binds:
                remaining = [] if gang.at_binding else _new_runs((bind,), at_binding=True)
                if remaining:
                    pending.append(_Gang((bind,), remaining, self._server.now, at_binding=True))
                else:
                    self._on_prepared(bind)
        return changed

    def _advance(self, gang: _Gang) -> bool:
        """Advances the preparations of a gang. Returns whether anything changed. Raises _Failure."""
        changed = False
        for bind in gang.binds:
            pod = self._server.find(POD, bind.task.namespace, bind.task.name)
            if pod is None or pod["metadata"]["uid"] != bind.task.uid:
                raise _Failure(bind, "pod does not exist any more")
        for run in gang.runs:
            while not run.done:
                step = self._step(run)
                if isinstance(step, Fail):
                    raise _Failure(run.bind, step.message)
                if isinstance(step, Wait):
                    if self._server.now - gang.started >= run.preparation.timeout:
                        seconds = f"{run.preparation.timeout:g}"
                        raise _Failure(run.bind, f"timed out after {seconds} s waiting for {step.what}")
                    break
                if isinstance(step, PreparationPatch):
                    changed = True
                    run.accepted = True
                    run.written.append(run.preparation)
                    self._write(run.preparation, step)
                elif isinstance(step, Preparation):
                    run.preparation, run.accepted = step, False
                else:
                    run.done = True
        return changed

    def _step(self, run: _PreparationRun) -> object:
        preparation = run.preparation
        found = self._server.decoded(preparation.kind, preparation.namespace, preparation.name)
        step = preparation.follow_up if run.accepted else preparation.step
        return step(found, self._server.now)

    def _write(self, preparation: Preparation, patch: PreparationPatch) -> None:
        kind, namespace, name = preparation.kind, preparation.namespace, preparation.name
        raw = self._server.find(kind, namespace, name)
        if patch.strategic and raw is not None:
            self._server.update(kind, namespace, name, _strategic(raw, patch.body))
        else:
            self._server.patch(kind, namespace, name, patch.body)

    def _fail(self, gang: _Gang, failure: _Failure) -> None:
        for run in gang.runs:
            for preparation in reversed(run.written):
                found = self._server.decoded(preparation.kind, preparation.namespace, preparation.name)
                patch = None if found is None else preparation.undo(found, self._server.now)
                if patch is not None:
                    self._write(preparation, patch)
        for bind in gang.binds:
            self._on_failed(bind, preparation_message(bind, failure.bind, str(failure)), bind is failure.bind)


def _new_runs(binds: Iterable[Bind], *, at_binding: bool) -> list[_PreparationRun]:
    """Runs for the distinct preparations of bindings."""
    found: dict[int, _PreparationRun] = {}
    for bind in binds:
        for preparation in bind.preparations:
            if preparation.at_binding is at_binding:
                found.setdefault(id(preparation), _PreparationRun(bind, preparation))
    return list(found.values())


def _strategic(target: Any, patch: Json) -> Json:
    """Applies a strategic merge patch, as far as preparations use it.

    Lists of objects are merged by uid, lists of strings are united, and ``$patch: delete`` removes an entry.
    """
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
