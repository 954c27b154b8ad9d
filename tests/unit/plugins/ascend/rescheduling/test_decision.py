"""The decision about one job, without sessions: the Pods, the number of restarts, and the rest of a restart."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.api.job import Job
from scheduler.api.names import BACKUP_NEW_POD, BACKUP_SOURCE_POD, HCCL_RANK_INDEX, SUPER_POD_RANK
from scheduler.plugins.ascend.rescheduling.decision import (
    CARD_UNHEALTHY,
    NODE_UNHEALTHY,
    POD_FAILED,
    SUB_HEALTH,
    Fault,
    deletions,
    next_restart,
)
from scheduler.plugins.ascend.rescheduling.policy import RestartPolicy, RestartScope, RestartStrategy, SubHealth
from scheduler.plugins.ascend.rescheduling.state import Entry, Extent, Restart
from tests.builders import Raw, World, group
from tests.unit.plugins.ascend.chips import CONFIGURATION, npu_node, npu_pod

FORCE = RestartPolicy(RestartStrategy.FORCE, retries=3)
NOW = 1_600_000_000.0
BROKEN = Fault(CARD_UNHEALTHY, "")


def job(*pods: Raw, phase: str = "Running") -> Job:
    nodes = [npu_node(f"n{i}") for i in range(8)]
    session = World(nodes, group("j", minimum=len(pods), phase=phase), *pods).session(CONFIGURATION)
    return session.jobs["default/j"]


def running(name: str, rank: int, block: str = "", **rest: Any) -> Raw:
    annotations = {HCCL_RANK_INDEX: str(rank), **({SUPER_POD_RANK: block} if block else {})}
    return npu_pod(name, 8, "j", on=f"n{rank}", annotations=annotations, **rest)


def uid(found: Job, name: str) -> str:
    return next(task.uid for task in found.tasks() if task.name == name)


def names(restart: Restart | None) -> list[str]:
    assert restart is not None
    return sorted(entry.name for entry in restart.pods)


@pytest.mark.parametrize(
    "phase, decided", [("Running", True), ("Unknown", True), ("Pending", False), ("Inqueue", False)]
)
def test_only_jobs_that_were_started_restart(phase: str, decided: bool) -> None:
    found = job(running("a", 0), running("b", 1), phase=phase)
    restart, _ = next_restart(found, {uid(found, "a"): BROKEN}, FORCE, None, 3, NOW)
    assert (restart is not None) is decided


@pytest.mark.parametrize(
    "kinds, left", [([POD_FAILED], 2), ([POD_FAILED, CARD_UNHEALTHY], 3), ([CARD_UNHEALTHY], 3), ([NODE_UNHEALTHY], 3)]
)
def test_a_retry_is_spent_if_all_faults_are_failed_pods(kinds: list[str], left: int) -> None:
    found = job(running("a", 0), running("b", 1))
    faults = {uid(found, name): Fault(kind, "") for name, kind in zip("ab", kinds, strict=False)}
    assert next_restart(found, faults, FORCE, None, 3, NOW).retries == left


def test_a_fault_that_is_recorded_decides_nothing_new() -> None:
    found = job(running("a", 0), running("b", 1))
    faults = {uid(found, "a"): BROKEN}
    first = next_restart(found, faults, FORCE, None, 3, NOW)
    assert first.restart is not None and first.restart.number == 1
    assert next_restart(found, faults, FORCE, first.restart, 3, NOW + 5) == first


def waiting_in_a_block(seconds: float, scope: RestartScope = RestartScope.POD) -> tuple[Restart | None, Restart]:
    """A Pod of the logical super pod 1 is deleted, and its replacement waits. Returns the next restart, and the last
    one."""
    replacement = npu_pod("d", 8, "j")
    pods = [running("a", 0, "0"), running("b", 1, "0"), running("c", 2, "1"), replacement]
    found = job(*pods, phase="Unknown")
    created = next(task.creation for task in found.tasks() if task.name == "d")
    entry = Entry("gone", "d", "n3", "3", CARD_UNHEALTHY, "1")
    last = Restart(found.uid, 1, int(created) - 2, force=True, pods=(entry,), reasons=(entry,))
    policy = FORCE._replace(scope=scope)
    return next_restart(found, {}, policy, last, 3, created + seconds).restart, last


def test_the_scope_grows_to_the_logical_super_pod_and_then_to_the_job() -> None:
    unchanged, last = waiting_in_a_block(5)
    assert unchanged == last
    assert names(waiting_in_a_block(6)[0]) == ["c", "d"]
    grown, last = waiting_in_a_block(12)
    assert grown is not None
    assert (names(grown), grown.number, grown.whole) == (["a", "b", "c", "d"], 2, True)
    assert grown.reasons == last.reasons


@pytest.mark.parametrize("scope", [RestartScope.PROCESS, RestartScope.FAULTY_ONLY, RestartScope.JOB])
def test_other_scopes_do_not_grow(scope: RestartScope) -> None:
    grown, last = waiting_in_a_block(60, scope)
    assert grown == last


def test_a_worker_with_rank_0_is_not_the_master() -> None:
    labels = {"replica-type": "Worker"}
    policy = FORCE._replace(scope=RestartScope.POD)
    for given, whole in (({}, True), (labels, False)):
        found = job(running("a", 0, labels=given), running("b", 1))
        restart, _ = next_restart(found, {uid(found, "a"): BROKEN}, policy, None, 3, NOW)
        assert restart is not None and restart.whole is whole


HOT = FORCE._replace(sub_health=SubHealth.HOT_SWITCH)


def switching(scope: RestartScope, kind: str = SUB_HEALTH, *, node: str = "n5", rank: int = 1) -> Restart:
    """The restart of a job of ranks 0 and 1 after a fault of one Pod, which names a backup."""
    pods = [running("a", 0), running("b", 1)]
    pods[rank]["metadata"]["annotations"][BACKUP_NEW_POD] = "b-hot"
    annotations = {HCCL_RANK_INDEX: str(rank), BACKUP_SOURCE_POD: "ab"[rank]}
    found = job(*pods, npu_pod("b-hot", 8, "j", on=node, annotations=annotations))
    faults = {uid(found, "ab"[rank]): Fault(kind, "")}
    restart = next_restart(found, faults, HOT._replace(scope=scope), None, 3, NOW).restart
    assert restart is not None
    return restart


@pytest.mark.parametrize("scope", RestartScope)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_hot_switch_deletes_only_the_pod_that_has_a_backup(scope: RestartScope, rank: int) -> None:
    restart = switching(scope, rank=rank)
    assert (names(restart), restart.whole, restart.force) == (["ab"[rank]], False, True)


def test_without_a_backup_on_a_node_a_sub_healthy_pod_restarts_its_job() -> None:
    assert names(switching(RestartScope.JOB, node="")) == ["a", "b"]


def test_another_fault_during_a_hot_switch_restarts_the_job_and_its_backup() -> None:
    assert names(switching(RestartScope.JOB, CARD_UNHEALTHY)) == ["a", "b", "b-hot"]


def test_a_hot_switch_ends_when_the_pod_is_gone() -> None:
    last = switching(RestartScope.JOB)
    annotations = {HCCL_RANK_INDEX: "1", BACKUP_SOURCE_POD: "b"}
    after = job(running("a", 0), npu_pod("b-hot", 8, "j", on="n5", annotations=annotations))
    ended = next_restart(after, {}, HOT, last, 3, NOW + 5).restart
    assert ended is not None and ended.pods == ()


def test_a_restart_keeps_how_many_pods_the_latest_ones_concerned() -> None:
    found = job(*(running(name, rank) for rank, name in enumerate("abcde")))
    single = RestartPolicy(RestartStrategy.FORCE, scope=RestartScope.FAULTY_ONLY)
    faults = {uid(found, name): BROKEN for name in "bcde"}
    some = next_restart(found, faults, single, None, 3, NOW).restart
    assert some is not None
    assert some.extents == (Extent(1, 4, names=("b", "c", "d")),)
    old = replace(some, pods=(), extents=tuple(Extent(20 - number, 5, True) for number in range(10)), number=20)
    whole = next_restart(found, {uid(found, "a"): BROKEN}, FORCE, old, 3, NOW).restart
    assert whole is not None
    assert whole.extents == (Extent(21, 5, True), *old.extents[:9])


def due(found: Job, restart: Restart, seconds: float = 0, lost: str = "") -> dict[str, int | None]:
    """Maps each Pod to the grace period of the deletions ``seconds`` after the restart. ``lost``: a node that does not
    answer."""
    found_now = deletions(found.tasks(), restart, NOW + seconds, 900, lambda node: node != lost)
    return {each.task.name: each.grace_period for each in found_now}


def test_pods_with_a_kubelet_get_their_grace_period_and_others_are_removed() -> None:
    found = job(running("a", 0), running("b", 1, phase="Failed"), running("c", 2))
    entries = tuple(Entry(task.uid, task.name) for task in found.tasks())
    restart = Restart(found.uid, 1, int(NOW), pods=entries)
    assert due(found, restart) == {"a": None, "b": 0, "c": None}
    assert due(found, restart, lost="n2") == {"a": None, "b": 0, "c": 0}
    assert due(found, restart, 901) == {"a": 0, "b": 0, "c": 0}


def test_a_pod_that_terminates_on_a_node_that_does_not_answer_is_removed() -> None:
    found = job(running("a", 0, deleting=True), running("b", 1, deleting=True))
    entries = tuple(Entry(task.uid, task.name) for task in found.tasks())
    restart = Restart(found.uid, 1, int(NOW), pods=entries)
    assert due(found, restart, 6, lost="n1") == {"b": 0}
    assert due(found, restart, 1, lost="n1") == {}


def test_only_the_pods_of_the_record_are_deleted() -> None:
    found = job(running("a", 0), running("b", 1))
    restart = Restart(found.uid, 1, int(NOW), force=True, pods=(Entry(uid(found, "a"), "a"), Entry("gone", "b")))
    assert due(found, restart) == {"a": 0}


def test_a_restart_ends_when_every_pod_has_a_replacement_on_a_node() -> None:
    found = job(running("a", 0), running("new", 1))
    entries = (Entry("x", "a", "n0", "0"), Entry("y", "b", "n1", "1", CARD_UNHEALTHY))
    last = Restart(found.uid, 4, int(NOW), pods=entries, reasons=entries[1:])
    ended = next_restart(found, {}, FORCE, last, 3, NOW + 9).restart
    assert ended is not None
    assert (ended.pods, ended.number, ended.reasons) == ((), 4, last.reasons)
    found = job(running("a", 0), npu_pod("new", 8, "j"))
    assert next_restart(found, {}, FORCE, last, 3, NOW + 9).restart is last


def test_a_pod_that_never_had_a_rank_does_not_keep_a_restart_open() -> None:
    found = job(running("a", 0))
    last = Restart(found.uid, 1, int(NOW), pods=(Entry("y", "b", "n1"),))
    ended = next_restart(found, {}, FORCE, last, 3, NOW + 9).restart
    assert ended is not None and ended.pods == ()


def test_the_ranks_of_an_unfinished_restart_are_part_of_the_next() -> None:
    found = job(running("a", 0), running("b", 1))
    last = Restart(found.uid, 1, int(NOW), pods=(Entry("y", "c", "n2", "2", CARD_UNHEALTHY),))
    policy = FORCE._replace(scope=RestartScope.PROCESS)
    restart, _ = next_restart(found, {uid(found, "b"): BROKEN}, policy, last, 3, NOW + 9)
    assert restart is not None
    assert {entry.name: entry.rank for entry in restart.pods} == {"b": "1", "c": "2"}
