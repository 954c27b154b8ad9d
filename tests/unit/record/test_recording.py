"""A replay makes the recorded decisions, and finds a decision that changes."""

import gzip
from pathlib import Path

import msgspec
import pytest

from scheduler.api.kinds import CLAIM, POD, QUEUE, Kind
from scheduler.api.names import ASCEND_910, BINDING_RECORD, LAST_APPLIED, TASK_INDEX_VARIABLE
from scheduler.api.objects import KubeObject, ObjectMeta
from scheduler.api.scheduling import Queue
from scheduler.api.signed_records import BindingRecord, SigningKey
from scheduler.api.storage import PersistentVolumeClaim
from scheduler.cache import ClusterCache
from scheduler.cluster.memory import MemoryCluster
from scheduler.framework import registry
from scheduler.framework.arguments import Arguments
from scheduler.framework.cache_requirements import CacheRequirements
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import run_cycle
from scheduler.framework.external_calls import NO_EXTERNAL_CALLS, ExternalCalls
from scheduler.framework.plugin_session import PluginSession
from scheduler.record.cache import RecordedCache
from scheduler.record.frames import (
    AdmissionsEnforced,
    Begin,
    BindingProof,
    Decided,
    PresentAssumptions,
    RecordedDecisions,
    RecordingError,
    RecordsExpected,
    joined,
    read_frames,
)
from scheduler.record.journal import SUFFIX, Journal
from scheduler.record.replay import Replayed, replay
from tests.builders import NAME, Raw, configuration, feed, group, manifests, node, pod, pods, queue

PLAN = configuration(["priority", "gang"], ["predicates", "proportion", "nodeorder"])
PREEMPT = configuration(["priority"], ["predicates"], actions="enqueue, allocate, preempt")
CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": n}, "value": v}
    for n, v in (("high", 100), ("low", 1))
]


class Recorded:
    """A cluster in memory whose scheduler is recorded."""

    def __init__(
        self,
        directory: Path,
        *objects: Raw | list[Raw],
        limit: int = 1 << 30,
        plan: Configuration = PLAN,
        external_calls: ExternalCalls = NO_EXTERNAL_CALLS,
    ) -> None:
        self.directory = directory
        self.problems: list[str] = []
        self.plan = plan
        journal = Journal(directory, limit, "test", self.problems.append)
        self.cache = RecordedCache([NAME], journal)
        self.cache.configure(plan)
        self._external_calls = self.cache.recording(external_calls)
        self.cluster = MemoryCluster(self.cache, [NAME])
        self.cluster.load(manifests(*objects))

    def run(self, cycles: int = 1, *, carried_out: bool = True, queues: bool = True) -> "Recorded":
        """``queues``: whether statuses of queues are carried out."""
        for _ in range(cycles):
            self.cluster.configure(self.plan)
            snapshot = self.cache.snapshot(self.cluster.now)
            self.cache.opened(snapshot, self.plan, 0)
            outcome = run_cycle(snapshot, self.plan, external_calls=self._external_calls)
            self.cache.decided(outcome.decisions)
            if not queues:
                outcome.decisions.queues = []
            self.cache.assume(outcome.decisions)
            if carried_out:
                self.cluster.carry_out(outcome.decisions, [])
                self.cluster.run_kubelet()
            self.cluster.tick()
        return self

    @property
    def files(self) -> list[Path]:
        return sorted(self.directory.glob(f"*{SUFFIX}"))

    def replayed(self) -> list[Replayed]:
        return [session for path in self.files for session in replay(path)]


def some_cluster() -> list[Raw]:
    jobs = [[group(f"g{i}", "q", 2), *pods(f"g{i}", 3, "1c", f"g{i}")] for i in range(4)]
    return [node("n1", "4c"), node("n2", "4c"), queue("q"), *[raw for job in jobs for raw in job]]


def test_every_session_replays_to_the_same_decisions(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, some_cluster()).run(3)
    recorded.cluster.load(manifests(node("n3", "4c")))
    sessions = recorded.run(3).replayed()
    assert len(sessions) == 6 and all(session.same for session in sessions)
    bound = [len(session.recorded.binds) for session in sessions if session.recorded]
    assert bound[0] == 8 and sum(bound) == 12


def test_a_status_of_a_queue_that_was_withheld_is_decided_again_in_the_replay_too(tmp_path: Path) -> None:
    sessions = Recorded(tmp_path, some_cluster()).run(2, queues=False).run(2).replayed()
    assert len(sessions) == 4 and all(session.same for session in sessions)
    assert all("q" in session.recorded.queues for session in sessions[:3] if session.recorded)


class Stages:
    """Orders the tasks of a job by an annotation of the Pods."""

    name = "stages"

    @classmethod
    def cache_requirements(cls, arguments: Arguments, config_maps: object) -> CacheRequirements:
        return CacheRequirements(pod_annotations=frozenset({"example.com/stage"}))

    def __init__(self, arguments: Arguments) -> None:
        pass

    def open(self, session: PluginSession) -> None:
        session.add_task_order(lambda task: task.cls.annotations.get("example.com/stage", ""))


@pytest.mark.parametrize("configured_later", [False, True])
def test_annotations_of_pods_that_plugins_require_are_in_the_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured_later: bool
) -> None:
    monkeypatch.setitem(registry._plugins, "stages", Stages)
    staged = [pod(f"p{i}", "1c", "g", annotations={"example.com/stage": str(9 - i)}) for i in range(3)]
    by_stage = configuration(["gang", "predicates", "stages"])
    recorded = Recorded(tmp_path, [node("n1", "0c"), group("g"), *staged], plan=PLAN if configured_later else by_stage)
    recorded.run()
    recorded.plan = by_stage
    recorded.cluster.load(manifests(node("n2", "1c")))
    sessions = recorded.run().replayed()
    assert [list(s.recorded.binds) for s in sessions if s.recorded and s.same] == [[], ["default/p2"]]


def test_what_was_assumed_and_never_seen_counts_in_the_replay_too(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, some_cluster()).run(3, carried_out=False)
    assert [len(s.recorded.binds) for s in recorded.replayed() if s.recorded and s.same] == [8, 0, 0]


def test_a_binding_that_failed_is_decided_again_in_the_replay_too(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, [node("n1", "4c"), queue("q"), group("g", "q"), pod("p", "1c", "g")])
    snapshot = recorded.cache.snapshot(recorded.cluster.now)
    decisions = run_cycle(snapshot, PLAN).decisions
    recorded.run(carried_out=False)
    recorded.cache.bind_failed(decisions.binds[0])
    recorded.run()
    assert [list(s.recorded.binds) for s in recorded.replayed() if s.recorded and s.same] == [["default/p"]] * 2


def test_evictions_replay_to_the_same_decisions(tmp_path: Path) -> None:
    low = [group("low", priority_class="low", phase="Running"), *pods("l", 4, "1c", "low", on="n1", priority=1)]
    high = [group("high", minimum=2, priority_class="high"), *pods("h", 2, "1c", "high", priority=100)]
    recorded = Recorded(tmp_path, [node("n1", "4c"), *CLASSES, *low, *high], plan=PREEMPT).run(4)
    sessions = recorded.replayed()
    assert all(session.same for session in sessions)
    assert sum(len(s.recorded.evictions) for s in sessions if s.recorded) == 2
    assert sum(len(s.recorded.binds) for s in sessions if s.recorded) == 2


@pytest.mark.slow
def test_a_full_file_is_followed_by_one_that_stands_alone(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, some_cluster(), limit=1 << 18)
    for i in range(100):
        recorded.cluster.load(manifests(node(f"m{i}", "1c"), group(f"h{i}", "q"), pod(f"h{i}", "1c", f"h{i}")))
        recorded.run()
    assert len(recorded.files) > 2
    for path in recorded.files:
        sessions = list(replay(path))
        assert sessions and all(session.same for session in sessions)
    assert sum(path.stat().st_size for path in recorded.files) <= 1 << 18


def test_a_file_that_was_cut_short_is_good_up_to_there(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, some_cluster()).run(4)
    whole = recorded.files[0].read_bytes()
    recorded.files[0].write_bytes(whole[:-7])
    sessions = recorded.replayed()
    assert 2 <= len(sessions) <= 4 and all(session.same for session in sessions if session.recorded)


def test_a_session_that_decides_otherwise_is_reported_with_the_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = Recorded(tmp_path, some_cluster()).run(2)
    monkeypatch.setattr("scheduler.plugins.gang.Gang.open", lambda self, session: None)
    (session,) = recorded.replayed()
    assert not session.same and session.number == 1
    assert ("binds", "default/g3-0", "n1", "") in session.differences


def test_a_session_that_failed_fails_again_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(tmp_path, some_cluster())
    recorded.cache.opened(recorded.cache.snapshot(recorded.cluster.now), PLAN, 0)

    def fail(self: object, session: object) -> None:
        raise ZeroDivisionError("no total")

    monkeypatch.setattr("scheduler.plugins.gang.Gang.open", fail)
    (session,) = recorded.replayed()
    assert (
        session.same and session.recorded is None and session.error == "plugin gang: open: ZeroDivisionError: no total"
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "does not begin as a recording does"),
        (b"not gzip", "not a recording"),
        (gzip.compress(b"\x00\x00\x00\x01\xc1", mtime=0), "not a recording"),
        (gzip.compress(joined([Begin(99, "9.9", [], "default", [])]), mtime=0), "format 99, of volcano-py 9.9"),
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / f"a{SUFFIX}"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=problem):
        list(replay(path))


def test_a_disk_that_takes_no_more_ends_the_recording_and_nothing_else(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, some_cluster()).run()
    recorded.files[0].unlink()
    recorded.directory.rmdir()
    recorded.run(2)
    assert len(recorded.problems) == 1 and "No such file" in recorded.problems[0]
    assert recorded.cluster.get(POD.api_version, "Pod", "default", "g0-0") is not None


def test_a_directory_in_which_no_room_can_be_made_ends_the_recording_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unlink(self: Path, missing_ok: bool = False) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", unlink)
    recorded = Recorded(tmp_path, some_cluster(), limit=1)
    recorded.run(4)
    assert recorded.problems == [f"{tmp_path}: Permission denied"]
    assert recorded.cluster.get(POD.api_version, "Pod", "default", "g0-0") is not None


def test_a_recording_that_ends_within_a_session_replays_to_the_same_decisions_up_to_its_end(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, some_cluster()).run(2)
    recorded.cache.opened(recorded.cache.snapshot(recorded.cluster.now), PLAN, 0)
    sessions = recorded.replayed()
    assert len(sessions) == 2 and all(session.same for session in sessions)


def test_an_object_that_the_cache_could_not_take_in_does_not_end_the_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upsert = ClusterCache.upsert

    def fail(self: ClusterCache, kind: Kind, obj: KubeObject) -> None:
        if obj.metadata.name == "poison":
            raise ZeroDivisionError
        upsert(self, kind, obj)

    monkeypatch.setattr(ClusterCache, "upsert", fail)
    recorded = Recorded(tmp_path, some_cluster()).run()
    with pytest.raises(ZeroDivisionError):  # which the informer takes note of
        recorded.cache.upsert(QUEUE, Queue(metadata=ObjectMeta(name="poison")))
    recorded.run()
    sessions = recorded.replayed()
    assert len(sessions) == 2 and all(session.same for session in sessions)


def test_a_process_that_stands_by_gathers_nothing_to_write(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, some_cluster())
    assert not recorded.cache._frames
    recorded.run()
    recorded.cluster.load(manifests(node("n3", "4c")))
    assert recorded.cache._frames
    recorded.run()
    assert len(recorded.replayed()) == 2 and all(session.same for session in recorded.replayed())


def test_a_file_begins_with_the_version_that_the_watch_delivered_before_an_older_answer(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, some_cluster())
    newer, older = (
        PersistentVolumeClaim(metadata=ObjectMeta(name="c", namespace="default", uid="u", resource_version=version))
        for version in ("5", "4")
    )
    recorded.cache.upsert(CLAIM, newer)
    recorded.cache.confirm(CLAIM, older)
    recorded.run()
    (session,) = recorded.replayed()
    assert session.outcome is not None
    (claim,) = session.outcome.session.snapshot.objects[CLAIM].values()
    assert claim.metadata.resource_version == "5"


# --- what the scheduler signs ---
def test_who_was_admitted_is_known_in_the_replay_which_has_no_key(tmp_path: Path) -> None:
    plan = configuration(["priority", "gang"], ["overcommit", "predicates", "proportion"])
    recorded = Recorded(
        tmp_path, [node("n1", "4c"), queue("q"), group("old", "q", asks="2c", phase="Inqueue")], plan=plan
    )
    recorded.cache.verify_admissions(KEY, 999.0)
    recorded.run(1)
    recorded.cluster.load(manifests(group("forged", "q", asks="99c", phase="Inqueue"), pod("forged", "1c", "forged")))
    recorded.cluster.load(manifests(group("new", "q", asks="2c")))
    recorded.run(2)
    recorded.cache._journal._size = 1 << 40  # the next file stands alone
    recorded.cluster.load(manifests(group("late", "q", asks="99c", phase="Running")))
    sessions = recorded.run(2).replayed()
    assert len(recorded.files) == 2
    assert [session.differences for session in sessions] == [[]] * 5
    phases = {name: group[0] for s in sessions if s.recorded for name, group in s.recorded.pod_groups.items()}
    assert phases == {
        "default/old": "Inqueue",
        "default/forged": "Pending",
        "default/new": "Inqueue",
        "default/late": "Pending",
    }


CHIPS = configuration(["priority", "gang"], ["predicates", "ascend"])
KEY = SigningKey(b"k" * 32, 1000.0)


def chip_pods() -> list[Raw]:
    """A Pod with chips on n1 that carries a record."""
    record = BindingRecord("n1", "q", {ASCEND_910: "Ascend910-2,Ascend910-3"}, {ASCEND_910: "910"})
    there = pod("there", f"1c+{ASCEND_910}=2", "g", on="n1", phase="Running")
    there["metadata"]["uid"] = "uid-there"
    there["metadata"]["annotations"] |= {BINDING_RECORD: record.text("uid-there", KEY)}
    return [node("n1", f"8c+{ASCEND_910}=8"), queue("q"), group("g", "q"), there]


def test_records_that_were_verified_are_known_in_the_replay_which_has_no_key(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, plan=CHIPS)
    recorded.cache.set_signing_key(KEY)
    recorded.cluster.load(manifests(chip_pods()))
    recorded.run()
    recorded.cluster.load(manifests(group("h", "q"), pod("new", f"1c+{ASCEND_910}=4", "h")))
    recorded.run(2)
    recorded.cache._journal._size = 1 << 40  # the next file stands alone
    recorded.cluster.load(manifests(group("i", "q"), pod("newer", f"1c+{ASCEND_910}=2", "i")))
    sessions = recorded.run(2).replayed()
    assert len(recorded.files) == 2
    assert [session.differences for session in sessions] == [[]] * 5
    bound = {pod: chips[ASCEND_910] for s in sessions if s.recorded for pod, (_, chips) in s.recorded.binds.items()}
    assert bound == {
        "default/new": "Ascend910-4,Ascend910-5,Ascend910-6,Ascend910-7",
        "default/newer": "Ascend910-0,Ascend910-1",
    }
    for path in recorded.files:
        assert b"k" * 32 not in path.read_bytes()
        for frame in read_frames(path):
            assert b"k" * 32 not in joined([frame])
        records = {frame.pod: frame.record for frame in read_frames(path) if isinstance(frame, BindingProof)}
        assert records["default/there"] == ("n1", "q", {ASCEND_910: "Ascend910-2,Ascend910-3"}, {ASCEND_910: "910"})
        assert any(frame.moment == 1000.0 for frame in read_frames(path) if isinstance(frame, RecordsExpected))


def test_what_annotations_once_said_is_known_in_a_file_that_stands_alone(tmp_path: Path) -> None:
    recorded = Recorded(tmp_path, plan=CHIPS)
    for chips in ("Ascend910-2,Ascend910-3", "Ascend910-0,Ascend910-1"):
        there = pod("there", f"1c+{ASCEND_910}=2", "g", on="n1", annotations={ASCEND_910: chips}, scheduler="other")
        feed(recorded.cache, there)
    recorded.cluster.load(manifests(node("n1", f"8c+{ASCEND_910}=8"), queue("q"), group("g", "q")))
    recorded.run()
    recorded.cluster.load(manifests(group("h", "q"), pod("new", f"1c+{ASCEND_910}=4", "h")))
    (_, session) = recorded.run().replayed()
    assert session.same and session.recorded is not None
    assert session.recorded.binds["default/new"][1][ASCEND_910] == "Ascend910-4,Ascend910-5,Ascend910-6,Ascend910-7"


def test_frames_whose_classes_were_renamed_keep_their_tags() -> None:
    """Recordings of earlier versions can be replayed."""
    decisions = RecordedDecisions()
    frames = [
        BindingProof("ns/p", "uid", None, ()),
        RecordsExpected(1.0),
        AdmissionsEnforced([]),
        PresentAssumptions(decisions),
        Decided(decisions),
    ]
    tags = [msgspec.msgpack.decode(msgspec.msgpack.encode(frame))[0] for frame in frames]
    assert tags == ["Remembered", "Since", "Guarded", "Standing", "Decided"]


def test_a_recording_has_no_environment_and_no_manifest_that_kubectl_keeps(tmp_path: Path) -> None:
    (pod_,) = pods("a", 1, "1c", "a")
    pod_["metadata"]["annotations"][LAST_APPLIED] = '{"password": "in the manifest"}'
    environment = [{"name": "PASSWORD", "value": "in the environment"}, {"name": TASK_INDEX_VARIABLE, "value": "7"}]
    for name in ("containers", "initContainers"):
        pod_["spec"][name] = [{"name": name, "image": "i", "env": environment}]
    applied = node("n1", "4c")
    applied["metadata"]["annotations"] = {LAST_APPLIED: "in the manifest", "example.com/kept": "yes"}
    scheduler = Recorded(tmp_path, applied, queue("q"), group("a", "q", 1), pod_).run(2)
    content = b"".join(joined([frame]) for path in scheduler.files for frame in read_frames(path))
    assert b"in the manifest" not in content and b"in the environment" not in content
    assert b"PASSWORD" not in content
    assert b"example.com/kept" in content
    assert TASK_INDEX_VARIABLE.encode() in content
    assert [session.differences for session in scheduler.replayed()] == [[], []]
