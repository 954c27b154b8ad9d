"""What commands of ``vcctl`` print where an API server cannot show it, or where it differs from Volcano's program. The
rest is compared on a real API server (``tests/integration/test_vcctl.py``)."""

import importlib
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.api.printable import is_printable
from scheduler.cli.output import Column
from scheduler.cli.vcctl.job_view import event_lines, job_lines
from scheduler.cli.vcctl.main import vcctl
from scheduler.cli.vcctl.single import vqueues
from scheduler.cli.vcctl.table import table_lines
from tests.unit.cli.cluster import ALL_GROUPS, EVENTS, FLOW, JOBS, QUEUES, Cluster, Raw, job
from tests.unit.cluster.kube.fake_api import Answer, Call, refusal


def run(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(vcctl, [*words, "-k", str(cluster.kubeconfig)])


def test_a_name_that_is_longer_than_its_column_is_followed_by_a_blank(cluster: Cluster) -> None:
    name = "a-queue-with-a-name-of-more-than-25-characters"
    cluster.holds(QUEUES, {"metadata": {"name": name}, "spec": {"weight": 1, "parent": "research"}})
    cluster.holds(ALL_GROUPS)

    title, row = run(cluster, "queue", "list").stdout.splitlines()

    assert title == "Name                     Weight  State   Parent  Inqueue Pending Running Unknown Completed"
    assert row == f"{name} 1               research 0       0       0       0       0       "


def test_the_gap_after_a_title_may_be_smaller_than_that_of_cells() -> None:
    columns: list[Column[str]] = [
        Column("A title", lambda row: row, gap=8),
        Column("Hidden", lambda row: row, wide=True),
        Column("B", lambda row: None, gap=8),
    ]

    assert list(table_lines(columns, ["x"], title_gap=2)) == ["A title  B       ", "x                "]
    assert list(table_lines(columns, ["x"])) == ["A title        B        ", "x                       "]


def test_events_that_may_not_be_listed_are_left_out_with_a_message(cluster: Cluster) -> None:
    cluster.holds(JOBS, job("train"))

    async def refuse(call: Call, request: object) -> Answer:
        return refusal(403, "Forbidden", "events is forbidden")

    cluster.api.on("GET", EVENTS, refuse)

    result = run(cluster, "job", "view", "-N", "train")

    assert (result.exit_code, result.stderr) == (0, "Failed to list events: events is forbidden\n")
    assert result.stdout.endswith("Events: \t<none>\n")


HOSTILE = "\x1b[31m\u202e\tx\ny"


def test_text_of_users_does_not_control_the_terminal(cluster: Cluster) -> None:
    hostile = job("train", queue=HOSTILE, schedulerName=HOSTILE)
    hostile["metadata"]["annotations"] = {"note": HOSTILE}
    cluster.holds(JOBS, hostile)
    cluster.holds(EVENTS, {"metadata": {"name": "train.1"}, "message": HOSTILE, "source": {"component": HOSTILE}})

    for words in (("job", "view", "-N", "train"), ("job", "list")):
        printed = run(cluster, *words).stdout
        assert all(is_printable(line.replace("\t", "")) for line in printed.splitlines())
        assert "train" in printed


@pytest.mark.parametrize("strange", [None, 5, "x", [], {}, [5], {"a": 5}])
def test_fields_of_another_type_are_shown_as_far_as_possible(strange: Any) -> None:
    spec = {"tasks": [{"template": {"spec": {"containers": [{"command": strange, "ports": strange}]}}}, strange]}
    for raw in (
        {"metadata": strange, "spec": strange, "status": strange},
        {"metadata": {"labels": strange}, "spec": {"plugins": strange, **spec}, "status": {"conditions": strange}},
        {"spec": {"tasks": [{"template": strange}]}, "status": {"controlledResources": {"a": strange}}},
        {"spec": {"tasks": [{"template": {"spec": {"containers": [{"resources": {"limits": {"cpu": strange}}}]}}}]}},
    ):
        assert [*job_lines(raw, conditions=True)][-1].strip()
    assert len(list(event_lines([{"source": strange, "count": strange, "message": strange}]))) == 4


def test_a_queue_without_counts_has_zeros(cluster: Cluster) -> None:
    cluster.holds(QUEUES, {"metadata": {"name": "q"}, "spec": {"weight": 3}, "status": {"state": "Open", "running": 2}})

    result = CliRunner().invoke(vqueues, ["-k", str(cluster.kubeconfig)])

    assert [line.split() for line in result.stdout.splitlines()] == [
        ["Name", "Weight", "State", "Inqueue", "Pending", "Running", "Unknown"],
        ["q", "3", "Open", "0", "0", "2", "0"],
    ]


def test_all_described_objects_of_a_namespace_are_documents_between_blank_lines(cluster: Cluster) -> None:
    path = f"{FLOW}/namespaces/default/jobtemplates"
    cluster.holds(path, *({"metadata": {"name": name, "managedFields": [{}]}, "spec": {}} for name in ("a", "b")))

    for form, read in (("yaml", yaml.safe_load), ("json", json.loads)):
        printed = run(cluster, "jobtemplate", "describe", "-o", form).stdout
        assert [read(part)["metadata"] for part in printed.split("\n\n\n")] == [{"name": "a"}, {"name": "b"}]


def test_a_queue_can_be_closed_from_the_start_and_other_states_are_ignored(cluster: Cluster) -> None:
    cluster.api.answer("POST", QUEUES, {"metadata": {"name": "q"}}, status=201)
    cluster.api.answer("PATCH", f"{QUEUES}/q/status", {})

    for state, patches in (("Open", 0), ("Unknown", 0), ("Closed", 1)):
        assert run(cluster, "queue", "create", "-n", "q", "-S", state).exit_code == 0
        assert len(cluster.api.to("PATCH", f"{QUEUES}/q/status")) == patches


def test_every_job_of_a_file_is_created(cluster: Cluster, tmp_path: Path) -> None:
    cluster.api.answer("POST", JOBS, job("made"), status=201)
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all([job("a"), job("b")]), encoding="utf-8")

    assert run(cluster, "job", "run", "-f", str(file)).stdout == "run job made successfully\n" * 2
    assert [call.body["metadata"]["name"] for call in cluster.api.to("POST", JOBS)] == ["a", "b"]


def test_a_file_of_another_kind_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job("train")), encoding="utf-8")

    result = run(cluster, "jobflow", "create", "-f", str(file))

    assert result.exit_code == 255
    assert result.stdout == (
        f"Failed to create jobflow: {file}, document 1: expected a JobFlow of flow.volcano.sh/v1alpha1, got a Job of "
        "batch.volcano.sh/v1alpha1\n"
    )


def test_the_scheduler_of_a_job_is_the_flags_else_that_of_the_environment_else_unset(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def store(call: Call, request: object) -> Answer:
        answer: Raw = call.body
        return answer

    cluster.api.on("POST", JOBS, store)
    run(cluster, "job", "run", "-N", "train")
    monkeypatch.setenv("VOLCANO_SCHEDULER_NAME", "mine")
    run(cluster, "job", "run", "-N", "train")
    run(cluster, "job", "run", "-N", "train", "-S", "other")

    sent = [call.body["spec"].get("schedulerName") for call in cluster.api.to("POST", JOBS)]
    assert sent == [None, "mine", "other"]


def test_the_programs_are_installed_under_their_names() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]

    for name in ("vcctl", "vsub", "vjobs", "vqueues", "vcancel", "vsuspend", "vresume"):
        module, _, attribute = project["scripts"][name].partition(":")
        assert getattr(importlib.import_module(module), attribute).name == name
