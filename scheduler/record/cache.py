"""A cache that records all its inputs, and the decisions of the sessions.

The latest inputs are also kept encoded, so that a new file can begin with the current state. Frames are buffered in
memory until a session begins or ends.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from scheduler import __version__
from scheduler.api.decisions import Bind, Decisions, Evict
from scheduler.api.kinds import POD, Kind
from scheduler.api.names import DEFAULT_QUEUE, LAST_APPLIED, TASK_INDEX_VARIABLE
from scheduler.api.objects import KubeObject, Pod
from scheduler.api.snapshot import Snapshot
from scheduler.api.task import Task, without_variables
from scheduler.api.usage import NodeUsage
from scheduler.cache import ClusterCache
from scheduler.cache.admissions import Admitted
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import SessionObserver
from scheduler.framework.external_calls import ExternalCalls, ExternalReply, ExternalRequest
from scheduler.record import frames
from scheduler.record.journal import Journal


class RecordedCache(ClusterCache, SessionObserver):
    """A ClusterCache that records its inputs in a journal, and observes the sessions."""

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
        self._begin = frames.Begin(
            frames.FORMAT, __version__, list(scheduler_names), default_queue, list(node_selector)
        )
        self._objects: dict[tuple[Kind, str, str], frames.ObjectPut] = {}
        """Kind, namespace and name -> the latest version of every object."""
        self._original_frames: dict[tuple[Kind, str, str], frames.Original] = {}
        """Kind, namespace and name -> the original of every object that other programs receive whole."""
        self._recorded_usage: dict[str, NodeUsage] = {}
        self._annotations: set[str] = set()
        """The keys of the annotations of Pods that plugins require."""
        self._since = math.inf
        self._frames: list[frames.AnyFrame] = []
        self._answered = frames.Answered()
        """The replies of other programs in the current session."""

    # --- inputs ---
    def upsert(self, kind: Kind, obj: KubeObject) -> None:
        frame, meta = frames.ObjectPut(kind.name, _packed(obj)), obj.metadata
        self._objects[kind, meta.namespace, meta.name] = frame
        self._add_frame(frame)
        if kind is not POD:
            super().upsert(kind, obj)
            return
        before = self.task(f"{meta.namespace}/{meta.name}")
        super().upsert(kind, obj)
        after = self.task(f"{meta.namespace}/{meta.name}")
        if after is not None and after.record is not None and (before is None or before.record != after.record):
            self._add_frame(_binding_proof(after))

    def delete(self, kind: Kind, namespace: str, name: str) -> None:
        self._objects.pop((kind, namespace, name), None)
        self._original_frames.pop((kind, namespace, name), None)
        self._add_frame(frames.Dropped(kind.name, namespace, name))
        super().delete(kind, namespace, name)

    def keep_original(self, kind: Kind, namespace: str, name: str, original: object) -> None:
        frame = frames.Original(kind.name, namespace, name, msgspec.json.encode(original))
        self._original_frames[kind, namespace, name] = frame
        self._add_frame(frame)
        super().keep_original(kind, namespace, name, original)

    def configure(self, configuration: Configuration) -> Collection[Kind]:
        again = super().configure(configuration)
        if not self.wants_original(POD):
            self._original_frames.clear()
        return again

    def keep_annotations(self, keys: Collection[str]) -> bool:
        again = super().keep_annotations(keys)
        if again:
            self._annotations.update(keys)
            self._add_frame(frames.KeptAnnotations(sorted(self._annotations)))
        return again

    def confirm(self, kind: Kind, obj: KubeObject) -> None:
        data, meta = _packed(obj), obj.metadata
        self._add_frame(frames.Confirmed(kind.name, data))
        super().confirm(kind, obj)
        if self.stores(kind) and self.find(kind, meta.namespace, meta.name) is obj:  # otherwise the watch was faster
            self._objects[kind, meta.namespace, meta.name] = frames.ObjectPut(kind.name, data)

    def take_usage(self, usages: Mapping[str, NodeUsage]) -> None:
        self._recorded_usage.update(usages)
        self._add_frame(frames.NodeUsages(frames.packed(usages)))
        super().take_usage(usages)

    def expect_records(self, since: float) -> None:
        self._since = since
        self._add_frame(frames.RecordsExpected(since))
        super().expect_records(since)

    def enforce_admissions(self, admitted: Sequence[Admitted]) -> None:
        self._add_frame(frames.AdmissionsEnforced([*admitted]))
        super().enforce_admissions(admitted)

    def bind_failed(self, bind: Bind) -> None:
        self._add_frame(frames.Failed(bind.task.key, bind.task.uid, bind.node))
        super().bind_failed(bind)

    def evict_failed(self, eviction: Evict) -> None:
        self._add_frame(frames.Failed(eviction.task.key, eviction.task.uid, ""))
        super().evict_failed(eviction)

    # --- sessions ---
    def opened(self, snapshot: Snapshot, configuration: Configuration, nodes_limit: int) -> None:
        self._add_replies()  # of a failed session
        if self._journal.full and not snapshot.preparing:  # the preparations of bindings are in no object
            self._journal.begin(self._from_the_beginning())
            self._frames.clear()
            self.memory.clear()  # a replay of the file begins without
        self._add_frame(frames.Opened(snapshot.now, nodes_limit, configuration))
        self._write_frames()

    def recording(self, external_calls: ExternalCalls) -> ExternalCalls:
        """Wraps ``external_calls`` so that the replies to the plugins are recorded."""
        return RecordedExternalCalls(external_calls, self._answered)

    def decided(self, decisions: Decisions) -> None:
        self._add_replies()
        self._add_frame(frames.Decided(frames.recorded_decisions(decisions)))

    def assume(self, decisions: Decisions) -> None:
        groups = [f"{update.namespace}/{update.name}" for update in decisions.pod_groups]
        pods = [task.key for update in decisions.pods for task in update.tasks]
        self._add_frame(frames.Assumed(groups, pods, [update.name for update in decisions.queues]))
        self._write_frames()
        super().assume(decisions)

    def _add_replies(self) -> None:
        answered = self._answered
        if answered.replies:
            self._add_frame(frames.Answered([*answered.replies], [*answered.questions]))
            answered.replies.clear()
            answered.questions.clear()

    def _add_frame(self, frame: frames.AnyFrame) -> None:
        """Adds a frame to the buffer. Without an open file nothing is buffered, because a new file begins with the
        current state."""
        if self._journal.open:
            self._frames.append(frame)

    def _write_frames(self) -> None:
        self._journal.write(self._frames)
        self._frames.clear()

    def _from_the_beginning(self) -> Iterable[frames.AnyFrame]:
        yield self._begin
        yield frames.RecordsExpected(self._since)
        yield frames.KeptAnnotations(sorted(self._annotations))
        yield from self._objects.values()
        yield from self._original_frames.values()
        if self._recorded_usage:
            yield frames.NodeUsages(frames.packed(self._recorded_usage))
        yield frames.PresentAssumptions(frames.recorded_decisions(self.assumed_decisions()))
        if (admitted := self.admissions()) is not None:
            yield frames.AdmissionsEnforced(admitted)
        yield from (_binding_proof(task) for task in self.tasks() if task.record is not None or task.earlier)


def _packed(obj: KubeObject) -> msgspec.Raw:
    """An object without what no session uses and what may contain credentials: the environment of containers, except
    the number of a task, and the manifest that kubectl keeps in an annotation."""
    annotations = obj.metadata.annotations
    if annotations and LAST_APPLIED in annotations:
        annotations = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
        obj = replace(obj, metadata=replace(obj.metadata, annotations=annotations))
    if isinstance(obj, Pod):
        obj = replace(obj, spec=without_variables(obj.spec, TASK_INDEX_VARIABLE))
    return frames.packed(obj)


def _binding_proof(task: Task) -> frames.BindingProof:
    record = task.record
    known = None if record is None else (record.node, record.queue, dict(record.chips), dict(record.cards))
    return frames.BindingProof(task.key, task.uid, known, task.earlier)


class RecordedExternalCalls:
    """Passes requests on and records the replies."""

    def __init__(self, external_calls: ExternalCalls, answered: frames.Answered) -> None:
        """``answered`` is added to."""
        self._external_calls = external_calls
        self._answered = answered

    def post(self, requests: Sequence[ExternalRequest]) -> Sequence[ExternalReply]:
        replies = self._external_calls.post(requests)
        for request, reply in zip(requests, replies, strict=True):
            self._answered.questions.append(frames.digest_of(request))
            self._answered.replies.append((reply.body, reply.problem, reply.silent))
        return replies
