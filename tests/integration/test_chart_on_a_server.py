"""The chart on a real API server: every documented combination of values is accepted, an upgrade of the resource
definitions keeps their objects, and the program serves certificates of cert-manager."""

import base64
import json
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml

from controlplane import build
from controlplane.client import ApiError, Client
from controlplane.manifests import CHART, NAMESPACE, RELEASE
from scheduler.api.kinds import QUEUE, SECRET, VCJOB, Kind, object_path
from scheduler.api.names import SIGNING_KEY_SECRET
from scheduler.cluster.kube.serving.certificates import renewed, to_pem
from tests.integration import chart_values
from tests.integration.installation import Installation, started_installation
from tests.integration.stage import wait

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]
OTHER_DEFINITIONS = Path(__file__).parent / "other_definitions.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1"
API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.visibility.volcano-py.io"
WITHOUT_WEBHOOKS = "--set=webhooks.enabled=false"
NEW_DEFINITION, NEW_FIELD, OLD_FIELD = "jobflows.flow.volcano.sh", "reclaimable", "share"
"""What the older version of `older_chart` lacks, and what it required."""


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """A control plane with the namespaces that the chart names, and definitions of the Prometheus operator and of
    cert-manager."""
    with started_installation(tmp_path_factory.mktemp("chart"), definitions=False) as installed:
        labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
        for name in (NAMESPACE, "volcano-py", "mindx-dl"):
            installed.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        installed.plane.kubectl("apply", "--filename", OTHER_DEFINITIONS)
        installed.package()
        yield installed


def test_every_documented_combination_of_values_is_accepted(installation: Installation) -> None:
    objects: dict[str, Json] = {}
    for options in chart_values.combinations().values():
        for each in rendered(installation.plane.binaries / "helm", options):
            objects.setdefault(json.dumps(each), each)
    kinds = {each["kind"] for each in objects.values()}
    assert {"Certificate", "Issuer", "NetworkPolicy", "ServiceMonitor", "PrometheusRule", "APIService", "Pod"} <= kinds
    pods = {each["spec"]["serviceAccountName"] for each in objects.values() if each["kind"] == "Pod"}
    accounts = [
        each for each in objects.values() if each["kind"] == "ServiceAccount" and each["metadata"]["name"] in pods
    ]
    installation.plane.kubectl("apply", "--filename=-", stdin=as_list(accounts))  # a Pod needs one, also in a dry run
    command = [str(installation.plane.binaries / "kubectl"), f"--kubeconfig={installation.plane.kubeconfig}"]
    command += ["apply", "--dry-run=server", "--filename=-"]
    done = subprocess.run(command, input=as_list(objects.values()), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == len(objects)


def as_list(objects: Iterable[Json]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})


def rendered(helm: Path, options: Sequence[str]) -> list[Json]:
    """The objects of a combination of values, with those of `helm test`."""
    command: list[str | Path] = [helm, "template", RELEASE, CHART, f"--kube-version={build.kubernetes_version()}"]
    command += [f"--namespace={chart_values.namespace_of(options)}", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{options}: {done.stderr}"
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def test_an_upgrade_of_the_definitions_keeps_their_objects(installation: Installation, tmp_path: Path) -> None:
    api = installation.api
    queue, job = object_path(QUEUE, "", "team"), object_path(VCJOB, "default", "train")

    def identities() -> list[str]:
        return [api.get(path)["metadata"]["uid"] for path in (queue, job)]

    installation.helm("install", RELEASE, older_chart(tmp_path), WITHOUT_WEBHOOKS)
    api.create(QUEUE.path, body(QUEUE, "team", {"weight": 3, OLD_FIELD: "x"}))
    task = {"replicas": 1, "template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}}
    api.create(VCJOB.path_in("default"), body(VCJOB, "train", {"tasks": [task]}))
    before = identities()

    installation.helm("upgrade", RELEASE, installation.archive, "--reset-then-reuse-values")
    assert NEW_DEFINITION not in definitions(api), "Helm does not upgrade definitions"
    shown = installation.helm("show", "crds", installation.archive)
    installation.plane.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=shown)

    ours = {name for name in definitions(api) if "volcano.sh" in name or "mindxdl" in name}
    assert ours == {definition_of(path)["metadata"]["name"] for path in (CHART / "crds").iterdir()}
    new = body(QUEUE, "other", {NEW_FIELD: False})
    wait(lambda: is_accepted(api, f"{QUEUE.path}?fieldValidation=Strict", new))
    found = api.get(queue)["spec"]
    assert (found["weight"], OLD_FIELD in found) == (3, False)
    assert identities() == before

    installation.helm("uninstall", RELEASE)
    assert identities() == before
    installation.helm("install", RELEASE, installation.archive, WITHOUT_WEBHOOKS)
    assert identities() == before
    installation.helm("uninstall", RELEASE)


def older_chart(directory: Path) -> Path:
    """The chart as an older version could be: a definition and a field are missing, and another field is required."""
    chart = directory / "volcano-py"
    copytree(CHART, chart)
    for path in (chart / "crds").iterdir():
        definition = definition_of(path)
        if definition["metadata"]["name"] == NEW_DEFINITION:
            path.unlink()
        elif definition["metadata"]["name"] == "queues.scheduling.volcano.sh":
            spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
            del spec["properties"][NEW_FIELD]
            spec["properties"][OLD_FIELD] = {"type": "string"}
            spec["required"] = [OLD_FIELD]
            path.write_text(yaml.safe_dump(definition), encoding="utf-8")
    return chart


def definition_of(path: Path) -> Json:
    found: Json = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def definitions(api: Client) -> set[str]:
    """The names of the resource definitions of the cluster."""
    return {each["metadata"]["name"] for each in api.get(DEFINITIONS)["items"]}


def body(kind: Kind, name: str, spec: Json) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "spec": spec}


def is_accepted(api: Client, path: str, manifest: Json) -> bool:
    try:
        api.create(path, manifest)
    except ApiError:
        return False
    return True


def test_the_program_serves_certificates_of_cert_manager(installation: Installation) -> None:
    """The test plays cert-manager: it issues the certificates, and writes their authorities into the objects that ask
    for them."""
    api = installation.api
    values = "--set=certManager.enabled=true,scheduler.visibility.enabled=true"
    installation.helm("install", RELEASE, installation.archive, values)
    for role in ("webhooks", "scheduler"):
        authority = issue(api, role)
        inject(api, role, authority)
    installation.endpoints("scheduler", "visibility")
    for role in ("webhooks", "scheduler"):
        installation.start(role)

    with pytest.raises(ApiError, match="cannot use itself as parent"):
        api.create(QUEUE.path, body(QUEUE, "a", {"parent": "a"}))
    api.wait(API_SERVICE, lambda found: {"Available": "True"} in conditions(found), 60)
    requests = installation.requests()
    assert [str(request) for request in requests if request.forbidden] == []
    maintained = ("apiservices", "mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    assert [str(request) for request in requests if request.resource in maintained] == []
    secrets = {request.name for request in requests if request.resource == "secrets"}
    assert secrets == {SIGNING_KEY_SECRET}  # neither role reads the Secret of its certificate from the API server


def test_without_cert_manager_again_the_program_replaces_its_certificates(installation: Installation) -> None:
    """Runs after the test with cert-manager."""
    api = installation.api
    values = "--set=certManager.enabled=false,scheduler.visibility.enabled=true"
    installation.helm("upgrade", "--install", RELEASE, installation.archive, values)
    for role in installation.roles.values():
        role.process.stop()
    installation.start("webhooks")

    def refusal() -> str:
        try:
            api.create(QUEUE.path, body(QUEUE, "a", {"parent": "a"}))
        except ApiError as error:
            return str(error)
        return ""

    wait(lambda: "cannot use itself as parent" in refusal(), said=refusal)
    assert "cert-manager.io/inject-ca-from" not in installation.helm("get", "manifest", RELEASE)


def issue(api: Client, role: str) -> str:
    """Creates the Secret of a Certificate. Returns the authority in base64."""
    path = f"/apis/cert-manager.io/v1/namespaces/{NAMESPACE}/certificates/{RELEASE}-{role}"
    spec = api.get(path)["spec"]
    pem = to_pem(renewed(None, spec["dnsNames"], datetime.now(UTC)))
    data = {key: base64.b64encode(pem[key]).decode() for key in ("tls.crt", "tls.key", "ca.crt")}
    secret = {"metadata": {"name": spec["secretName"]}, "type": "kubernetes.io/tls", "data": data}
    api.create(SECRET.path_in(NAMESPACE), secret)
    return data["ca.crt"]


def inject(api: Client, role: str, authority: str) -> None:
    """Writes the authority of a Certificate into the objects with its annotation."""

    def asks(found: Json) -> bool:
        annotations = found["metadata"].get("annotations") or {}
        return bool(annotations.get("cert-manager.io/inject-ca-from") == f"{NAMESPACE}/{RELEASE}-{role}")

    for kind in ("mutating", "validating"):
        collection = f"{REGISTRATIONS}/{kind}webhookconfigurations"
        for found in filter(asks, api.get(collection)["items"]):
            for webhook in found["webhooks"]:
                webhook["clientConfig"]["caBundle"] = authority
            api.patch(f"{collection}/{found['metadata']['name']}", {"webhooks": found["webhooks"]})
    if asks(api.get(API_SERVICE)):
        api.patch(API_SERVICE, {"spec": {"caBundle": authority}})


def conditions(found: Json) -> list[dict[str, str]]:
    return [{each["type"]: each["status"]} for each in found.get("status", {}).get("conditions", ())]
