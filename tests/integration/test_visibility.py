"""Tenants with the ClusterRole `edit` in one namespace, on a real control plane with the chart: they get the reasons of
their own jobs, the quota of their queues and their positions, and no data of other namespaces."""

import asyncio
import http.client
import json
import ssl
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from controlplane.client import ApiError, Client
from controlplane.credentials import Authority
from controlplane.manifests import NAMESPACE, RELEASE
from controlplane.process import Process, free_ports
from controlplane.run import CONTROLLERS
from scheduler.api.kinds import DEPLOYMENT, JOB_FLOW, POD, POD_GROUP, QUEUE, VCJOB
from scheduler.api.names import OVERVIEW, VISIBILITY_API_VERSION
from scheduler.cli.main import main
from scheduler.cli.visibility_worker import COMMAND
from scheduler.observability.overview import Overview, Rights, changes, view
from tests.browser.chromium import chromium
from tests.integration.confidential import confidential, leaked
from tests.integration.installation import ROLES, Installation, started_installation
from tests.integration.stage import client_of, wait

pytestmark = pytest.mark.controlplane

RBAC = "/apis/rbac.authorization.k8s.io/v1"
API = f"/apis/{VISIBILITY_API_VERSION}"
API_SERVICE = "/apis/apiregistration.k8s.io/v1/apiservices/v1alpha1.visibility.volcano-py.io"
OTHERS = ("secret-team", "secret-running", "secret-waiting", "secret-queue", "secret-node")
MINE = f"{API}/namespaces/research"
USERS = count()
REQUEST_TIMEOUT = 30.0
"""The seconds after which the API server ends requests."""


def queue(name: str, cpu: str) -> dict[str, Any]:
    head = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": name}}
    return {**head, "spec": {"weight": 1, "capability": {"cpu": cpu}}}


def vcjob(name: str, cpu: str, queue: str) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    task = {"name": "w", "replicas": 1, "template": template}
    spec = {"schedulerName": "volcano-py", "minAvailable": 1, "queue": queue, "tasks": [task]}
    return {"apiVersion": VCJOB.api_version, "kind": "Job", "metadata": {"name": name}, "spec": spec}


def phase_of(api: Client, namespace: str, name: str) -> str:
    job = api.get(f"{VCJOB.path_in(namespace)}/{name}")
    return str(((job.get("status") or {}).get("state") or {}).get("phase"))


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One node of 8 cpu and the queue `gold` of 4 cpu. In this queue, a job of another team runs, and another one waits
    before ours."""
    limit = f"--request-timeout={REQUEST_TIMEOUT:.0f}s"
    with started_installation(tmp_path_factory.mktemp("visibility"), [limit]) as installed:
        api = installed.api
        for name in (NAMESPACE, "research", "secret-team"):
            api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        api.create("/api/v1/nodes", {"metadata": {"name": "secret-node"}, "status": {"capacity": amounts}})
        options = ["--set=scheduler.visibility.enabled=true", "--set=scheduler.visibility.page=true", "--timeout=90s"]
        installed.helm("install", RELEASE, installed.package(), *options)
        for role, port in (("scheduler", "visibility"), ("webhooks", "webhook")):
            installed.endpoints(role, port)
        for role in ROLES:
            installed.start(role)
        wait(lambda: is_available(api), 60)
        for name, cpu in (("gold", "4"), ("secret-queue", "1")):
            api.create(QUEUE.path, queue(name, cpu))
        for namespace, name, cpu in (
            ("secret-team", "secret-running", "3"),
            ("secret-team", "secret-waiting", "2"),
            ("research", "train", "2"),
        ):
            time.sleep(1.1)  # the older job is the first one, and times are whole seconds
            api.create(VCJOB.path_in(namespace), vcjob(name, cpu, "gold"))
            expected = "Running" if name == "secret-running" else "Pending"
            wait(lambda ns=namespace, n=name, e=expected: phase_of(api, ns, n) == e, 60)  # type: ignore[misc]
        api.create(VCJOB.path_in("secret-team"), vcjob("secret-other", "1", "secret-queue"))
        group = "rbac.authorization.k8s.io"
        for namespace, user in (("research", "alice"), ("secret-team", "bob")):
            subjects = [
                {"apiGroup": group, "kind": "User", "name": user},
                {"apiGroup": group, "kind": "Group", "name": namespace},
            ]
            edit = {"apiGroup": group, "kind": "ClusterRole", "name": "edit"}
            binding = {"metadata": {"name": "edit"}, "roleRef": edit, "subjects": subjects}
            api.create(f"{RBAC}/namespaces/{namespace}/rolebindings", binding)
        yield installed


@dataclass(frozen=True)
class OpenPage:
    """The events of a page, as a client of the API server gets them."""

    answer: http.client.HTTPResponse
    opened: float


@pytest.fixture(scope="module")
def open_page(alice: Client) -> Iterator[OpenPage]:
    host, port = alice._address
    connection = http.client.HTTPSConnection(host, port, context=alice._tls, timeout=60)
    connection.request("GET", f"{MINE}/pages?watch=true", headers=alice._headers)
    yield OpenPage(connection.getresponse(), time.monotonic())
    connection.close()


def is_available(api: Client) -> bool:
    conditions = api.get(API_SERVICE).get("status", {}).get("conditions", ())
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)


@pytest.fixture(scope="module")
def alice(installation: Installation) -> Client:
    client = client_of(installation.plane, "alice")
    for _ in range(24):
        if get(client, f"{MINE}/queuequotas"):
            return client
        time.sleep(2.5)  # a user may ask a question every two seconds, after the first ten
    raise AssertionError("not answered within a minute")


@pytest.fixture
def kubeconfig(installation: Installation, alice: Client) -> Path:
    """The kubeconfig of a different user of the namespace in each test, because a user may ask ten questions in a
    row."""
    return installation.plane.kubeconfig_for(f"alice-{next(USERS)}", ("research",))


def get(client: Client, path: str) -> Any:
    """The answer; None while it is refused."""
    try:
        return client.get(path)
    except ApiError:
        return None


def run(kubeconfig: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--kubeconfig", str(kubeconfig)], prog_name="volcano-py")


def assert_nothing_of_others(text: str) -> None:
    assert [name for name in OTHERS if name in text] == []


def test_direct_reads_are_forbidden_to_the_tenant(alice: Client) -> None:
    for path in ("/api/v1/nodes", QUEUE.path, VCJOB.path_in("secret-team"), "/api/v1/pods"):
        with pytest.raises(ApiError, match="403"):
            alice.get(path)


def test_the_tenant_gets_the_reason_and_the_position_of_the_own_job(kubeconfig: Path) -> None:
    result = run(kubeconfig, "explain", "job", "train", "-n", "research")

    assert result.exit_code == 0, result.output
    assert "number 2 of 2 that wait" in result.stdout
    assert "gold" in result.stdout and "cpu" in result.stdout
    assert_nothing_of_others(result.output)


def test_the_answer_as_json_has_the_numbers_of_the_queue_and_no_names_of_others(kubeconfig: Path) -> None:
    result = run(kubeconfig, "explain", "job", "train", "-n", "research", "-o", "json")

    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["turn"] == {"position": 2, "waiting": 2, "before": []}
    assert {"queue": "gold", "resource": "cpu", "used": "3", "deserved": "3", "capability": "4"} in found["queues"]
    assert_nothing_of_others(result.output)


def test_the_tenant_asks_about_workloads_by_their_names(installation: Installation, kubeconfig: Path) -> None:
    labels = {"app": "web"}
    pod = {"schedulerName": "volcano-py", "containers": [{"name": "c", "image": "a:1"}]}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    installation.api.create(DEPLOYMENT.path_in("research"), {"metadata": {"name": "web"}, "spec": spec})
    flow = {"apiVersion": JOB_FLOW.api_version, "kind": "JobFlow", "metadata": {"name": "nightly"}}
    flow["spec"] = {"flows": [{"name": "prepare"}], "jobRetainPolicy": "retain"}
    installation.api.create(JOB_FLOW.path_in("research"), flow)

    scaled = run(kubeconfig, "explain", "deploy/web", "-n", "research")
    steps = run(kubeconfig, "explain", "jobflow", "nightly", "-n", "research")
    missing = run(kubeconfig, "explain", "sts", "missing", "-n", "research")
    others = [run(kubeconfig, "explain", kind, "missing", "-n", "research") for kind in ("ds", "cronjob")]

    assert "it asks for no Pods (spec.replicas is 0)" in scaled.stdout, scaled.output
    assert "step prepare waits for JobTemplate research/prepare, which does not exist" in steps.stdout, steps.output
    assert "there is no statefulset missing in namespace research" in missing.output
    assert all("missing in namespace research" in other.output for other in others)
    assert_nothing_of_others(scaled.output + steps.output + missing.output)


def test_the_tenant_gets_the_quota_of_the_own_queue_and_sees_no_other_queue(kubeconfig: Path) -> None:
    listed = run(kubeconfig, "queue", "list", "-o", "json")
    assert listed.exit_code != 0  # the context has no namespace, so it is `default`, where alice has no rights
    document = json.loads(run(with_namespace(kubeconfig, "research"), "queue", "list", "-o", "json").stdout)

    (item,) = document["items"]
    assert (item["queue"], item["state"], item["jobs"]) == ("gold", "Open", {"running": 1, "waiting": 2})
    (cpu,) = (amounts for amounts in item["amounts"] if amounts["resource"] == "cpu" and amounts["queue"] == "gold")
    assert (cpu["used"], cpu["deserved"], cpu["capability"]) == ("3", "3", "4")
    assert_nothing_of_others(json.dumps(document))
    table = run(with_namespace(kubeconfig, "research"), "queue", "get", "gold")
    assert table.exit_code == 0 and "Capability" in table.stdout, table.output
    other = run(with_namespace(kubeconfig, "research"), "queue", "get", "secret-queue")
    assert other.exit_code == 1 and "forbidden" in other.output


def with_namespace(kubeconfig: Path, namespace: str) -> Path:
    content = json.loads(kubeconfig.read_text(encoding="utf-8"))
    content["contexts"][0]["context"]["namespace"] = namespace
    path = kubeconfig.with_name(f"{namespace}-{kubeconfig.name}")
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "command",
    [["job", "view", "train"], ["job", "top", "--no-watch"], ["podgroup", "list"], ["pod", "list"], ["job", "list"]],
    ids=" ".join,
)
def test_commands_about_the_own_namespace_need_no_more_rights(kubeconfig: Path, command: list[str]) -> None:
    result = run(kubeconfig, *command, "-n", "research")

    assert result.exit_code == 0, result.output
    assert "train" in result.stdout or command == ["pod", "list"]  # it is not admitted, so it has no Pods
    assert_nothing_of_others(result.output)


def test_the_tenant_gets_the_position_in_the_list_of_jobs(kubeconfig: Path) -> None:
    result = run(kubeconfig, "job", "list", "--position", "-n", "research")

    assert result.exit_code == 0, result.output
    header, row = result.stdout.strip().splitlines()
    assert header.split()[-1] == "Position" and row.split()[-1] == "2/2"
    assert_nothing_of_others(result.output)


def test_the_administrator_gets_the_same_position_without_the_scheduler(installation: Installation) -> None:
    result = run(installation.plane.kubeconfig, "job", "list", "--position", "-n", "research")

    assert result.exit_code == 0, result.output
    assert result.stdout.strip().splitlines()[-1].split()[-1] == "2/2"


def test_kubectl_and_the_wide_list_show_the_owner_what_the_job_waits_for(
    installation: Installation, kubeconfig: Path
) -> None:
    shown = installation.plane.kubectl("get", "vcjob", "train", "-n", "research", "--as=alice")

    assert "MESSAGE" in shown and "cpu" in shown.splitlines()[1]
    wide = run(kubeconfig, "job", "list", "-n", "research", "-o", "wide")
    assert "cpu" in wide.stdout.splitlines()[1]
    assert_nothing_of_others(shown + wide.output)


def test_kubectl_lists_the_quotas(installation: Installation, alice: Client) -> None:
    listed = ("get", "queuequotas", "-n", "research", "--as=alice")

    assert installation.plane.kubectl(*listed).splitlines()[1].split()[0] == "gold"
    (found,) = yaml.safe_load(installation.plane.kubectl(*listed, "-o", "yaml"))["items"]
    assert (found["kind"], found["metadata"]["name"], found["state"]) == ("QueueQuota", "gold", "Open")


@pytest.mark.parametrize("what", ["jobs/secret-waiting/explain", "queuequotas", "pods/secret-running-w-0/explain"])
def test_questions_about_another_namespace_are_refused_by_rbac(alice: Client, what: str) -> None:
    with pytest.raises(ApiError, match="403"):
        alice.get(f"{API}/namespaces/secret-team/{what}")


def test_a_user_without_rights_gets_nothing(installation: Installation) -> None:
    with pytest.raises(ApiError, match="403"):
        client_of(installation.plane, "mallory").get(f"{MINE}/queuequotas")


def test_a_job_of_another_namespace_is_not_found_in_the_own(alice: Client) -> None:
    with pytest.raises(ApiError, match="404 there is no job secret-waiting in namespace research"):
        alice.get(f"{MINE}/jobs/secret-waiting/explain")


def test_many_accounts_of_another_namespace_do_not_keep_a_tenant_from_the_answer(
    installation: Installation, kubeconfig: Path
) -> None:
    """A tenant can create any number of ServiceAccounts, each of which would have the rate of a user."""
    plane, stop = installation.plane, threading.Event()
    path = f"{API}/namespaces/secret-team/jobs/secret-running/explain"
    statuses: Counter[str] = Counter()

    def ask(number: int) -> None:
        account = plane.kubeconfig_for(f"system:serviceaccount:secret-team:a{number}", ("secret-team",))
        client = client_with(installation, token_of(account))
        while not stop.is_set():
            try:
                client.get(path)
                statuses["200"] += 1
            except ApiError as error:
                statuses[str(error.status)] += 1
            stop.wait(0.2)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    try:
        wait(lambda: statuses["429"] >= 24)
        result = run(kubeconfig, "explain", "job", "train", "-n", "research")
        with pytest.raises(ApiError, match="404 there is no job typo in namespace research"):
            client_with(installation, token_of(kubeconfig)).get(f"{MINE}/jobs/typo/explain")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert result.exit_code == 0, (result.output, statuses)
    assert "number 2 of 2 that wait" in result.stdout
    assert set(statuses) <= {"200", "429"}, statuses


def client_with(installation: Installation, token: str) -> Client:
    host, port = installation.api._address
    return Client(host, port, token, installation.plane.authority.client_context())


# --- before a job is submitted ----------------------------------------------------------------------------------------
VERDICTS = {"first": "runs", "second": "waits", "third": "never"}
"""Jobs in a queue of 2 cpu that use 1, 2 and 3 cpu."""


@pytest.fixture
def submissions(installation: Installation) -> Iterator[list[dict[str, Any]]]:
    api = installation.api
    api.create(QUEUE.path, queue("bronze", "2"))
    yield [vcjob(name, str(number), "bronze") for number, name in enumerate(VERDICTS, 1)]
    for name in VERDICTS:
        if get(api, f"{VCJOB.path_in('research')}/{name}"):
            api.delete(f"{VCJOB.path_in('research')}/{name}")
    pods = POD.path_in("research")
    wait(lambda: not [pod for pod in api.get(pods)["items"] if pod["metadata"]["name"].split("-")[0] in VERDICTS], 60)
    wait(lambda: all(each["spec"]["queue"] != "bronze" for each in api.get(POD_GROUP.path)["items"]), 60)
    api.patch(f"{QUEUE.path}/bronze", {"status": {"state": "Closed"}})
    wait(lambda: deleted(api, f"{QUEUE.path}/bronze"), 60)


def deleted(api: Client, path: str) -> bool:
    try:
        api.delete(path)
    except ApiError as error:
        return error.status == 404
    return True


def test_what_the_scheduler_answers_before_a_submission_is_what_then_happens(
    installation: Installation, alice: Client, submissions: list[dict[str, Any]], tmp_path: Path
) -> None:
    question = {"apiVersion": "v1", "kind": "List", "items": submissions}
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(question), encoding="utf-8")

    answer = alice.create(f"{MINE}/runreviews", question)
    by_administrator = run(installation.plane.kubeconfig, "can-run", "-f", str(path), "-n", "research", "-o", "json")

    items = {item["name"]: item for item in answer["items"]}
    assert {name: item["verdict"] for name, item in items.items()} == VERDICTS, answer
    assert by_administrator.exit_code == 4, by_administrator.output
    assert {item["name"]: item["verdict"] for item in json.loads(by_administrator.stdout)["items"]} == VERDICTS
    (cpu,) = (its for its in items["second"]["quota"]["amounts"] if its["resource"] == "cpu")
    assert (cpu["asked"], cpu["used"], cpu["limit"], cpu["within"]) == ("2", "1", "2", False)
    assert (items["second"]["pods"]["findNode"], items["second"]["emptyCluster"]["runs"]) == (1, True)
    assert items["third"]["emptyCluster"]["runs"] is False
    assert_nothing_of_others(json.dumps(answer))
    for submitted in submissions:
        alice.create(VCJOB.path_in("research"), submitted)
        if submitted["metadata"]["name"] == "first":
            wait(lambda: phase_of(installation.api, "research", "first") == "Running", 60)
    for name in ("second", "third"):
        (reason,) = (gate["message"] for gate in items[name]["heldBy"] if gate["gate"] == "enqueue")
        wait(lambda name=name, reason=reason: reason in messages_of(alice, name), 60)  # type: ignore[misc]
        wait(lambda name=name: phase_of(installation.api, "research", name) == "Pending", 60)  # type: ignore[misc]


def messages_of(api: Client, job: str) -> str:
    """The messages of the conditions of a job's PodGroup."""
    groups = [
        each
        for each in api.get(POD_GROUP.path_in("research"))["items"]
        if any(owner["name"] == job for owner in each["metadata"].get("ownerReferences", ()))
    ]
    return json.dumps([each.get("status", {}).get("conditions") for each in groups], ensure_ascii=False)


def test_the_command_asks_the_scheduler_and_its_exit_code_says_that_the_job_waits(
    kubeconfig: Path, tmp_path: Path
) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(vcjob("new", "2", "gold")), encoding="utf-8")

    result = run(kubeconfig, "can-run", "-f", str(path), "-n", "research")

    assert result.exit_code == 3, result.output
    assert result.stdout.startswith("Job research/new: waits\n")
    assert "Quota:          exceeded by 1 cpu" in result.stdout
    assert_nothing_of_others(result.output)


def test_who_may_not_create_a_job_may_not_ask_about_it(installation: Installation, alice: Client) -> None:
    group = "rbac.authorization.k8s.io"
    subject = {"apiGroup": group, "kind": "User", "name": "victor"}
    view_role = {"apiGroup": group, "kind": "ClusterRole", "name": "view"}
    binding = {"metadata": {"name": "view"}, "roleRef": view_role, "subjects": [subject]}
    installation.api.create(f"{RBAC}/namespaces/research/rolebindings", binding)
    victor = client_of(installation.plane, "victor")
    wait(lambda: get(victor, VCJOB.path_in("research")))

    with pytest.raises(ApiError, match=r"403.*'victor' cannot create resource 'jobs' in API group 'batch.volcano.sh'"):
        victor.create(f"{MINE}/runreviews", vcjob("new", "1", "gold"))
    with pytest.raises(ApiError, match="403"):
        alice.create(f"{API}/namespaces/secret-team/runreviews", vcjob("new", "1", "gold"))
    with pytest.raises(ApiError, match="400 Job new is in namespace secret-team, not research"):
        other = vcjob("new", "1", "gold")
        other["metadata"]["namespace"] = "secret-team"
        alice.create(f"{MINE}/runreviews", other)


def test_a_dry_run_answers_the_quota_in_a_warning_and_a_creation_does_not(
    installation: Installation, kubeconfig: Path, tmp_path: Path
) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(vcjob("dry", "2", "gold")), encoding="utf-8")
    command = [str(installation.plane.binaries / "kubectl"), f"--kubeconfig={kubeconfig}", "-n", "research"]

    def kubectl(*words: str) -> str:
        return subprocess.run([*command, *words], capture_output=True, text=True, check=True).stderr

    line = "Warning: quota of queue gold: cpu: asked 2, used 3, limit 4: 1 too many, so the job waits\n"
    wait(lambda: line in kubectl("create", "--dry-run=server", "-f", str(path)), 60)
    assert get(installation.api, f"{VCJOB.path_in('research')}/dry") is None
    assert "quota of queue" not in kubectl("create", "-f", str(path))
    kubectl("delete", "-f", str(path))


# --- the web page -----------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("open_page")
def test_the_page_shows_the_tenant_the_own_gangs_and_the_queue_and_nothing_of_others(alice: Client) -> None:
    found = wait(lambda: get(alice, f"{MINE}/pages"), 60)

    (row,) = found["waiting"]["set"].values()
    assert (row["job"], row["queue"], row["waits"], row["position"], row["of"]) == ("train", "gold", "admission", 2, 2)
    assert "cpu" in row["reason"]
    (cpu,) = (each for each in found["queues"]["set"]["gold"]["amounts"] if each["resource"] == "cpu")
    assert (cpu["used"], cpu["deserved"], cpu["capability"], cpu["use"]) == ("3", "3", "4", 0.75)
    assert found["nodes"] is None
    assert_nothing_of_others(json.dumps(found))


def test_the_page_shows_an_administrator_the_cluster(installation: Installation) -> None:
    found = wait(lambda: get(installation.api, f"{API}/pages"), 60)

    assert {row["job"] for row in found["waiting"]["set"].values()} == {"secret-waiting", "train"}
    assert {"gold", "secret-queue", "default"} <= set(found["queues"]["set"])
    assert found["nodes"] == {"set": {}, "gone": []}  # the node has no chips


@pytest.mark.parametrize("user", ["alice", "mallory"])
@pytest.mark.parametrize("path", ["pages", "namespaces/secret-team/pages", "namespaces/secret-team/pages/page.js"])
def test_the_page_of_another_scope_is_refused_by_rbac(installation: Installation, user: str, path: str) -> None:
    with pytest.raises(ApiError, match="403"):
        client_of(installation.plane, user).get(f"{API}/{path}")


def test_the_overview_of_a_standby_is_that_of_the_leader(installation: Installation) -> None:
    question = {"kind": OVERVIEW, "kubeconfig": str(installation.plane.kubeconfig), "scheduler_names": ["volcano-py"]}
    done = subprocess.run(COMMAND, input=json.dumps(question).encode() + b"\n", capture_output=True, check=True)
    answer = msgspec.json.decode(done.stdout)
    assert answer["status"] == 200, answer

    listed = view(msgspec.convert(answer["body"], Overview), "", Rights(True, True, True))
    led = msgspec.json.decode(msgspec.json.encode(installation.api.get(f"{API}/pages")))
    shown = msgspec.json.decode(msgspec.json.encode(changes(None, listed)))
    assert shown["waiting"] == led["waiting"]
    assert shown["queues"] == led["queues"]


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_a_browser_behind_kubectl_proxy_sees_a_gang_come_and_go(
    installation: Installation, alice: Client, kubeconfig: Path
) -> None:
    (port,) = free_ports(1)
    kubectl = str(installation.plane.binaries / "kubectl")
    command = [kubectl, f"--kubeconfig={kubeconfig}", "proxy", f"--port={port}"]
    proxy = Process("kubectl-proxy", command, installation.directory)
    rows = "[...document.querySelectorAll('#waiting-rows th span:first-child')].map(e => e.textContent).join()"

    async def scenario() -> None:
        async with chromium() as tab:
            await tab.open(f"http://127.0.0.1:{port}{MINE}/pages/")
            await tab.until(f"{rows} === 'train'")
            assert "3 of 4 used (75 %), 3 deserved" in await tab.value("document.body.innerText")
            await asyncio.to_thread(alice.create, VCJOB.path_in("research"), vcjob("another", "2", "gold"))
            await tab.until(f"{rows} === 'train,another'")
            await asyncio.to_thread(alice.delete, f"{VCJOB.path_in('research')}/another")
            await tab.until(f"{rows} === 'train'")
            assert_nothing_of_others(await tab.value("document.documentElement.outerHTML"))
            assert tab.errors == []

    try:
        proxy.wait_until(lambda: answers(f"http://127.0.0.1:{port}/version"), 60.0)
        asyncio.run(asyncio.wait_for(scenario(), 300))
    finally:
        proxy.stop()


# --- direct connections, without the API server's proxy ---------------------------------------------------------------
def direct(installation: Installation, token: str = "", **headers: str) -> Client:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    client = Client("127.0.0.1", installation.visibility_port, token, tls)
    client._headers.update(headers)
    if not token:
        del client._headers["Authorization"]
    return client


def token_of(kubeconfig: Path) -> str:
    return str(json.loads(kubeconfig.read_text(encoding="utf-8"))["users"][0]["user"]["token"])


def test_a_bearer_token_is_reviewed_and_its_user_authorized(installation: Installation, kubeconfig: Path) -> None:
    client = direct(installation, token_of(kubeconfig))

    assert client.get(f"{MINE}/queuequotas")["items"][0]["queue"] == "gold"
    with pytest.raises(ApiError, match=r"403.*alice.*secret-team"):
        client.get(f"{API}/namespaces/secret-team/queuequotas")


def test_the_log_contains_no_token_and_no_data_of_a_secret(installation: Installation, kubeconfig: Path) -> None:
    for token in (token_of(kubeconfig), "invalid-but-perhaps-of-another-cluster"):
        with pytest.raises(ApiError):
            direct(installation, token).get(f"{API}/namespaces/secret-team/queuequotas")
    secrets = confidential(installation.plane)
    assert token_of(kubeconfig).encode() in secrets
    logs = [log.encode() for log in installation.logs()]
    assert leaked(secrets | {b"invalid-but-perhaps-of-another-cluster"}, *logs) == []


def test_headers_that_name_a_user_count_only_from_an_api_server(installation: Installation, tmp_path: Path) -> None:
    admin = {"X-Remote-User": "test-administrator", "X-Remote-Group": "system:masters"}
    for client in (direct(installation, **admin), direct(installation, "invalid", **admin)):
        with pytest.raises(ApiError, match="401"):
            client.get(f"{MINE}/queuequotas")
    forged = Authority(tmp_path / "forged").issue("front-proxy-client", client=True)
    client = direct(installation, **admin)
    client._tls.load_cert_chain(forged.certificate, forged.key)
    with pytest.raises((OSError, ssl.SSLError)):
        client.get(f"{MINE}/queuequotas")


def test_a_certificate_of_another_name_is_no_front_proxy(installation: Installation) -> None:
    issued = installation.plane.front_proxy.issue("somebody", client=True)
    client = direct(installation, **{"X-Remote-User": "test-administrator", "X-Remote-Group": "system:masters"})
    client._tls.load_cert_chain(issued.certificate, issued.key)
    with pytest.raises(ApiError, match="401"):
        client.get(f"{MINE}/queuequotas")


def test_the_scheduler_has_every_right_that_it_needs_for_this_and_uses_each(
    installation: Installation, alice: Client
) -> None:
    requests = [request for request in installation.requests() if request.role == "scheduler"]
    assert [request for request in requests if request.forbidden] == []
    used = {(request.verb, request.resource) for request in requests}
    assert used >= {
        ("create", "tokenreviews"),
        ("create", "subjectaccessreviews"),
        ("get", "apiservices"),
        ("patch", "apiservices"),
        ("get", "secrets"),
        ("patch", "secrets"),
        ("get", "configmaps"),
        ("list", "jobs"),
        ("list", "ascendjobs"),
    }


def test_the_controllers_that_collect_namespaces_find_the_api(installation: Installation) -> None:
    assert "endpointslice-controller" not in CONTROLLERS  # the test makes the EndpointSlices itself
    installation.api.create("/api/v1/namespaces", {"metadata": {"name": "short-lived"}})
    installation.api.delete("/api/v1/namespaces/short-lived")
    wait(lambda: get(installation.api, "/api/v1/namespaces/short-lived") is None, 60)


def test_an_open_page_is_not_ended_by_the_time_limit_of_requests(open_page: OpenPage) -> None:
    """API servers end requests after a time, except watches."""
    assert (open_page.answer.status, open_page.answer.getheader("Content-Type")) == (200, "text/event-stream")
    while time.monotonic() < open_page.opened + REQUEST_TIMEOUT + 5:
        assert open_page.answer.readline()
