"""A cache that writes down all it is told, and what was decided over it.

What it is told is kept encoded as well, so that a new file can begin with what there is. Frames gather in memory until
a session begins or ends.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from scheduler import __version__
from scheduler.api.decisions import Bind, Decisions, Evict
from scheduler.api.kinds import POD, Kind
from scheduler.api.names import DEFAULT_QUEUE
from scheduler.api.objects import KubeObject
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task
from scheduler.api.usage import NodeUsage
from scheduler.cache import ClusterCache
from scheduler.cache.admissions import Admitted
from scheduler.framework.configuration import Configuration
from scheduler.framework.outside import Outside
from scheduler.record.frames import (
    FORMAT,
    Answered,
    AnyFrame,
    Assumed,
    Begin,
    Confirmed,
    Decided,
    Dropped,
    Failed,
    Guarded,
    Opened,
    Original,
    Put,
    Remembered,
    Since,
    Standing,
    Usage,
    packed,
)
from scheduler.record.journal import Journal
from scheduler.record.replies import Overheard
from scheduler.record.verdict import verdict_of


class RecordedCache(ClusterCache):
    """A ClusterCache with a journal. ``opened`` and ``decided`` tell it of sessions."""

    def __init__(
        self,
        scheduler_names: Sequence[str],
        journal: Journal,
        *,
        default_queue: str = DEFAULT_QUEUE,
        node_selector: Sequence[tuple[str, str]] = (),
    ) -> None:
        super().__init__(scheduler_names, default_queue=default_queue, node_selector=node_selector)
        self._journal = journal
        self._begin = Begin(FORMAT, __version__, list(scheduler_names), default_queue, list(node_selector))
        self._objects: dict[tuple[str, str, str], Put] = {}
        """Kind, namespace and name -> the latest version of every object."""
        self._shown: dict[tuple[str, str, str], Original] = {}
        """The same of those that other programs are shown."""
        self._heard: dict[str, NodeUsage] = {}
        self._since = math.inf
        self._frames: list[AnyFrame] = []
        self._answered = Answered()
        """What was replied in the session that runs."""

    # --- what it is told ---
    def upsert(self, kind: str, obj: KubeObject) -> None:
        frame, meta = Put(kind, packed(obj)), obj.metadata
        self._objects[kind, meta.namespace, meta.name] = frame
        self._gather(frame)
        if kind != POD.name:
            super().upsert(kind, obj)
            return
        before = self.task(f"{meta.namespace}/{meta.name}")
        super().upsert(kind, obj)
        after = self.task(f"{meta.namespace}/{meta.name}")
        if after is not None and after.record is not None and (before is None or before.record != after.record):
            self._gather(_remembered(after))

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self._objects.pop((kind, namespace, name), None)
        self._shown.pop((kind, namespace, name), None)
        self._gather(Dropped(kind, namespace, name))
        super().delete(kind, namespace, name)

    def keep_original(self, kind: str, namespace: str, name: str, original: object) -> None:
        frame = Original(kind, namespace, name, msgspec.json.encode(original))
        self._shown[kind, namespace, name] = frame
        self._gather(frame)
        super().keep_original(kind, namespace, name, original)

    def attune(self, configuration: Configuration) -> None:
        super().attune(configuration)
        if not self.wants_original(POD.name):
            self._shown.clear()

    def confirm(self, kind: Kind, obj: KubeObject) -> None:
        data, meta = packed(obj), obj.metadata
        self._gather(Confirmed(kind.name, data))
        super().confirm(kind, obj)
        if self.keeps(kind) and self.find(kind, meta.namespace, meta.name) is obj:  # else the watch was faster
            self._objects[kind.name, meta.namespace, meta.name] = Put(kind.name, data)

    def take_usage(self, usages: Mapping[str, NodeUsage]) -> None:
        self._heard.update(usages)
        self._gather(Usage(packed(usages)))
        super().take_usage(usages)

    def expect_records(self, since: float) -> None:
        self._since = since
        self._gather(Since(since))
        super().expect_records(since)

    def guard_admissions(self, admitted: Sequence[Admitted]) -> None:
        self._gather(Guarded([*admitted]))
        super().guard_admissions(admitted)

    def bind_failed(self, bind: Bind) -> None:
        self._gather(Failed(bind.task.key, bind.task.uid, bind.node))
        super().bind_failed(bind)

    def evict_failed(self, eviction: Evict) -> None:
        self._gather(Failed(eviction.task.key, eviction.task.uid, ""))
        super().evict_failed(eviction)

    # --- sessions ---
    def opened(self, snapshot: Snapshot, configuration: Configuration, nodes_limit: int) -> None:
        """A session begins over the snapshot that was taken last."""
        self._tell_replies()  # of a session that failed
        if self._journal.full and not snapshot.preparing:  # what bindings wait for is in no object
            self._journal.begin(self._from_the_beginning())
            self._frames.clear()
        self._gather(Opened(snapshot.now, nodes_limit, configuration))
        self._flush()

    def overhearing(self, outside: Outside) -> Outside:
        """Answers the plugins of the session, and writes down what it said."""
        return Overheard(outside, self._answered)

    def decided(self, decisions: Decisions) -> None:
        """The session has ended; nothing is carried out yet."""
        self._tell_replies()
        self._gather(Decided(verdict_of(decisions)))

    def assume(self, decisions: Decisions) -> None:
        groups = [f"{update.namespace}/{update.name}" for update in decisions.pod_groups]
        self._gather(Assumed(groups, [pod.task.key for pod in decisions.pods]))
        self._flush()
        super().assume(decisions)

    def _tell_replies(self) -> None:
        answered = self._answered
        if answered.replies:
            self._gather(Answered([*answered.replies], [*answered.questions]))
            answered.replies.clear()
            answered.questions.clear()

    def _gather(self, frame: AnyFrame) -> None:
        """Have it written. Nothing gathers as long as there is no file: one begins with all there is."""
        if self._journal.open:
            self._frames.append(frame)

    def _flush(self) -> None:
        self._journal.write(self._frames)
        self._frames.clear()

    def _from_the_beginning(self) -> Iterable[AnyFrame]:
        yield self._begin
        yield Since(self._since)
        yield from self._objects.values()
        yield from self._shown.values()
        if self._heard:
            yield Usage(packed(self._heard))
        yield Standing(verdict_of(self.standing()))
        if (admitted := self.admissions()) is not None:
            yield Guarded(admitted)
        yield from (_remembered(task) for task in self.tasks() if task.record is not None or task.earlier)


def _remembered(task: Task) -> Remembered:
    record = task.record
    known = None if record is None else (record.node, record.queue, dict(record.chips), dict(record.cards))
    return Remembered(task.key, task.uid, known, task.earlier)
