"""``job run``: jobs from flags and manifests, and refusals of the command and of the server."""

from pathlib import Path

import pytest
import yaml

from tests.unit.cli.cluster import BATCH, JOBS, Cluster, Raw, job
from tests.unit.cluster.kube.fake_api import Answer, Call, refusal


def takes(cluster: Cluster, path: str = JOBS) -> None:
    """The server stores the object that it receives."""

    async def store(call: Call, request: object) -> Answer:
        name = call.body["metadata"].get("name") or call.body["metadata"]["generateName"] + "x7k2d"
        return {**call.body, "metadata": {**call.body["metadata"], "name": name}}

    cluster.api.on("POST", path, store)


def sent(cluster: Cluster, path: str = JOBS) -> list[Raw]:
    return [call.body for call in cluster.api.to("POST", path)]


def test_flags_make_a_job_of_one_task_as_vcctl_does(cluster: Cluster) -> None:
    takes(cluster)

    assert cluster.prints("job", "run", "-N", "train") == "run job train successfully\n"

    assert sent(cluster) == [
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "train"},
            "spec": {
                "minAvailable": 1,
                "schedulerName": "volcano-py",
                "tasks": [
                    {
                        "name": "default0",
                        "replicas": 1,
                        "template": {
                            "metadata": {"name": "train", "labels": {"job.volcano.sh": "train"}},
                            "spec": {
                                "restartPolicy": "Never",
                                "containers": [
                                    {
                                        "name": "train",
                                        "image": "busybox",
                                        "imagePullPolicy": "IfNotPresent",
                                        "resources": {
                                            "requests": {"cpu": "1000m", "memory": "100Mi"},
                                            "limits": {"cpu": "1000m", "memory": "100Mi"},
                                        },
                                    }
                                ],
                            },
                        },
                    }
                ],
            },
        }
    ]


def test_every_flag_sets_its_field_of_the_job(cluster: Cluster) -> None:
    takes(cluster, f"{BATCH}/namespaces/team-a/jobs")
    flags = "-N train -n team-a -i repo/image:1 -m 3 -r 4 -R cpu=2,huawei.com/Ascend910=8 -S volcano -q research"

    cluster.prints("job", "run", *flags.split(), "--", "python", "-m", "train")

    spec = sent(cluster, f"{BATCH}/namespaces/team-a/jobs")[0]["spec"]
    container = spec["tasks"][0]["template"]["spec"]["containers"][0]
    assert (spec["minAvailable"], spec["tasks"][0]["replicas"]) == (3, 4)
    assert (spec["schedulerName"], spec["queue"]) == ("volcano", "research")
    assert container["image"] == "repo/image:1"
    assert container["command"] == ["python", "-m", "train"]
    assert container["resources"]["requests"] == {"cpu": "2", "huawei.com/Ascend910": "8"}


def test_limits_that_are_not_given_are_the_requests(cluster: Cluster) -> None:
    takes(cluster)

    cluster.prints("job", "run", "-N", "train", "-R", "cpu=4")

    resources = sent(cluster)[0]["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"cpu": "4"}, "limits": {"cpu": "4"}}


def test_every_job_of_a_file_is_created_in_its_own_namespace(cluster: Cluster, tmp_path: Path) -> None:
    takes(cluster)
    takes(cluster, f"{BATCH}/namespaces/team-a/jobs")
    file = tmp_path / "jobs.yaml"
    generated = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"generateName": "sweep-"}}
    file.write_text(yaml.safe_dump_all([generated, job("train", namespace="team-a")]), encoding="utf-8")

    assert cluster.prints("job", "run", "-f", str(file)) == (
        "run job sweep-x7k2d successfully\nrun job train successfully\n"
    )
    assert [body["metadata"]["name"] for body in sent(cluster, f"{BATCH}/namespaces/team-a/jobs")] == ["train"]


def test_a_manifest_can_be_read_from_standard_input(cluster: Cluster) -> None:
    takes(cluster)

    printed = cluster.prints("job", "run", "-f", "-", "-o", "name", stdin=yaml.safe_dump(job("train")))

    assert printed == "job.batch.volcano.sh/train\n"


def test_a_name_is_needed(cluster: Cluster) -> None:
    assert cluster.refuses("job", "run") == "Failed to job run: job name cannot be left blank\n"


def test_a_file_of_another_kind_is_refused_with_file_and_document(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "queue.yaml"
    file.write_text("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n", encoding="utf-8")

    assert cluster.refuses("job", "run", "-f", str(file)) == (
        f"Failed to job run: {file}, document 1: expected a Job of batch.volcano.sh/v1alpha1, got a Job of batch/v1\n"
    )


def test_a_file_that_cannot_be_read_is_refused_with_the_line(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "torn.yaml"
    file.write_text("kind: Job\nmetadata: {name\n", encoding="utf-8")

    assert f"Failed to job run: {file}, document 1, line" in cluster.refuses("job", "run", "-f", str(file))


def test_a_namespace_that_differs_from_the_flag_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job("train", namespace="team-a")), encoding="utf-8")

    assert cluster.refuses("job", "run", "-f", str(file), "-n", "team-b") == (
        f"Failed to job run: {file}, document 1: the namespace from the provided object 'team-a' does not match the "
        "namespace 'team-b'; pass --namespace=team-a\n"
    )


def test_the_message_of_the_servers_refusal_is_printed_unchanged(cluster: Cluster) -> None:
    said = "admission webhook \"validatejob.volcano.sh\" denied the request: job 'minAvailable' should not be greater"

    async def refuse(call: Call, request: object) -> Answer:
        return refusal(400, "BadRequest", said)

    cluster.api.on("POST", JOBS, refuse)

    assert cluster.refuses("job", "run", "-N", "train", "-m", "9") == (
        f"Failed to job run: create Job train in namespace default: {said}\n"
    )


@pytest.mark.parametrize("answer", [{}, {"metadata": 5}, {"metadata": {"name": None}}])
def test_an_answer_without_a_name_causes_no_traceback(cluster: Cluster, answer: Raw) -> None:
    cluster.api.answer("POST", JOBS, answer, status=201)

    for form in ("table", "json", "yaml", "name"):
        assert cluster.run("job", "run", "-N", "train", "-o", form).exit_code == 0


def test_malformed_amounts_are_refused(cluster: Cluster) -> None:
    result = cluster.run("job", "run", "-N", "train", "-R", "cpu=four")

    assert result.exit_code == 2
    assert "cpu: not a quantity: 'four'" in result.stderr
