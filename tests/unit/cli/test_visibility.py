"""Commands of a user who may not read nodes and queues ask the scheduler; and the process that answers for the
scheduler."""

import json
from typing import Any

import msgspec
import pytest
from aiohttp import web

from scheduler.cli.can_run import named_objects
from scheduler.cli.cluster_source import ClusterSource, NamedObject
from scheduler.cli.connection import Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.plugins import load_plugins
from scheduler.cli.tenant_answers import Question, answer, asked_objects
from tests.builders import Raw, group, node, pod, queue
from tests.unit.cli.cluster import GROUPS, JOBS, QUEUES, Cluster
from tests.unit.cli.test_explain import CLUSTER_GROUPS, CLUSTER_PODS, NODES, holding, live
from tests.unit.cluster.kube.fake_api import refusal

API = "/apis/visibility.volcano-py.io/v1alpha1/namespaces/default"
EXPLANATION: Raw = {
    "kind": "Explanation",
    "explanation": {"name": "train", "outlook": "waits", "turn": {"position": 2, "waiting": 3, "before": []}},
    "lines": ["Job default/train: waits", "  \x1b[2Jowned"],
}
QUOTAS: Raw = {
    "kind": "QueueQuotaList",
    "namespace": "default",
    "items": [
        {
            "queue": "gold",
            "parent": "root",
            "state": "Open",
            "weight": 2,
            "amounts": [{"queue": "gold", "resource": "cpu", "used": "3", "capability": "4"}],
            "jobs": {"running": 1, "waiting": 2},
        }
    ],
    "waiting": [{"podGroup": "train-u1", "job": "train", "queue": "gold", "for": "nodes", "position": 2, "of": 3}],
}


def forbid(cluster: Cluster) -> None:
    for path in (NODES, f"{QUEUES}.*"):
        plural = path.rpartition("/")[2].removesuffix(".*")

        async def forbidden(call: Any, request: web.Request, plural: str = plural) -> web.Response:
            return refusal(403, "Forbidden", f'{plural} is forbidden: User "alice" cannot list resource')

        cluster.api.on("GET", path, forbidden)


@pytest.fixture
def tenant(cluster: Cluster) -> Cluster:
    """A cluster whose nodes and queues may not be read, and whose scheduler answers."""
    forbid(cluster)
    cluster.api.answer("GET", f"{API}/jobs/train/explain", EXPLANATION)
    cluster.api.answer("GET", f"{API}/queuequotas", QUOTAS)
    return cluster


def vcjob(name: str) -> Raw:
    meta = {"name": name, "namespace": "default", "uid": "u1"}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": {"queue": "gold"}}


def test_explain_prints_the_answer_of_the_scheduler_without_control_characters(tenant: Cluster) -> None:
    result = tenant.run("explain", "job", "train", "-n", "default")

    assert result.exit_code == 0, result.output
    assert result.stdout == "Job default/train: waits\n  \\x1b[2Jowned\n"
    assert "the scheduler answers this" in result.stderr


def test_explain_as_json_is_the_explanation(tenant: Cluster) -> None:
    assert (
        json.loads(tenant.prints("explain", "job", "train", "-n", "default", "-o", "json"))
        == EXPLANATION["explanation"]
    )


def test_nothing_else_is_read_when_nodes_are_forbidden(tenant: Cluster) -> None:
    tenant.run("explain", "job", "train", "-n", "default")

    assert [call.path for call in tenant.api.calls] == [NODES, f"{API}/jobs/train/explain"]


def test_questions_about_workloads_name_the_resource_of_their_kind(tenant: Cluster) -> None:
    tenant.api.answer("GET", f"{API}/deployments/web/explain", EXPLANATION)

    assert tenant.run("explain", "Deployment/web", "-n", "default").exit_code == 0


def test_of_another_owner_the_scheduler_is_asked_about_the_pod_group(tenant: Cluster) -> None:
    theirs = live(group("ray"), "u9")
    theirs["metadata"]["ownerReferences"] = [{"kind": "RayCluster", "name": "llm", "uid": "r1", "controller": True}]
    tenant.holds(GROUPS, theirs)
    tenant.api.answer("GET", f"{API}/podgroups/ray/explain", EXPLANATION)

    assert tenant.run("explain", "RayCluster/llm", "-n", "default").exit_code == 0
    assert "no RayCluster other in namespace default that owns a PodGroup" in tenant.refuses(
        "explain", "RayCluster/other", "-n", "default"
    )


def test_manifests_are_explained_without_any_question(tenant: Cluster) -> None:
    result = tenant.run("explain", "job", "train", "-f", "missing.yaml")

    assert result.exit_code == 1 and tenant.api.calls == []


def test_can_run_posts_the_objects_and_exits_with_the_code_of_the_verdict(tenant: Cluster, tmp_path: Any) -> None:
    review = {"kind": "RunReview", "verdict": "waits", "items": [], "lines": ["Job default/new: \x1b[2Jwaits"]}
    tenant.api.answer("POST", f"{API}/runreviews", review)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "svc"}}
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [submission(), service]}))

    table = tenant.run("can-run", f"--filename={path}", "-n", "default")
    document = tenant.run("can-run", f"--filename={path}", "-n", "default", "-o", "json")

    assert (table.exit_code, table.stdout) == (3, "Job default/new: \\x1b[2Jwaits\n"), table.output
    assert "the scheduler answers this" in table.stderr
    assert json.loads(document.stdout) == {"kind": "RunReview", "verdict": "waits", "items": []}
    posted, _ = tenant.api.to("POST", f"{API}/runreviews")
    assert [each["metadata"]["name"] for each in posted.body["items"]] == ["new"]


def test_can_run_asks_the_scheduler_before_it_reads_the_cluster(tenant: Cluster, tmp_path: Any) -> None:
    review = {"verdict": "runs", "items": [], "lines": ["runs"], "warnings": ["Job x: spec.qeue: unknown field"]}
    tenant.api.answer("POST", f"{API}/runreviews", review)
    path = tmp_path / "job.json"
    path.write_text(json.dumps(submission()))

    result = tenant.run("can-run", f"--filename={path}", "-n", "default")

    assert (result.exit_code, result.stdout) == (0, "runs\n")
    assert "warning: Job x: spec.qeue: unknown field" in result.stderr
    assert [call.method for call in tenant.api.calls] == ["POST"]


@pytest.mark.parametrize(("status", "reason"), [(404, ""), (403, "Forbidden"), (503, "ServiceUnavailable"), (429, "")])
def test_can_run_reads_the_cluster_where_the_scheduler_does_not_answer(
    cluster: Cluster, tmp_path: Any, status: int, reason: str
) -> None:
    async def refuse(call: Any, request: web.Request) -> web.Response:
        return refusal(status, reason, "no")

    holding(cluster)
    cluster.api.on("POST", f"{API}/runreviews", refuse)
    path = tmp_path / "job.json"
    path.write_text(json.dumps(submission(cpu="1")))

    result = cluster.run("can-run", f"--filename={path}", "-n", "default")

    assert (result.exit_code, result.stderr.count("the scheduler answers")) == (0, 0), result.output


def test_can_run_with_another_configuration_does_not_ask_the_scheduler(cluster: Cluster, tmp_path: Any) -> None:
    holding(cluster)
    path, configuration = tmp_path / "job.json", tmp_path / "conf"
    path.write_text(json.dumps(submission(cpu="1")))
    configuration.write_text("actions: enqueue, allocate\ntiers:\n- plugins: [{name: gang}, {name: predicates}]\n")

    result = cluster.run("can-run", f"--filename={path}", "-n", "default", "--scheduler-conf", str(configuration))

    assert result.exit_code == 0, result.output
    assert cluster.api.to("POST", ".*") == []


def test_what_the_scheduler_finds_wrong_with_the_objects_is_the_error(tenant: Cluster, tmp_path: Any) -> None:
    async def refuse(call: Any, request: web.Request) -> web.Response:
        return refusal(400, "BadRequest", "Job new: ask about the owner")

    tenant.api.on("POST", f"{API}/runreviews", refuse)
    path = tmp_path / "job.json"
    path.write_text(json.dumps(submission()))

    assert "ask about the owner" in tenant.refuses("can-run", f"--filename={path}", "-n", "default")


def test_can_run_asks_about_one_namespace_at_a_time(tenant: Cluster, tmp_path: Any) -> None:
    path = tmp_path / "jobs.json"
    jobs = [submission() | {"metadata": {"name": "x", "namespace": namespace}} for namespace in ("a", "b")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": jobs}))

    assert "one namespace at a time, not about a, b" in tenant.refuses("can-run", f"--filename={path}")


def test_queues_are_listed_with_their_amounts(tenant: Cluster) -> None:
    shown = tenant.prints("queue", "list")

    header, row, _, amounts, numbers = (line.split() for line in shown.splitlines())
    assert row == ["gold", "2", "Open", "root", "1", "2"] and "Waiting" in header
    assert amounts == ["Queue", "Resource", "Used", "Capability"]
    assert numbers[:3] == ["gold", "cpu", "3"] and numbers[-1] == "4"


def test_a_queue_is_shown_if_the_namespace_uses_it(tenant: Cluster) -> None:
    assert json.loads(tenant.prints("queue", "get", "gold", "-o", "json"))["queue"] == "gold"
    assert "queues is forbidden" in tenant.refuses("queue", "get", "silver")


def test_positions_come_from_the_scheduler(tenant: Cluster) -> None:
    tenant.holds(JOBS, vcjob("train"), vcjob("other"))

    _, train, other = tenant.prints("job", "list", "--position", "-n", "default").splitlines()

    assert train.split()[-1] == "2/3" and other.split()[-1] == "0"


def test_positions_are_computed_where_the_cluster_may_be_read(cluster: Cluster) -> None:
    holding(cluster)
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u1", "controller": True}
    owned = live(group("g", phase="Inqueue"), "u3")
    owned["metadata"]["ownerReferences"] = [owner]
    cluster.holds(CLUSTER_GROUPS, owned)
    cluster.holds(JOBS, vcjob("train"))

    assert cluster.prints("job", "list", "--position", "-n", "default").splitlines()[1].split()[-1] == "1/1"


def test_positions_cannot_be_watched(tenant: Cluster) -> None:
    assert "leave out --watch" in tenant.run("job", "list", "--position", "--watch").stderr


def test_without_the_api_the_error_names_the_missing_right_and_the_setting(cluster: Cluster) -> None:
    forbid(cluster)
    cluster.api.answer("GET", "/apis/visibility.*", {}, status=404)

    said = cluster.refuses("explain", "job", "train", "-n", "default")

    assert "nodes is forbidden" in said and "scheduler.visibility of the chart" in said


@pytest.mark.parametrize(
    ("status", "reason", "message", "said"),
    [
        (404, "NotFound", "there is no job train in namespace default", "there is no job train in namespace default"),
        (403, "Forbidden", "no", "nodes is forbidden"),
        (503, "ServiceUnavailable", "16 questions wait for an answer", "16 questions wait for an answer"),
    ],
)
def test_what_the_scheduler_refuses_is_said(
    cluster: Cluster, status: int, reason: str, message: str, said: str
) -> None:
    forbid(cluster)

    async def refuse(call: Any, request: web.Request) -> web.Response:
        return refusal(status, reason, message)

    cluster.api.on("GET", f"{API}/jobs/train/explain", refuse)
    assert said in cluster.refuses("explain", "job", "train", "-n", "default")


# --- the answers -----------------------------------------------------------------------------------------
def answered(cluster: Cluster, configuration: str | None = None, **fields: Any) -> Any:
    """The answer to a question, from a list of the cluster."""
    question = Question(**fields)
    asked = asked_objects(question)
    about = [NamedObject(question.kind, question.name)] if question.name else named_objects(asked)
    connection = Connection(kubeconfig=str(cluster.kubeconfig), namespace=question.namespace)
    source = ClusterSource(connection, (), configuration, ("volcano-py",), load_plugins)
    with source.simulated("scheduler.cli.explain_text", about) as (_, simulation):
        return answer(simulation, question, asked)


def held(cluster: Cluster) -> None:
    """Given two tenants, each with a Pod of 6 cpu in the queue `default`; the node has 4."""
    holding(cluster)
    secret = [live(group("secret-group", phase="Inqueue"), "u5"), live(pod("secret-pod", "6c", "secret-group"), "u6")]
    for each in secret:
        each["metadata"]["namespace"] = "secret"
    cluster.holds(CLUSTER_GROUPS, live(group("g", phase="Inqueue"), "u3"), secret[0])
    cluster.holds(CLUSTER_PODS, live(pod("p", "6c", "g"), "u4"), secret[1])
    cluster.holds(QUEUES, live(queue("default"), "u2"), live(queue("secret-queue"), "u7"))
    cluster.holds(NODES, live(node("secret-node"), "u1"))


@pytest.mark.parametrize(("kind", "name"), [("podgroup", "g"), ("pod", "p")])
def test_an_answer_has_the_numbers_and_no_names_of_others(cluster: Cluster, kind: str, name: str) -> None:
    held(cluster)

    found = answered(cluster, kind=kind, namespace="default", name=name)

    assert any("asked 6" in line for line in found["lines"])
    assert found["explanation"]["turn"] == {"position": 1, "waiting": 2, "before": []}
    assert "secret" not in msgspec.json.encode(found).decode()


def test_an_object_of_another_namespace_is_not_there(cluster: Cluster) -> None:
    held(cluster)

    with pytest.raises(CommandError, match="there is no podgroup secret-group in namespace default") as refused:
        answered(cluster, kind="podgroup", namespace="default", name="secret-group")
    assert refused.value.status == 404


def test_the_queues_of_each_namespace_are_answered_at_once(cluster: Cluster) -> None:
    held(cluster)

    found = answered(cluster)

    assert found.keys() == {"default", "secret"}
    assert "secret" not in json.dumps(found["default"])
    assert found["default"]["waiting"][0]["of"] == 2


def submission(cpu: str = "6", replicas: int = 1, name: str = "new", **spec: Any) -> Raw:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    task = {"name": "w", "replicas": replicas, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"queue": "default", "tasks": [task], **spec},
    }


def test_an_answer_about_a_new_job_has_the_numbers_and_no_names_of_others(cluster: Cluster) -> None:
    held(cluster)

    found = answered(cluster, kind="review", namespace="default", objects=json.dumps(submission()))

    assert (found["kind"], found["verdict"]) == ("RunReview", "never")
    (item,) = found["items"]
    assert (item["namespace"], item["name"], item["pods"]["all"], item["pods"]["findNode"]) == ("default", "new", 1, 0)
    assert any("requested 6" in line or "asked 6" in line for line in found["lines"])
    assert "secret" not in msgspec.json.encode(found).decode()


def test_an_answer_about_a_new_job_names_mistakes_in_it(cluster: Cluster) -> None:
    held(cluster)
    asked = submission("6", queue="secret-qeue", minAvailabel=1)

    found = answered(cluster, kind="review", namespace="default", objects=json.dumps(asked))

    unknown, queue_of_nobody = sorted(found["warnings"])
    assert "minAvailabel" in unknown and "did you mean 'minAvailable'?" in unknown
    assert "secret-qeue" in queue_of_nobody and "secret-queue" not in queue_of_nobody


def test_evicted_pods_of_others_are_counted_and_not_named(cluster: Cluster, tmp_path: Any) -> None:
    holding(cluster)
    secret = [live(group("secret-group", phase="Running"), "u5"), live(pod("secret-pod", "4c", "secret-group"), "u6")]
    for each in secret:
        each["metadata"]["namespace"] = "secret"
    secret[1]["spec"]["nodeName"] = "n1"
    secret[1]["metadata"]["annotations"]["volcano.sh/preemptable"] = "true"
    cluster.holds(CLUSTER_GROUPS, secret[0])
    cluster.holds(CLUSTER_PODS, secret[1])
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    cluster.holds("/apis/scheduling.k8s.io/v1/priorityclasses", live(high, "u8"))
    conf = tmp_path / "conf"
    conf.write_text(
        "actions: enqueue, allocate, preempt\n"
        "tiers:\n- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: predicates}]\n"
    )
    asked = json.dumps(submission("3", priorityClassName="high"))

    found = answered(cluster, kind="review", namespace="default", objects=asked, configuration=str(conf))

    assert (found["verdict"], found["items"][0]["evictions"]) == ("runs", {"pods": 1})
    assert "secret" not in msgspec.json.encode(found).decode()


def test_a_refusal_names_the_queue_that_the_tenant_wrote(cluster: Cluster) -> None:
    held(cluster)
    cluster.holds(QUEUES, live(queue("default"), "u2"), live(queue("shut-queue", state="Closed"), "u7"))
    asked = submission()
    asked["spec"]["queue"] = "shut-queue"

    (item,) = answered(cluster, kind="review", namespace="default", objects=json.dumps(asked))["items"]

    assert (item["verdict"], item["allowed"]) == ("never", False)
    assert "queue `shut-queue` status is `Closed`" in item["refusal"]


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        (submission(replicas=10_001), "ask for 10001 Pods; a question has at most 10000"),
        ({**submission(), "metadata": {"name": "x", "ownerReferences": [{}]}}, "ask about the owner"),
        ({"kind": "List", "apiVersion": "v1", "items": [{"kind": "Job"}]}, "apiVersion: expected a string"),
    ],
)
def test_what_cannot_be_answered_is_a_bad_request(cluster: Cluster, objects: Raw, words: str) -> None:
    held(cluster)

    with pytest.raises(CommandError, match=words) as refused:
        answered(cluster, kind="review", namespace="default", objects=json.dumps(objects))
    assert refused.value.status == 400
