"""The admission server on a real API server, with the permissions that its documentation lists and no others."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import pytest

from controlplane.client import ApiError, Client
from controlplane.process import free_ports
from controlplane.run import ControlPlane
from scheduler.api.names import CARD_QUOTA
from scheduler.webhooks.routes import Route, collection_of, configuration, name_of, routes
from tests.integration.crds import TEMPLATE
from tests.integration.programs import Program, run

pytestmark = pytest.mark.controlplane

SECRET = "mine"
PATHS = (
    *("/jobs/mutate", "/jobs/validate", "/podgroups/validate", "/queues/mutate", "/queues/validate"),
    *("/ascendjobs/validate", "/jobflows/validate", "/jobtemplates/validate"),
)
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
DENIED = 'admission webhook "validatequeue.volcano.sh" denied the request: '


class Process:
    """One admission server, reached by URL, which runs as a user with the rights that it needs."""

    def __init__(self, plane: ControlPlane, log: Path, options: Sequence[str]) -> None:
        self.plane = plane
        self.api = plane.admin
        self.namespace = f"t{uuid4().hex[:8]}"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        self.port, self.health = free_ports(2)
        self.log = log
        command = ["webhooks", "--kubeconfig", str(self._kubeconfig())]
        command += [f"--port={self.port}", "--listen-address=127.0.0.1", f"--healthz-address=127.0.0.1:{self.health}"]
        command += [f"--webhook-url=https://127.0.0.1:{self.port}", f"--webhook-namespace={self.namespace}"]
        command += ["--graceful-shutdown-time=200ms", "--log-format=json", *options]
        log.write_bytes(b"")
        self._process = Program(command, log)

    def _kubeconfig(self) -> Path:
        """The permissions that the documentation lists for a server that is reached by URL."""
        names = [name_of(route) for route in routes().values()]
        group, kinds = (
            "admissionregistration.k8s.io",
            ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        )
        self._grant(
            "ClusterRole",
            RBAC,
            [
                {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": ["flow.volcano.sh"], "resources": ["jobtemplates"], "verbs": ["list"]},
                {"apiGroups": [group], "resources": kinds, "resourceNames": names, "verbs": ["get", "patch"]},
                {"apiGroups": [group], "resources": kinds, "verbs": ["create"]},
            ],
        )
        self._grant(
            "Role",
            f"{RBAC}/namespaces/{self.namespace}",
            [
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [SECRET], "verbs": ["get", "patch"]},
                {"apiGroups": [""], "resources": ["podtemplates"], "verbs": ["create"]},
            ],
        )
        self.make_secret()
        return self.plane.kubeconfig_for(self._user)

    @property
    def _user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:webhooks"

    def _grant(self, kind: str, path: str, rules: list[dict[str, Any]]) -> None:
        group = "rbac.authorization.k8s.io"
        self.api.create(f"{path}/{kind.lower()}s", {"metadata": {"name": self.namespace}, "rules": rules})
        binding = {
            "metadata": {"name": self.namespace},
            "roleRef": {"kind": kind, "name": self.namespace, "apiGroup": group},
            "subjects": [{"kind": "User", "name": self._user, "apiGroup": group}],
        }
        self.api.create(f"{path}/{kind.lower()}bindings", binding)

    @property
    def secret(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/secrets/{SECRET}"

    def make_secret(self) -> None:
        self.api.create(f"/api/v1/namespaces/{self.namespace}/secrets", {"metadata": {"name": SECRET}})

    def stop(self) -> int:
        self._process.terminate()
        return self._process.wait(30)

    def wait(self, condition: Callable[[], Any], timeout: float = 30.0) -> Any:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and self._process.poll() is None:
            found = condition()
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"not within {timeout:.0f} s; the log ends: {self.log.read_text()[-3000:]}")

    def children(self) -> list[int]:
        pid = self._process.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]

    def said(self, text: str) -> int:
        return self.log.read_text(encoding="utf-8").count(text)

    def page(self, path: str) -> str:
        with urlopen(f"http://127.0.0.1:{self.health}{path}", timeout=10) as answer:
            return str(answer.read().decode())


def hook(api: Client, route: Route) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"{collection_of(route)}/{name_of(route)}")["webhooks"][0]
    return found


def in_force(api: Client) -> bool:
    """Whether our webhook refuses a bad queue (the API server takes a moment to load the configuration of webhooks)."""
    try:
        api.request("POST", f"{QUEUES}?dryRun=All", queue("probe", parent="probe"))
    except ApiError as error:
        return "cannot use itself as parent" in str(error)
    return False


def remove_configurations(api: Client) -> None:
    for route in routes().values():
        try:
            api.delete(f"{collection_of(route)}/{name_of(route)}")
        except ApiError as error:
            if error.status != 404:
                raise


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, **spec},
    }


def refusal(function: Callable[[], Any]) -> tuple[int, str]:
    """The status and message of a refused write."""
    with pytest.raises(ApiError) as refused:
        function()
    return refused.value.status, refused.value.body["message"]


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server with a certificate of its own, which has registered its webhooks itself."""
    log = tmp_path_factory.mktemp("webhooks") / "webhooks.log"
    process = Process(control_plane, log, [f"--enabled-admission={','.join(PATHS)}", f"--certificate-secret={SECRET}"])
    try:
        process.wait(lambda: in_force(control_plane.admin), 60.0)
        yield process
    finally:
        remove_configurations(control_plane.admin)
        children = process.children()
        assert process.stop() == 0
        assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []


@pytest.fixture
def api(server: Process) -> Client:
    return server.api


def test_it_registers_its_webhooks_as_they_are_described(server: Process, api: Client) -> None:
    for path in PATHS:
        route = routes()[path]
        stored = hook(api, route)
        bundle = stored["clientConfig"]["caBundle"]
        url = f"https://127.0.0.1:{server.port}"
        (wanted,) = configuration(route, url, bundle, server.namespace)["webhooks"]
        assert {key: stored[key] for key in wanted} == wanted
        assert bundle == api.get(server.secret)["data"]["ca.crt"]


def test_a_queue_gets_its_defaults_and_a_bad_one_is_refused_with_volcanos_words(server: Process, api: Client) -> None:
    name = f"{server.namespace}-a"
    stored = api.create(QUEUES, queue(name, capability={"cpu": "8"}, deserved={"cpu": "4"}))
    assert stored["spec"]["reclaimable"] is True
    assert refusal(lambda: api.patch(f"{QUEUES}/{name}", {"spec": {"deserved": {"cpu": "9"}}})) == (
        400,
        f'{DENIED}requestBody.spec.deserved.cpu: Invalid value: "9": deserved[cpu]=9 must be <= capability[cpu]=8',
    )
    too_large = queue(f"{name}-too-large", capability={"cpu": "1"}, guarantee={"resource": {"cpu": "2"}})
    assert refusal(lambda: api.create(QUEUES, too_large)) == (
        400,
        f'{DENIED}requestBody.spec.capability.cpu: Invalid value: "1": capability[cpu]=1 must be >= guarantee[cpu]=2',
    )
    _tried(lambda: api.create(QUEUES, queue("default")))  # there may be one already
    assert refusal(lambda: api.delete(f"{QUEUES}/default")) == (400, f"{DENIED}`default` queue can not be deleted")
    body = queue(f"{name}-cards")
    body["metadata"]["annotations"] = {CARD_QUOTA: '{"NVIDIA-H200": "many"}'}
    status, message = refusal(lambda: api.create(QUEUES, body))
    assert status == 400
    assert (
        f"metadata.annotations[{CARD_QUOTA}]: 'NVIDIA-H200': a string is not a number: write a JSON object" in message
    )


def test_a_queue_that_closes_can_be_changed(server: Process, api: Client) -> None:
    name = f"{server.namespace}-closing"
    api.create(QUEUES, queue(name, capability={"cpu": "8"}))
    for number, state in enumerate(("Closing", "Closed", "Unknown")):
        api.patch(f"{QUEUES}/{name}/status", {"status": {"state": state}})
        changed = {"metadata": {"labels": {"n": str(number)}}, "spec": {"capability": {"cpu": f"1{number}"}}}
        stored = api.patch(f"{QUEUES}/{name}", changed)
        assert (stored["status"]["state"], stored["spec"]["capability"]) == (state, {"cpu": f"1{number}"})


def test_a_vcjob_right_after_its_queue_is_accepted_and_gets_its_defaults(server: Process, api: Client) -> None:
    jobs = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
    for number in range(20):
        name = f"{server.namespace}-{number}"
        api.create(QUEUES, queue(name))
        manifest = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {"queue": name, "tasks": [{"replicas": 2, "template": TEMPLATE}]},
        }
        stored = api.create(jobs, manifest)
        assert (stored["spec"]["minAvailable"], stored["spec"]["tasks"][0]["name"]) == (2, "default0")


def test_likely_mistakes_are_warnings_that_kubectl_and_job_run_show(
    server: Process, api: Client, tmp_path: Path
) -> None:
    name = f"{server.namespace}-misspelt"
    api.create(QUEUES, queue(name))
    tasks = [{"replicas": 1, "template": TEMPLATE}]
    manifest = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"queue": name, "schedulerName": "vulcano-py", "minAvalable": 1, "tasks": tasks},
    }
    kubectl = [str(server.plane.binaries / "kubectl"), f"--kubeconfig={server.plane.kubeconfig}"]
    command = [*kubectl, "create", "--validate=warn", "--dry-run=server", "-f", "-"]
    done = subprocess.run(command, input=json.dumps(manifest), capture_output=True, text=True, check=True)
    assert 'Warning: unknown field "spec.minAvalable"\n' in done.stderr  # by the API server
    text = "spec.schedulerName: 'vulcano-py' is not a name of this scheduler (volcano-py); did you mean 'volcano-py'?"
    assert f"Warning: {text}\n" in done.stderr
    ours = tmp_path / "job.json"
    ours.write_text(json.dumps(manifest), encoding="utf-8")
    done = run(["job", "run", f"--kubeconfig={server.plane.kubeconfig}", "-f", str(ours)])
    assert done.stdout == f"run job {name} successfully\n"
    assert done.stderr.splitlines() == ['Warning: unknown field "spec.minAvalable"', f"Warning: {text}"]


def test_missing_templates_of_a_job_flow_are_warnings_that_kubectl_shows(server: Process, api: Client) -> None:
    flow_group = "/apis/flow.volcano.sh/v1alpha1/namespaces/default"
    name = f"{server.namespace}-train"
    tasks = [{"replicas": 1, "template": TEMPLATE}]
    manifest = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": name}}
    flows: list[dict[str, Any]] = [
        {"name": name},
        {"name": f"{server.namespace}-trian", "dependsOn": {"targets": [name]}},
    ]
    kubectl = [str(server.plane.binaries / "kubectl"), f"--kubeconfig={server.plane.kubeconfig}"]

    def warnings(flows: list[dict[str, Any]]) -> list[str]:
        written = json.dumps({**manifest, "spec": {"flows": flows}})
        command = [*kubectl, "apply", "--server-side", "-f", "-"]
        done = subprocess.run(command, input=written, capture_output=True, text=True, check=True)
        return [line for line in done.stderr.splitlines() if line.startswith("Warning: ")]

    template = {**manifest, "kind": "JobTemplate", "spec": {"tasks": tasks}}
    api.create(f"{flow_group}/jobtemplates", template)
    text = f"Warning: spec.flows[1].name: there is no JobTemplate '{flows[1]['name']}'; the step waits for it"
    assert warnings(flows) == [f"{text}; did you mean '{name}'?"]
    assert warnings(flows) == []
    assert warnings([*flows, {"name": "else"}]) == [
        "Warning: spec.flows[2].name: there is no JobTemplate 'else'; the step waits for it"
    ]


def test_a_template_of_jobs_that_can_never_start_is_refused(server: Process, api: Client) -> None:
    tasks = [
        {"name": "master", "replicas": 1, "template": TEMPLATE, "dependsOn": {"name": ["worker"]}},
        {"name": "worker", "replicas": 2, "template": TEMPLATE},
    ]
    spec = {"tasks": tasks, "plugins": {"pytorch": ["--wait-master-enabled"]}}
    template = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobTemplate", "spec": spec}
    made = {**template, "metadata": {"name": f"{server.namespace}-circle"}}
    status, message = refusal(
        lambda: api.create("/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobtemplates", made)
    )
    assert (status, "the job can never start: task master waits for 2 ready Pods" in message) == (400, True)


def test_a_large_vcjob_is_decided_on_in_a_process_of_its_own_which_is_replaced_when_it_is_killed(
    server: Process, api: Client
) -> None:
    jobs = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
    name = f"{server.namespace}-large"
    api.create(QUEUES, queue(name))
    tasks = [{"replicas": 2, "template": TEMPLATE}] * 1000
    manifest = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"queue": name, "tasks": tasks}}
    assert server.children() == []
    stored = api.create(jobs, {**manifest, "metadata": {"name": name}})
    assert (stored["spec"]["minAvailable"], stored["spec"]["tasks"][999]["name"]) == (2000, "default999")
    (worker,) = server.children()
    os.kill(worker, signal.SIGKILL)
    server.wait(lambda: server.children() == [])
    wrong = {**manifest, "spec": {"queue": "nowhere", "tasks": tasks}, "metadata": {"name": f"{name}-2"}}
    status, message = refusal(lambda: api.create(jobs, wrong))
    assert (status, "unable to find job queue" in message) == (400, True)
    assert len(server.children()) == 1


def test_a_vcjob_that_says_everything_is_stored_as_it_is(server: Process, api: Client) -> None:
    task = {"name": "w", "replicas": 1, "minAvailable": 1, "maxRetry": 3, "template": TEMPLATE}
    spec = {"queue": "default", "schedulerName": "volcano-py", "maxRetry": 3, "minAvailable": 1, "tasks": [task]}
    manifest = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": spec}
    _tried(lambda: api.create(QUEUES, queue("default")))  # there may be one already
    name = {"metadata": {"name": f"{server.namespace}-whole"}}
    stored = api.create("/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs", {**manifest, **name})
    assert stored["spec"] == spec


JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
HOOK = 'admission webhook "validatejob.volcano.sh" denied the request: '


def job_of(*images: str, **spec: Any) -> dict[str, Any]:
    """A vcjob with a task for each image; "": the image is left out."""
    containers = [{"name": "c", **({"image": image} if image else {})} for image in images]
    tasks = [{"replicas": 1, "template": {"spec": {"containers": [each]}}} for each in containers]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"generateName": "j-"},
        "spec": {"queue": "default", "tasks": tasks, **spec},
    }


def test_a_vcjob_is_refused_with_what_the_api_server_says_of_its_pod_templates(server: Process, api: Client) -> None:
    _tried(lambda: api.create(QUEUES, queue("default")))  # there may be one already
    missing = "template.spec.containers[0].image: Required value."
    assert refusal(lambda: api.create(JOBS, job_of("", "x", ""))) == (
        400,
        f"{HOOK}spec.task[0].{missing} spec.task[2].{missing}",
    )
    status, message = refusal(lambda: api.create(JOBS, job_of("", minAvailable=5)))
    assert (status, message) == (
        400,
        f"{HOOK}spec.task[0].{missing}  job 'minAvailable' should not be greater than total replicas in tasks;",
    )
    assert api.get(f"/api/v1/namespaces/{server.namespace}/podtemplates")["items"] == []


def test_an_ascend_job_that_cannot_work_is_refused(server: Process, api: Client) -> None:
    _tried(lambda: api.create(QUEUES, queue("default")))  # there may be one already
    path = "/apis/mindxdl.gitee.com/v1/namespaces/default/ascendjobs"
    hook = 'admission webhook "validateascendjob.volcano.sh" denied the request: '

    def create(pod: dict[str, Any], **run_policy: Any) -> Any:
        pod = {"containers": [{"name": "ascend", "image": "x"}], **pod}
        job = {
            "apiVersion": "mindxdl.gitee.com/v1",
            "kind": "AscendJob",
            "metadata": {"generateName": "a-", "labels": {"framework": "pytorch"}},
            "spec": {"replicaSpecs": {"Master": {"template": {"spec": pod}}}, "runPolicy": run_policy},
        }
        return api.create(path, job)

    status, message = refusal(lambda: create({"volumes": [{"name": "UP", "emptyDir": {}}]}))
    assert status == 400
    assert message.startswith(f"{hook}spec.replicaSpecs[Master].template.spec.volumes[0].name: Invalid value: ")
    missing = "InvalidContainer: there is no container named ascend in Master"
    assert refusal(lambda: create({"containers": [{"name": "a", "image": "x"}]})) == (400, f"{hook}{missing}")
    wrong = "InvalidQueue: queue nowhere does not exist"
    assert refusal(lambda: create({}, schedulingPolicy={"queue": "nowhere"})) == (400, f"{hook}{wrong}")
    stored = create({}, schedulingPolicy={"queue": "default", "minAvailable": 1})
    api.delete(f"{path}/{stored['metadata']['name']}")


def test_where_templates_cannot_be_validated_the_failure_policy_decides(server: Process, api: Client) -> None:
    route = routes()["/jobs/validate"]
    path = f"{collection_of(route)}/{name_of(route)}"
    binding = f"{RBAC}/namespaces/{server.namespace}/rolebindings/{server.namespace}"
    stored = api.get(binding)
    api.delete(binding)
    try:
        why = (
            "1 of 1 Pod templates could not be validated, the first that of spec.task[0]: PodTemplates may not be "
            f"created in namespace {server.namespace}, not even in a dry run (403)"
        )
        server.wait(lambda: "could not be validated" in _tried(lambda: api.create(JOBS, job_of(uuid4().hex))))
        status, message = refusal(lambda: api.create(JOBS, job_of(uuid4().hex)))
        assert status == 500
        assert 'failed calling webhook "validatejob.volcano.sh"' in message
        assert why in message
        status, message = refusal(lambda: api.create(JOBS, job_of(uuid4().hex, queue="nowhere")))
        no_queue = 'unable to find job queue: queue.scheduling.volcano.sh "nowhere" not found;'
        assert (status, message) == (400, f"{HOOK}{no_queue} {why}")
        api.patch(path, [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}], "json")
        server.wait(lambda: not _tried(lambda: api.create(JOBS, job_of(uuid4().hex))))
    finally:
        api.patch(path, [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}], "json")
        del stored["metadata"]["resourceVersion"], stored["metadata"]["uid"]
        api.create(binding.rpartition("/")[0], stored)
    server.wait(lambda: not _tried(lambda: api.create(JOBS, job_of(uuid4().hex))))
    server.wait(lambda: "Required value" in _tried(lambda: api.create(JOBS, job_of(""))))
    assert 'path="/jobs/validate",result="unvalidated"' in server.page("/metrics")


def test_a_pod_group_is_refused_by_a_queue_that_is_not_there_or_has_children(server: Process, api: Client) -> None:
    parent, child = f"{server.namespace}-p", f"{server.namespace}-c"
    api.create(QUEUES, queue(parent))
    api.create(QUEUES, queue(child, parent=parent))

    def group(of: str) -> dict[str, Any]:
        return {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"generateName": "g-"},
            "spec": {"minMember": 1, "queue": of},
        }

    path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
    denied = 'admission webhook "validatepodgroup.volcano.sh" denied the request: '
    missing = 'unable to find queue: queue.scheduling.volcano.sh "nowhere" not found'
    assert refusal(lambda: api.create(path, group("nowhere"))) == (400, denied + missing)
    server.wait(lambda: "has 1 child queues" in _tried(lambda: api.create(path, group(parent))))
    assert api.create(path, group(child))["spec"]["queue"] == child


def _tried(function: Callable[[], Any]) -> str:
    try:
        function()
    except ApiError as error:
        return str(error)
    return ""


def test_objects_of_its_own_namespace_are_not_reviewed(server: Process, api: Client) -> None:
    path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{server.namespace}/podgroups"
    manifest = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 1, "queue": "nowhere"},
    }
    assert api.create(path, manifest)["spec"]["queue"] == "nowhere"


def test_it_reports_readiness_and_counts_its_reviews(server: Process) -> None:
    assert server.page("/healthz") == server.page("/readyz") == "ok"
    metrics = server.page("/metrics")
    assert 'volcano_py_admission_requests_total{path="/queues/validate",result="denied"}' in metrics
    assert 'volcano_py_admission_seconds_bucket{le="0.01",path="/queues/validate"}' in metrics
    assert "volcano_py_admission_certificate_not_after_seconds" in metrics


def test_a_removed_certificate_authority_is_restored(server: Process, api: Client) -> None:
    route = routes()["/queues/validate"]
    path = f"{collection_of(route)}/{name_of(route)}"
    bundle = hook(api, route)["clientConfig"]["caBundle"]
    api.patch(path, [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}], "json")
    server.wait(lambda: hook(api, route)["clientConfig"].get("caBundle") == bundle)
    server.wait(lambda: in_force(api))


def test_an_emptied_secret_is_filled_with_new_keys_and_reviews_continue(server: Process, api: Client) -> None:
    before = api.get(server.secret)["data"]
    served = server.said("serving with a certificate")
    api.delete(server.secret)
    server.make_secret()
    server.wait(lambda: server.said("serving with a certificate") > served)
    after = api.get(server.secret)["data"]
    assert not {before[key] for key in before} & {after[key] for key in after}
    server.wait(lambda: hook(api, routes()["/queues/validate"])["clientConfig"]["caBundle"] == after["ca.crt"])
    server.wait(lambda: in_force(api))


GROUPS = """\
resourceGroups:
- resourceGroup: management
  object: {{key: namespace, value: [default]}}
  labels: {{nodetype: {value}}}
"""


def test_certificates_and_configurations_of_others_are_used_and_resource_groups_read_again(
    server: Process, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """An installation by a chart or a person: files for the certificate, and configurations created beforehand."""
    api, authority = control_plane.admin, control_plane.authority
    given = authority.issue(f"webhooks-{uuid4().hex[:8]}")
    remove_configurations(api)
    conf = tmp_path / "admission.conf"
    conf.write_text(GROUPS.format(value="first"), encoding="utf-8")
    route = routes()["/pods/mutate"]
    process = Process(
        control_plane,
        tmp_path / "webhooks.log",
        [
            "--enabled-admission=/pods/mutate",
            f"--admission-conf={conf}",
            f"--tls-cert-file={given.certificate}",
            f"--tls-private-key-file={given.key}",
            f"--ca-cert-file={authority.path}",
        ],
    )
    made = configuration(route, f"https://127.0.0.1:{process.port}", "", process.namespace)
    made["metadata"]["labels"] = {"made-by": "a-chart"}
    made["webhooks"][0]["timeoutSeconds"] = 7
    api.create(collection_of(route), made)

    def node_type() -> str:
        """The node type of a Pod that is created now."""
        pod = {"metadata": {"generateName": "p-"}, "spec": TEMPLATE["spec"]}
        try:
            stored = api.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
        except ApiError as error:
            return str(error)
        return str(stored["spec"].get("nodeSelector", {}).get("nodetype"))

    try:
        process.wait(lambda: node_type() == "first")
        assert (hook(api, route)["timeoutSeconds"], "data" in api.get(process.secret)) == (7, False)
        conf.write_text("resourceGroups: 3", encoding="utf-8")
        process.wait(lambda: process.said("resourceGroups: expected a list, got a number"))
        assert node_type() == "first"
        conf.write_text(GROUPS.format(value="second"), encoding="utf-8")
        process.wait(lambda: node_type() == "second")
    finally:
        process.stop()
        remove_configurations(api)
    server.wait(lambda: in_force(api))
