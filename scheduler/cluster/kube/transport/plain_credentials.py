"""Credentials of a service account, or of a kubeconfig with certificates or a token.

The ``kubernetes`` package reads these and all others, but its import takes as long as the rest of a short command. So
whatever is unusual or malformed here is left to that package (``credentials``), and to its messages.
"""

import base64
import contextlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

import msgspec

from scheduler.api.names import DEFAULT_NAMESPACE
from scheduler.framework.documents import DocumentError, read_yaml

_SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SERVICE_HOST: Final = "KUBERNETES_SERVICE_HOST"
"""The environment variable that every container of a cluster has."""
_SERVICE_PORT: Final = "KUBERNETES_SERVICE_PORT"
_KUBECONFIG: Final = "KUBECONFIG"
_DEFAULT_KUBECONFIG: Final = "~/.kube/config"
_TOKEN_SECONDS: Final = 60.0
"""Time after which a token's file is read again: kubelets replace tokens of service accounts before they expire."""


class _Cluster(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, kw_only=True):
    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    extensions: Any = None


class _User(msgspec.Struct, rename="kebab", forbid_unknown_fields=True, kw_only=True):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")


class _Context(msgspec.Struct):
    cluster: str
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _Kubeconfig(msgspec.Struct, rename="kebab"):
    clusters: list[_NamedCluster]
    contexts: list[_NamedContext]
    users: list[_NamedUser] = []
    current_context: str = ""


@dataclass(slots=True)
class PlainCredentials:
    """The address of an API server, and what proves the identities of server and client."""

    host: str
    """Scheme, host and port, without a trailing slash."""
    namespace: str = DEFAULT_NAMESPACE
    authority: str | None = None
    """A file with the certificates of authorities to trust; None: ``authority_text`` or the system has them."""
    authority_text: str | None = None
    """The certificates of authorities to trust, in PEM."""
    client: tuple[str, str | None] | None = None
    """The files of the client's certificate and key; None: ``client_text``, or none."""
    client_text: bytes | None = None
    """The client's certificate and key in PEM."""
    verify: bool = True
    """Whether to check the certificate of the server."""
    server_name: str | None = None
    token: str = ""
    token_file: Path | None = None
    """A file with a token that is replaced from time to time."""
    _read_at: float = field(default_factory=time.monotonic)

    def authorization(self) -> str:
        """The value of the Authorization header, or "". Reads a token's file when it may have changed."""
        if self.token_file is not None and time.monotonic() - self._read_at >= _TOKEN_SECONDS:
            self._read_at = time.monotonic()
            with contextlib.suppress(OSError, UnicodeDecodeError):  # the last token may still be valid
                self.token = self.token_file.read_text(encoding="utf-8").strip() or self.token
        return f"Bearer {self.token}" if self.token else ""


def in_cluster() -> bool:
    """Whether the process runs in a container of a cluster."""
    return bool(os.environ.get(_SERVICE_HOST))


def service_account_namespace() -> str:
    """The namespace of the Pod. Raises OSError."""
    return (_SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip() or DEFAULT_NAMESPACE


def plain_credentials(kubeconfig: str, context: str, master: str = "") -> PlainCredentials | None:
    """The credentials of a kubeconfig, or of the service account as in ``Credentials``; None: the package reads them.

    ``kubeconfig``: path of a file, or "" for the service account, else KUBECONFIG. ``context``: "" for the current
    one. ``master``: the address of the server, or "" for that of the kubeconfig. Blocks (files).
    """
    if set(getproxies_environment()) - {"no"}:  # the package knows which addresses they are for
        return None
    try:
        if not kubeconfig and not context and in_cluster():
            found = _service_account()
        elif master and not kubeconfig and not os.environ.get(_KUBECONFIG) and not _default_kubeconfig().exists():
            found = PlainCredentials(host=master)
        else:
            named = kubeconfig or os.environ.get(_KUBECONFIG)
            found = _of_kubeconfig(Path(named).expanduser() if named else _default_kubeconfig(), context)
        return _at(master, found) if master and found is not None else found
    except (OSError, DocumentError, ValueError, LookupError):
        return None


def _default_kubeconfig() -> Path:
    return Path(_DEFAULT_KUBECONFIG).expanduser()


def _at(master: str, found: PlainCredentials) -> PlainCredentials | None:
    """The credentials for a server at another address. Raises ValueError."""
    found.host = master if "://" in master else f"http://{master}"
    return found if urlsplit(found.host).scheme in ("http", "https") else None


def _service_account() -> PlainCredentials | None:
    host, port = os.environ[_SERVICE_HOST], os.environ[_SERVICE_PORT]
    authority, token_file = _SERVICE_ACCOUNT / "ca.crt", _SERVICE_ACCOUNT / "token"
    token = token_file.read_text(encoding="utf-8").strip()
    if not port or not token or not authority.stat().st_size:
        return None
    address = f"[{host}]" if ":" in host else host
    return PlainCredentials(
        host=f"https://{address}:{port}",
        namespace=service_account_namespace(),
        authority=str(authority),
        token=token,
        token_file=token_file,
    )


def _of_kubeconfig(path: Path, context: str) -> PlainCredentials | None:
    text = path.read_text(encoding="utf-8")
    config = msgspec.convert(read_yaml(text), _Kubeconfig)
    chosen = {it.name: it.context for it in config.contexts}[context or config.current_context]
    cluster = {it.name: it.cluster for it in config.clusters}[chosen.cluster]
    user = {it.name: it.user for it in config.users}[chosen.user] if chosen.user else _User()
    if not cluster.server.startswith(("http://", "https://")):
        return None

    def file(name: str) -> str | None:
        """The path of a file that the kubeconfig names relative to itself. Raises OSError."""
        found = path.absolute().parent / name
        if name:
            found.stat()
        return str(found) if name else None

    certificate, key = file(user.client_certificate), file(user.client_key)
    certificate_text, key_text = _decoded(user.client_certificate_data), _decoded(user.client_key_data)
    if bool(certificate_text) != bool(key_text) or (key and not certificate):
        return None  # one in the kubeconfig and one beside it
    token_file = None if user.token else file(user.token_file)
    return PlainCredentials(
        host=cluster.server.rstrip("/"),
        namespace=chosen.namespace or DEFAULT_NAMESPACE,
        authority=None if cluster.certificate_authority_data else file(cluster.certificate_authority),
        authority_text=_decoded(cluster.certificate_authority_data).decode() or None,
        client=(certificate, key) if certificate and not certificate_text else None,
        client_text=certificate_text + b"\n" + key_text if certificate_text else None,
        verify=not cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name or None,
        token=user.token or (Path(token_file).read_text(encoding="utf-8").strip() if token_file else ""),
        token_file=Path(token_file) if token_file else None,
    )


def _decoded(text: str) -> bytes:
    """Raises ValueError."""
    return base64.b64decode("".join(text.split()), validate=True)
