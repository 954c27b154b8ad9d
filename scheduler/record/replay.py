"""Replays a recording: a cache gets the recorded inputs, and every session must reach the recorded decisions."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from scheduler.api.decisions import Bind, Decisions, Evict, PodGroupStatusUpdate, PodsUnschedulable, QueueAllocated
from scheduler.api.kinds import SCHEDULER_KINDS, Kind
from scheduler.api.objects import KubeObject
from scheduler.api.scheduling import PodGroupCondition
from scheduler.api.signed_records import BindingRecord
from scheduler.api.snapshot import Snapshot
from scheduler.api.usage import NodeUsage
from scheduler.cache import ClusterCache
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import Outcome, run_cycle
from scheduler.framework.failures import PluginError
from scheduler.record.external_calls import ReplayedExternalCalls
from scheduler.record.frames import (
    FORMAT,
    AdmissionsEnforced,
    Answered,
    AnyFrame,
    Assumed,
    Begin,
    BindingProof,
    Confirmed,
    Decided,
    Dropped,
    Failed,
    KeptAnnotations,
    NodeUsages,
    ObjectPut,
    Opened,
    Original,
    PresentAssumptions,
    RecordedDecisions,
    RecordingError,
    RecordsExpected,
    differences,
    read_frames,
    recorded_decisions,
)

_KINDS = {kind.name: kind for kind in SCHEDULER_KINDS}


def _decoded(kind: Kind, data: bytes) -> KubeObject:
    """Raises DecodeError, and KeyError if objects of the kind are not recorded."""
    if kind.struct is None:
        raise KeyError(kind.name)
    return msgspec.msgpack.decode(data, type=kind.struct)


@dataclass(slots=True)
class Replayed:
    """One replayed session."""

    number: int
    """The number of the session within its file, from 1."""
    now: float
    """When it was, in seconds since the epoch."""
    outcome: Outcome | None
    """None: it failed."""
    error: str = ""
    """Why it failed."""
    recorded: RecordedDecisions | None = None
    """None: the session failed then."""
    differences: list[tuple[str, str, str, str]] = field(default_factory=list)
    """(field, name, recorded, now)."""

    @property
    def same(self) -> bool:
        """Whether the decisions are the recorded ones; if the session failed, whether it failed again."""
        return not self.differences if self.recorded is not None else bool(self.error)


def replay(path: Path) -> Iterator[Replayed]:
    """The sessions of a file, one after the other; the last is one that differs, if any does: what comes after it
    follows from other decisions. Raises RecordingError."""
    frames = read_frames(path)
    begin = next(frames, None)
    if not isinstance(begin, Begin):
        raise RecordingError(f"{path}: does not begin as a recording does")
    if begin.format != FORMAT:
        raise RecordingError(f"{path}: format {begin.format}, of volcano-py {begin.program}; this one reads {FORMAT}")
    replayer = _Replayer(begin)
    for frame in frames:
        try:
            done = replayer.take(frame)
        except (msgspec.DecodeError, KeyError, RecursionError) as error:
            raise RecordingError(f"{path}: {type(frame).__name__}: {error}") from None
        if done is not None:
            yield done
            if not done.same:
                return
    last = replayer.finish(None)
    if last is not None and last.error:  # else the recording ends before the session did
        yield last


class _Replayer:
    """Applies frames to a cache."""

    def __init__(self, begin: Begin) -> None:
        self._cache = ClusterCache(
            begin.scheduler_names, default_queue=begin.default_queue, node_selector=begin.node_selector
        )
        self._configuration = Configuration((), ())
        """The configuration of the last session; the same object as long as the recorded ones are equal, as in the
        scheduler."""
        self._number = 0
        self._evicted: dict[str, Evict] = {}
        """uid -> the latest decision to evict it."""
        self._opened: tuple[Opened, Snapshot] | None = None
        """The session whose recorded decisions have not come yet."""
        self._answered = Answered()
        """The recorded replies of other programs to its plugins."""
        self._originals: dict[tuple[str, str, str], bytes] = {}
        """Originals for other programs, from the next session on."""
        self._decisions = Decisions()

    def take(self, frame: AnyFrame) -> Replayed | None:
        """Applies one frame. Returns the session that it completes, if any. Raises KeyError or ValidationError."""
        cache = self._cache
        match frame:
            case ObjectPut(kind, data):
                obj = _decoded(_KINDS[kind], data)
                with suppress(Exception):  # as an informer continues when the cache cannot process an object
                    cache.upsert(_KINDS[kind], obj)
            case KeptAnnotations(keys):
                cache.keep_annotations(keys)
            case RecordsExpected(moment):
                cache.expect_records(moment)
            case BindingProof(pod, uid, record, earlier):
                cache.restore_record(pod, uid, None if record is None else BindingRecord(*record), earlier)
            case Original(kind, namespace, name, json):
                self._originals[kind, namespace, name] = json
            case Confirmed(kind, data):
                cache.confirm(_KINDS[kind], _decoded(_KINDS[kind], data))
            case Dropped(kind, namespace, name):
                self._originals.pop((kind, namespace, name), None)
                with suppress(Exception):
                    cache.delete(_KINDS[kind], namespace, name)
            case NodeUsages(data):
                cache.take_usage(msgspec.msgpack.decode(data, type=dict[str, NodeUsage]))
            case Failed():
                self._fail(frame)
            case AdmissionsEnforced(admitted):
                cache.enforce_admissions(admitted)
            case PresentAssumptions(recorded):
                cache.assume(self._rebuilt(recorded))
            case Opened():
                before = self.finish(None)
                if frame.configuration != self._configuration:
                    self._configuration = frame.configuration
                cache.configure(self._configuration)
                self._keep_originals()
                self._opened = frame, cache.snapshot(frame.now)
                return before
            case Answered():
                self._answered = frame
            case Decided(recorded):
                return self.finish(recorded)
            case Assumed():
                self._assume(frame)
        return None

    def finish(self, recorded: RecordedDecisions | None) -> Replayed | None:
        """Runs the open session again. ``recorded``: its decisions; None: it failed, or the recording ends."""
        if self._opened is None:
            return None
        (frame, snapshot), self._opened = self._opened, None
        self._number += 1
        done = Replayed(self._number, frame.now, None, recorded=recorded)
        limit, external_calls = frame.nodes_limit, ReplayedExternalCalls(self._answered)
        self._answered, self._decisions = Answered(), Decisions()
        try:
            done.outcome = run_cycle(snapshot, self._configuration, nodes_limit=limit, external_calls=external_calls)
            self._decisions = done.outcome.decisions
        except PluginError as error:
            done.error = str(error)
        except Exception as error:  # any exception of a plugin is a result
            done.error = f"{type(error).__name__}: {error}"
        if recorded is not None:
            done.differences = list(differences(recorded, recorded_decisions(self._decisions)))
        return done

    def _keep_originals(self) -> None:
        """Keeps the originals that the configuration needs."""
        for (kind, namespace, name), json in self._originals.items():
            if self._cache.wants_original(_KINDS[kind]):
                self._cache.keep_original(_KINDS[kind], namespace, name, msgspec.Raw(json))
        self._originals.clear()

    def _assume(self, frame: Assumed) -> None:
        decisions, groups, pods = self._decisions, set(frame.pod_groups), set(frame.pods)
        decisions.pod_groups = [u for u in decisions.pod_groups if f"{u.namespace}/{u.name}" in groups]
        assumed = (u._replace(tasks=[task for task in u.tasks if task.key in pods]) for u in decisions.pods)
        decisions.pods = [update for update in assumed if update.tasks]
        if frame.queues is not None:
            decisions.queues = [update for update in decisions.queues if update.name in frame.queues]
        self._evicted.update((eviction.task.uid, eviction) for eviction in decisions.evictions)
        self._cache.assume(decisions)

    def _fail(self, frame: Failed) -> None:
        task = self._cache.task(frame.pod)
        if task is None or task.uid != frame.uid:
            return
        if frame.node:
            self._cache.bind_failed(Bind(task, frame.node, {}))
        elif frame.uid in self._evicted:
            self._cache.evict_failed(self._evicted.pop(frame.uid))

    def _rebuilt(self, recorded: RecordedDecisions) -> Decisions:
        """Decisions from their record, over what the cache holds."""
        task, result = self._cache.task, Decisions()
        for key, (node, annotations) in recorded.binds.items():
            if (found := task(key)) is not None:
                result.binds.append(Bind(found, node, annotations))
        for key, reason in recorded.evictions.items():
            if (found := task(key)) is not None:
                result.evictions.append(Evict(found, reason))
                self._evicted[found.uid] = result.evictions[-1]
        for key, (phase, conditions, running, succeeded, failed) in recorded.pod_groups.items():
            namespace, _, name = key.partition("/")
            rebuilt = tuple(PodGroupCondition(type=t, status=s, reason=r, message=m) for t, s, r, m in conditions)
            uid = self._cache.group_uid(key)
            update = PodGroupStatusUpdate(namespace, name, uid, phase, rebuilt, running, succeeded, failed)
            result.pod_groups.append(update)
        for key, (reason, message, nominated) in recorded.pods.items():
            if (found := task(key)) is not None:
                result.pods.append(PodsUnschedulable((found,), reason, message, nominated))
        result.queues = [
            QueueAllocated(
                name,
                amounts,
                recorded.queue_cards.get(name),
                (recorded.queue_groups or {}).get(name, {}),
                (recorded.queue_deserved or {}).get(name),
            )
            for name, amounts in recorded.queues.items()
        ]
        return result
