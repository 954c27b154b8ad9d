"""``explain`` and ``simulate`` compared with a real cluster: kube-controller-manager and our controllers create the
Pods, our scheduler places them."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from controlplane.run import ControlPlane
from scheduler.api.names import GROUP_NAME
from scheduler.cli.main import main
from tests.integration.rights import account
from tests.integration.stage import Namespace, a_control_plane, emptied, running, wait

pytestmark = pytest.mark.controlplane

APPS, JOBS = "/apis/apps/v1", "/apis/batch/v1"
BATCH = "/apis/batch.volcano.sh/v1alpha1"
BUDGETS = "/apis/policy/v1"
DEPLOYMENTS = f"{APPS}/namespaces/{{}}/deployments"
STATEFUL_SETS = f"{APPS}/namespaces/{{}}/statefulsets"
BATCH_JOBS = f"{JOBS}/namespaces/{{}}/jobs"
VCJOBS = f"{BATCH}/namespaces/{{}}/jobs"
WORKLOADS = (DEPLOYMENTS, STATEFUL_SETS, BATCH_JOBS, VCJOBS)
GENERATED = "[bcdfghjklmnpqrstvwxz2456789]"
Raw = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with everything that creates, places and runs Pods."""
    logs = tmp_path_factory.mktemp("logs")
    with a_control_plane() as started:
        started.start_kwok()
        started.start_controller_manager()
        options = ("--leader-elect=false",)
        with (
            running("controllers", account(started, "controllers"), logs, *options),
            running("scheduler", account(started, "scheduler"), logs, "--schedule-period=200ms", *options),
        ):
            yield started


@pytest.fixture
def place(plane: ControlPlane) -> Iterator[Namespace]:
    emptied(plane)
    made = Namespace(plane)
    yield made
    for path in WORKLOADS:
        made.api.delete(f"{path.format(made.name)}?propagationPolicy=Background")
    wait(lambda: not made.pods())


def template(place: Namespace, cpu: str = "1", labels: Raw | None = None) -> Raw:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "volcano-py", "nodeSelector": {"pool": place.name}, "containers": [container]}
    return {"metadata": {"labels": labels or {"app": "web"}}, "spec": spec}


def deployment(place: Namespace, replicas: int, cpu: str = "1") -> Raw:
    selector = {"matchLabels": {"app": "web"}}
    spec = {"replicas": replicas, "selector": selector, "template": template(place, cpu)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def stateful_set(place: Namespace) -> Raw:
    spec = {**deployment(place, 3)["spec"], "serviceName": "web"}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web"}, "spec": spec}


def job(place: Namespace) -> Raw:
    made = template(place)
    made["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": 3, "completions": 5, "template": made}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}, "spec": spec}


def vcjob(place: Namespace) -> Raw:
    made = template(place)
    made["spec"]["restartPolicy"] = "Never"
    tasks = [{"name": "w", "replicas": 3, "template": made}]
    spec = {"schedulerName": "volcano-py", "minAvailable": 1, "tasks": tasks}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "web"}, "spec": spec}


def explained(place: Namespace, kind: str, name: str, *options: str) -> Raw:
    line = ["explain", kind, name, "--kubeconfig", str(place.plane.kubeconfig), "-n", place.name, "-o", "json"]
    result = CliRunner().invoke(main, [*line, *options], prog_name="volcano-py")
    assert result.exit_code == 0, result.output
    document: Raw = json.loads(result.stdout)
    return document


def asked(place: Namespace, raw: Raw, directory: Path) -> Raw:
    """The answer of can-run about an object."""
    path = directory / "object.json"
    path.write_text(json.dumps(raw), encoding="utf-8")
    line = ["can-run", "-f", str(path), "--kubeconfig", str(place.plane.kubeconfig), "-n", place.name, "-o", "json"]
    result = CliRunner().invoke(main, line, prog_name="volcano-py")
    (item,) = json.loads(result.stdout)["items"]
    assert result.exit_code == {"runs": 0, "waits": 3, "never": 4}[item["verdict"]], result.output
    answer: Raw = item
    return answer


@pytest.mark.parametrize(
    ("path", "kind", "workload"),
    [
        (DEPLOYMENTS, "deploy", lambda place: deployment(place, 3)),
        (STATEFUL_SETS, "StatefulSet", stateful_set),
        (BATCH_JOBS, "job", job),
        (VCJOBS, "vj", vcjob),
    ],
    ids=["deployment", "stateful set", "batch job", "vcjob"],
)
def test_the_pods_that_a_workload_has_are_explained_and_no_others(
    place: Namespace, path: str, kind: str, workload: Callable[[Namespace], Raw], tmp_path: Path
) -> None:
    place.node("n1", cpu="2")
    before = asked(place, workload(place), tmp_path)
    gang = path == VCJOBS  # with a minimum of one Pod
    assert before["verdict"] == ("runs" if gang else "never"), before
    assert before["pods"] == {"all": 3, "needed": 1 if gang else 3, "findNode": 2, "placed": 2}
    place.api.create(path.format(place.name), workload(place))

    place.wait(lambda: len(place.bound()) == 2 and sum(by_group(place).values()) == 3 and "" not in by_group(place))

    waiting = next(pod["metadata"] for pod in place.pods() if not pod["spec"].get("nodeName"))
    found = explained(place, "pod", waiting["name"])
    assert (found["pods"]["all"], found["pods"]["placed"]) == (3, 2)
    assert "cpu: asked 1, used 2" in json.dumps(found["heldBy"])
    named = explained(place, kind, "web", "--no-changes")
    assert (named["podGroup"], named["pods"], named["outlook"]) == (found["podGroup"], found["pods"], "waits")


def test_before_a_deployment_grows_the_larger_one_is_asked_about(place: Namespace, tmp_path: Path) -> None:
    place.node("n1", cpu="2")
    path = DEPLOYMENTS.format(place.name)
    place.api.create(path, deployment(place, 1))
    place.wait(lambda: len(place.bound()) == 1 and "" not in by_group(place))

    two, three = (asked(place, deployment(place, replicas), tmp_path) for replicas in (2, 3))

    assert (two["verdict"], two["pods"]) == ("runs", {"all": 2, "needed": 2, "findNode": 2, "placed": 2})
    assert (three["verdict"], three["pods"]) == ("never", {"all": 3, "needed": 3, "findNode": 2, "placed": 2})
    place.api.patch(f"{path}/web", {"spec": {"replicas": 2}}, "merge")
    place.wait(lambda: len(place.bound()) == 2)


def test_during_a_rollout_each_replica_set_keeps_its_pods(place: Namespace) -> None:
    place.node("n1", cpu="2")
    path = DEPLOYMENTS.format(place.name)
    place.api.create(path, deployment(place, 3))
    place.wait(lambda: len(place.pods()) == 3 and len(place.bound()) == 2)

    changed = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
    place.api.patch(f"{path}/web", changed, "merge")
    place.wait(lambda: len(by_group(place)) == 2)
    place.api.patch(f"{path}/web", {"spec": {"paused": True}}, "merge")
    sizes = settled_sizes(place)

    assert {group: explained(place, "podgroup", group)["pods"]["all"] for group in sizes} == sizes


def by_group(place: Namespace) -> Counter[str]:
    """Maps each PodGroup to its Pods on the API server."""
    return Counter((pod["metadata"].get("annotations") or {}).get(GROUP_NAME, "") for pod in place.pods())


def settled_sizes(place: Namespace) -> Counter[str]:
    """The same, once it has been stable for a second and every Pod is in a PodGroup."""
    seen: list[Counter[str]] = []

    def unchanged() -> bool:
        seen.append(by_group(place))
        return len(seen) > 20 and all(sizes == seen[-1] for sizes in seen[-20:]) and "" not in seen[-1]

    place.wait(unchanged)
    return seen[-1]


def test_a_budget_is_counted_as_by_the_disruption_controller(place: Namespace) -> None:
    place.node("n1", cpu="3")
    place.api.create(DEPLOYMENTS.format(place.name), deployment(place, 3))
    place.wait(lambda: [pod["status"].get("phase") for pod in place.pods()] == ["Running"] * 3)
    budget = {"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}}
    place.api.create(f"{BUDGETS}/namespaces/{place.name}/poddisruptionbudgets", budget)

    def settled() -> Raw | None:
        status = place.api.get(f"{BUDGETS}/namespaces/{place.name}/poddisruptionbudgets/web").get("status") or {}
        return status if status.get("currentHealthy") == 3 else None

    real = place.wait(settled)
    assert simulated(place, "PodDisruptionBudget")[0]["status"] == {
        key: real[key] for key in ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
    }


def simulated(place: Namespace, kind: str) -> list[Raw]:
    """The objects of a kind in a simulation of a user's manifests in this namespace: no ReplicaSets, no Pods."""
    listed = []
    for path in (
        "/api/v1/nodes",
        DEPLOYMENTS.format(place.name),
        f"{BUDGETS}/namespaces/{place.name}/poddisruptionbudgets",
    ):
        found = place.api.get(path)
        for item in found["items"]:
            kept = {key: value for key, value in item["metadata"].items() if key in ("name", "namespace", "labels")}
            raw = {"apiVersion": found["apiVersion"], "kind": found["kind"].removesuffix("List"), **item}
            listed.append({**raw, "metadata": kept, **({} if raw["kind"] == "Node" else {"status": {}})})
    result = CliRunner().invoke(main, ["simulate", "-f", "-", "-o", "json"], input=yaml.safe_dump_all(listed))
    assert result.exit_code == 0, result.output
    return [raw for raw in json.loads(result.stdout)["items"] if raw["kind"] == kind]


def test_the_pods_of_a_simulated_deployment_are_those_of_the_real_one(place: Namespace) -> None:
    for number, cpu in enumerate(["32", "8", "8"]):  # with room for most on one node, and a preference to spread
        place.node(f"n{number}", cpu=cpu)
    place.api.create(DEPLOYMENTS.format(place.name), deployment(place, 9, "500m"))
    place.wait(lambda: len(place.bound()) == 9)

    pods = simulated(place, "Pod")

    assert Counter(pod["spec"].get("nodeName") for pod in pods) == Counter(place.bound().values())
    real, ours = place.pods()[0], pods[0]
    assert set(ours["metadata"]["labels"]) == set(real["metadata"]["labels"])
    assert set(ours["metadata"]["annotations"]) >= {GROUP_NAME}
    for pod in (real, ours):
        assert re.fullmatch(f"web-{GENERATED}{{1,10}}-{GENERATED}{{5}}", pod["metadata"]["name"])
    sets = place.api.get(f"{APPS}/namespaces/{place.name}/replicasets")["items"]
    (replica_set,) = simulated(place, "ReplicaSet")
    assert set(replica_set["spec"]["selector"]["matchLabels"]) == set(sets[0]["spec"]["selector"]["matchLabels"])
    (group,) = simulated(place, "PodGroup")
    assert (
        group["spec"]["minMember"] == place.get_group(real["metadata"]["annotations"][GROUP_NAME])["spec"]["minMember"]
    )
