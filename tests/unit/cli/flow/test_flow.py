"""``jobflow`` and ``jobtemplate``: five verbs for two kinds."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.cluster import FLOW, Cluster, Raw

FLOWS = f"{FLOW}/namespaces/default/jobflows"
TEMPLATES = f"{FLOW}/namespaces/default/jobtemplates"


def item(kind: str, name: str, **more: object) -> Raw:
    made = datetime.now(UTC) - timedelta(days=5, minutes=1)
    metadata = {"name": name, "namespace": "default", "creationTimestamp": made.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": kind, "metadata": metadata, "spec": {}, **more}


def test_job_flows_are_listed_with_phase_and_age(cluster: Cluster) -> None:
    state = {"phase": "Running", "message": "waits"}
    status = {"state": state, "completedJobs": ["a", "b"], "runningJobs": ["c"]}
    cluster.holds(FLOWS, item("JobFlow", "nightly", status=status), item("JobFlow", "new"))

    assert cluster.prints("jobflow", "list") == (
        "Name       Namespace    Phase      Age\n"
        "nightly    default      Running    5d\n"
        "new        default                 5d\n"
    )
    titles, row, _ = cluster.prints("jobflow", "list", "-o", "wide").splitlines()
    assert titles.split()[4:] == ["Pending", "Running", "Completed", "Failed", "Terminated", "Message"]
    assert row.split()[4:] == ["0", "1", "2", "0", "0", "waits"]


def test_job_templates_are_listed_by_name_and_namespace(cluster: Cluster) -> None:
    cluster.holds(TEMPLATES, item("JobTemplate", "prepare"))

    expected = "Name       Namespace\nprepare    default\n"
    assert cluster.prints("jobtemplate", "list") == expected
    assert cluster.prints("jobtemplate", "get", "-N", "prepare") == expected
    page = Path(__file__).parents[4] / "docs/cli.md"
    assert f"$ volcano-py jobtemplate list\n{expected}" in page.read_text(encoding="utf-8")


def test_describe_prints_whole_objects(cluster: Cluster) -> None:
    one, two = item("JobFlow", "one"), item("JobFlow", "two")
    cluster.holds(FLOWS, one, two)

    assert yaml.safe_load(cluster.prints("jobflow", "describe", "-N", "one")) == one
    assert json.loads(cluster.prints("jobflow", "describe", "-o", "json"))["items"] == [one, two]


@pytest.mark.parametrize(
    ("kind", "command", "path"), [("JobFlow", "jobflow", FLOWS), ("JobTemplate", "jobtemplate", TEMPLATES)]
)
def test_objects_of_a_file_are_created_and_deleted_even_if_the_server_refuses_others(
    cluster: Cluster, tmp_path: Path, kind: str, command: str, path: str
) -> None:
    elsewhere = item(kind, "b")
    elsewhere["metadata"]["namespace"] = "gone"
    file = tmp_path / "flows.yaml"
    file.write_text(yaml.safe_dump_all([elsewhere, item(kind, "a")]), encoding="utf-8")
    said = 'namespaces "gone" not found'
    cluster.api.answer("POST", path, item(kind, "a"), status=201)
    cluster.api.answer("DELETE", f"{path}/a", {"status": "Success"})
    missing = path.replace("default", "gone")
    for method, place in (("POST", missing), ("DELETE", f"{missing}/b")):
        cluster.api.answer(method, place, {"reason": "NotFound", "message": said}, 404)

    created, deleted = (cluster.run(command, verb, "-f", str(file)) for verb in ("create", "delete"))

    assert (created.exit_code, created.stdout) == (1, f"Created {kind}: default/a\n")
    assert created.stderr == f"Failed to {command} create: create {kind} b in namespace gone: {said}\n"
    assert (deleted.exit_code, deleted.stdout) == (1, f"Deleted {kind}: default/a\n")
    assert deleted.stderr == f"Failed to {command} delete: delete {kind} b in namespace gone: {said}\n"


def test_objects_are_deleted_by_name(cluster: Cluster) -> None:
    cluster.api.answer("DELETE", f"{FLOWS}/nightly", {"status": "Success"})

    assert cluster.prints("jobflow", "delete", "-N", "nightly") == "Deleted JobFlow: default/nightly\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("jobflow delete", "jobflow name must be specified"),
        ("jobtemplate delete", "job template name must be specified"),
        ("jobflow get", "name is mandatory to get the particular jobflow details"),
        ("jobflow create", "a file must be specified with -f"),
        ("jobflow create -f /nowhere.yaml", "/nowhere.yaml: no such file or directory"),
    ],
)
def test_a_missing_name_or_file_is_reported(cluster: Cluster, line: str, message: str) -> None:
    command, verb, *_ = line.split()

    assert cluster.refuses(*line.split()) == f"Failed to {command} {verb}: {message}\n"
