"""The chart on a real API server: installed with Helm, its roles run with the permissions it grants, every example
applied, upgraded, and uninstalled."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import pytest
import yaml

from controlplane.client import ApiError
from controlplane.manifests import NAMESPACE, RELEASE, ROOT
from controlplane.run import CRD_DIRECTORY
from scheduler.api.kinds import CLAIM, HYPER_NODE, NODE, QUEUE, SECRET, STORAGE_CLASS, VCJOB, VOLUME, object_path
from scheduler.api.names import SELECTED_NODE, SIGNING_KEY_SECRET
from scheduler.webhooks.routes import collection_of, name_of, routes
from tests.integration import examples
from tests.integration.confidential import confidential, leaked, recorded
from tests.integration.installation import EXAMPLES, ROLES, Installation, started_installation
from tests.integration.kind_scripts import DOCKER, FAKE_KIND, KIND, TESTER, Machine, as_kubelets
from tests.integration.stage import client_of, wait

pytestmark = pytest.mark.controlplane

CARDS = ROOT / "examples" / "scheduler.conf"
VALUES = yaml.safe_load((ROOT / "charts" / "volcano-py" / "values.yaml").read_text(encoding="utf-8"))
ADMISSIONS: list[str] = VALUES["webhooks"]["admissions"]
H200 = {"product": "NVIDIA-H200", "count": "8", "memory": "143771"}
RECORDS = "records"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A cluster with nodes, the packaged chart in a namespace for restricted Pods only, and all roles running."""
    with started_installation(tmp_path_factory.mktemp("chart"), definitions=False) as installed:
        api = installed.api
        restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": restricted}})
        for name, labels in (
            ("rack-a-node-0", {f"nvidia.com/gpu.{key}": value for key, value in H200.items()}),
            ("rack-a-node-1", {}),
            ("rack-b-node-0", {}),
        ):
            amounts = {"cpu": "32", "memory": "256Gi", "pods": "110", **({"nvidia.com/gpu": "8"} if labels else {})}
            api.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": {"capacity": amounts}})
        record = f"--set=scheduler.extraArgs={{--record={installed.directory / RECORDS}}}"
        installed.helm(
            "install", RELEASE, installed.package(), "--set=log.verbosity=4", record, "--wait", "--timeout=90s"
        )
        for role in ROLES:
            installed.start(role)
        api.wait(object_path(QUEUE, "", "default"), lambda queue: queue.get("status", {}).get("state") == "Open", 60)
        yield installed


@pytest.fixture
def stage(installation: Installation) -> examples.Stage:
    namespace = f"t{uuid4().hex[:8]}"
    installation.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    return examples.Stage(installation.plane, namespace)


def test_pods_of_all_roles_are_created_in_a_namespace_for_restricted_pods(installation: Installation) -> None:
    found = {each["metadata"]["name"]: each["status"] for each in installation.api.get(DEPLOYMENTS)["items"]}
    assert {name: status["readyReplicas"] for name, status in found.items()} == {
        f"{RELEASE}-scheduler": 1,
        f"{RELEASE}-controllers": 1,
        f"{RELEASE}-webhooks": 2,
    }


def test_api_servers_trust_the_webhooks_through_their_service(installation: Installation) -> None:
    hooks = [webhook(installation, path) for path in ADMISSIONS]
    assert {hook["clientConfig"]["service"]["name"] for hook in hooks} == {f"{RELEASE}-webhooks"}
    assert len({hook["clientConfig"]["caBundle"] for hook in hooks}) == 1
    with pytest.raises(ApiError, match="cannot use itself as parent"):
        installation.api.create(
            QUEUE.path,
            {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "a"}, "spec": {"parent": "a"}},
        )


@pytest.mark.parametrize("example", examples.OTHERS, ids=lambda example: example.__name__)
def test_an_example_has_its_described_result(example: Any, stage: examples.Stage) -> None:
    example(stage)


def test_a_vcjob_with_a_volume_of_its_own_gets_a_claim(stage: examples.Stage) -> None:
    (manifest,) = yaml.safe_load_all((EXAMPLES / "vcjob.yaml").read_text(encoding="utf-8"))
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    manifest["spec"]["volumes"] = [{"mountPath": "/data", "volumeClaim": claim}]
    stage.api.create(object_path(VCJOB, stage.namespace, "").rstrip("/"), manifest)
    stage.until(lambda: stage.api.get(object_path(CLAIM, stage.namespace, "").rstrip("/"))["items"])


def test_a_vcjob_uses_an_existing_volume_and_requests_another(stage: examples.Stage) -> None:
    there, made = (f"{stage.namespace}-{name}" for name in ("there", "made"))
    for name, provisioner in ((there, "kubernetes.io/no-provisioner"), (made, "example.com/maker")):
        kind = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        stage.api.create(object_path(STORAGE_CLASS, "", "").rstrip("/"), {"metadata": {"name": name}, **kind})
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": there}
    body = {"metadata": {"name": there}, "spec": {**volume, "hostPath": {"path": "/data"}}}
    stage.api.create(object_path(VOLUME, "", "").rstrip("/"), body)
    (manifest,) = yaml.safe_load_all((EXAMPLES / "vcjob.yaml").read_text(encoding="utf-8"))
    manifest["spec"]["volumes"] = [
        {"mountPath": f"/{name}", "volumeClaim": {**wanted, "storageClassName": name}} for name in (there, made)
    ]
    stage.api.create(object_path(VCJOB, stage.namespace, "").rstrip("/"), manifest)

    def claims() -> dict[str, Any]:
        items = stage.api.get(object_path(CLAIM, stage.namespace, "").rstrip("/"))["items"]
        return {claim["spec"]["storageClassName"]: claim for claim in items}

    stage.until(lambda: there in claims() and claims()[there]["spec"].get("volumeName") == there)
    stage.until(lambda: SELECTED_NODE in (claims()[made]["metadata"].get("annotations") or {}))


def test_every_example_has_a_test() -> None:
    tried = {example.__name__.replace("_", "-") for example in (*examples.OTHERS, *examples.NEEDS_CARDS)}
    assert {file.stem for file in EXAMPLES.glob("*.yaml")} == tried


def test_an_upgrade_applies_a_new_configuration_without_restarts(
    installation: Installation, stage: examples.Stage
) -> None:
    before = {name: generation(installation, name) for name in ROLES}
    bundle = webhook(installation, ADMISSIONS[0])["clientConfig"]["caBundle"]
    secret = object_path(SECRET, NAMESPACE, SIGNING_KEY_SECRET)
    signing_key = installation.api.get(secret)["data"]
    assert signing_key.keys() == {"key", "in-use-since"}
    installation.helm(
        "upgrade", RELEASE, installation.archive, "--reuse-values", f"--set-file=scheduler.configuration={CARDS}"
    )
    assert {name: generation(installation, name) for name in ROLES} == before
    assert webhook(installation, ADMISSIONS[0])["clientConfig"]["caBundle"] == bundle
    assert installation.api.get(secret)["data"] == signing_key
    installation.refresh("scheduler")
    stage.until(lambda: "configuration reloaded" in installation.roles["scheduler"].log)
    for example in examples.NEEDS_CARDS:
        example(stage)


def test_hyper_nodes_follow_the_labels_of_nodes(
    installation: Installation, stage: examples.Stage, tmp_path: Path
) -> None:
    label = "example.com/discovered-rack"
    types = {"racks": [{"nodeLabel": label}, {"nodeLabel": "kubernetes.io/hostname"}]}
    source = {"source": "label", "enabled": True, "config": {"networkTopologyTypes": types}}
    (tmp_path / "conf").write_text(yaml.safe_dump({"networkTopologyDiscovery": [source]}), encoding="utf-8")
    before = generation(installation, "controllers")
    installation.helm(
        "upgrade", RELEASE, installation.archive, "--reuse-values",
        f"--set-file=controllers.configuration={tmp_path / 'conf'}",
    )  # fmt: skip
    assert generation(installation, "controllers") == before

    def discovered() -> dict[str, tuple[list[str], int]]:
        items = stage.api.get(f"{HYPER_NODE.path}?labelSelector=volcano.sh/network-topology-source%3Dlabel")["items"]
        assert all((item["spec"]["tier"], item["spec"]["tierName"]) == (1, label) for item in items)
        return {
            item["metadata"]["labels"][label]: (
                [member["selector"]["exactMatch"]["name"] for member in item["spec"]["members"]],
                (item.get("status") or {}).get("nodeCount", 0),
            )
            for item in items
        }

    def put(node: str, rack: str | None) -> None:
        stage.api.patch(object_path(NODE, "", node), {"metadata": {"labels": {label: rack}}})

    one, other = "rack-a-node-0", "rack-a-node-1"
    put(one, "a")
    put(other, "a")
    stage.until(lambda: discovered() == {"a": ([one, other], 2)})
    put(other, "b")
    stage.until(lambda: discovered() == {"a": ([one], 1), "b": ([other], 1)})
    put(one, None)
    put(other, None)
    stage.until(lambda: discovered() == {})


def test_a_user_with_the_role_edit_may_have_vcjobs_and_sees_them(
    installation: Installation, stage: examples.Stage
) -> None:
    ask = ["auth", "can-i", "--as=editor", "--namespace", stage.namespace]
    binding = ["create", "rolebinding", "edit", "--clusterrole=edit", "--user=editor", "--namespace", stage.namespace]
    installation.plane.kubectl(*binding)
    kubectl = installation.plane.kubectl
    allowed = (("create", "jobs.batch.volcano.sh"), ("list", "podgroups"), ("delete", "jobflows"))
    stage.until(lambda: all(kubectl(*ask, verb, kind).strip() == "yes" for verb, kind in allowed))
    denied = [each for each in ("commands", "queues") if _denied(installation, *ask, "create", each)]
    assert denied == ["commands", "queues"]


def test_the_owner_of_a_queue_may_change_it_within_its_parent_and_no_other(
    installation: Installation, stage: examples.Stage
) -> None:
    """With the ClusterRole that docs/security.md shows."""
    parent, own = f"{stage.namespace}-parent", f"{stage.namespace}-own"
    for name, spec in ((parent, {"capability": {"cpu": "8"}}), (own, {"parent": parent, "capability": {"cpu": "4"}})):
        queue = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
        stage.api.create(QUEUE.path, queue)
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    (manifest,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    kubectl = installation.plane.kubectl
    kubectl("create", "-f", "-", stdin=manifest.replace("[research]", f"[{own}]"))
    role = yaml.safe_load(manifest)["metadata"]["name"]
    kubectl("create", "clusterrolebinding", role, f"--clusterrole={role}", "--user=owner")
    path = object_path(QUEUE, "", own)
    ask = ["auth", "can-i", "--as=owner", "patch"]
    stage.until(lambda: not _denied(installation, *ask, f"queues/{own}"))
    owner = client_of(installation.plane, "owner")
    assert owner.patch(path, {"spec": {"weight": 3}})["spec"]["weight"] == 3
    with pytest.raises(ApiError, match="exceeds its ancestor's capability"):
        owner.patch(path, {"spec": {"capability": {"cpu": "9"}}})
    others = [object_path(QUEUE, "", name) for name in (parent, "default", "root")]
    for refused in (*others, f"{path}/status"):
        with pytest.raises(ApiError, match=r"403.*cannot patch"):
            owner.patch(refused, {"spec": {"weight": 3}})
    with pytest.raises(ApiError, match=r"403.*cannot create"):
        owner.create(f"/apis/bus.volcano.sh/v1alpha1/namespaces/{stage.namespace}/commands", {})


def test_logs_recordings_events_and_metrics_contain_no_token_and_no_data_of_a_secret(
    installation: Installation, stage: examples.Stage
) -> None:
    password, variable = token_hex(16), token_hex(16)
    stage.api.create(
        f"/api/v1/namespaces/{stage.namespace}/secrets",
        {"metadata": {"name": "credentials"}, "stringData": {"password": password}},
    )
    (job,) = yaml.safe_load_all((EXAMPLES / "vcjob.yaml").read_text(encoding="utf-8"))
    job["spec"]["plugins"]["ssh"] = []
    for task in job["spec"]["tasks"]:
        reference = {"secretKeyRef": {"name": "credentials", "key": "password"}}
        environment = [{"name": "PASSWORD", "valueFrom": reference}, {"name": "TOKEN", "value": variable}]
        task["template"]["spec"]["containers"][0].setdefault("env", []).extend(environment)
    manifest = yaml.safe_dump(job)
    installation.plane.kubectl("apply", "--namespace", stage.namespace, "-f", "-", stdin=manifest)
    name = job["metadata"]["name"]
    stage.until(lambda: stage.phase(name) == "Running")
    secrets = confidential(installation.plane)
    assert password.encode() in secrets and any(b"PRIVATE KEY" in secret for secret in secrets)
    recordings = b"".join(recorded(installation.directory / RECORDS))
    assert stage.namespace.encode() in recordings
    assert variable.encode() not in recordings, "a recording has no environment"
    texts = [log.encode() for log in installation.logs()]
    texts += [json.dumps(installation.api.get("/api/v1/events")).encode()]
    for role in ROLES:
        with urlopen(f"http://127.0.0.1:{installation.roles[role].metrics}/metrics", timeout=10) as answer:
            texts.append(answer.read())
    assert leaked(secrets | {variable.encode()}, recordings, *texts) == []


def test_no_request_of_a_role_was_forbidden(installation: Installation) -> None:
    assert [request for request in installation.requests() if request.forbidden] == []
    assert [line for log in installation.logs() for line in log.splitlines() if "forbidden" in line.lower()] == []


@pytest.fixture(scope="module")
def kind_machine(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A machine on which the scripts of deploy/kind find this cluster."""
    variables = {
        "PLANE": str(installation.plane.kubeconfig),
        "TIMEOUT": "60s",
    }
    programs = {"docker": DOCKER, "kind": FAKE_KIND}
    return Machine(tmp_path_factory.mktemp("machine"), variables, programs, installation.plane.binaries)


def test_kind_up_builds_and_loads_the_image_and_installs_the_chart_with_it(
    kind_machine: Machine, installation: Installation
) -> None:
    done = kind_machine.run(KIND / "up.sh")
    assert done.returncode == 0, done.stdout + done.stderr
    containers = [
        container
        for deployment in installation.api.get(DEPLOYMENTS)["items"]
        for container in deployment["spec"]["template"]["spec"]["containers"]
    ]
    assert len(containers) == len(ROLES)
    assert {(each["image"], each["imagePullPolicy"]) for each in containers} == {("localhost/volcano-py:kind", "Never")}
    steps = [" ".join(call.split()[:2]) for call in kind_machine.calls() if not call.startswith("info")]
    assert steps == ["kind get", "kind export", "build --tag", "save --output", "kind load"]


def test_kind_test_runs_helm_test_and_examples_and_leaves_nothing(
    kind_machine: Machine, installation: Installation
) -> None:
    result = as_kubelets(kind_machine, installation)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "helm test and vcjob, job, jobflow, queues, deployment, statefulset," in result.stdout.splitlines()[-1]
    kinds = "pods,jobs.batch.volcano.sh,serviceaccounts,roles,rolebindings"
    left = partial(installation.plane.kubectl, "get", kinds, "--namespace", NAMESPACE, "--output=name")
    wait(lambda: TESTER not in left(), said=left)
    requests = {each for each in installation.requests() if f"{RELEASE}-{each.role}" == TESTER}
    assert {request[1:4] for request in requests} == {
        (verb, "batch.volcano.sh", "jobs") for verb in ("create", "list", "delete")
    }
    assert not any(request.forbidden for request in requests)


def test_kind_down_deletes_the_cluster_and_its_kubeconfig(kind_machine: Machine) -> None:
    assert kind_machine.run(KIND / "down.sh").returncode == 0
    assert kind_machine.calls()[-1].startswith("kind delete cluster --name volcano-py --kubeconfig ")
    assert not kind_machine.kubeconfig.exists()


def test_uninstalling_leaves_only_the_resource_definitions(installation: Installation) -> None:
    """Runs last."""
    released = [
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"])
        for each in installation.manifest()
    ]
    for role in installation.roles.values():
        role.process.stop()
    installation.helm("uninstall", RELEASE, "--wait")
    left = partial(
        installation.plane.kubectl,
        "get", "--all-namespaces", "--output=name", "--selector=app.kubernetes.io/instance=" + RELEASE,
        ",".join(sorted({kind for kind, _, _ in released} | {"ReplicaSet", "Pod", "EndpointSlice"})),
    )  # fmt: skip
    wait(lambda: left() == "", said=left)  # the garbage collector deletes what Deployments and Services made
    assert installation.plane.kubectl("get", "secrets,leases", "--namespace", NAMESPACE, "--output=name") == ""
    assert len(installation.plane.kubectl("get", "crds", "--output=name").splitlines()) == len(
        list(CRD_DIRECTORY.glob("*.yaml"))
    )


def webhook(installation: Installation, path: str) -> dict[str, Any]:
    route = routes()[path]
    found: dict[str, Any] = installation.api.get(f"{collection_of(route)}/{name_of(route)}")["webhooks"][0]
    return found


def generation(installation: Installation, role: str) -> int:
    return int(installation.api.get(f"{DEPLOYMENTS}/{RELEASE}-{role}")["metadata"]["generation"])


def _denied(installation: Installation, *arguments: str) -> bool:
    try:
        installation.plane.kubectl(*arguments)
    except Exception as error:  # its exit code says no
        return getattr(error, "stdout", "").strip() == "no"
    return False
