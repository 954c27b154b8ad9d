"""Keeps a chip from being assigned whole by this plugin and in parts by another one, which decides about AI cores.

Each plugin knows from the annotations of Pods what the other one has assigned in earlier sessions. In one session a
node gets either Pods with whole chips or Pods with AI cores.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import NPU_CORE
from scheduler.api.node import Rows
from scheduler.api.task import Task, TaskClass
from scheduler.framework.columns import UNBOUNDED, Counts, Filter, RefusingFilter, Scope
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.ascend.npu_requests import units

_WHOLE: Final = "whole chips"
_CORES: Final = "AI cores"


class Exclusion:
    """The nodes that got Pods with whole chips, and those that got Pods with AI cores, in one session."""

    def __init__(self, session: PluginSession, resource: str) -> None:
        """``resource``: the resource of the chips that the other plugin divides."""
        self._positions = {_WHOLE: session.dimensions.find(resource), _CORES: session.dimensions.find(NPU_CORE)}
        self._numbers: dict[str, Counts] = {
            kind: np.zeros(len(session.nodes), dtype=np.int64) for kind in self._positions
        }
        """Kind -> number of Pods placed in this session, of shape (nodes,)."""
        self._placed: dict[str, str] = {}
        """uid -> kind."""

    def filters(self, cls: TaskClass) -> list[Filter]:
        kinds = self._kinds(cls)
        if len(kinds) > 1:
            return [RefusingFilter(f"a Pod that asks for {_WHOLE} and {_CORES} fits no node")]
        return [_NodeFilter(other, self._numbers[other]) for other in self._positions if kinds and other not in kinds]

    def _kinds(self, cls: TaskClass) -> list[str]:
        return [kind for kind, position in self._positions.items() if units(cls, position)]

    def allocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int], pipelined: bool) -> None:
        for kind in self._kinds(tasks[0].cls) if tasks else ():
            for task, row in zip(tasks, rows, strict=True):
                self._placed[task.uid] = kind
                self._numbers[kind][row] += 1

    def deallocate(self, job: Job, tasks: Sequence[Task], rows: Sequence[int]) -> None:
        for task, row in zip(tasks, rows, strict=True):
            kind = self._placed.pop(task.uid, None)  # None: it was placed in an earlier session
            if kind is not None:
                self._numbers[kind][row] -= 1


class _NodeFilter:
    """Passes nodes that got no Pods of the other kind."""

    scope = Scope.NODE
    unresolvable = False

    def __init__(self, kind: str, numbers: Counts) -> None:
        self._kind = kind
        self._numbers = numbers

    def room(self, rows: Rows) -> Counts:
        return np.where(self._numbers[rows] == 0, UNBOUNDED, 0)

    def reasons(self, rows: Rows) -> Iterable[tuple[str, int]]:
        return ((f"node(s) just got Pods with {self._kind} of chips that this Pod could share", len(rows)),)
