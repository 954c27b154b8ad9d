from base64 import b64decode
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from scheduler.api import batch
from scheduler.api.job_plugins import KEY_TYPES
from scheduler.controllers.job.plugins import make_plugins
from scheduler.controllers.job.plugins.contract import JobPluginError, wanted_objects
from scheduler.controllers.job.plugins.ssh import new_key_pair
from tests.unit.controllers.job.plugins.vcjobs import objects, pod, task, vcjob


def secret(job: batch.Job) -> dict[str, str]:
    data: dict[str, Any] = objects(job)["Secret", f"{job.metadata.name}-ssh"]["data"]
    return {key: b64decode(text).decode() for key, text in data.items()}


def test_the_secret_belongs_to_the_job_and_is_opaque() -> None:
    made = objects(vcjob("train", task("worker", 2), ssh=[]))["Secret", "train-ssh"]
    assert made["type"] == "Opaque"
    assert [owner["name"] for owner in made["metadata"]["ownerReferences"]] == ["train"]
    assert set(made["data"]) == {"authorized_keys", "config", "id_rsa", "id_rsa.pub"}


def test_the_key_is_a_new_ed25519_key_in_the_format_of_openssh_that_opens_every_pod() -> None:
    data = secret(vcjob("train", task("worker", 2), ssh=[]))
    key = load_ssh_private_key(data["id_rsa"].encode(), password=None)
    assert isinstance(key, ed25519.Ed25519PrivateKey)
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    assert data["id_rsa.pub"] == data["authorized_keys"] == public + "\n"
    assert public.startswith("ssh-ed25519 ")


def test_an_image_that_needs_it_gets_an_rsa_key_of_2048_bits_in_pkcs1() -> None:
    data = secret(vcjob("train", task("worker", 2), ssh=["--ssh-key-type=rsa"]))
    assert data["id_rsa"].startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    key = load_pem_private_key(data["id_rsa"].encode(), password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    assert key.key_size == 2048
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    assert data["id_rsa.pub"] == data["authorized_keys"] == public + "\n"


def test_the_configuration_names_every_host() -> None:
    job = vcjob("demo-vc-job", task("mpimaster"), task("mpiworker", 2), ssh=[], svc=[])
    assert secret(job)["config"] == (
        "StrictHostKeyChecking no\n"
        "UserKnownHostsFile /dev/null\n"
        "Host demo-vc-job-mpimaster-0\n"
        "  HostName demo-vc-job-mpimaster-0.demo-vc-job\n"
        "  Port 22\n"
        "Host demo-vc-job-mpiworker-0\n"
        "  HostName demo-vc-job-mpiworker-0.demo-vc-job\n"
        "  Port 22\n"
        "Host demo-vc-job-mpiworker-1\n"
        "  HostName demo-vc-job-mpiworker-1.demo-vc-job\n"
        "  Port 22\n"
    )


def test_a_hostname_of_the_template_is_in_the_configuration() -> None:
    job = vcjob("train", task("worker", 2, hostname="fixed"), ssh=["--ssh-port=2222"])
    assert secret(job)["config"].endswith("/dev/null\nHost fixed\n  HostName fixed.train\n  Port 2222\n")


def test_every_container_has_the_keys_under_the_home_of_root() -> None:
    made = pod(vcjob("train", task("worker", initContainers=[{"name": "prepare"}]), ssh=[]), "worker")["spec"]
    assert made["volumes"] == [
        {
            "name": "train-ssh",
            "secret": {
                "defaultMode": 384,
                "items": [
                    {"key": "id_rsa", "path": ".ssh/id_rsa"},
                    {"key": "id_rsa.pub", "path": ".ssh/id_rsa.pub"},
                    {"key": "authorized_keys", "path": ".ssh/authorized_keys"},
                    {"key": "config", "path": ".ssh/config"},
                ],
                "secretName": "train-ssh",
            },
        }
    ]
    for container in made["initContainers"] + made["containers"]:
        assert container["volumeMounts"] == [{"mountPath": "/root/.ssh", "name": "train-ssh", "subPath": ".ssh"}]


def test_another_user_can_read_the_keys_in_another_directory() -> None:
    job = vcjob("train", task("worker"), ssh=["--ssh-key-file-path", "/home/user/.ssh"])
    made = pod(job, "worker")["spec"]
    assert made["volumes"][0]["secret"]["defaultMode"] == 0o644
    assert made["containers"][0]["volumeMounts"][0]["mountPath"] == "/home/user/.ssh"


def test_no_root_has_no_effect_as_in_volcano() -> None:
    job = vcjob("train", task("worker"), ssh=["--no-root", "--ssh-port=2222"])
    (volume,) = pod(job, "worker")["spec"]["volumes"]
    (mount,) = pod(job, "worker")["spec"]["containers"][0]["volumeMounts"]
    assert (volume["secret"]["defaultMode"], mount["mountPath"]) == (0o600, "/root/.ssh")
    assert "  Port 2222\n" in secret(job)["config"]


def test_given_keys_are_used_as_they_are() -> None:
    job = vcjob("train", task("worker"), ssh=["--ssh-private-key=mine\n", "--ssh-public-key=ssh-rsa AAAA me"])
    data = secret(job)
    assert (data["id_rsa"], data["id_rsa.pub"], data["authorized_keys"]) == ("mine\n", *["ssh-rsa AAAA me"] * 2)


@pytest.mark.parametrize("key_type", KEY_TYPES)
def test_the_public_key_is_worked_out_of_a_private_one_given_alone(key_type: str) -> None:
    private, public = new_key_pair(key_type)
    data = secret(vcjob("train", task("worker"), ssh=[f"--ssh-private-key={private}"]))
    assert (data["id_rsa"], data["id_rsa.pub"], data["authorized_keys"]) == (private, public, public)


@pytest.mark.parametrize(
    ("arguments", "expensive"),
    [
        ([], False),
        (["--ssh-key-type=rsa"], True),
        (["--ssh-key-type=rsa", "--ssh-private-key=x", "--ssh-public-key=ssh-rsa A"], False),
    ],
)
def test_only_a_new_rsa_key_is_expensive(arguments: list[str], expensive: bool) -> None:
    job = vcjob("train", task("worker"), ssh=arguments)
    assert [wanted.expensive for wanted in wanted_objects(make_plugins(job), job)] == [expensive]


def test_a_given_rsa_key_is_not_validated_which_takes_seconds_if_it_is_long() -> None:
    p, q = 2**512 - 1, 2**512 - 3  # no primes
    public = rsa.RSAPublicNumbers(65537, p * q)
    broken = rsa.RSAPrivateNumbers(p, q, 65537, 65537, 65537, 65537, public).private_key(
        unsafe_skip_rsa_key_validation=True
    )
    private = broken.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    data = secret(vcjob("train", task("worker"), ssh=[f"--ssh-private-key={private}"]))
    assert data["id_rsa.pub"].startswith("ssh-rsa ")


def test_a_key_is_generated_when_the_secret_is_built_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def new(key_type: str) -> tuple[str, str]:
        made.append(1)
        return "private", "public"

    monkeypatch.setattr("scheduler.controllers.job.plugins.ssh.new_key_pair", new)
    job = vcjob("train", task("worker", 2), ssh=[])
    pod(job, "worker", 1)
    plugins = make_plugins(job)
    (wanted,) = wanted_objects(plugins, job)
    assert made == []
    first = wanted.build()
    assert made == [1]
    (again,) = wanted_objects(plugins, job)
    assert again.build() == first
    assert made == [1]


def test_the_secret_is_made_once_and_does_not_follow_the_job() -> None:
    job = vcjob("train", task("worker", 2), ssh=[])
    assert [wanted.refresh for wanted in wanted_objects(make_plugins(job), job)] == [False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ssh-key-file-path="], "--ssh-key-file-path='' must be an absolute path without ':'"),
        (["--ssh-key-file-path=a"], "--ssh-key-file-path='a' must be an absolute path without ':'"),
        (["--ssh-key-file-path=/a:b"], "--ssh-key-file-path='/a:b' must be an absolute path without ':'"),
        (["--ssh-public-key=ssh-rsa A"], "--ssh-public-key needs the key that fits it: --ssh-private-key=..."),
        (["--ssh-private-key=x"], "--ssh-private-key must be a private key in PEM without a password"),
        (["--ssh-key-type=dsa"], "--ssh-key-type='dsa' must be one of ed25519, rsa"),
        (["--ssh-port=ssh"], "--ssh-port='ssh' must be a whole number from 1 to 65535"),
        (["--no-rot"], "'--no-rot' is unknown; allowed are --ssh-key-file-path, --ssh-private-key"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_the_reason(arguments: list[str], message: str) -> None:
    with pytest.raises(JobPluginError) as refusal:
        make_plugins(vcjob("train", task("worker"), ssh=arguments))
    assert f"plugin ssh: argument {message}" in str(refusal.value)


@pytest.mark.parametrize("flag", ["--ssh-private-key", "--ssh-privat-key"])
def test_a_refusal_does_not_contain_the_private_key(flag: str) -> None:
    with pytest.raises(JobPluginError) as refusal:
        make_plugins(vcjob("train", task("worker"), ssh=[f"{flag}=-----BEGIN RSA PRIVATE KEY-----\nsecret"]))
    assert "secret" not in str(refusal.value)
