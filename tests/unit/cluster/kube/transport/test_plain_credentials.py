"""Service accounts and plain kubeconfigs are read without the ``kubernetes`` package, with the same result."""

import base64
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scheduler.cluster.kube.serving.certificates import renewed, to_pem
from scheduler.cluster.kube.transport import credentials as module
from scheduler.cluster.kube.transport import plain_credentials as plain
from scheduler.cluster.kube.transport.credentials import Credentials, CredentialsError

Raw = dict[str, Any]
SERVER: Raw = {"server": "https://10.0.0.1:6443/"}


@pytest.fixture(autouse=True)
def _no_cluster_and_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "KUBERNETES_SERVICE_HOST",
        "KUBECONFIG",
        *(n for p in ("http", "https", "all") for n in (f"{p}_proxy", f"{p}_proxy".upper())),
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of an authority, a certificate and its key."""
    folder = tmp_path_factory.mktemp("pem")
    for name, text in to_pem(renewed(None, ["10.0.0.1"], datetime.now(UTC))).items():
        (folder / name).write_bytes(text)
    return {name: folder / name for name in ("ca.crt", "tls.crt", "tls.key")}


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def kubeconfig(folder: Path, cluster: Raw, user: Raw, **more: Any) -> str:
    config = {
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "k", "user": "u", "namespace": "team-a"}},
            {"name": "other", "context": {"cluster": "k", "user": "u"}},
        ],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(json.dumps({**config, **more}), encoding="utf-8")
    return str(path)


def loaded(path: str, context: str = "") -> tuple[object, ...]:
    """The attributes of a kubeconfig's credentials that clients use."""
    credentials = Credentials(kubeconfig=path, context=context)
    access = credentials.load()
    authorities = access.tls and access.tls.get_ca_certs()
    checks = access.tls and (access.tls.check_hostname, access.tls.verify_mode)
    return (
        access.host, access.server_name, access.proxy, authorities, checks,
        credentials.authorization(), credentials.namespace(),
    )  # fmt: skip


def is_plain(path: str, context: str = "") -> bool:
    return plain.plain_credentials(path, context) is not None


def users(pem: dict[str, Path]) -> list[Raw]:
    files = {"client-certificate": str(pem["tls.crt"]), "client-key": str(pem["tls.key"])}
    texts = {"client-certificate-data": data(pem["tls.crt"]), "client-key-data": data(pem["tls.key"])}
    return [{}, {"token": "abc"}, files, texts, {**files, "token": "abc"}]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(5))
def test_a_plain_kubeconfig_gives_what_the_package_reads(
    number: int, pem: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = [
        {**SERVER, "certificate-authority": str(pem["ca.crt"])},
        {**SERVER, "certificate-authority-data": data(pem["ca.crt"]), "tls-server-name": "api"},
        {**SERVER, "insecure-skip-tls-verify": True},
        {"server": "http://10.0.0.1:8080"},
        SERVER,
    ][number]
    for user in users(pem):
        path = kubeconfig(tmp_path, cluster, user)
        for context in ("", "other"):
            assert is_plain(path, context)
            ours = loaded(path, context)
            with monkeypatch.context() as patch:
                patch.setattr(module, "plain_credentials", lambda *_: None)
                assert ours == loaded(path, context)


def test_files_are_relative_to_the_kubeconfig(pem: dict[str, Path], tmp_path: Path) -> None:
    for name, file in pem.items():
        (tmp_path / name).write_bytes(file.read_bytes())
    user = {"client-certificate": "tls.crt", "client-key": "tls.key"}
    path = kubeconfig(tmp_path, {**SERVER, "certificate-authority": "ca.crt"}, user)

    assert is_plain(path)
    assert Credentials(kubeconfig=path).load().tls is not None


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        (SERVER, {"exec": {"command": "get-token", "apiVersion": "client.authentication.k8s.io/v1"}}),
        (SERVER, {"username": "u", "password": "p"}),
        (SERVER, {"client-key-data": "not base64"}),
        (SERVER, {"client-certificate": "missing"}),
        ({**SERVER, "proxy-url": "http://proxy"}, {}),
        ({**SERVER, "certificate-authority": "missing"}, {}),
        ({"server": 5}, {}),
        ({}, {}),
    ],
)
def test_what_is_unusual_or_malformed_is_left_to_the_package(cluster: Raw, user: Raw, tmp_path: Path) -> None:
    assert not is_plain(kubeconfig(tmp_path, cluster, user))


def test_unknown_contexts_and_texts_that_are_no_kubeconfig_are_left_to_the_package(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, SERVER, {})
    assert not is_plain(path, "nowhere")
    for text in ("[", "[]", "\x00", "a: &a [*a]", ""):
        Path(path).write_text(text, encoding="utf-8")
        assert not is_plain(path)


def test_behind_a_proxy_the_package_reads_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = kubeconfig(tmp_path, SERVER, {})
    monkeypatch.setenv("NO_PROXY", "10.0.0.1")
    assert is_plain(path)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    assert not is_plain(path)


def test_a_certificate_that_is_none_is_reported_with_the_file(pem: dict[str, Path], tmp_path: Path) -> None:
    nonsense = base64.b64encode(b"nonsense").decode()
    for cluster, user in (
        ({**SERVER, "certificate-authority-data": nonsense}, {}),
        (SERVER, {"client-certificate-data": nonsense, "client-key-data": data(pem["tls.key"])}),
    ):
        path = kubeconfig(tmp_path, cluster, user)
        with pytest.raises(CredentialsError, match=f"cannot load credentials from {path}"):
            Credentials(kubeconfig=path).load()


def service_account(folder: Path, pem: dict[str, Path], monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    (folder / "ca.crt").write_bytes(pem["ca.crt"].read_bytes())
    (folder / "token").write_text("first\n", encoding="utf-8")
    (folder / "namespace").write_text("team-a\n", encoding="utf-8")
    monkeypatch.setattr(plain, "_SERVICE_ACCOUNT", folder)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")


@pytest.mark.parametrize(("host", "url"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")])
def test_a_service_account_gives_address_authority_and_namespace(
    host: str, url: str, pem: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service_account(tmp_path, pem, monkeypatch, host)
    credentials = Credentials()
    access = credentials.load()

    assert access.host == url
    assert access.tls is not None
    assert len(access.tls.get_ca_certs()) == 1
    assert (credentials.authorization(), credentials.namespace()) == ("Bearer first", "team-a")


def test_the_token_of_a_service_account_is_read_again_and_kept_while_its_file_is_unreadable(
    pem: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service_account(tmp_path, pem, monkeypatch, "10.0.0.1")
    found = plain.plain_credentials("", "")
    assert found is not None
    (tmp_path / "token").write_text("second", encoding="utf-8")

    assert found.authorization() == "Bearer first"
    monkeypatch.setattr(plain, "_TOKEN_SECONDS", 0.0)
    assert found.authorization() == "Bearer second"
    (tmp_path / "token").unlink()
    assert found.authorization() == "Bearer second"


def test_a_service_account_without_a_token_is_left_to_the_package(
    pem: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service_account(tmp_path, pem, monkeypatch, "10.0.0.1")
    (tmp_path / "token").write_text("", encoding="utf-8")

    assert plain.plain_credentials("", "") is None


def test_plain_credentials_do_not_import_the_package(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, SERVER, {"token": "abc"})
    program = (
        "import sys\n"
        "from scheduler.cluster.kube.transport.credentials import Credentials\n"
        f"credentials = Credentials(kubeconfig={path!r})\n"
        "credentials.load()\n"
        "print(credentials.authorization(), credentials.namespace(), 'kubernetes' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "Bearer abc team-a False\n"


def test_an_address_on_the_command_line_replaces_that_of_the_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kubeconfig(tmp_path, SERVER, {"token": "abc"})
    for master, host in (
        ("https://10.0.0.2:6443/", "https://10.0.0.2:6443"),
        ("10.0.0.2:8080", "http://10.0.0.2:8080"),
    ):
        credentials = Credentials(kubeconfig=path, master=master)
        assert plain.plain_credentials(path, "", master) is not None
        assert credentials.load().host == host
        assert credentials.authorization() == "Bearer abc"
        with monkeypatch.context() as patch:
            patch.setattr(module, "plain_credentials", lambda *_: None)
            assert Credentials(kubeconfig=path, master=master).load().host == host


def test_an_address_on_the_command_line_needs_no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    credentials = Credentials(master="127.0.0.1:8080")
    assert (credentials.load().host, credentials.authorization()) == ("http://127.0.0.1:8080", "")
    with pytest.raises(CredentialsError, match="no such file"):
        Credentials(kubeconfig=str(tmp_path / "missing"), master="127.0.0.1:8080").load()
    with pytest.raises(CredentialsError, match="--master"):
        Credentials(master="http://[::1").load()


def test_files_of_plain_credentials_are_those_of_the_kubeconfig(pem: dict[str, Path], tmp_path: Path) -> None:
    certificate, key, authority = (str(pem[name]) for name in ("tls.crt", "tls.key", "ca.crt"))
    user = {"client-certificate": certificate, "client-key": key}
    credentials = Credentials(kubeconfig=kubeconfig(tmp_path, {**SERVER, "certificate-authority": authority}, user))
    credentials.load()
    assert credentials.files() == module.TrustFiles(authority, certificate, key, verify=True)
