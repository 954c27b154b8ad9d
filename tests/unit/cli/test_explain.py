"""``volcano-py explain`` and ``simulate --what-if``, through the command line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner, Result

from scheduler.cli.connection import Connection
from scheduler.cli.explain_live import LiveCluster, read_cluster
from scheduler.cli.input_warnings import WarningLog
from scheduler.cli.main import main
from scheduler.cli.plugins import load_plugins
from scheduler.cluster.manifests import Manifest
from tests.builders import Raw, group, node, pod, pods, queue
from tests.unit.cli.cluster import GROUPS, PODS, QUEUES, Cluster
from tests.unit.cluster.kube.fake_api import Answer, Call

PLAIN = "actions: enqueue, allocate, backfill\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n"
CLUSTER_GROUPS, CLUSTER_PODS, NODES = "/apis/scheduling.volcano.sh/v1beta1/podgroups", "/api/v1/pods", "/api/v1/nodes"
CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
CONFIG_MAPS, DEPLOYMENTS = "/api/v1/configmaps", "/apis/apps/v1/deployments"


def written(path: Path, *objects: Raw) -> str:
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), prog_name="volcano-py")


@pytest.fixture
def full_cluster(tmp_path: Path) -> str:
    """A gang of three Pods, of which two fit."""
    return written(tmp_path / "cluster.yaml", node("n1"), group("g", minimum=3), *pods("p", 3, "2c", "g"))


# --- from manifests ---------------------------------------------------------------------------------------------------
def test_the_table_shows_causes_and_changes_that_help(full_cluster: str, tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(PLAIN)
    result = run("explain", "podgroup", "g", "-f", full_cluster, "--scheduler-conf", str(conf))
    assert result.exit_code == 0, result.output
    for words in (
        "PodGroup default/g: waits",
        "Queue:     default, number 1 of 1 that wait",
        "Pods:      3, of which 3 are needed at once; 0 have a node, 2 more would find one",
        "gang   0 of 3 Pods have a node, 2 more find one",
        "1      n1     Insufficient cpu  cpu: asked 2, most free 0 on n1",
        "Smallest change found that would let it run\n  1 node like n1 more\n  or let each",
    ):
        assert words in result.stdout
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_and_yaml_contain_the_same_data(full_cluster: str, output: str, load: Any) -> None:
    result = run("explain", "podgroup", "g", "-f", full_cluster, "-o", output)
    assert result.exit_code == 0, result.output
    document = load(result.stdout)
    assert (document["outlook"], document["pods"]["placeable"]) == ("waits", 2)
    assert document["turn"] == {"position": 1, "waiting": 1, "before": []}
    assert document["nodes"][0]["shortages"][0]["asked"] == "2"
    assert document["changes"][0]["text"] == "1 node like n1 more"
    assert document["changes"][0]["whatIf"][0]["kind"] == "Node"


@pytest.mark.parametrize("command", [("explain", "podgroup", "g"), ("simulate",)])
def test_what_the_configuration_ignores_is_named(command: tuple[str, ...], full_cluster: str, tmp_path: Path) -> None:
    conf = tmp_path / "scheduler.conf"
    conf.write_text(f"{PLAIN}tier: []\nconfigurations: [{{name: allocate, arguments: {{cache: true}}}}]\n")
    result = run(*command, "-f", full_cluster, "--scheduler-conf", str(conf))
    assert result.exit_code == 0, result.output
    assert f"warning: {conf}: tier: unknown field is ignored; known: actions, tiers" in result.stderr
    assert "action allocate: argument cache is not known; it is ignored; known: predicateErrorCacheE" in result.stderr


def test_a_found_change_can_be_simulated(full_cluster: str, tmp_path: Path) -> None:
    document = json.loads(run("explain", "podgroup", "g", "-f", full_cluster, "-o", "json").stdout)
    change = written(tmp_path / "change.yaml", *document["changes"][0]["whatIf"])
    result = run("simulate", "-f", full_cluster, "--what-if", change)
    assert result.exit_code == 0, result.output
    assert "starts  default/g          3/3, needs 3  queue default" in result.stdout


def test_with_no_changes_no_changes_are_searched(full_cluster: str) -> None:
    assert "Smallest change" not in run("explain", "podgroup", "g", "-f", full_cluster, "--no-changes").stdout


def test_a_placed_pod_is_explained_with_the_scores_of_its_node(tmp_path: Path) -> None:
    path = written(tmp_path / "c.yaml", node("n1"), node("n2", "1c"), group("g"), pod("p", "2c", "g", on="n1"))
    result = run("explain", "pod", "p", "-f", path)
    assert "Pod default/p: placed\n  it has node n1" in result.stdout
    assert "Why node n1: best nodes of the 1 that take it (Pod default/p)" in result.stdout
    assert "NODE  SCORE  nodeorder  binpack" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["podgroup", "missing"], 1, "Failed to explain: there is no podgroup missing in namespace default"),
        (["podgroup", "gg"], 1, "there is no podgroup gg in namespace default; did you mean 'g'?"),
        (["podgroup", "g", "-n", "other"], 1, "there is no podgroup g in namespace other"),
        (["podgroup", "g", "--scheduler-conf", "/nowhere"], 1, "/nowhere"),
        (["queue", "g"], 2, "'queue' is not one of 'pod', 'podgroup', 'job'"),
        (["node", "n1"], 2, "'node' is not one of"),
        (["deploymnt", "g"], 2, "did you mean 'deployment'?"),
        (["podgroup"], 2, "a kind and one name are expected"),
        (["podgroup/g", "g"], 2, "a kind and one name are expected"),
        (["RayCluster", "g"], 1, "there is no RayCluster g in namespace default"),
    ],
)  # fmt: skip
def test_an_object_that_cannot_be_explained_is_refused(
    full_cluster: str, arguments: list[str], code: int, words: str
) -> None:
    result = run("explain", *arguments, "-f", full_cluster)
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr


def test_malformed_manifests_are_refused_with_file_and_line(tmp_path: Path) -> None:
    path = written(tmp_path / "bad.yaml", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": 3})
    result = run("explain", "pod", "p", "-f", path)
    assert result.exit_code == 1
    assert "bad.yaml, document 1: Node: spec" in result.stderr


# --- from a cluster ---------------------------------------------------------------------------------------------------
def live(raw: Raw, uid: str) -> Raw:
    created = {"uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "3"}
    return {**raw, "metadata": {**raw["metadata"], **created}}


def holding(cluster: Cluster, *, scheduler: str = "volcano-py") -> None:
    cluster.holds(NODES, live(node("n1"), "u1"))
    cluster.holds(QUEUES, live(queue("default"), "u2"))
    cluster.holds(CLUSTER_GROUPS, live(group("g", phase="Inqueue"), "u3"))
    cluster.holds(CLUSTER_PODS, live(pod("p", "6c", "g", scheduler=scheduler), "u4"))


def test_a_live_cluster_is_read_once_and_never_written_to(cluster: Cluster) -> None:
    holding(cluster)
    result = cluster.run("explain", "podgroup", "g", "-n", "default")
    assert result.exit_code == 0, (result.output, result.exception)
    assert "PodGroup default/g: waits" in result.stdout
    assert "let Pod default/p ask for 4 cpu instead of 6" in result.stdout
    assert {call.method for call in cluster.api.calls} == {"GET"}


def test_configuration_and_names_are_those_of_the_scheduler_in_the_cluster(cluster: Cluster) -> None:
    holding(cluster, scheduler="volcano")
    labels = {"app.kubernetes.io/part-of": "volcano-py", "app.kubernetes.io/component": "scheduler"}
    meta = {"name": "volcano-py-scheduler", "namespace": "volcano-system", "labels": labels}
    capped = PLAIN.replace("{name: gang}", "{name: gang}, {name: overcommit}")
    cluster.holds(CONFIG_MAPS, {"metadata": meta, "data": {"volcano-scheduler.conf": capped}})
    container = {"args": ["scheduler", "--scheduler-name=volcano", "--scheduler-name=volcano-py"]}
    cluster.holds(DEPLOYMENTS, {"metadata": meta, "spec": {"template": {"spec": {"containers": [container]}}}})
    result = cluster.run("explain", "podgroup", "g", "-n", "default", "-o", "json")
    assert result.exit_code == 0, (result.output, result.exception)
    assert json.loads(result.stdout)["outlook"] == "waits"
    assert "built-in" not in result.stderr


def test_without_a_scheduler_the_built_in_configuration_is_used_with_a_note(cluster: Cluster) -> None:
    holding(cluster)
    assert "the built-in one is taken" in cluster.run("explain", "podgroup", "g", "-n", "default").stderr


def test_malformed_objects_cause_warnings_and_are_left_out(cluster: Cluster) -> None:
    holding(cluster)
    broken = live({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}, "spec": "none"}, "u9")
    odd = live(node("n3", "many"), "u10")
    cluster.holds(NODES, live(node("n1"), "u1"), broken, odd)
    result = cluster.run("explain", "podgroup", "g", "-n", "default")
    assert result.exit_code == 0, (result.output, result.exception)
    assert "warning: Node n2: Node: spec: " in result.stderr
    assert result.stderr.count("left out") == 1


def test_fields_that_are_set_aside_are_named_if_they_concern_nodes_or_what_is_explained(cluster: Cluster) -> None:
    odd = {"volcano.sh/task-priority": "high"}
    holding(cluster)
    cluster.holds(NODES, live(node("n1", "4c+nvidia.com/gpu=oops"), "u1"))
    mine, theirs = pod("p", "6c", "g", annotations=odd), pod("q", "6c", annotations=odd)
    cluster.holds(CLUSTER_PODS, live(mine, "u4"), live(theirs, "u5"))
    for output in "json", "table":
        result = cluster.run("explain", "podgroup", "g", "-n", "default", "-o", output)
        assert result.exit_code == 0, (result.output, result.exception)
        document = json.loads(result.stdout)["warnings"] if output == "json" else result.stdout.splitlines()
        named = [line.split("metadata")[0].split("status")[0].rstrip(": ") for line in document if "; ignored" in line]
        assert sorted(named) == ["Node n1", "Pod default/p"]


def test_objects_are_read_whole_except_their_managed_fields(cluster: Cluster) -> None:
    holding(cluster)
    whole = live({**pod("p", "6c", "g"), "status": {"phase": "Pending", "conditions": [{"type": "Own"}]}}, "u3")
    whole["metadata"] |= {"labels": {"a": "b"}, "finalizers": ["own/finalizer"], "generateName": "p-"}
    sent = {**whole, "metadata": {**whole["metadata"], "managedFields": [{"manager": "kubectl"}]}}
    cluster.holds(CLUSTER_PODS, sent)
    connection = Connection(kubeconfig=str(cluster.kubeconfig))
    pods: list[Manifest] = []
    settings: dict[str, Any] = {"with_configuration": False, "with_names": False, "load": load_plugins}
    read_cluster(connection, lambda _: pods.extend, log=WarningLog(), **settings)
    assert [manifest.raw for manifest in pods] == [whole]


def test_an_error_while_pods_are_loaded_is_not_one_of_the_api_server(cluster: Cluster) -> None:
    holding(cluster)
    cluster.holds(CLUSTER_PODS, live(pod("p", "6c", "g"), "u3"))
    connection = Connection(kubeconfig=str(cluster.kubeconfig))

    def build(_: LiveCluster) -> Callable[[list[Manifest]], object]:
        def take(_: list[Manifest]) -> None:
            raise ValueError("a defect")

        return take

    with pytest.raises(ValueError, match="a defect"):
        settings: dict[str, Any] = {"with_configuration": False, "with_names": False, "load": load_plugins}
        read_cluster(connection, build, log=WarningLog(), **settings)


@pytest.mark.parametrize("depth", [150, 400, 900, 1500, 9000])
def test_a_deeply_nested_object_does_not_affect_others(depth: int, cluster: Cluster, tmp_path: Path) -> None:
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "t"}}
    parameters = '{"x":' * depth + "1" + "}" * depth
    config = {"opaque": {"driver": "d", "parameters": "DEEP"}}
    text = json.dumps({**claim, "spec": {"devices": {"config": [config]}}}).replace('"DEEP"', parameters)

    async def claims(call: Call, request: web.Request) -> Answer:
        return web.Response(text=f'{{"metadata": {{}}, "items": [{text}]}}', content_type="application/json")

    holding(cluster)
    cluster.api.on("GET", CLAIMS, claims)
    result = cluster.run("explain", "podgroup", "g", "-n", "default")
    assert result.exit_code == 0, (result.output, result.exception)
    assert "let Pod default/p ask for 4 cpu instead of 6" in result.stdout
    assert CLAIMS in {call.path for call in cluster.api.calls} and "left out" not in result.stderr

    items = [text, *(json.dumps(each) for each in (node("n1"), group("g"), pod("p", "6c", "g")))]
    dump = tmp_path / "dump.json"
    dump.write_text(f'{{"apiVersion": "v1", "kind": "List", "items": [{",".join(items)}]}}')
    result = run("explain", "podgroup", "g", "-f", str(dump))
    assert result.exit_code == 0, (result.output, result.exception)
    assert "let Pod default/p ask for 4 cpu instead of 6" in result.stdout
    assert run("simulate", "-f", str(dump)).exit_code == 0


def test_kinds_that_cannot_be_listed_are_left_out_unless_they_are_required(cluster: Cluster) -> None:
    holding(cluster)
    forbidden = {"kind": "Status", "message": 'storageclasses is forbidden: User "me" cannot list'}
    cluster.api.answer("GET", "/apis/storage.k8s.io/v1/storageclasses", forbidden, status=403)
    assert "explained without" in cluster.run("explain", "podgroup", "g", "-n", "default").stderr
    cluster.api.answer("GET", "/apis/visibility.*", {}, status=404)
    cluster.api.answer("GET", NODES, {**forbidden, "message": 'nodes is forbidden: User "me" cannot list'}, status=403)
    assert "list nodes" in cluster.refuses("explain", "podgroup", "g", "-n", "default")


def test_names_are_completed_by_kind(cluster: Cluster) -> None:
    cluster.holds(PODS, live(pod("train-0", "1c"), "u1"))
    cluster.holds(GROUPS, live(group("train"), "u2"))
    from click.shell_completion import ShellComplete

    def names(kind: str) -> list[str]:
        words = ["explain", "--kubeconfig", str(cluster.kubeconfig), "-n", "default", kind]
        return [item.value for item in ShellComplete(main, {}, "volcano-py", "X").get_completions(words, "tr")]

    assert (names("pod"), names("podgroup")) == (["train-0"], ["train"])


@pytest.mark.parametrize("line", [["pg", "g"], ["PodGroup/g"], ["podgroups/g"], ["PodGroup", "g"]])
def test_kinds_have_the_names_of_kubectl_and_of_the_table_of_job_top(full_cluster: str, line: list[str]) -> None:
    assert run("explain", *line, "-f", full_cluster, "--no-changes").stdout.startswith("PodGroup default/g: waits")


def test_a_deployment_of_a_cluster_is_read_by_name_and_needs_no_right_to_it(cluster: Cluster) -> None:
    holding(cluster)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d1", "controller": True}
    replica_set = live(
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web-1", "namespace": "default"}}, "s1"
    )
    replica_set["metadata"]["ownerReferences"] = [owner]
    theirs = live(group("g", phase="Inqueue"), "u3")
    theirs["metadata"]["ownerReferences"] = [{**owner, "kind": "ReplicaSet", "name": "web-1", "uid": "s1"}]
    cluster.holds("/apis/apps/v1/replicasets", replica_set)
    cluster.holds(CLUSTER_GROUPS, theirs)
    path = "/apis/apps/v1/namespaces/default/deployments"
    cluster.api.answer("GET", path, {"kind": "Status", "message": "deployments is forbidden"}, status=403)

    result = cluster.run("explain", "deploy/web", "-n", "default")

    assert result.exit_code == 0, (result.output, result.exception)
    assert "Deployment default/web: waits" in result.stdout and "PodGroup:  default/g" in result.stdout
    assert "deployments is forbidden" not in result.stderr
    assert [call.query.get("fieldSelector") for call in cluster.api.calls if call.path == path] == ["metadata.name=web"]


def test_a_job_flow_of_a_cluster_is_explained_with_its_steps(cluster: Cluster) -> None:
    holding(cluster)
    flows = "/apis/flow.volcano.sh/v1alpha1/namespaces/default"
    meta = {"name": "nightly", "namespace": "default"}
    steps = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}]
    cluster.holds(f"{flows}/jobflows", live({"metadata": meta, "spec": {"flows": steps}}, "f1"))
    container = {"name": "c", "image": "a:1", "resources": {"requests": {"cpu": "9"}}}
    task = {"name": "w", "replicas": 1, "template": {"spec": {"containers": [container]}}}
    template = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"minAvailable": 1, "tasks": [task]}}
    cluster.holds(f"{flows}/jobtemplates", live(template, "t1"))

    result = cluster.run("explain", "jf", "nightly", "-n", "default", "-o", "json")

    assert result.exit_code == 0, (result.output, result.exception)
    document = json.loads(result.stdout)
    assert (document["kind"], document["outlook"]) == ("jobflow", "waits")
    assert document["subject"] == {"kind": "Job", "name": "nightly-a"}
    assert "step b waits for a (Pending)" in document["state"]


def test_kinds_and_names_of_workloads_are_completed(cluster: Cluster) -> None:
    from click.shell_completion import ShellComplete

    cluster.holds("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "web"}})
    words = ["explain", "--kubeconfig", str(cluster.kubeconfig), "-n", "default"]

    def completed(*more: str) -> list[str]:
        return [item.value for item in ShellComplete(main, {}, "volcano-py", "X").get_completions([*words], *more)]

    assert completed("st") == ["statefulset"]
    words.append("deploy")
    assert completed("w") == ["web"]


# --- simulate --what-if -----------------------------------------------------------------------------------------------
def test_what_if_prints_the_differences(tmp_path: Path) -> None:
    before = written(tmp_path / "c.yaml", node("n1", "2c+4Gi"), group("g"), pod("p", "2c", "g"), group("h"),
                     pod("q", "4c", "h"))  # fmt: skip
    change = written(tmp_path / "w.yaml", node("n2"))
    result = run("simulate", "-f", before, "--what-if", change)
    assert result.exit_code == 0, result.output
    assert "starts  default/h          1/1, needs 1  queue default" in result.stdout
    assert "jobs waiting    default  1       0" in result.stdout
    assert "default/g" not in result.stdout


def test_what_if_reports_when_there_is_no_difference(tmp_path: Path) -> None:
    before = written(tmp_path / "c.yaml", node("n1"), group("g"), pod("p", "2c", "g"))
    result = run("simulate", "-f", before, "--what-if", written(tmp_path / "w.yaml", node("n2", "1c")))
    assert result.stdout == "It makes no difference.\n"


def test_what_if_prints_a_document(tmp_path: Path) -> None:
    before = written(tmp_path / "c.yaml", node("n1", "1c"), group("g"), pod("p", "2c", "g"))
    change = written(tmp_path / "w.yaml", node("n2"))
    document = json.loads(run("simulate", "-f", before, "--what-if", change, "-o", "json").stdout)
    assert list(document["jobs"]["start"]) == ["default/g"]
    assert yaml.safe_load(run("simulate", "-f", before, "--what-if", change, "-o", "yaml").stdout) == document


def test_an_invalid_change_ends_with_code_2(tmp_path: Path) -> None:
    before = written(tmp_path / "c.yaml", node("n1"))
    change = written(tmp_path / "w.yaml", {"apiVersion": "v1", "kind": "Node",
                     "metadata": {"name": "n7", "annotations": {"volcano-py/what-if": "delete"}}})  # fmt: skip
    result = run("simulate", "-f", before, "--what-if", change)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "w.yaml, document 1: Node n7 is not there, so there is nothing to delete" in result.stderr
