"""``volcano-py webhooks``: Volcano's flags, and errors before the server starts."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import main
from scheduler.cluster.kube.admission.role import RoleSettings
from scheduler.cluster.kube.serving.certificate_sources import CertificateFiles, CertificateSecret
from scheduler.webhooks.contract import CardOverGrant, WebhookSettings
from scheduler.webhooks.routes import BINARY_DEFAULT

STARTED: list[tuple[RoleSettings, WebhookSettings]] = []
URL = "--webhook-url=https://127.0.0.1:8443"


class Recorded:
    """A fake of the role."""

    def __init__(self, settings: RoleSettings, rules: WebhookSettings, *_: Any) -> None:
        STARTED.append((settings, rules))

    async def run(self) -> int:
        return 0


@pytest.fixture(autouse=True)
def role(monkeypatch: pytest.MonkeyPatch) -> None:
    STARTED.clear()
    monkeypatch.setattr("scheduler.cluster.kube.admission.role.AdmissionProcess", Recorded)
    monkeypatch.setattr("scheduler.observability.logs.configure", lambda *_: None)


def run(*options: str) -> Result:
    return CliRunner().invoke(main, ["webhooks", *options])


def started(*options: str) -> tuple[RoleSettings, WebhookSettings]:
    result = run(*options)
    assert result.exit_code == 0, result.output
    return STARTED[-1]


def test_a_command_line_of_volcano_works_unchanged(tmp_path: Path) -> None:
    conf = tmp_path / "admission.conf"
    conf.write_text("", encoding="utf-8")
    settings, rules = started(
        "--enabled-admission=/jobs/mutate,/jobs/validate",
        "--tls-cert-file=/c/tls.crt",
        "--tls-private-key-file=/c/tls.key",
        "--ca-cert-file=/c/ca.crt",
        f"--admission-conf={conf}",
        "--webhook-namespace=volcano-system",
        "--webhook-service-name=volcano-admission-service",
        "--scheduler-name=volcano",
        "--scheduler-name=other",
        "--enable-healthz=true",
        "--healthz-address=:11251",
        "--kube-api-qps=50",
        "--kube-api-burst=100",
        "--enable-queue-allocated-pods-check=true",
        "--enable-root-queue-protection=false",
        "--max-queue-depth=7",
        "--graceful-shutdown-time=1m",
        "--logtostderr",
        "--port=8443",
        "--listen-address=127.0.0.1",
        "-v=4",
    )
    assert [route.path for route in settings.routes] == ["/jobs/mutate", "/jobs/validate"]
    assert settings.certificates == CertificateFiles("/c/tls.crt", "/c/tls.key", "/c/ca.crt")
    assert (settings.host, settings.port, settings.url, settings.graceful_shutdown) == ("127.0.0.1", 8443, "", 60.0)
    assert (rules.scheduler_names, rules.max_queue_depth) == (("volcano", "other"), 7)
    assert (rules.queue_allocated_pods_check, rules.root_queue_protection) == (True, False)
    assert "pytorch" in rules.job_plugins


def test_the_defaults_are_volcanos() -> None:
    settings, rules = started(URL)
    assert tuple(route.path for route in settings.routes) == BINARY_DEFAULT
    assert (settings.port, settings.qps, settings.burst, settings.health_address) == (8443, 50, 100, ":11251")
    assert rules.scheduler_names == ("volcano-py",)
    assert rules.card_over_grant is CardOverGrant.OFF


@pytest.mark.parametrize("policy", CardOverGrant)
def test_what_happens_to_quotas_beyond_the_cards_of_nodes_is_a_flag(policy: CardOverGrant) -> None:
    _, rules = started(URL, f"--card-over-grant={policy.value}")
    assert rules.card_over_grant is policy


def test_a_created_certificate_is_valid_for_the_service_and_the_url() -> None:
    settings, _ = started(URL, "--webhook-service-name=admission", "--webhook-namespace=batch")
    hosts = ("admission.batch", "admission.batch.svc", "127.0.0.1")
    assert settings.certificates == CertificateSecret("volcano-py-admission-certificate", hosts)
    settings, _ = started("--webhook-url=https://[0::1]:8443")
    assert settings.certificates == CertificateSecret("volcano-py-admission-certificate", ("::1",))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ([], "one of --webhook-service-name and --webhook-url has to be given"),
        (["--webhook-url=http://x"], "'http://x' is not a URL like https://host:port"),
        (["--webhook-url=https://["], "is not a URL like https://host:port"),
        ([URL, "--webhook-service-name=ä"], "have to be names of Kubernetes objects"),
        ([URL, "--tls-cert-file=a"], "--tls-cert-file and --tls-private-key-file go together"),
        ([URL, "--ca-cert-file=a"], "--tls-cert-file and --tls-private-key-file go together"),
        ([URL, "--enabled-admission=/jobs/mutate,/x"], "there is no admission '/x'; there are /jobs/mutate"),
        ([URL, "--healthz-address=here"], "is not an address like :8080"),
    ],
)
def test_invalid_flags_are_named(options: list[str], error: str) -> None:
    result = run(*options)
    assert result.exit_code == 2
    assert error in " ".join(result.output.split())
    assert not STARTED


def test_a_bad_configuration_is_named_with_file_and_line(tmp_path: Path) -> None:
    conf = tmp_path / "admission.conf"
    conf.write_text("resourceGroups:\n- {\n", encoding="utf-8")
    result = run(URL, f"--admission-conf={conf}")
    assert result.exit_code == 2
    assert f"volcano-py webhooks: {conf}:3: " in result.output
    result = run(URL, f"--admission-conf={tmp_path / 'missing'}")
    assert (result.exit_code, "No such file" in result.output) == (2, True)
