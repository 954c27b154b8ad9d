"""Errors when the API server is unreachable, refuses, or sends malformed answers; none is a traceback."""

from pathlib import Path

import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner

from scheduler.cli.connection import Connection
from scheduler.cli.main import main
from scheduler.cluster.kube.transport import plain_credentials
from scheduler.cluster.kube.transport.credentials import Credentials
from tests.unit.cli.cluster import COMMANDS, JOBS, QUEUES, Cluster, Raw, job, write_kubeconfig
from tests.unit.cluster.kube.fake_api import Answer, Call, refusal

ASKED = "Failed to job list: list jobs.batch.volcano.sh in namespace default: "


def answers(cluster: Cluster, body: str = "", *, status: int = 200, reason: str = "") -> None:
    """``reason``: the reason of a refusal, with the body as its message."""

    async def answer(call: Call, request: object) -> Answer:
        if reason:
            return refusal(status, reason, body)
        return web.Response(status=status, body=body.encode("latin-1"))

    cluster.api.on("GET", JOBS, answer)


def test_an_unreachable_server_is_named_with_flags_to_check(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, "http://127.0.0.1:1")

    result = CliRunner().invoke(main, ["job", "list", "-k", str(kubeconfig)])

    assert result.exit_code == 1
    assert result.stderr.startswith(f"{ASKED}no answer from the API server at http://127.0.0.1:1 (")
    assert result.stderr.endswith("is it running, and do --kubeconfig, --context and --master name the right one?\n")


def test_the_flag_for_the_server_overrides_the_kubeconfig(cluster: Cluster, tmp_path: Path) -> None:
    cluster.holds(JOBS)
    other = tmp_path / "other"
    write_kubeconfig(other, "http://127.0.0.1:1")

    result = CliRunner().invoke(main, ["job", "list", "-k", str(other), "-s", cluster.api.url])

    assert (result.exit_code, result.stderr) == (0, "No resources found\n")


@pytest.mark.parametrize("flags", [["-k", "/nowhere"], ["--context", "nowhere"]])
def test_missing_credentials_are_reported_with_flags_that_help(cluster: Cluster, flags: list[str]) -> None:
    said = cluster.refuses("job", "list", *flags)

    assert said.startswith("Failed to job list: ")
    assert "nowhere" in said
    assert said.endswith("; name a cluster with --kubeconfig FILE, --context NAME or --master URL, or set KUBECONFIG\n")


def test_in_a_pod_the_namespace_is_that_of_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "namespace"
    file.write_text("team-a\n", encoding="utf-8")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(plain_credentials, "_SERVICE_ACCOUNT", tmp_path)

    assert Credentials().namespace() == "team-a"


def test_rejected_credentials_are_reported_with_flags_that_help(cluster: Cluster) -> None:
    answers(cluster, "Unauthorized", status=401, reason="Unauthorized")

    assert cluster.refuses("job", "list") == (
        f"{ASKED}Unauthorized; the API server at {cluster.api.url} does not know these credentials: log in again, or "
        "choose others with --kubeconfig or --context\n"
    )


def test_a_missing_right_is_reported_with_who_can_grant_it(cluster: Cluster) -> None:
    said = 'jobs.batch.volcano.sh is forbidden: User "eve" cannot list resource "jobs"'
    answers(cluster, said, status=403, reason="Forbidden")

    assert cluster.refuses("job", "list") == (
        f"{ASKED}{said}; an administrator of the API server at {cluster.api.url} can grant it\n"
    )


def test_missing_resource_definitions_are_reported_with_how_to_install_them(cluster: Cluster) -> None:
    answers(cluster, "404 page not found\n", status=404)

    assert cluster.refuses("job", "list") == (
        f"{ASKED}the API server at {cluster.api.url} does not serve jobs.batch.volcano.sh: install the resource "
        "definitions (kubectl apply --server-side -f deploy/crds/)\n"
    )


def test_a_refusal_without_a_message_is_reported_with_its_status(cluster: Cluster) -> None:
    answers(cluster, status=418)

    assert cluster.refuses("job", "list") == f"{ASKED}the API server at {cluster.api.url} answered 418\n"


@pytest.mark.parametrize(
    "body",
    [
        "<html>",
        "",
        "[]",
        "3",
        '{"items": 5}',
        '{"items": [5]}',
        '{"metadata": {"continue": 1}}',
        "\xff",
        '{"items": [' + '{"a":' * 100_000,
    ],
)
def test_a_malformed_answer_is_reported(cluster: Cluster, body: str) -> None:
    answers(cluster, body)

    said = cluster.refuses("job", "list")

    assert said.startswith(f"{ASKED}the API server at {cluster.api.url} sent an answer that is malformed: ")


@pytest.mark.parametrize("metadata", ["null", "5", '{"name": 5}', '{"creationTimestamp": "yesterday", "name": "a"}'])
def test_malformed_objects_are_left_out(cluster: Cluster, metadata: str) -> None:
    answers(cluster, f'{{"items": [{{"metadata": {metadata}}}]}}')

    for form in ("table", "wide", "json", "yaml", "name"):
        result = cluster.run("job", "list", "-o", form)
        assert result.exit_code == 0, result.exception


@pytest.mark.parametrize("url", ["http://[::1", "nonsense://x", "http://", "http://host:99999999"])
def test_an_invalid_address_is_reported(url: str, cluster: Cluster) -> None:
    assert url in cluster.refuses("job", "list", "-s", url)


def test_the_result_of_a_command_is_not_converted_to_text(cluster: Cluster) -> None:
    shown = []

    class Large:
        def __repr__(self) -> str:
            shown.append(self)  # takes seconds for a whole cluster
            return "Large()"

    async def work(_: object) -> Large:
        return Large()

    assert isinstance(Connection(kubeconfig=str(cluster.kubeconfig)).run(work), Large)
    assert not shown


# --- warnings ---
def warns(cluster: Cluster, method: str, path: str, body: Raw, *texts: str, status: int = 200) -> None:
    """Answers with a header for each text."""

    async def answer(call: Call, request: object) -> Answer:
        response = web.json_response(body, status=status)
        for text in texts:
            response.headers.add("Warning", f'299 - "{text}"')
        return response

    cluster.api.on(method, path, answer)


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body"),
    [
        (["job", "run", "-N", "train"], "POST", JOBS, job("train")),
        (["job", "suspend", "train"], "POST", COMMANDS, {"metadata": {"name": "c"}}),
        (["queue", "create", "q"], "POST", QUEUES, {"metadata": {"name": "q"}}),
        (["queue", "operate", "q", "-a", "update", "-w", "2"], "PATCH", f"{QUEUES}/q", {"metadata": {"name": "q"}}),
        (["job", "delete", "train"], "DELETE", f"{JOBS}/train", {}),
        (["job", "list"], "GET", JOBS, {"metadata": {}, "items": [job("train")]}),
    ],
)
def test_warnings_of_the_api_server_are_printed_on_standard_error(
    cluster: Cluster, arguments: list[str], method: str, path: str, body: Raw
) -> None:
    cluster.holds(JOBS, job("train"))
    cluster.holds(QUEUES, {"metadata": {"name": "q"}})
    cluster.api.answer("PATCH", f"{QUEUES}/q/status", {"metadata": {"name": "q"}})
    warns(cluster, method, path, body, "unknown field, ignored", "\u202earen\u2019t", "unknown field, ignored")
    result = cluster.run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stderr == "Warning: unknown field, ignored\nWarning: \\u202earen\u2019t\n"
    assert "Warning" not in result.stdout


def test_equal_warnings_about_several_objects_are_printed_once(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(yaml.safe_dump_all([job("a"), job("b")]))
    warns(cluster, "POST", JOBS, job("a"), "no such scheduler")
    assert cluster.run("job", "run", "-f", str(file)).stderr == "Warning: no such scheduler\n"


def test_warnings_of_a_refusal_precede_the_error(cluster: Cluster) -> None:
    warns(cluster, "POST", JOBS, {"message": "no", "reason": "Invalid"}, "unknown field", status=422)
    first, second = cluster.refuses("job", "run", "-N", "train").splitlines()
    assert first == "Warning: unknown field" and second.endswith(": no")
