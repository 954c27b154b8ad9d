"""The queue, the vcjob and the Deployment of the published design on a real control plane. Objects, the command line,
metrics and the web page show which requests are allowed, refused and counted."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controlplane.client import ApiError
from controlplane.manifests import CHART, NAMESPACE, RELEASE
from scheduler.api.kinds import NAMESPACE as NAMESPACES
from scheduler.api.kinds import NODE, POD, QUEUE, VCJOB, object_path
from scheduler.api.names import (
    CARD_CARD,
    CARD_NAME,
    CARD_QUOTA,
    CARD_REQUEST,
    CHARGED_QUEUE,
    NO_QUEUE,
    QUEUE_NAME_ANNOTATION,
    VISIBILITY_API_VERSION,
)
from scheduler.webhooks.routes import routes
from tests.integration.installation import ROLES, Installation, started_installation
from tests.integration.programs import run
from tests.integration.stage import wait

pytestmark = pytest.mark.controlplane

H200, H800, GPU = "NVIDIA-H200", "NVIDIA-H800", "nvidia.com/gpu"
QUOTA = {
    H200: 3,
    H800: 2,
    "NVIDIA-GeForce-RTX-4090": 2,
    "NVIDIA-H800/mps-80g*1/2": 2,
    "NVIDIA-H200/mig-1g.18gb-mixed": 3,
    "NVIDIA-H200/mig-3g.71gb-mixed": 1,
}
CONFIGURATION = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]
- plugins: [{name: drf, enablePreemptable: false}, {name: predicates},
            {name: capacity-card, arguments: {cardUnlimitedCpuMemory: true}}, {name: nodeorder}, {name: binpack}]
"""
JOBS = object_path(VCJOB, "default", "").rstrip("/")


PODS = object_path(POD, "default", "").rstrip("/")
DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Runs all roles with two nodes of eight H200 and eight H800, and the queue of the design."""
    directory = tmp_path_factory.mktemp("seed")
    with started_installation(directory) as installation:
        api = installation.api
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name, product in (("a", H200), ("b", H800)):
            create_node(installation, name, product, {GPU: "8"})
        values = directory / "values.yaml"
        page = {"enabled": True, "page": True}
        scheduler = {"configuration": CONFIGURATION, "visibility": page}
        content = {"scheduler": scheduler, "webhooks": {"cardOverGrant": "warn", "admissions": list(routes())}}
        values.write_text(json.dumps(content), encoding="utf-8")
        installation.helm("install", RELEASE, CHART, f"--values={values}")
        installation.endpoints("scheduler", "visibility")
        for role in ROLES:
            installation.start(role)
        guarantee = {"resource": {"cpu": 2, "memory": "2Gi"}}
        create_queue(installation, "cr-queue1", QUOTA, capability={"cpu": 4, "memory": "4Gi"}, guarantee=guarantee)
        yield installation


def create_node(installed: Installation, name: str, product: str, cards: dict[str, str], **labels: str) -> None:
    """``cards``: allocatable resources that count cards; ``labels``: further labels of the vendor."""
    named = {
        f"{GPU}.{key}": value for key, value in {"product": product, "count": "8", "memory": "143771", **labels}.items()
    }
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", **cards}
    status = {"allocatable": amounts, "capacity": amounts}
    installed.api.create(NODE.path, {"metadata": {"name": name, "labels": named}, "status": status})


def create_queue(installed: Installation, name: str, quota: dict[str, int], **spec: Any) -> None:
    metadata = {"name": name, "annotations": {CARD_QUOTA: json.dumps(quota)}}
    queue = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": metadata, "spec": {"weight": 1, **spec}}
    installed.api.create(QUEUE.path, queue)
    path = object_path(QUEUE, "", name)
    installed.api.wait(path, lambda it: it.get("status", {}).get("state") == "Open", 60)


def template(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A Pod template that needs one H200, as the design writes it."""
    requests = {GPU: "1", "cpu": "8"}
    term = {"matchExpressions": [{"key": f"{GPU}.product", "operator": "In", "values": [H200]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    container = {"name": "c", "image": "nginx", "resources": {"requests": requests, "limits": requests}}
    return {
        "metadata": {"labels": {"app": "nginx"}, "annotations": {CARD_NAME: H200, **annotations}},
        "spec": {"affinity": {"nodeAffinity": affinity}, "containers": [container], **spec},
    }


def vcjob(name: str, cards: int) -> dict[str, Any]:
    spec = {
        "minAvailable": cards,
        "schedulerName": "volcano-py",
        "queue": "cr-queue1",
        "policies": [{"action": "CompleteJob", "event": "TaskCompleted"}],
        "tasks": [{"name": "master", "replicas": cards, "template": template({}, restartPolicy="Never")}],
    }
    metadata = {"name": name, "annotations": {CARD_REQUEST: json.dumps({H200: cards})}}
    return {"apiVersion": VCJOB.api_version, "kind": "Job", "metadata": metadata, "spec": spec}


def insufficient(requested: int, total: int) -> str:
    return (
        f"Queue <cr-queue1> has insufficient <{H200}> quota: requested <{requested}>, "
        f"total would be <{total}>, but capability is <3000>"
    )


def cards(installed: Installation) -> dict[str, str]:
    """The amounts of the queue itself in the entry of the H200 in its status."""
    found = installed.api.get(object_path(QUEUE, "", "cr-queue1"))["status"].get("cards", {}).get(H200, {})
    amounts = ("quota", "used", "inqueue", "requested", "online", "offline")
    return {key: found[key] for key in amounts if key in found}


def shown(installed: Installation, *arguments: str) -> str:
    done = run([*arguments, f"--kubeconfig={installed.plane.kubeconfig}"])
    assert done.returncode == 0, done.stderr
    return done.stdout


def page(installed: Installation) -> dict[str, Any]:
    """The overview that the web page shows an administrator; empty while the API server does not reach the
    scheduler."""
    try:
        found: dict[str, Any] = installed.api.get(f"/apis/{VISIBILITY_API_VERSION}/pages")
        return found
    except ApiError:
        return {}


def metric(installed: Installation, name: str, *, queue: str = "cr-queue1", **more: str) -> float | None:
    """The value of a metric of a queue. ``more``: its other labels."""
    with urlopen(f"http://127.0.0.1:{installed.roles['scheduler'].metrics}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    labels = {"queue_name": queue, **more}
    samples = (s for family in text_string_to_metric_families(text) for s in family.samples)
    return next((s.value for s in samples if s.name == name and s.labels == labels), None)


def test_cards_are_allowed_refused_counted_and_shown_as_the_design_says(installed: Installation) -> None:
    api = installed.api

    # The job of the design gets its two cards, although it requests more cpu than the queue may use.
    api.create(JOBS, vcjob("cr-job", 2))
    offline = {"quota": "3", "used": "2", "inqueue": "0", "requested": "2", "online": "0", "offline": "2"}
    wait(lambda: cards(installed) == offline, 60)

    # One replica of the Deployment fits in the quota; the other one is refused, with numbers on the Pod and in an
    # Event.
    body = {
        "metadata": {"name": "cr-deployment"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "nginx"}},
            "template": template({QUEUE_NAME_ANNOTATION: "cr-queue1"}, schedulerName="volcano-py"),
        },
    }
    api.create(DEPLOYMENT, body)
    both = {"quota": "3", "used": "3", "inqueue": "0", "requested": "4", "online": "1", "offline": "2"}
    wait(lambda: cards(installed) == both, 60)
    replicas = [pod for pod in api.get(PODS)["items"] if pod["metadata"]["name"].startswith("cr-deployment")]
    (waiting,) = [pod for pod in replicas if not pod["spec"].get("nodeName")]
    name = waiting["metadata"]["name"]

    def condition() -> str:
        found = api.get(f"{PODS}/{name}")["status"].get("conditions", [])
        return next((c["message"] for c in found if c["type"] == "PodScheduled"), "")

    def events(kind: str) -> list[str]:
        found = api.get("/api/v1/namespaces/default/events")["items"]
        return [event["message"] for event in found if event["involvedObject"]["kind"] == kind]

    wait(lambda: insufficient(1000, 4000) in condition(), 60, condition)
    wait(lambda: any(insufficient(1000, 4000) in text for text in events("Pod")), 60)

    # A job beyond the quota is not admitted: it gets no Pods, and an Event on its PodGroup says why.
    api.create(JOBS, vcjob("too-large", 5))
    wait(lambda: any(insufficient(5000, 8000) in text for text in events("PodGroup")), 60, lambda: events("PodGroup"))
    assert not [pod for pod in api.get(PODS)["items"] if pod["metadata"]["name"].startswith("too-large")]

    # The owner of the job sees the reason in the job.
    wait(lambda: insufficient(5000, 8000) in installed.plane.kubectl("get", "vcjob", "too-large", "-n", "default"), 60)
    assert insufficient(5000, 8000) in shown(installed, "job", "list", "-n", "default", "-o", "wide")

    # The same numbers in kubectl, the command line and metrics.
    def status() -> dict[str, Any]:
        found: dict[str, Any] = api.get(object_path(QUEUE, "", "cr-queue1"))["status"]
        return found

    wait(lambda: (status().get("running"), status().get("pending")) == (2, 1), 60, status)
    assert status()["allocated"][H200] == "3"
    table = installed.plane.kubectl("get", "queue", "cr-queue1", "-o", "wide")
    assert table.split()[:7] == ["NAME", "STATE", "WEIGHT", "PARENT", "RUNNING", "INQUEUE", "PENDING"]
    assert f"{H200}=3/3 (4 requested)" in table
    assert f"{H200}=3/3 (4 requested)" in shown(installed, "queue", "list", "-o", "wide")
    assert [H200, "3", "3", "3", "0", "4", "0", "3", "8", "8", "1", "2"] in [
        line.split() for line in shown(installed, "queue", "get", "cr-queue1").splitlines()
    ]
    (queue,) = json.loads(shown(installed, "queue", "top", "cr-queue1", "-o", "json"))["items"]
    (amounts_of_card,) = (each for each in queue["amounts"] if each["resource"] == H200)
    numbers = {"used": "3", "capability": "3", "guarantee": "3", "inqueue": "0", "requested": "4", "elastic": "0"}
    totals = {"granted": "3", "existing": "8", "healthy": "8"}
    assert amounts_of_card == {"queue": "cr-queue1", "resource": H200, **numbers, **totals}
    explained = shown(installed, "explain", "pod", name, "-n", "default")
    assert insufficient(1000, 4000) in " ".join(explained.split())
    assert [H200, "3", "3", "0", "4"] in [line.split() for line in explained.splitlines()]
    expected = {"allocated": 3000, "request": 4000, "capacity": 3000, "real_capacity": 3000, "deserved": 3000}
    for word, value in expected.items():
        assert metric(installed, f"volcano_queue_{word}_scalar_resources", resource=H200) == value, word
    for workload, value in {"online": 1, "offline": 2}.items():
        labels = {"card": H200, "namespace_name": "default", "workload": workload}
        assert metric(installed, "volcano_py_used_cards", **labels) == value, workload

    found = wait(lambda: page(installed), 60)
    amounts = {each["resource"]: each for each in found["queues"]["set"]["cr-queue1"]["amounts"]}
    assert (amounts[H200]["used"], amounts[H200]["capability"], amounts[H200]["use"]) == ("3", "3", 1.0)
    reasons = {row.get("job") or row["group"]: row["reason"] for row in found["waiting"]["set"].values()}
    assert insufficient(5000, 8000) in reasons["too-large"]
    assert [text for text in reasons.values() if insufficient(1000, 4000) in text]
    chips = {row["node"]: row["chips"] for row in found["nodes"]["set"].values()}
    assert chips == {"a": "fffffaaa", "b": "ffffffff"}

    # The quota is given back when the Deployment shrinks.
    api.patch(f"{DEPLOYMENT}/cr-deployment", {"spec": {"replicas": 0}})
    wait(lambda: cards(installed) == offline, 60)


def test_a_choice_of_cards_and_parts_of_cards_are_charged_for_what_pods_get(installed: Installation) -> None:
    d4090, d4090d, mps, mig = "NVIDIA-GeForce-RTX-4090", "NVIDIA-GeForce-RTX-4090-D", *list(QUOTA)[3:5]
    create_node(installed, "c", d4090, {GPU: "2"}, memory="24564")
    create_node(installed, "d", d4090d, {GPU: "2"}, memory="24564")
    create_node(installed, "e", H800, {f"{GPU}.shared": "4"}, memory="81559", replicas="2")
    create_node(installed, "f", H200, {"nvidia.com/mig-1g.18gb": "3"})
    create_queue(installed, "cr-queue2", {d4090: 1, d4090d: 1, mps: 1, mig: 2})

    def deploy(name: str, replicas: int, resource: str, annotation: str, card: str) -> None:
        annotations = {annotation: card, QUEUE_NAME_ANNOTATION: "cr-queue2"}
        requests = {resource: "1", "cpu": "1"}
        container = {"name": "c", "image": "nginx", "resources": {"requests": requests, "limits": requests}}
        pod = {
            "metadata": {"labels": {"app": name}, "annotations": annotations},
            "spec": {"schedulerName": "volcano-py", "containers": [container]},
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": pod}
        installed.api.create(DEPLOYMENT, {"metadata": {"name": name}, "spec": spec})

    deploy("either", 3, GPU, CARD_CARD, f"{d4090}|{d4090d}")
    deploy("mps", 2, f"{GPU}.shared", CARD_NAME, mps)
    deploy("mig", 2, "nvidia.com/mig-1g.18gb", CARD_NAME, mig)

    def figures() -> dict[str, dict[str, str]]:
        found = installed.api.get(object_path(QUEUE, "", "cr-queue2"))["status"].get("cards", {})
        return {card: {key: its[key] for key in ("quota", "used", "requested")} for card, its in found.items()}

    expected = {d4090: "112", d4090d: "111", mps: "112", mig: "222"}
    keys = ("quota", "used", "requested")
    wanted = {card: dict(zip(keys, numbers, strict=True)) for card, numbers in expected.items()}
    wait(lambda: {card: figures().get(card) for card in wanted} == wanted, 60, figures)

    def pods(app: str) -> list[dict[str, Any]]:
        return [pod for pod in installed.api.get(PODS)["items"] if pod["metadata"]["labels"].get("app") == app]

    def reasons(app: str) -> list[str]:
        found = [each for pod in pods(app) for each in pod["status"].get("conditions", []) if each["status"] == "False"]
        return [each["message"] for each in found if each["type"] == "PodScheduled"]

    assert sorted(pod["spec"].get("nodeName", "") for pod in pods("either")) == ["", "c", "d"]
    numbers = "quota: requested <1000>, total would be <2000>, but capability is <1000>"
    for app, models in (("either", (d4090, d4090d)), ("mps", (mps,))):
        (reason,) = wait(lambda name=app: reasons(name), 60)  # type: ignore[misc]
        assert all(f"insufficient <{card}> {numbers}" in reason for card in models), reason
    lines = [line.split() for line in shown(installed, "queue", "get", "cr-queue2").splitlines()]
    assert [mps, "1", "1", "1", "0", "2", "0", "3", "4", "4", "1", "0"] in lines
    assert [mig, "2", "2", "2", "0", "2", "1", "5", "3", "3", "2", "0", "CardOverGranted"] in lines
    listed = shown(installed, "queue", "list", "-o", "wide")
    whole = f"{d4090}=1/1 (2 requested, 3 granted, 2 existing, 2 healthy),{d4090d}=1/1"
    assert f"{whole},{mig}=2/2 (5 granted, 3 existing, 3 healthy),{mps}=1/1 (2 requested)" in listed

    deploy("mixed", 1, GPU, CARD_NAME, f"{d4090}|NVIDIA-H20/mig-1g.24gb-mixed")
    (reason,) = wait(lambda: reasons("mixed"), 60)
    assert "cannot stand for each other" in reason
    assert "is nvidia.com/gpu" in reason and "is nvidia.com/mig-1g.24gb" in reason


def test_pods_that_run_already_are_moved_to_a_queue_without_a_restart(installed: Installation) -> None:
    """Section 2.3.1 of the design: Pods that another scheduler has bound are not in a queue, and are shown as a row of
    their own. An annotation of their namespace charges them to a queue."""
    api, old = installed.api, "old"
    api.create(NAMESPACES.path, {"metadata": {"name": old}})
    create_queue(installed, "cr-queue3", {H200: 3})
    create_node(installed, "g", H200, {GPU: "8"})
    requests = {GPU: "1", "cpu": "2"}
    container = {"name": "c", "image": "nginx", "resources": {"requests": requests, "limits": requests}}
    pod_spec = {"schedulerName": "default-scheduler", "nodeName": "g", "containers": [container]}
    llm = {"matchLabels": {"app": "llm"}}
    made = {"metadata": {"labels": llm["matchLabels"]}, "spec": pod_spec}
    spec = {"replicas": 2, "selector": llm, "template": made}
    api.create(f"/apis/apps/v1/namespaces/{old}/deployments", {"metadata": {"name": "llm"}, "spec": spec})

    def uids() -> set[str]:
        return {pod["metadata"]["uid"] for pod in api.get(object_path(POD, old, "").rstrip("/"))["items"]}

    wait(lambda: len(uids()) == 2, 60)
    before = uids()

    def held() -> dict[str, Any]:
        """What counts in no queue, as the status of the root has it."""
        found: dict[str, Any] = api.get(object_path(QUEUE, "", "root"))["status"].get("withoutQueue") or {}
        return found

    def used() -> dict[str, str]:
        found = api.get(object_path(QUEUE, "", "cr-queue3"))["status"].get("cards", {}).get(H200, {})
        return {key: found.get(key, "") for key in ("used", "online", "offline")}

    # Their own row: in the status of the root queue, on the command line, in metrics, on the page.
    row = {"used": "2", "online": "2", "offline": "0"}
    wait(lambda: held().get("cards") == {H200: row} and held()["allocated"][GPU] == "2", 60, held)
    assert f"{H200}=2" in shown(installed, "queue", "list", "-o", "wide").splitlines()[-1]
    assert shown(installed, "queue", "list").splitlines()[-1].strip() == NO_QUEUE
    lines = [line.split() for line in shown(installed, "queue", "get", NO_QUEUE).splitlines()]
    assert [H200, "2", "2", "0"] in lines
    top = json.loads(shown(installed, "queue", "top", NO_QUEUE, "-o", "json"))
    assert {one["resource"]: one["used"] for one in top["items"][0]["amounts"]}[H200] == "2"
    counted_in = {"namespace": old, "owner": "Deployment/llm", "card": H200, "queue": NO_QUEUE}
    assert top["owners"] == [{**counted_in, "workload": "online", "used": "2"}]
    labels = {"card": H200, "namespace_name": old, "workload": "online", "owner": "Deployment/llm"}
    wait(lambda: metric(installed, "volcano_py_cards_without_queue", queue=NO_QUEUE, **labels) == 2, 60)
    assert metric(installed, "volcano_queue_allocated_scalar_resources", queue=NO_QUEUE, resource=H200) == 2000
    found = wait(lambda: (page(installed).get("queues") or {}).get("set", {}).get(NO_QUEUE), 60)
    assert {each["resource"]: each["used"] for each in found["amounts"]}[H200] == "2"
    quotas = api.get(f"/apis/{VISIBILITY_API_VERSION}/namespaces/{old}/queuequotas")["items"]
    assert [(item["queue"], {one["resource"]: one["used"] for one in item["amounts"]}[H200]) for item in quotas] == [
        (NO_QUEUE, "2")
    ]

    # An annotation without a queue is set aside with a Warning on the Namespace.
    api.patch(object_path(NAMESPACES, "", old), {"metadata": {"annotations": {CHARGED_QUEUE: "cr-queue33"}}})

    def warnings() -> list[str]:
        events = api.get("/api/v1/namespaces/default/events")["items"]
        return [event["message"] for event in events if event["involvedObject"]["kind"] == "Namespace"]

    expected = f"metadata.annotations[{CHARGED_QUEUE}]: queue 'cr-queue33' does not exist; did you mean 'cr-queue3'?"
    wait(lambda: any(text.startswith(expected) for text in warnings()), 60, warnings)
    assert held()["cards"] == {H200: row}

    # The queue is charged for them: its quota of three has room for one more Pod.
    api.patch(object_path(NAMESPACES, "", old), {"metadata": {"annotations": {CHARGED_QUEUE: "cr-queue3"}}})
    wait(lambda: used() == row and H200 not in held().get("cards", {}), 60, lambda: (used(), held()))
    wait(lambda: metric(installed, "volcano_py_cards_without_queue", queue="cr-queue3", **labels) == 2, 60)
    body = {
        "metadata": {"name": "new"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "nginx"}},
            "template": template({QUEUE_NAME_ANNOTATION: "cr-queue3"}, schedulerName="volcano-py"),
        },
    }
    api.create(DEPLOYMENT, body)
    wait(lambda: used() == {"used": "3", "online": "3", "offline": "0"}, 60, used)
    new = [pod for pod in api.get(PODS)["items"] if pod["metadata"]["name"].startswith("new-")]
    (waiting,) = [pod for pod in new if not pod["spec"].get("nodeName")]
    refusal = f"Queue <cr-queue3> has insufficient <{H200}> quota: requested <1000>, total would be <4000>"

    def condition() -> str:
        conditions = api.get(f"{PODS}/{waiting['metadata']['name']}")["status"].get("conditions", [])
        return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")

    wait(lambda: refusal in condition(), 60, condition)
    assert uids() == before
    api.delete(f"{DEPLOYMENT}/new")
