"""Job plugin ssh: the Pods of a job log in at each other without a password.

One key pair per job, in a Secret that is mounted as the directory ``.ssh``. The key is of type Ed25519 unless the job
names another: to generate an RSA key takes 2,000 times as long. Like Volcano's, the Secret does not follow the job when
that is scaled: Pods would not see it, since a ``subPath`` mount is not refreshed.

The library for keys is imported when a job uses the plugin: it takes a tenth of the time to load explain and simulate.
"""

from base64 import b64encode
from collections.abc import Sequence
from functools import cached_property

from scheduler.api import batch
from scheduler.api.job_plugins import ROOT_DIRECTORY, RSA, SshOptions, parse
from scheduler.api.kinds import SECRET, VCJOB
from scheduler.controllers.effects import Json
from scheduler.controllers.job.plugins.contract import JobPlugin, WantedObject
from scheduler.controllers.job.plugins.podspec import add_volume, all_containers, mount, task_hosts
from scheduler.controllers.owners import owned
from scheduler.framework.ssh_keys import public_key_of

PRIVATE_KEY, PUBLIC_KEY, AUTHORIZED_KEYS, CONFIG = "id_rsa", "id_rsa.pub", "authorized_keys", "config"
"""The names that Volcano gives these files, whatever the type of the key: programs read the type from the content."""


class Ssh(JobPlugin):
    def __init__(self, job: batch.Job, arguments: Sequence[str]) -> None:
        self._options = options = parse(SshOptions, arguments)
        self._public_key = options.public_key
        if options.private_key and not options.public_key:
            self._public_key = public_key_of(options.private_key)
        self._secret = f"{job.metadata.name}-ssh"
        self._volume = {
            "name": self._secret,
            "secret": {
                "secretName": self._secret,
                "items": [
                    {"key": key, "path": f".ssh/{key}"} for key in (PRIVATE_KEY, PUBLIC_KEY, AUTHORIZED_KEYS, CONFIG)
                ],
                # ssh refuses a key of root's that others may read; other users need to read this file, which root owns.
                "defaultMode": 0o600 if options.directory == ROOT_DIRECTORY else 0o644,
            },
        }
        self._mount = {"name": self._secret, "mountPath": options.directory, "subPath": ".ssh"}

    def mutate_pod(self, pod: Json, task: batch.TaskSpec, index: int, job: batch.Job) -> None:
        add_volume(pod, self._volume)
        for container in all_containers(pod):
            mount(container, self._mount)

    def wanted(self, job: batch.Job) -> list[WantedObject]:
        config = client_config(job, self._options.port)

        def build() -> Json:
            private, public = self._key_pair
            data = {PRIVATE_KEY: private, PUBLIC_KEY: public, AUTHORIZED_KEYS: public, CONFIG: config}
            encoded = {key: b64encode(text.encode()).decode() for key, text in data.items()}
            return owned(SECRET, self._secret, VCJOB, job, type="Opaque", data=encoded)

        return [
            WantedObject(SECRET, self._secret, build, expensive=not self._public_key and self._options.key_type == RSA)
        ]

    @cached_property
    def _key_pair(self) -> tuple[str, str]:
        """The private and the public key. A generated pair is kept for further attempts to create the Secret."""
        if self._public_key:
            return self._options.private_key, self._public_key
        return new_key_pair(self._options.key_type)


def new_key_pair(key_type: str) -> tuple[str, str]:
    """A key of one of ``KEY_TYPES``; one of RSA has 2048 bits.

    Returns the private key, RSA as PKCS#1 PEM and Ed25519 in OpenSSH's format, and the public key as a line of
    authorized_keys.
    """
    from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
    if key_type == RSA:
        key, form = rsa.generate_private_key(public_exponent=65537, key_size=2048), PrivateFormat.TraditionalOpenSSL
    else:
        key, form = ed25519.Ed25519PrivateKey.generate(), PrivateFormat.OpenSSH
    private = key.private_bytes(Encoding.PEM, form, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return private.decode(), public.decode() + "\n"


def client_config(job: batch.Job, port: int) -> str:
    """The configuration of the ssh client: no host key prompts, and the address of each host. Raises JobPluginError."""
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.spec.tasks:
        for host in task_hosts(job, task):
            lines += [f"Host {host.name}", f"  HostName {host.domain}", f"  Port {port}"]
    return "\n".join(lines) + "\n"
