"""tdm: revocable nodes."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from scheduler.framework.configuration import Configuration
from scheduler.framework.extension import JOB_PIPELINED, JOB_STARVING, PREEMPTABLE, VICTIM_TASKS
from scheduler.framework.session import Session
from scheduler.plugins.tdm.plugin import HoursError, parse_hours
from tests.builders import Raw, World, configuration, group, node, pod
from tests.unit.plugins.tdm.hours import ALWAYS, NEVER
from tests.unit.record.test_recording import Recorded

LOAN = {"volcano.sh/revocable-zone": "rz"}
YES = {"volcano.sh/preemptable": "true"}


def settings(hours: str = ALWAYS, actions: str = "enqueue, allocate", **more: Any) -> Configuration:
    return configuration(
        ["tdm"], ["predicates"], actions=actions, arguments={"tdm": {"tdm.revocable-zone.rz": hours, **more}}
    )


def waiting(name: str, **rest: Any) -> list[Raw]:
    return [group(name, phase="Inqueue"), pod(f"{name}-0", "1c", name, **rest)]


# --- hours ---
@pytest.mark.parametrize(
    ("hours", "moment", "inside"),
    [
        ("10:00-21:00", "10:00:00", True),
        ("10:00-21:00", "21:00:00", True),
        ("10:00-21:00", "21:00:01", False),
        ("10:00-21:00", "09:59:59", False),
        ("22:00-06:00", "23:30:00", True),
        ("22:00-06:00", "05:59:00", True),
        ("22:00-06:00", "12:00:00", False),
        ("08:00-08:00", "07:59:59", True),
        (" 8:00-9:00 ", "08:30:00", True),
    ],
)
def test_hours_contain_a_time_or_not(hours: str, moment: str, inside: bool) -> None:
    local = datetime.fromisoformat(f"2026-03-05T{moment}").timestamp()
    assert parse_hours(hours).contains(local) is inside


@pytest.mark.parametrize("text", ["", "10-12", "10:00", "24:00-25:00", "10:00-12:60", "10:00-11:00-12:00"])
def test_invalid_hours_are_refused(text: str) -> None:
    with pytest.raises(HoursError):
        parse_hours(text)


def test_a_zone_with_invalid_hours_is_reported_and_unknown() -> None:
    session = World(node("n1", "99c+99Gi", LOAN), job_on("n1", "a", 5)).session(settings("whenever"))
    assert any("tdm.revocable-zone.rz" in problem for problem in session.problems)
    assert session.victim_tasks(all_tasks(session)) == []


# --- nodes ---
def test_only_revocable_pods_are_bound_to_a_revocable_node() -> None:
    world = World(node("n1", labels=LOAN), waiting("a"), waiting("b", annotations=YES)).run(settings())
    assert world.bound == {"b-0": "n1"}
    assert "0/1 nodes are unavailable: 1 not allow to dispatch to revocable node." in world.events("FailedScheduling")


def test_revocable_pods_prefer_revocable_nodes() -> None:
    objects = [node("n1"), node("n2", labels=LOAN)]
    assert World(objects, waiting("b", annotations=YES)).run(settings()).bound == {"b-0": "n2"}
    assert World(objects, waiting("a")).run(settings()).bound == {"a-0": "n1"}


@pytest.mark.parametrize(("zone", "admitted"), [("*", True), ("rz", False)])
def test_the_zone_annotation_overrides_the_preemptable_annotation(zone: str, admitted: bool) -> None:
    annotations = {**YES, "volcano.sh/revocable-zone": zone}
    world = World(node("n1", labels=LOAN), waiting("b", annotations=annotations)).run(settings())
    assert bool(world.bound) is admitted


@pytest.mark.parametrize(
    ("labels", "why"),
    [
        (LOAN, f"current time beyond revocable zone rz:{NEVER}"),
        ({"volcano.sh/revocable-zone": "other"}, "revocable zone other not support"),
    ],
)
def test_nodes_outside_their_hours_or_of_an_unknown_zone_take_no_pod(labels: dict[str, str], why: str) -> None:
    world = World(node("n1", labels=labels), waiting("b", annotations=YES)).run(settings(NEVER))
    assert world.bound == {}
    assert f"0/1 nodes are unavailable: 1 {why}." in world.events("FailedScheduling")


def test_an_empty_zone_label_is_ignored() -> None:
    empty = {"volcano.sh/revocable-zone": ""}
    assert World(node("n1", labels=empty), waiting("a")).run(settings()).bound == {"a-0": "n1"}


# --- jobs ---
def test_preemptable_jobs_come_last_and_do_not_starve() -> None:
    session = World(
        *(node("n1"), group("b", annotations=YES), group("a", phase="Inqueue")),
        *(pod("b-0", "1c", "b"), pod("a-0", "1c", "a")),
    ).session(settings())
    ordered = sorted(session.jobs.values(), key=session.job_key)
    assert [job.name for job in ordered] == ["a", "b"]
    assert [session.ask(JOB_STARVING, job) for job in ordered] == [True, False]


# --- victims ---
def job_on(where: str, name: str, preemptable: int, **annotations: str) -> list[Raw]:
    """Five running Pods, of which ``preemptable`` may be preempted."""
    keys = {f"volcano.sh/jdb-{key.replace('_', '-')}": value for key, value in annotations.items()}
    flags = [{"volcano.sh/preemptable": "true" if i < preemptable else "false"} for i in range(5)]
    return [
        group(name, phase="Running", annotations=keys),
        *(pod(f"{name}-{i}", "1c", name, on=where, annotations=flag) for i, flag in enumerate(flags)),
    ]


def victims_outside_hours(*objects: Any, hours: str = NEVER) -> list[str]:
    session = World(node("n1", "99c+99Gi", LOAN), *objects).session(settings(hours))
    return [task.name for task in session.victim_tasks(all_tasks(session))]


def all_tasks(session: Session) -> list[Any]:
    return [task for job in session.jobs.values() for task in job.tasks()]


@pytest.mark.parametrize(
    ("preemptable", "budget", "victims"),
    [
        (3, {"max_unavailable": "30%"}, 2),
        (3, {"max_unavailable": "99%"}, 3),
        (5, {"max_unavailable": "50%"}, 3),
        (5, {"max_unavailable": "0"}, 0),
        (5, {"min_available": "3"}, 2),
        (5, {"min_available": "20%"}, 4),
        (5, {"min_available": "9"}, 1),
        (5, {"min_available": "5", "max_unavailable": "5"}, 0),
        (5, {}, 1),
    ],
)
def test_evictions_outside_the_hours_respect_the_budget_of_the_job(
    preemptable: int, budget: dict[str, str], victims: int
) -> None:
    assert len(victims_outside_hours(job_on("n1", "a", preemptable, **budget))) == victims


def test_every_job_has_a_separate_budget() -> None:
    jobs = job_on("n1", "a", 3, max_unavailable="50%"), job_on("n1", "b", 3, max_unavailable="90%")
    assert len(victims_outside_hours(*jobs)) == 6


def test_no_pod_is_evicted_within_the_hours() -> None:
    assert victims_outside_hours(job_on("n1", "a", 5, max_unavailable="99%"), hours=ALWAYS) == []


def test_missing_pods_count_as_unavailable() -> None:
    assert len(victims_outside_hours(job_on("n1", "a", 5, max_unavailable="2"), pod("a-5", "1c", "a"))) == 1


def test_an_invalid_budget_is_reported_and_ignored() -> None:
    session = World(node("n1", "99c+99Gi", LOAN), job_on("n1", "a", 5, max_unavailable="most")).session(settings(NEVER))
    assert len(session.victim_tasks(all_tasks(session))) == 1
    assert [m.field for m in session.malformed] == ["metadata.annotations[volcano.sh/jdb-max-unavailable]"]


def test_rounds_of_evictions_are_one_period_apart() -> None:
    conf = settings(NEVER, actions="shuffle", **{"tdm.evict.period": "3s"})
    world = World(node("n1", "99c+99Gi", LOAN), job_on("n1", "a", 5))
    assert [len(world.run(conf).evicted) for _ in range(5)] == [1, 0, 0, 1, 0]


def test_each_scheduler_of_a_process_has_its_own_rounds() -> None:
    conf = settings(NEVER, actions="shuffle", **{"tdm.evict.period": "3s"})
    one, other = (World(node("n1", "99c+99Gi", LOAN), job_on("n1", "a", 5)) for _ in range(2))
    assert [len(world.run(conf).evicted) for world in (one, one, other)] == [1, 0, 1]


@pytest.mark.parametrize("limit", [1 << 30, 1])
def test_a_replay_has_its_rounds_in_the_same_sessions(tmp_path: Path, limit: int) -> None:
    """With ``limit`` 1, each session begins a new file, so no session depends on former rounds."""
    plan = settings(NEVER, actions="shuffle", **{"tdm.evict.period": "3s"})
    recorded = Recorded(tmp_path, node("n1", "99c+99Gi", LOAN), job_on("n1", "a", 5), limit=limit, plan=plan).run(5)

    sessions = recorded.replayed()

    assert [session.differences for session in sessions] == [[]] * len(sessions)
    evicted = [len(session.recorded.evictions) for session in sessions if session.recorded]
    assert evicted == ([1, 0, 0, 1, 0] if limit > 1 else [1] * len(sessions))


def test_a_job_for_ordinary_nodes_preempts_preemptable_pods_on_them_only() -> None:
    session = World(
        *(node("n1", "99c+99Gi", LOAN), node("n2", "99c+99Gi")),
        *(job_on("n1", "loan", 5, min_available="0"), job_on("n2", "home", 2, min_available="0")),
        *waiting("mine", annotations={"volcano.sh/preemptable": "false"}),
        *waiting("theirs"),
    ).session(settings())
    mine, theirs = (next(iter(session.jobs[f"default/{n}"].tasks())) for n in ("mine", "theirs"))
    candidates = all_tasks(session)
    assert {task.name for task in session.ask(PREEMPTABLE, mine, candidates)} == {"home-0", "home-1"}
    assert session.ask(PREEMPTABLE, theirs, candidates) == []


def test_victims_are_named_once_per_round() -> None:
    session = World(node("n1", "99c+99Gi", LOAN), job_on("n1", "a", 5)).session(settings(NEVER))
    assert len(session.ask(VICTIM_TASKS, all_tasks(session))) == 1
    assert session.ask(VICTIM_TASKS, all_tasks(session)) == []


def test_best_effort_pods_count_as_pipelined_for_their_job() -> None:
    """A gang of two preempts one Pod; its other Pod is best-effort."""
    session = World(
        node("n1"), group("a", minimum=2, phase="Inqueue"), pod("a-0", "4c", "a"), pod("a-1", "", "a")
    ).session(settings())
    job = session.jobs["default/a"]
    assert not session.ask(JOB_PIPELINED, job)
    session.statement().pipeline(job, next(task for task in job.tasks() if task.name == "a-0"), 0)
    assert session.ask(JOB_PIPELINED, job)
