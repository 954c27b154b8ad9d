"""The command line against a real API server: what it creates, prints and deletes. These tests need no controller."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.client import ApiError, Client
from controlplane.run import ControlPlane
from scheduler.cli.main import main

pytestmark = pytest.mark.controlplane

BATCH = "/apis/batch.volcano.sh/v1alpha1"
BUS = "/apis/bus.volcano.sh/v1alpha1"
FLOW = "/apis/flow.volcano.sh/v1alpha1"
SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
TASK = {"name": "w", "replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "none"}]}}}


@dataclass
class Terminal:
    """The command line of one user."""

    kubeconfig: Path
    namespace: str
    admin: Client

    def run(self, *arguments: str) -> Result:
        line = [*arguments[:2], "--kubeconfig", str(self.kubeconfig), *arguments[2:]]
        return CliRunner().invoke(main, line, prog_name="volcano-py")

    def prints(self, *arguments: str) -> str:
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    def jobs(self, *arguments: str) -> str:
        """Runs ``volcano-py job`` in the namespace of the test."""
        return self.prints("job", arguments[0], "-n", self.namespace, *arguments[1:])

    def commands(self, namespace: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.admin.get(f"{BUS}/namespaces/{namespace}/commands")["items"]
        return items


@pytest.fixture
def terminal(control_plane: ControlPlane, namespace: str) -> Terminal:
    return Terminal(control_plane.kubeconfig, namespace, control_plane.admin)


def test_a_job_from_flags_is_listed_viewed_suspended_resumed_and_deleted(terminal: Terminal) -> None:
    path = f"{BATCH}/namespaces/{terminal.namespace}/jobs/train"

    assert terminal.jobs("run", "-N", "train", "-r", "4", "-m", "2", "-R", "cpu=2") == "run job train successfully\n"

    stored = terminal.admin.get(path)
    assert (stored["spec"]["minAvailable"], stored["spec"]["tasks"][0]["replicas"]) == (2, 4)
    assert stored["spec"]["queue"] == "default"
    title, row = terminal.jobs("list").splitlines()
    assert title.split()[:5] == ["Name", "Creation", "Phase", "JobType", "Replicas"]
    assert row.split()[0] == "train"
    assert json.loads(terminal.jobs("list", "-o", "json"))["items"][0]["metadata"]["uid"] == stored["metadata"]["uid"]
    assert f"  UID:                {stored['metadata']['uid']}\n" in terminal.jobs("view", "train")
    assert terminal.jobs("top").splitlines()[1].split()[2] == "0/2/4"

    for verb, action in (("suspend", "AbortJob"), ("resume", "ResumeJob")):
        terminal.jobs(verb, "-N", "train")
        made = next(c for c in terminal.commands(terminal.namespace) if c["action"] == action)
        assert made["metadata"]["name"].startswith(f"train-{action.lower()}-")
        assert made["target"]["uid"] == stored["metadata"]["uid"]
        assert made["metadata"]["ownerReferences"] == [made["target"]]

    assert terminal.jobs("delete", "train") == "delete job train successfully\n"
    with pytest.raises(ApiError, match="404"):
        terminal.admin.get(path)


def test_a_manifest_may_leave_the_name_to_the_server(terminal: Terminal, tmp_path: Path) -> None:
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"generateName": "sweep-"},
        "spec": {"tasks": [TASK]},
    }
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(manifest), encoding="utf-8")

    printed = terminal.jobs("run", "-f", str(file), "-o", "name").strip()

    assert printed.startswith("job.batch.volcano.sh/sweep-")
    assert terminal.jobs("list", "-o", "name").strip() == printed


def test_what_the_resource_definition_forbids_is_refused_in_the_servers_words(terminal: Terminal) -> None:
    result = terminal.run("job", "run", "-n", terminal.namespace, "-N", "train", "-m", "-1")

    assert (result.exit_code, result.stdout) == (1, "")
    asked = f"Failed to job run: create Job train in namespace {terminal.namespace}: "
    assert result.stderr.startswith(f'{asked}Job.batch.volcano.sh "train" is invalid: spec.minAvailable')


def test_a_queue_is_created_listed_changed_closed_and_deleted(terminal: Terminal) -> None:
    name = terminal.namespace
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"queue": name, "minMember": 1},
        "status": {"phase": "Inqueue"},
    }

    terminal.prints("queue", "create", "-n", name, "-w", "3", "-S", "Closed", "--capability", "cpu=8")
    terminal.admin.create(f"{SCHEDULING}/namespaces/{name}/podgroups", group)

    row = terminal.prints("queue", "get", "-n", name).splitlines()[1].split()
    assert (row[:3], row[-5:]) == ([name, "3", "Closed"], ["1", "0", "0", "0", "0"])
    terminal.prints("queue", "operate", "-n", name, "-a", "update", "-w", "5")
    spec = terminal.admin.get(f"{SCHEDULING}/queues/{name}")["spec"]
    assert (spec["weight"], spec["capability"]) == (5, {"cpu": "8"})
    terminal.prints("queue", "operate", "-n", name, "-a", "open")
    orders = [command for command in terminal.commands("default") if command["target"]["name"] == name]
    assert [command["action"] for command in orders] == ["OpenQueue"]
    assert terminal.prints("queue", "delete", "-n", name) == f"delete queue {name} successfully\n"


def test_pods_of_a_job_are_listed_as_kubectl_lists_them(terminal: Terminal, control_plane: ControlPlane) -> None:
    labels = {"volcano.sh/job-name": "train", "volcano.sh/task-spec": "w", "volcano.sh/task-index": "0"}
    body = {"metadata": {"name": "train-w-0", "labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    terminal.admin.create(f"/api/v1/namespaces/{terminal.namespace}/pods", body)

    ours = terminal.prints("pod", "list", "-n", terminal.namespace, "-j", "train").splitlines()[1].split()
    theirs = control_plane.kubectl("get", "pods", "-n", terminal.namespace, "--no-headers").split()

    assert ours[1:5] == theirs[:4]


@pytest.mark.parametrize(
    ("kind", "command", "spec"),
    [
        ("JobFlow", "jobflow", {"flows": [{"name": "a"}], "jobRetainPolicy": "retain"}),
        ("JobTemplate", "jobtemplate", {"tasks": [TASK]}),
    ],
)
def test_flows_and_templates_are_created_and_deleted(
    terminal: Terminal, tmp_path: Path, kind: str, command: str, spec: dict[str, Any]
) -> None:
    manifest = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": kind, "metadata": {"name": "one"}, "spec": spec}
    file = tmp_path / "flow.yaml"
    file.write_text(yaml.safe_dump(manifest), encoding="utf-8")
    where = ("-n", terminal.namespace)

    assert terminal.prints(command, "create", *where, "-f", str(file)) == f"Created {kind}: {terminal.namespace}/one\n"
    assert terminal.prints(command, "list", *where).splitlines()[1].split()[:2] == ["one", terminal.namespace]
    described = yaml.safe_load(terminal.prints(command, "describe", *where, "-N", "one"))
    assert (described["kind"], described["metadata"]["name"]) == (kind, "one")
    assert terminal.prints(command, "delete", *where, "one") == f"Deleted {kind}: {terminal.namespace}/one\n"
    assert terminal.run(command, "list", *where).stderr == "No resources found\n"


def test_a_missing_permission_is_named_with_the_server(terminal: Terminal, control_plane: ControlPlane) -> None:
    kubeconfig = control_plane.kubeconfig_for("eve")

    result = CliRunner().invoke(main, ["job", "list", "-k", str(kubeconfig), "-n", terminal.namespace])

    assert result.exit_code == 1
    assert 'jobs.batch.volcano.sh is forbidden: User "eve" cannot list resource "jobs"' in result.stderr
    assert f"an administrator of the API server at {control_plane.url} can grant it" in result.stderr


def test_changes_are_printed_as_they_arrive(terminal: Terminal) -> None:
    terminal.jobs("run", "-N", "train")
    path = f"{BATCH}/namespaces/{terminal.namespace}/jobs/train/status"
    line = [sys.executable, "-m", "scheduler.cli.main", "job", "list", "-w", "-n", terminal.namespace]
    with subprocess.Popen([*line, "-k", str(terminal.kubeconfig)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            first = [process.stdout.readline().split() for _ in range(2)]
            terminal.admin.patch(path, {"status": {"state": {"phase": "Running"}}})
            changed = process.stdout.readline().split()
        finally:
            process.kill()

    assert first[1][0] == "train"
    assert changed[2] == "Running"


def test_kubectl_finds_the_plugin(terminal: Terminal, control_plane: ControlPlane, tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-vc"
    code = "from scheduler.cli.main import kubectl_vc; kubectl_vc()"
    plugin.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n', encoding="utf-8")
    plugin.chmod(0o755)
    kubectl = control_plane.binaries / "kubectl"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "KUBECONFIG": str(control_plane.kubeconfig)}

    def run(*arguments: str) -> str:
        line = [str(kubectl), "vc", *arguments]
        return subprocess.run(line, capture_output=True, text=True, env=environment, check=True).stdout

    terminal.jobs("run", "-N", "train")
    assert run("job", "list", "-n", terminal.namespace, "-o", "name") == "job.batch.volcano.sh/train\n"
    assert run("queue", "-h").startswith("Usage: kubectl vc queue ")


def test_a_waiting_job_is_explained_from_the_live_cluster(terminal: Terminal) -> None:
    groups = f"{SCHEDULING}/namespaces/{terminal.namespace}/podgroups"
    pods = f"/api/v1/namespaces/{terminal.namespace}/pods"
    meta = {"name": "lost", "annotations": {"scheduling.k8s.io/group-name": "lost"}}
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    terminal.admin.create(groups, group | {"metadata": meta, "spec": {"queue": "nowhere", "minMember": 1}})
    spec = {"schedulerName": "volcano-py", "containers": [{"name": "main", "image": "none"}]}
    terminal.admin.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    printed = terminal.prints("explain", "podgroup", "-n", terminal.namespace, "lost")
    assert "queue nowhere does not exist" in printed
    assert "create queue nowhere" in printed
