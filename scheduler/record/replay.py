"""Replays a recording: a cache gets the recorded inputs, and every session must reach the recorded decisions."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
from scheduler.framework.external_calls import ExternalReply, ExternalRequest
from scheduler.framework.failures import PluginError
from scheduler.record import frames

_UNKNOWN = ExternalReply(problem="not asked when this was recorded", silent=True)
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
    recorded: frames.RecordedDecisions | None = None
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
    found = frames.read_frames(path)
    begin = next(found, None)
    if not isinstance(begin, frames.Begin):
        raise frames.RecordingError(f"{path}: does not begin as a recording does")
    if begin.format != frames.FORMAT:
        raise frames.RecordingError(
            f"{path}: format {begin.format}, of volcano-py {begin.program}; this one reads {frames.FORMAT}"
        )
    replayer = _Replayer(begin)
    for frame in found:
        try:
            done = replayer.take(frame)
        except (msgspec.DecodeError, KeyError, RecursionError) as error:
            raise frames.RecordingError(f"{path}: {type(frame).__name__}: {error}") from None
        if done is not None:
            yield done
            if not done.same:
                return
    last = replayer.finish(None)
    if last is not None and last.error:  # else the recording ends before the session did
        yield last


class _Replayer:
    """Applies frames to a cache."""

    def __init__(self, begin: frames.Begin) -> None:
        self._cache = ClusterCache(
            begin.scheduler_names, default_queue=begin.default_queue, node_selector=begin.node_selector
        )
        self._configuration = Configuration((), ())
        """The configuration of the last session; the same object as long as the recorded ones are equal, as in the
        scheduler."""
        self._number = 0
        self._evicted: dict[str, Evict] = {}
        """uid -> the latest decision to evict it."""
        self._opened: tuple[frames.Opened, Snapshot] | None = None
        """The session whose recorded decisions have not come yet."""
        self._answered = frames.Answered()
        """The recorded replies of other programs to its plugins."""
        self._originals: dict[tuple[str, str, str], bytes] = {}
        """Originals for other programs, from the next session on."""
        self._decisions = Decisions()

    def take(self, frame: frames.AnyFrame) -> Replayed | None:
        """Applies one frame. Returns the session that it completes, if any. Raises KeyError or ValidationError."""
        cache = self._cache
        match frame:
            case frames.ObjectPut(kind, data):
                obj = _decoded(_KINDS[kind], data)
                with suppress(Exception):  # as an informer continues when the cache cannot process an object
                    cache.upsert(_KINDS[kind], obj)
            case frames.KeptAnnotations(keys):
                cache.keep_annotations(keys)
            case frames.RecordsExpected(moment):
                cache.expect_records(moment)
            case frames.BindingProof(pod, uid, record, earlier):
                cache.restore_record(pod, uid, None if record is None else BindingRecord(*record), earlier)
            case frames.Original(kind, namespace, name, json):
                self._originals[kind, namespace, name] = json
            case frames.Confirmed(kind, data):
                cache.confirm(_KINDS[kind], _decoded(_KINDS[kind], data))
            case frames.Dropped(kind, namespace, name):
                self._originals.pop((kind, namespace, name), None)
                with suppress(Exception):
                    cache.delete(_KINDS[kind], namespace, name)
            case frames.NodeUsages(data):
                cache.take_usage(msgspec.msgpack.decode(data, type=dict[str, NodeUsage]))
            case frames.Failed():
                self._fail(frame)
            case frames.AdmissionsEnforced(admitted):
                cache.enforce_admissions(admitted)
            case frames.PresentAssumptions(recorded):
                cache.assume(self._rebuilt(recorded))
            case frames.Opened():
                before = self.finish(None)
                if frame.configuration != self._configuration:
                    self._configuration = frame.configuration
                cache.configure(self._configuration)
                self._keep_originals()
                self._opened = frame, cache.snapshot(frame.now)
                return before
            case frames.Answered():
                self._answered = frame
            case frames.Decided(recorded):
                return self.finish(recorded)
            case frames.Assumed():
                self._assume(frame)
        return None

    def finish(self, recorded: frames.RecordedDecisions | None) -> Replayed | None:
        """Runs the open session again. ``recorded``: its decisions; None: it failed, or the recording ends."""
        if self._opened is None:
            return None
        (frame, snapshot), self._opened = self._opened, None
        self._number += 1
        done = Replayed(self._number, frame.now, None, recorded=recorded)
        limit, external_calls = frame.nodes_limit, ReplayedExternalCalls(self._answered)
        self._answered, self._decisions = frames.Answered(), Decisions()
        try:
            done.outcome = run_cycle(snapshot, self._configuration, nodes_limit=limit, external_calls=external_calls)
            self._decisions = done.outcome.decisions
        except PluginError as error:
            done.error = str(error)
        except Exception as error:  # any exception of a plugin is a result
            done.error = f"{type(error).__name__}: {error}"
        if recorded is not None:
            done.differences = list(differences(recorded, frames.recorded_decisions(self._decisions)))
        return done

    def _keep_originals(self) -> None:
        """Keeps the originals that the configuration needs."""
        for (kind, namespace, name), json in self._originals.items():
            if self._cache.wants_original(_KINDS[kind]):
                self._cache.keep_original(_KINDS[kind], namespace, name, msgspec.Raw(json))
        self._originals.clear()

    def _assume(self, frame: frames.Assumed) -> None:
        decisions, groups, pods = self._decisions, set(frame.pod_groups), set(frame.pods)
        decisions.pod_groups = [u for u in decisions.pod_groups if f"{u.namespace}/{u.name}" in groups]
        assumed = (u._replace(tasks=[task for task in u.tasks if task.key in pods]) for u in decisions.pods)
        decisions.pods = [update for update in assumed if update.tasks]
        if frame.queues is not None:
            decisions.queues = [update for update in decisions.queues if update.name in frame.queues]
        self._evicted.update((eviction.task.uid, eviction) for eviction in decisions.evictions)
        self._cache.assume(decisions)

    def _fail(self, frame: frames.Failed) -> None:
        task = self._cache.task(frame.pod)
        if task is None or task.uid != frame.uid:
            return
        if frame.node:
            self._cache.bind_failed(Bind(task, frame.node, {}))
        elif frame.uid in self._evicted:
            self._cache.evict_failed(self._evicted.pop(frame.uid))

    def _rebuilt(self, recorded: frames.RecordedDecisions) -> Decisions:
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
                without_queue=(recorded.queue_without or {}).get(name),
            )
            for name, amounts in recorded.queues.items()
        ]
        return result


class ReplayedExternalCalls:
    """Replies as recorded, to equal requests; a request that was not recorded gets no answer.

    So a session that sends its requests in another order, fewer of them, or one of them again, receives the recorded
    replies."""

    def __init__(self, answered: frames.Answered) -> None:
        replies = [ExternalReply(*reply) for reply in answered.replies]
        self._to: dict[bytes, deque[ExternalReply]] = {}
        for question, reply in zip(answered.questions, replies, strict=False):
            self._to.setdefault(question, deque()).append(reply)
        self._in_order = iter([] if answered.questions else replies)
        """The replies of a recording that was made before requests were recorded."""

    def post(self, requests: Sequence[ExternalRequest]) -> Sequence[ExternalReply]:
        return [self._reply(request) for request in requests]

    def _reply(self, request: ExternalRequest) -> ExternalReply:
        replies = self._to.get(frames.digest_of(request))
        if replies is None:
            return next(self._in_order, _UNKNOWN)
        return replies.popleft() if len(replies) > 1 else replies[0]


def differences(
    recorded: frames.RecordedDecisions, now: frames.RecordedDecisions
) -> Iterator[tuple[str, str, str, str]]:
    """(field, name, recorded, now) of all that differs; "" for a missing value."""
    for section in frames.RecordedDecisions.__struct_fields__:
        before: dict[str, Any] = getattr(recorded, section) or {}
        after: dict[str, Any] = getattr(now, section) or {}
        older = None in (recorded.queue_groups, recorded.queue_deserved, recorded.queue_without)
        if older and section in ("queues", "queue_groups", "queue_deserved", "queue_without"):
            # Newer sessions also update a queue when only its numbers of PodGroups, what it deserves, or what counts in
            # no queue, change.
            after = {name: value for name, value in after.items() if name in before}
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                yield section, name, _format(before.get(name)), _format(after.get(name))


def _format(value: Any) -> str:
    """Formats a decision as one line."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return " ".join(_format(part) for part in value if part not in ("", {}, []))
    if isinstance(value, dict):
        return ", ".join(f"{key}={part}" for key, part in value.items())
    if isinstance(value, list):
        return "; ".join(" ".join(part) for part in value)
    return str(value)
