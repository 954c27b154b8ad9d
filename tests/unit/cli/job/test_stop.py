"""``job suspend``, ``job resume`` and ``job delete``: Commands like those of vcctl, and deletion by name."""

import pytest

from tests.unit.cli.cluster import COMMANDS, JOBS, Cluster, job


@pytest.mark.parametrize(
    ("verb", "action", "prefix"),
    [("suspend", "AbortJob", "train-abortjob-"), ("resume", "ResumeJob", "train-resumejob-")],
)
def test_suspend_and_resume_create_a_command_that_the_job_owns(
    cluster: Cluster, verb: str, action: str, prefix: str
) -> None:
    cluster.holds(JOBS, job("train"))
    cluster.api.answer("POST", COMMANDS, {"metadata": {"name": f"{prefix}x7k2d"}}, status=201)

    printed = cluster.prints("job", verb, "-N", "train")

    reference = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": "uid-train",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert printed == f"{verb} job train: Command {prefix}x7k2d created in namespace default\n"
    assert [call.body for call in cluster.api.to("POST", COMMANDS)] == [
        {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"generateName": prefix, "namespace": "default", "ownerReferences": [reference]},
            "target": reference,
            "action": action,
        }
    ]


def test_no_command_is_created_for_a_missing_job(cluster: Cluster) -> None:
    cluster.api.answer(
        "GET", f"{JOBS}/train", {"reason": "NotFound", "message": 'jobs.batch.volcano.sh "train" not found'}, 404
    )

    assert cluster.refuses("job", "suspend", "train") == (
        'Failed to job suspend: get Job train in namespace default: jobs.batch.volcano.sh "train" not found\n'
    )
    assert cluster.api.to("POST", COMMANDS) == []


def test_jobs_are_deleted_by_argument_or_flag(cluster: Cluster) -> None:
    for name in ("a", "b", "c"):
        cluster.api.answer("DELETE", f"{JOBS}/{name}", {"kind": "Status", "status": "Success"})

    assert cluster.prints("job", "delete", "-N", "a") == "delete job a successfully\n"
    assert cluster.prints("job", "delete", "b", "c") == "delete job b successfully\ndelete job c successfully\n"


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("suspend", "job name is mandatory to suspend a particular job"),
        ("resume", "job name is mandatory to resume a particular job"),
        ("delete", "job name is mandatory to delete a particular job"),
        ("view", "job name (specified by --name or -N) is mandatory to view a particular job"),
    ],
)
def test_a_name_is_needed(cluster: Cluster, verb: str, message: str) -> None:
    assert cluster.refuses("job", verb) == f"Failed to job {verb}: {message}\n"


@pytest.mark.parametrize("name", ["../../queues/q", "", "a?b", "A", "a/../b"])
def test_a_name_that_changes_the_path_of_the_request_is_refused(cluster: Cluster, name: str) -> None:
    assert f"{name!r} cannot be a name" in cluster.refuses("job", "delete", name)
    assert "cannot be a name" in cluster.refuses("job", "delete", "-n", name or "-", "a")
    assert cluster.api.calls == []
