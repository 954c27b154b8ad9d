"""``volcano-py can-run``, through the command line."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.cli.main import main
from tests.builders import Raw, group, node, pod, queue
from tests.unit.cli.cluster import QUEUES, Cluster
from tests.unit.cli.test_explain import (
    CLUSTER_GROUPS,
    CLUSTER_PODS,
    DEPLOYMENTS,
    NODES,
    holding,
    live,
    written,
)
from tests.unit.explain.test_can_run import vcjob
from tests.unit.explain.test_workloads import deployment


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["can-run", *arguments], input=stdin, prog_name="volcano-py")


@pytest.fixture
def cluster_file(tmp_path: Path) -> str:
    """Two nodes of 4 cpu. A running Pod holds 3 cpu of one, in the queue `gold`, which may use 6."""
    running = [group("other", "gold", asks="3c", phase="Running"), pod("other-0", "3c", "other", on="n1")]
    return written(tmp_path / "cluster.yaml", node("n1"), node("n2"), queue("gold", capability="6c"), *running)


CONFIGURATION = "actions: enqueue, allocate\ntiers:\n- plugins: [{name: gang}, {name: predicates}, {name: capacity}]\n"


@pytest.fixture
def options(cluster_file: str, tmp_path: Path) -> list[str]:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(CONFIGURATION)
    return ["--cluster-from", cluster_file, "--scheduler-conf", str(conf)]


@pytest.mark.parametrize(
    ("cpu", "verdict", "code"), [("1", "runs", 0), ("2", "waits", 3), ("5", "never", 4)], ids=["runs", "waits", "never"]
)
def test_the_exit_code_says_the_verdict(tmp_path: Path, options: list[str], cpu: str, verdict: str, code: int) -> None:
    path = written(tmp_path / "job.yaml", vcjob(cpu=cpu, queue="gold"))

    table, document = run("-f", path, *options), run("-f", path, *options, "-o", "json")

    assert (table.exit_code, document.exit_code) == (code, code), (table.output, document.output)
    assert table.stdout.startswith(f"Job default/train: {verdict}\n")
    assert json.loads(document.stdout)["items"][0]["verdict"] == verdict


def test_the_table_answers_queue_quota_nodes_and_the_empty_cluster(tmp_path: Path, options: list[str]) -> None:
    text = run("-f", written(tmp_path / "job.yaml", vcjob(cpu="2", queue="gold")), *options).stdout

    for words in (
        "  Queue:          gold, number 1 of 1 that wait\n",
        "  Admitted:       no\n",
        "  Quota:          exceeded by 1 cpu\n",
        "  Nodes:          2 of 2 Pods find one now; 2 are needed at once, 0 get one\n",
        "  Empty cluster:  it runs\n",
        "  gold   cpu       4      3     6      no\n",
        "  enqueue (capacity)  queue resource quota insufficient",
    ):
        assert words in text, text


def test_yaml_and_json_contain_the_same_data(tmp_path: Path, options: list[str]) -> None:
    path = written(tmp_path / "job.yaml", vcjob(cpu="2", queue="gold"))
    documents = [run("-f", path, *options, "-o", output).stdout for output in ("json", "yaml")]

    (item,) = json.loads(documents[0])["items"]
    assert yaml.safe_load(documents[1])["items"] == [item]
    assert item["quota"] == {
        "within": False,
        "amounts": [
            {"queue": "gold", "resource": "cpu", "asked": "4", "used": "3", "limit": "6", "within": False},
        ],
    }
    assert item["pods"] == {"all": 2, "needed": 2, "findNode": 2, "placed": 0}
    assert item["emptyCluster"] == {"runs": True, "heldBy": []}


def test_of_several_documents_the_worst_verdict_counts_and_a_table_comes_first(
    tmp_path: Path, options: list[str]
) -> None:
    jobs = (vcjob("a", "1", queue="gold"), vcjob("b", "5", queue="gold"), vcjob("c", "1", queue="missing"))

    result = run("-f", "-", *options, stdin=yaml.safe_dump_all(jobs))

    assert result.exit_code == 4
    title, first, second, third = (line.split() for line in result.stdout.splitlines()[:4])
    assert title[:5] == ["NAMESPACE", "KIND", "NAME", "VERDICT", "ADMITTED"]
    assert [row[2:5] for row in (first, second, third)] == [
        ["a", "runs", "yes"], ["b", "never", "no"], ["c", "never", "refused"],
    ]  # fmt: skip
    assert 'admission webhook "validatejob.volcano.sh" denied the request: unable to find job queue' in result.stdout


def test_likely_mistakes_are_named(tmp_path: Path, options: list[str]) -> None:
    asked = vcjob(cpu="1", queue="gold")
    asked["spec"]["minAvalable"] = 1
    service = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}

    result = run("-f", written(tmp_path / "job.yaml", asked, service), *options)

    assert "spec.minAvalable: unknown field is ignored; did you mean 'minAvailable'?" in result.stderr
    assert "unknown kind Thing" in result.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [("kind: [", "line"), ("apiVersion: v1\nkind: Node\nmetadata: {name: n}\n", "no object to ask about")],
)
def test_files_without_a_question_are_refused(tmp_path: Path, options: list[str], content: str, words: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(content)

    result = run("-f", str(path), *options)

    assert (result.exit_code, result.stdout) == (1, "") and words in result.stderr


def test_a_shell_completes_the_command_its_formats_and_files(cluster: Cluster) -> None:
    assert cluster.completes("can-run", "--filename=x", "-o", "") == ["table", "json", "yaml"]
    assert "--cluster-from" in cluster.completes("can-run", "--filename=x", "--cl")


def test_standard_input_is_read_once() -> None:
    result = run("-f", "-", "--cluster-from", "-")
    assert result.exit_code == 2 and "standard input can be read once" in result.stderr


# --- against a cluster ------------------------------------------------------------------------------------------------
def test_a_live_cluster_is_read_and_not_written_to(cluster: Cluster, tmp_path: Path) -> None:
    holding(cluster)
    path = written(tmp_path / "job.yaml", vcjob(cpu="1", replicas=2))

    result = cluster.run("can-run", f"--filename={path}", "-n", "default")

    assert result.exit_code == 0, (result.output, result.exception)
    assert "Job default/train: runs" in result.stdout
    asked, *reads = cluster.api.calls
    assert (asked.method, asked.path.rpartition("/")[2]) == ("POST", "runreviews")  # it has no answer here
    assert {call.method for call in reads} == {"GET"}


def test_a_deployment_that_exists_is_read_by_its_name(cluster: Cluster, tmp_path: Path) -> None:
    """Without it, its Pods would be created beside those that it has."""
    cluster.holds(NODES, live(node("n1", "8c+8Gi"), "u1"))
    cluster.holds(QUEUES, live(queue("default"), "u2"))
    stored = live(deployment(1), "d1")
    path = DEPLOYMENTS.replace("/deployments", "/namespaces/default/deployments")
    cluster.holds(path, stored)
    replica_set: Raw = live({**deployment(1), "kind": "ReplicaSet"}, "r1")
    replica_set["metadata"] |= {"name": "web-1", "ownerReferences": [owner("Deployment", "web", "d1")]}
    cluster.holds("/apis/apps/v1/replicasets", replica_set)
    its = live(pod("web-1-x", "3c", "own", on="n1"), "p1")
    its["metadata"]["ownerReferences"] = [owner("ReplicaSet", "web-1", "r1")]
    cluster.holds(CLUSTER_GROUPS, live(group("own", phase="Running"), "g1"))
    cluster.holds(CLUSTER_PODS, its)

    def asked(replicas: int) -> Result:
        file = written(tmp_path / "web.yaml", deployment(replicas))
        return cluster.run("can-run", f"--filename={file}", "-n", "default", "-o", "json")

    runs = asked(2)
    never = asked(3)

    assert (runs.exit_code, never.exit_code) == (0, 4), (runs.output, never.output)
    assert any(call.query.get("fieldSelector") == "metadata.name=web" for call in cluster.api.to("GET", path))


def owner(kind: str, name: str, uid: str) -> dict[str, Any]:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}
