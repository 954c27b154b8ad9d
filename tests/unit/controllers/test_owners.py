import msgspec

from scheduler.api import batch
from scheduler.api.batch import CronJob, Job
from scheduler.api.kinds import CRON_JOB, JOB_FLOW, SECRET, VCJOB
from scheduler.api.objects import ObjectMeta
from scheduler.controllers.owners import OwnedJobs, owned
from tests.unit.controllers.jobs import job, owner


def test_what_is_owned_lives_in_the_namespace_of_its_owner_and_names_it_as_its_manager() -> None:
    job = batch.Job()
    job.metadata.name, job.metadata.namespace, job.metadata.uid = "train", "team", "1234"
    assert owned(SECRET, "train-ssh", VCJOB, job, type="Opaque") == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "train-ssh",
            "namespace": "team",
            "ownerReferences": [
                {
                    "apiVersion": "batch.volcano.sh/v1alpha1",
                    "kind": "Job",
                    "name": "train",
                    "uid": "1234",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "type": "Opaque",
    }


def read(name: str, **rest: object) -> Job:
    return msgspec.convert(job(name, **rest), Job)  # type: ignore[arg-type]


def names(jobs: OwnedJobs, uid: str, namespace: str = "default") -> list[str]:
    cron = CronJob(metadata=ObjectMeta(name="c", namespace=namespace, uid=uid))
    return [found.metadata.name for found in jobs.of(cron)]


def test_jobs_are_found_by_the_owner_that_manages_them_the_oldest_first() -> None:
    jobs, mine = OwnedJobs(CRON_JOB), owner(CRON_JOB, "c")
    for found in (
        read("c-3", owner=mine),
        read("c-2", owner=mine, creationTimestamp="2026-01-02T00:00:00Z"),
        read("c-1", owner=mine, creationTimestamp="2026-01-02T00:00:00Z"),
        read("c-0", owner=mine, creationTimestamp="2026-01-03T00:00:00Z"),
        read("other", owner=owner(CRON_JOB, "c", "uid-of-a-namesake")),
        read("flow", owner=owner(JOB_FLOW, "c")),
        read("without-owner"),
    ):
        jobs.observe(None, found)
    assert names(jobs, "uid-c") == ["c-1", "c-2", "c-0", "c-3"]
    assert names(jobs, "uid-c", "elsewhere") == []


def test_a_change_concerns_the_owner_before_and_the_owner_after() -> None:
    jobs = OwnedJobs(CRON_JOB)
    before, after = read("j", owner=owner(CRON_JOB, "a")), read("j", owner=owner(CRON_JOB, "b"))
    assert jobs.observe(None, before) == [("default", "a")]
    assert jobs.observe(before, after) == [("default", "a"), ("default", "b")]
    assert (names(jobs, "uid-a"), names(jobs, "uid-b")) == ([], ["j"])
    assert jobs.observe(after, None) == [("default", "b")]
    assert names(jobs, "uid-b") == []


def test_a_job_without_an_owner_concerns_no_owner() -> None:
    assert OwnedJobs(CRON_JOB).observe(None, read("j")) == []
