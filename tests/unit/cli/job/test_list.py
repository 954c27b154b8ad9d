"""``job list``: vcctl's table, selection, and output formats for programs."""

import json

import yaml

from scheduler.api.batch import JobPhase
from scheduler.cli.job.list import PHASES
from tests.unit.cli.cluster import BATCH, JOBS, Cluster, job

RUNNING = {
    "state": {"phase": "Running"},
    "minAvailable": 2,
    "pending": 1,
    "running": 2,
    "succeeded": 3,
    "failed": 4,
    "unknown": 5,
    "retryCount": 6,
}


def test_the_columns_are_those_of_vcctl_in_its_widths(cluster: Cluster) -> None:
    cluster.holds(JOBS, job("train", status=RUNNING), job("with-a-longer-name"))

    assert cluster.prints("job", "list") == (
        "Name                 Creation       Phase       JobType     Replicas    Min   Pending   Running   Succeeded   "
        "Failed    Unknown     RetryCount\n"
        "train                2026-01-02     Running     Batch       3           2     1         2         3           "
        "4         5           6\n"
        "with-a-longer-name   2026-01-02                 Batch       3           0     0         0         0           "
        "0         0           0\n"
    )


def test_all_namespaces_add_a_column(cluster: Cluster) -> None:
    cluster.holds(f"{BATCH}/jobs", job("train"), job("other", namespace="team-a"))

    lines = cluster.prints("job", "list", "-A").splitlines()

    assert [line.split()[:2] for line in lines] == [["Namespace", "Name"], ["default", "train"], ["team-a", "other"]]


def test_the_namespace_is_the_flags_else_the_contexts(cluster: Cluster) -> None:
    for namespace in ("elsewhere", "team-a"):
        cluster.holds(f"{BATCH}/namespaces/{namespace}/jobs", job(f"in-{namespace}", namespace=namespace))

    assert cluster.prints("job", "list", "--context", "there", "-o", "name") == "job.batch.volcano.sh/in-elsewhere\n"
    assert cluster.prints("job", "list", "-n", "team-a", "-o", "name") == "job.batch.volcano.sh/in-team-a\n"


def test_jobs_are_selected_by_queue_scheduler_and_part_of_the_name(cluster: Cluster) -> None:
    jobs = [job("train-1"), job("train-2", queue="research"), job("serve", schedulerName="other")]
    cluster.holds(JOBS, *jobs)

    def names(*flags: str) -> list[str]:
        return [line.partition("/")[2] for line in cluster.prints("job", "list", "-o", "name", *flags).splitlines()]

    assert names("-q", "research") == ["train-2"]
    assert names("-S", "other") == ["serve"]
    assert names("--selector", "train") == ["train-1", "train-2"]
    assert names("--selector", "train", "-q", "default") == ["train-1"]


def test_jobs_are_selected_by_phases(cluster: Cluster) -> None:
    jobs = [job(phase.lower()) | {"status": {"state": {"phase": phase}}} for phase in ("Pending", "Running", "Failed")]
    cluster.holds(JOBS, *jobs)

    def names(*flags: str) -> list[str]:
        return [line.partition("/")[2] for line in cluster.prints("job", "list", "-o", "name", *flags).splitlines()]

    assert names("--phase", "running") == ["running"]
    assert names("--phase", "Pending", "--phase", "Failed") == ["pending", "failed"]
    assert set(cluster.completes("job", "list", "--phase", "Te")) == {"Terminated", "Terminating"}


def test_the_phases_are_those_of_vcjobs() -> None:
    assert tuple(JobPhase) == PHASES


def test_labels_are_selected_by_the_server(cluster: Cluster) -> None:
    cluster.holds(JOBS, job("train"))

    cluster.prints("job", "list", "-l", "team=a,tier in (x,y)")

    assert cluster.api.to("GET", JOBS)[0].query["labelSelector"] == "team=a,tier in (x,y)"


def test_all_pages_of_a_list_are_fetched(cluster: Cluster) -> None:
    async def page(call, request):  # type: ignore[no-untyped-def]
        if "continue" in call.query:
            return {"metadata": {}, "items": [job("second")]}
        return {"metadata": {"continue": "more"}, "items": [job("first")]}

    cluster.api.on("GET", JOBS, page)

    assert cluster.prints("job", "list", "-o", "name").split() == [
        "job.batch.volcano.sh/first",
        "job.batch.volcano.sh/second",
    ]


def test_json_and_yaml_are_one_list_of_whole_objects_without_managed_fields(cluster: Cluster) -> None:
    whole = job("train", status=RUNNING)
    sent = {**whole, "metadata": {**whole["metadata"], "managedFields": [{"manager": "x"}]}}
    cluster.holds(JOBS, sent)
    expected = {"apiVersion": "v1", "items": [whole], "kind": "List", "metadata": {"resourceVersion": ""}}

    printed = cluster.prints("job", "list", "-o", "json")

    assert json.loads(printed) == expected
    assert printed.startswith('{\n    "apiVersion": "v1",\n    "items": [\n')
    assert yaml.safe_load(cluster.prints("job", "list", "-o", "yaml")) == expected


def test_yaml_quotes_strings_that_other_readers_take_for_numbers(cluster: Cluster) -> None:
    cluster.holds(JOBS, job("train", queue="12e4567"))

    assert 'queue: "12e4567"' in cluster.prints("job", "list", "-o", "yaml")


def test_an_empty_list_is_reported_on_stderr_only(cluster: Cluster) -> None:
    cluster.holds(JOBS)

    for form in ("table", "wide", "name"):
        result = cluster.run("job", "list", "-o", form)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", "No resources found\n")
    assert json.loads(cluster.prints("job", "list", "-o", "json"))["items"] == []


def test_a_malformed_job_causes_a_warning_and_the_others_are_listed(cluster: Cluster) -> None:
    cluster.holds(JOBS, job("odd", status={"running": "many"}), job("train"))

    result = cluster.run("job", "list")

    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["Name", "train"]
    assert result.stderr == "warning: Job default/odd is not shown: status.running: expected an integer, got a string\n"
    assert len(json.loads(cluster.prints("job", "list", "-o", "json"))["items"]) == 2


def test_control_characters_from_the_server_do_not_reach_the_terminal(cluster: Cluster) -> None:
    cluster.holds(JOBS, job("train", queue="\x1b[31mred\n", status=RUNNING))

    assert r"\x1b[31mred" in cluster.prints("job", "list", "-o", "wide")
