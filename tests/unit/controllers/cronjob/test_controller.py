"""The controller cronjob-controller over a cluster in memory."""

from typing import Any

import msgspec
import pytest

from scheduler.api.batch import CronJob, Job
from scheduler.api.kinds import CRON_JOB, VCJOB
from scheduler.api.times import format_timestamp, parse_timestamp
from scheduler.controllers.cronjob import CronJobController
from scheduler.controllers.effects import Create, Delete, Effect, Patch, Plan, RecordEvent
from scheduler.controllers.store import Store
from tests.unit.controllers.clusters import Controlled
from tests.unit.controllers.jobs import Raw, in_phase, job, owner

MINUTE = 26297280
"""The minutes from the epoch to 2020-01-01T00:00:00Z."""
TASKS = [{"name": "main", "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}]
CREATED = ("Normal", "SuccessfulCreate")


def cron(schedule: str = "* * * * *", **spec: Any) -> Raw:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "CronJob",
        "metadata": {"name": "c", "namespace": "default", "uid": "uid-c"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": {"queue": "q", "tasks": TASKS}}, **spec},
    }


def controlled(*manifests: Raw) -> Controlled:
    cluster = Controlled(lambda store: [CronJobController(store)])
    cluster.create(*manifests)
    return cluster


def until(cluster: Controlled, moment: str) -> None:
    """Lets time pass second by second, up to a time of 2020-01-01."""
    end = parse_timestamp(f"2020-01-01T{moment}Z")
    assert end is not None
    while cluster.cluster.now < end:
        cluster.wait(1)


def finish(cluster: Controlled, minute: int, phase: str = "Completed") -> None:
    cluster.patch(VCJOB, f"c-{MINUTE + minute}", in_phase(phase, format_timestamp(cluster.cluster.now)))


def jobs(cluster: Controlled) -> list[int]:
    """The minutes of the day that have a job."""
    found = [raw["metadata"]["name"] for raw in cluster.cluster.server.of(VCJOB)]
    return sorted(int(name.removeprefix("c-")) - MINUTE for name in found)


def status(cluster: Controlled) -> Raw:
    raw = cluster.find(CRON_JOB, "c")
    assert raw is not None
    found: Raw = raw.get("status") or {}
    return found


def active(cluster: Controlled) -> list[int]:
    return [int(ref["name"].removeprefix("c-")) - MINUTE for ref in status(cluster).get("active") or ()]


def events(cluster: Controlled, *but: str) -> set[tuple[str, str, str]]:
    """All Events, without Events for the reasons in ``but``."""
    return {(type_, reason, text) for _, _, type_, reason, text in cluster.events() if reason not in but}


def reasons(cluster: Controlled) -> list[str]:
    return [reason for _, _, _, reason, _ in cluster.events()]


# --- what is made ---
def test_a_job_is_made_when_the_schedule_comes_up() -> None:
    template = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}, "name": "ignored"},
        "spec": {"queue": "q", "tasks": TASKS},
    }
    cluster = controlled(cron(jobTemplate=template))
    until(cluster, "00:00:59")
    assert jobs(cluster) == []

    until(cluster, "00:01:00")
    made = cluster.find(VCJOB, f"c-{MINUTE + 1}")
    assert made is not None
    assert made["spec"] == {"queue": "q", "tasks": TASKS}
    assert made["metadata"]["labels"] == {"team": "a"}
    assert made["metadata"]["annotations"] == {
        "note": "b",
        "volcano.sh/cronjob-scheduled-timestamp": "2020-01-01T00:01:00Z",
    }
    assert made["metadata"]["ownerReferences"] == [owner(CRON_JOB, "c")]
    [reference] = status(cluster).pop("active")
    assert {key: value for key, value in reference.items() if key != "resourceVersion"} == {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "namespace": "default",
        "name": "c-26297281",
        "uid": made["metadata"]["uid"],
    }
    assert status(cluster) == {"lastScheduleTime": "2020-01-01T00:01:00Z"}
    assert events(cluster) == {(*CREATED, "Created job c-26297281 for CronJob default/c")}


def test_the_time_on_the_job_is_that_of_its_zone() -> None:
    cluster = controlled(cron("31 5 * * *", timeZone="Asia/Kolkata"))
    until(cluster, "00:01:00")
    made = cluster.find(VCJOB, f"c-{MINUTE + 1}")
    assert made is not None
    assert made["metadata"]["annotations"] == {
        "volcano.sh/cronjob-scheduled-timestamp": "2020-01-01T05:31:00+05:30",
    }


def test_jobs_run_side_by_side_by_default() -> None:
    cluster = controlled(cron())
    until(cluster, "00:03:30")
    assert jobs(cluster) == [1, 2, 3]
    assert active(cluster) == [1, 2, 3]
    assert status(cluster)["lastScheduleTime"] == "2020-01-01T00:03:00Z"
    assert reasons(cluster) == ["SuccessfulCreate"] * 3


def test_a_suspended_cron_job_starts_nothing_and_makes_up_for_the_last_time_when_it_goes_on() -> None:
    cluster = controlled(cron(suspend=True))
    until(cluster, "00:05:30")
    assert (jobs(cluster), cluster.events()) == ([], [])

    cluster.patch(CRON_JOB, "c", {"spec": {"suspend": False}})
    assert jobs(cluster) == [5]


def test_what_was_missed_longer_ago_than_the_deadline_is_not_made_up_for() -> None:
    cluster = controlled(cron(suspend=True, startingDeadlineSeconds=20))
    until(cluster, "00:05:30")
    cluster.patch(CRON_JOB, "c", {"spec": {"suspend": False}})
    assert jobs(cluster) == []

    until(cluster, "00:06:00")
    assert jobs(cluster) == [6]


def test_many_missed_times_are_reported_and_the_last_is_made_up_for() -> None:
    raw = cron()
    raw["status"] = {"lastScheduleTime": "2019-12-31T22:00:00Z"}
    cluster = controlled(raw)
    assert jobs(cluster) == [0]
    assert events(cluster, "SuccessfulCreate") == {
        (
            "Warning",
            "TooManyMissedTimes",
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew",
        )
    }


def test_a_schedule_that_is_changed_holds_from_then_on() -> None:
    cluster = controlled(cron("0 0 1 6 *"))
    until(cluster, "00:02:30")
    cluster.patch(CRON_JOB, "c", {"spec": {"schedule": "* * * * *"}})
    assert jobs(cluster) == []

    until(cluster, "00:03:00")
    assert jobs(cluster) == [3]


def test_a_cron_job_that_is_being_deleted_starts_nothing() -> None:
    raw = cron()
    raw["metadata"]["deletionTimestamp"] = "2020-01-01T00:00:00Z"
    cluster = controlled(raw)
    until(cluster, "00:02:00")
    assert jobs(cluster) == []


def test_times_within_one_minute_share_a_job() -> None:
    cluster = controlled(cron("@every 20s"))
    until(cluster, "00:02:00")
    assert len(jobs(cluster)) == len(set(jobs(cluster)))
    assert "FailedCreate" not in reasons(cluster)


# --- jobs that run already ---
def test_forbid_starts_nothing_while_a_job_runs_and_makes_up_for_the_last_time_afterwards() -> None:
    cluster = controlled(cron(concurrencyPolicy="Forbid"))
    until(cluster, "00:03:10")
    assert jobs(cluster) == [1]
    assert ("Warning", "ForbidConcurrent", "Skipping job creation because another job is already running") in events(
        cluster
    )
    assert status(cluster)["lastScheduleTime"] == "2020-01-01T00:01:00Z"

    finish(cluster, 1)
    assert jobs(cluster) == [1, 3]
    assert active(cluster) == [3]


def test_replace_deletes_the_job_that_runs() -> None:
    cluster = controlled(cron(concurrencyPolicy="Replace"))
    until(cluster, "00:02:00")
    assert jobs(cluster) == [2]
    assert active(cluster) == [2]
    assert events(cluster) == {
        (*CREATED, "Created job c-26297281 for CronJob default/c"),
        ("Warning", "ReplaceConcurrent", "Replacing active job for CronJob"),
        ("Normal", "SuccessfulDelete", 'Deleted job "c-26297281"'),
        (*CREATED, "Created job c-26297282 for CronJob default/c"),
    }


def test_an_unknown_policy_is_reported_and_forbids_nothing() -> None:
    cluster = controlled(cron(concurrencyPolicy="Perhaps"))
    until(cluster, "00:02:00")
    assert jobs(cluster) == [1, 2]
    assert events(cluster, "SuccessfulCreate") == {
        (
            "Warning",
            "Malformed",
            "spec.concurrencyPolicy: 'Perhaps' is none of Allow, Forbid, Replace, so jobs may overlap; ignored",
        )
    }


# --- jobs that are done ---
def test_a_finished_job_is_active_no_more() -> None:
    cluster = controlled(cron("1 * * * *"))
    until(cluster, "00:01:20")
    finish(cluster, 1)
    assert status(cluster) == {
        "lastScheduleTime": "2020-01-01T00:01:00Z",
        "lastSuccessfulTime": "2020-01-01T00:01:20Z",
    }
    assert events(cluster, "SuccessfulCreate") == {
        ("Normal", "SawCompletedJob", "Saw completed job: c-26297281 in active, remove")
    }


def test_a_failed_job_leaves_the_time_of_the_last_success() -> None:
    cluster = controlled(cron())
    until(cluster, "00:01:20")
    finish(cluster, 1)
    until(cluster, "00:02:20")
    finish(cluster, 2, "Failed")
    assert status(cluster)["lastSuccessfulTime"] == "2020-01-01T00:01:20Z"
    assert active(cluster) == []


def test_the_oldest_finished_jobs_beyond_the_limits_are_deleted() -> None:
    cluster = controlled(cron(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1))
    for minute in range(1, 7):
        until(cluster, f"00:0{minute}:00")
        finish(cluster, minute, "Failed" if minute % 2 else "Completed")
    assert jobs(cluster) == [4, 5, 6]
    assert {text for _, reason, text in events(cluster) if reason == "SuccessfulDelete"} == {
        'Deleted job "c-26297281"',
        'Deleted job "c-26297282"',
        'Deleted job "c-26297283"',
    }


def test_a_limit_of_none_keeps_no_job_and_makes_none_twice() -> None:
    cluster = controlled(cron(successfulJobsHistoryLimit=0, failedJobsHistoryLimit=0))
    until(cluster, "00:01:00")
    finish(cluster, 1)
    until(cluster, "00:01:50")
    assert jobs(cluster) == []
    assert reasons(cluster).count("SuccessfulCreate") == 1


def test_without_limits_and_when_terminated_jobs_are_kept() -> None:
    cluster = controlled(cron(successfulJobsHistoryLimit=0))
    for minute, phase in enumerate(("Failed", "Failed", "Terminated", "Terminated"), 1):
        until(cluster, f"00:0{minute}:00")
        finish(cluster, minute, phase)
    assert jobs(cluster) == [1, 2, 3, 4]


# --- what does not fit ---
def test_an_active_job_that_a_user_deletes_is_removed_from_the_status() -> None:
    cluster = controlled(cron("1 * * * *"))
    until(cluster, "00:01:00")
    made = cluster.find(VCJOB, "c-26297281")
    assert made is not None
    cluster.delete(VCJOB, "c-26297281")
    assert active(cluster) == []
    text = f'Active job "c-26297281" no longer exists (UID: {made["metadata"]["uid"]})'
    assert events(cluster, "SuccessfulCreate") == {("Warning", "StaleReference", text)}
    until(cluster, "00:01:50")
    assert jobs(cluster) == []


def test_a_reference_to_a_namesake_is_struck_off() -> None:
    raw = cron("1 * * * *")
    raw["status"] = {"active": [{"namespace": "default", "name": "other", "uid": "uid-before"}]}
    cluster = controlled(job("other"), raw)
    assert active(cluster) == []
    text = 'Active job reference "other" points to a different UID (expected: uid-before, actual: uid-other)'
    assert events(cluster) == {("Warning", "StaleReference", text)}


def test_a_reference_to_another_namespace_is_no_way_to_delete_a_job_there() -> None:
    raw = cron(concurrencyPolicy="Replace")
    raw["status"] = {"active": [{"namespace": "elsewhere", "name": "theirs", "uid": "uid-theirs"}]}
    theirs = job("theirs")
    theirs["metadata"]["namespace"] = "elsewhere"
    cluster = controlled(theirs, raw)
    until(cluster, "00:01:00")
    assert cluster.cluster.server.find(VCJOB, "elsewhere", "theirs") is not None


def test_an_orphaned_job_of_a_cron_job_is_reported_once_and_counts_as_active() -> None:
    cluster = controlled(cron(concurrencyPolicy="Forbid"))
    cluster.create(job("stray", owner=owner(CRON_JOB, "c")))
    until(cluster, "00:01:10")
    assert events(cluster) == {
        (
            "Warning",
            "OrphanedJob",
            "Detected orphaned job forgotten or not managed by controller: stray (UID: uid-stray)",
        ),
        ("Warning", "ForbidConcurrent", "Skipping job creation because another job is already running"),
    }
    assert [ref["name"] for ref in status(cluster)["active"]] == ["stray"]


@pytest.mark.parametrize(("owners", "shown"), [(None, "none"), (owner(CRON_JOB, "c", "uid-before"), "c")])
def test_a_job_of_another_owner_with_the_name_is_left_alone_and_reported(owners: Raw | None, shown: str) -> None:
    cluster = controlled(job("c-26297281", owner=owners), cron("1 * * * *"))
    until(cluster, "00:01:00")
    text = f"Job c-26297281 exists but is not owned by this CronJob (current owner: {shown})"
    assert events(cluster) == {("Warning", "ForeignJob", text)}
    assert status(cluster) == {}


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        ({"timeZone": "Mars/Base"}, "InvalidTimeZone", 'Invalid time zone "Mars/Base": unknown time zone Mars/Base'),
        ({"schedule": "@never"}, "UnParseableCronJobSchedule", "unparseable schedule for cronjob: @never"),
        (
            {"schedule": "0 0 31 2 *"},
            "InvalidSchedule",
            "Error getting schedule time: time difference between two schedules is less than 1 second",
        ),
    ],
)
def test_a_schedule_that_cannot_be_used_is_reported(spec: Raw, reason: str, message: str) -> None:
    cluster = controlled(cron(**spec))
    until(cluster, "00:02:00")
    assert events(cluster) == {("Warning", reason, message)}
    assert jobs(cluster) == []

    cluster.patch(CRON_JOB, "c", {"spec": {"schedule": "* * * * *", "timeZone": None}})
    until(cluster, "00:03:00")
    assert jobs(cluster) == [3]


def test_a_zone_written_in_the_schedule_counts_and_is_reported() -> None:
    cluster = controlled(cron("CRON_TZ=Asia/Tokyo 1 9 * * *", timeZone="America/New_York"))
    until(cluster, "00:01:00")
    assert jobs(cluster) == [1]
    assert events(cluster, "SuccessfulCreate") == {
        (
            "Warning",
            "UnsupportedSchedule",
            'CRON_TZ or TZ in the schedule "CRON_TZ=Asia/Tokyo 1 9 * * *" is not officially supported. '
            "If set, the TimeZone field will be ignored during execution.",
        )
    }


@pytest.mark.parametrize(
    ("metadata", "field"),
    [({"labels": {"a": 1, "b": "c"}}, "labels"), ({"annotations": ["x"]}, "annotations")],
)
def test_labels_and_annotations_that_are_no_text_are_left_out_and_reported(metadata: Raw, field: str) -> None:
    cluster = controlled(cron("1 * * * *", jobTemplate={"metadata": metadata, "spec": {"tasks": TASKS}}))
    until(cluster, "00:01:00")
    assert jobs(cluster) == [1]
    text = f"spec.jobTemplate.metadata.{field}: not all of it is text; ignored"
    assert events(cluster, "SuccessfulCreate") == {("Warning", "Malformed", text)}


# --- writes that fail, processes that are killed ---
def look(store: Store, now: float, controller: CronJobController | None = None) -> tuple[CronJobController, Plan]:
    """The plan of a controller: of a new leader, or of one that has run before."""
    if controller is None:
        controller = CronJobController(store)
        for kind, obj in store:
            controller.observe(kind, None, obj, now)
    return controller, controller.plan(("default", "c"), now)


def stored(*manifests: Raw) -> tuple[Store, float]:
    """A store, a second after 00:01."""
    store = Store()
    for raw in manifests:
        kind = CRON_JOB if raw["kind"] == "CronJob" else VCJOB
        raw["metadata"].setdefault("creationTimestamp", "2020-01-01T00:00:30Z")
        store.upsert(kind, msgspec.convert(raw, CronJob if kind is CRON_JOB else Job))
    return store, MINUTE * 60 + 61.0


def events_in(plan: Plan) -> list[tuple[str, str]]:
    posts = [effect.event for stage in plan.stages for effect in stage if isinstance(effect, RecordEvent)]
    return [(event.reason, event.message) for event in posts]


def written(plan: Plan) -> list[Effect]:
    return [effect for stage in plan.stages for effect in stage if not isinstance(effect, RecordEvent)]


def made(minute: int, phase: str = "") -> Raw:
    name, stamp = f"c-{MINUTE + minute}", {"volcano.sh/cronjob-scheduled-timestamp": f"2020-01-01T00:0{minute}:00Z"}
    return job(name, phase, owner(CRON_JOB, "c"), annotations=stamp)


def test_a_job_made_before_a_crash_is_noted_and_not_made_again() -> None:
    _, plan = look(*stored(cron(), made(1)))
    [patch] = written(plan)
    assert isinstance(patch, Patch)
    assert patch.subresource == "status"
    assert patch.body["status"]["lastScheduleTime"] == "2020-01-01T00:01:00Z"
    assert [ref["uid"] for ref in patch.body["status"]["active"]] == ["uid-c-26297281"]
    assert events_in(plan) == []


def test_a_job_made_before_a_crash_that_has_finished_since_is_not_made_again() -> None:
    _, plan = look(*stored(cron(successfulJobsHistoryLimit=0), made(1, "Completed")))
    assert [type(effect) for effect in written(plan)] == [Patch, Delete]
    assert events_in(plan) == [("SuccessfulDelete", 'Deleted job "c-26297281"')]


def test_a_job_that_says_it_is_of_the_future_delays_nothing() -> None:
    store, now = stored(cron("@every 1h"), made(9))
    _, plan = look(store, now)
    [patch] = written(plan)
    assert isinstance(patch, Patch)
    assert "lastScheduleTime" not in patch.body["status"]


@pytest.mark.parametrize(
    ("error", "event"),
    [
        ("the queue is closed", ("FailedCreate", "Failed to create job: the queue is closed")),
        (
            "unable to create new content in namespace default because it is being terminated",
            ("NamespaceTerminating", "Namespace default is terminating, skipping job creation"),
        ),
    ],
)
def test_a_job_that_cannot_be_made_is_reported_and_tried_again(error: str, event: tuple[str, str]) -> None:
    store, now = stored(cron())
    controller, plan = look(store, now)
    [create] = written(plan)
    assert isinstance(create, Create)
    controller.failed(("default", "c"), create, error, now)
    _, again = look(store, now + 1, controller)
    assert written(again) == [create]
    assert events_in(again)[0] == event


def test_a_job_that_cannot_be_deleted_is_reported_and_nothing_takes_its_place_before() -> None:
    raw = cron(concurrencyPolicy="Replace")
    raw["status"] = {"active": [{"namespace": "default", "name": "c-26297280", "uid": "uid-c-26297280"}]}
    store, now = stored(raw, made(0))
    controller, plan = look(store, now)
    assert [type(effect) for effect in written(plan)] == [Delete, Patch, Create]
    assert [len(stage) for stage in plan.stages] == [1, 1, 1, 1, 1, 1]
    controller.failed(("default", "c"), written(plan)[0], "not allowed", now)
    _, again = look(store, now + 1, controller)
    assert events_in(again)[0] == ("FailedDelete", 'Error deleting job "c-26297280": not allowed')


def test_changes_of_the_pods_of_a_job_do_not_reconcile_its_cron_job() -> None:
    controller = CronJobController(Store())
    before, after = (msgspec.convert(made(1, "Running"), Job) for _ in range(2))
    after.status.running = 3
    assert controller.observe(VCJOB, None, before, 0) == [("default", "c")]
    assert controller.observe(VCJOB, before, after, 0) == []
    assert controller.observe(VCJOB, after, msgspec.convert(made(1, "Completed"), Job), 0) == [("default", "c")]


@pytest.mark.parametrize(
    ("policy", "there", "running"),
    [("Allow", [1, 2], [1, 2]), ("Forbid", [1], [1]), ("Replace", [2], [2])],
)
@pytest.mark.parametrize("writes", [1, 2, 9])
def test_processes_that_are_killed_after_few_writes_reach_the_same_state(
    policy: str, there: list[int], running: list[int], writes: int
) -> None:
    cluster = Controlled(lambda store: [])
    cluster.create(cron(concurrencyPolicy=policy))
    for minute in ("00:01:00", "00:02:00"):
        until(cluster, minute)
        while run_until_killed(cluster, writes):
            pass
    assert (jobs(cluster), active(cluster)) == (there, running)


def run_until_killed(cluster: Controlled, writes: int) -> int:
    """A new process looks once, and is killed after this number of writes. Returns how many it made."""
    server, store = cluster.cluster.server, Store()
    for kind in (CRON_JOB, VCJOB):
        for obj in server.structs(kind):
            store.upsert(kind, obj)
    _, plan = look(store, cluster.cluster.now)
    effects = written(plan)[:writes]
    for effect in effects:
        match effect:
            case Create():
                server.create(effect.kind, effect.manifest)
            case Patch():
                server.patch(effect.kind, effect.namespace, effect.name, effect.body)
            case Delete():
                server.delete(effect.kind, effect.namespace, effect.name)
    return len(effects)
