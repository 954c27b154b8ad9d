"""Credentials for the API server: address, certificates and tokens.

``plain_credentials`` reads service accounts and plain kubeconfigs. The ``kubernetes`` package handles all others, such
as exec plugins, with their refresh, and reports what is malformed; it is imported when it is needed.
"""

import os
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from scheduler.api.names import DEFAULT_NAMESPACE
from scheduler.cluster.kube.transport.plain_credentials import (
    PlainCredentials,
    in_cluster,
    plain_credentials,
    service_account_namespace,
)
from scheduler.framework.documents import DocumentError, read_yaml

if TYPE_CHECKING:
    from kubernetes.client import Configuration as KubernetesConfiguration


class CredentialsError(Exception):
    """No usable credentials were found; the message names the places searched and the problem."""


class Access(msgspec.Struct, frozen=True):
    """The address of the API server, and how to trust it."""

    host: str
    """Scheme, host and port, without a trailing slash."""
    tls: ssl.SSLContext | None
    server_name: str | None
    """Name to check the server's certificate against, where it is not the host."""
    proxy: str | None


class TrustFiles(msgspec.Struct, frozen=True):
    """The files with which the server is trusted, for libraries that load them themselves; None: there is no such
    file."""

    authority: str | None
    certificate: str | None
    key: str | None
    verify: bool


class Credentials:
    """Loaded once by ``load``. ``authorization`` is called for every request and refreshes expired tokens."""

    def __init__(self, *, kubeconfig: str = "", master: str = "", context: str = "") -> None:
        """``kubeconfig``: path of a file, or "" for the service account, else KUBECONFIG. ``master``: overrides the
        server's address. ``context``: a context of the kubeconfig, or "" for its current one."""
        self._kubeconfig = kubeconfig
        self._context = context
        self._master = master.rstrip("/")
        self._plain: PlainCredentials | None = None
        self._configuration: KubernetesConfiguration | None = None

    def load(self) -> Access:
        """Loads everything again. Blocks (files, exec plugins). Raises CredentialsError."""
        plain = self._plain = plain_credentials(self._kubeconfig, self._context, self._master)
        try:
            if plain is not None:
                return Access(plain.host, _plain_tls(plain), plain.server_name, None)
            configuration = self._configuration = self._read()
            return Access(
                host=str(configuration.host).rstrip("/"),
                tls=_tls(configuration),
                server_name=configuration.tls_server_name,
                proxy=configuration.proxy or None,
            )
        except OSError as error:  # of ssl as well
            raise self._error(error) from error

    def _read(self) -> "KubernetesConfiguration":
        """Raises CredentialsError."""
        from kubernetes.client import Configuration

        configuration = Configuration()
        try:
            self._fill(configuration)
        except CredentialsError:
            raise
        except Exception as error:  # the package raises whatever the YAML, the files or the plugin made it raise
            raise self._error(error) from error
        if self._master:
            try:
                configuration.host = self._master if "://" in self._master else f"http://{self._master}"
            except ValueError as error:
                raise CredentialsError(f"--master: {self._master} is not an address: {error}") from None
        return configuration

    def _error(self, error: Exception) -> CredentialsError:
        named = f"KUBECONFIG={os.environ['KUBECONFIG']}" if os.environ.get("KUBECONFIG") else ""
        source = self._kubeconfig or named or "the default kubeconfig or service account"
        return CredentialsError(f"cannot load credentials from {source}: {_problem(error)}")

    def _fill(self, configuration: "KubernetesConfiguration") -> None:
        from kubernetes.config import ConfigException, load_incluster_config

        if self._kubeconfig:
            if not Path(self._kubeconfig).is_file():
                raise CredentialsError(f"--kubeconfig: no such file: {self._kubeconfig}")
            self._load_kubeconfig(configuration)
        elif self._in_cluster():
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            try:
                self._load_kubeconfig(configuration)
            except ConfigException:
                if not self._master:
                    raise

    def _in_cluster(self) -> bool:
        return not self._kubeconfig and not self._context and in_cluster()

    def _load_kubeconfig(self, configuration: "KubernetesConfiguration") -> None:
        from kubernetes.config import load_kube_config

        self._check_bounds()
        load_kube_config(  # type: ignore[no-untyped-call]
            config_file=self._kubeconfig or None, context=self._context or None, client_configuration=configuration
        )

    def _check_bounds(self) -> None:
        """Raises CredentialsError for a kubeconfig that is too large or too deep: the package has no limits of its
        own."""
        from kubernetes.config import KUBE_CONFIG_DEFAULT_LOCATION

        for name in (self._kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION).split(os.pathsep):
            path = Path(name).expanduser()
            if not name or not path.is_file():
                continue
            try:
                read_yaml(path.read_text(encoding="utf-8"))
            except DocumentError as error:
                place = f":{error.line}" if error.line else ""
                raise CredentialsError(f"cannot load credentials from {path}{place}: {error}") from None

    def namespace(self) -> str:
        """The namespace of the kubeconfig's context, or of the service account; the default one where neither names
        one.

        Blocks (files).
        """
        if self._plain is not None:
            return self._plain.namespace
        try:
            if self._in_cluster():
                return service_account_namespace()
            from kubernetes.config import list_kube_config_contexts

            self._check_bounds()
            contexts, current = list_kube_config_contexts(self._kubeconfig or None)  # type: ignore[no-untyped-call]
            chosen = next((c for c in contexts if c["name"] == self._context), current)
            return str(chosen["context"].get("namespace") or DEFAULT_NAMESPACE)
        except Exception:  # the package raises various errors for bad files; ``load`` reports those that matter
            return DEFAULT_NAMESPACE

    def files(self) -> TrustFiles:
        """The files of the loaded credentials. Raises CredentialsError. Blocks."""
        plain = self._plain
        if plain is not None and plain.authority_text is None and plain.client_text is None:
            certificate, key = plain.client or (None, None)
            return TrustFiles(plain.authority, certificate, key, plain.verify)
        found = self._configuration
        if found is None:
            found = self._configuration = self._read()
        return TrustFiles(
            authority=found.ssl_ca_cert or None,
            certificate=found.cert_file or None,
            key=found.key_file or None,
            verify=bool(found.verify_ssl),
        )

    def authorization(self) -> str:
        """The value of the Authorization header, or "". Blocks while an expired token is fetched again."""
        if self._plain is not None:
            return self._plain.authorization()
        if self._configuration is None:
            return ""
        token: str | None = self._configuration.get_api_key_with_prefix("BearerToken")
        return token.strip() if token else ""


def _tls(configuration: "KubernetesConfiguration") -> ssl.SSLContext | None:
    if not str(configuration.host).startswith("https"):
        return None
    context = _trusting(configuration.ssl_ca_cert or None, None, verify=bool(configuration.verify_ssl))
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
    return context


def _plain_tls(plain: PlainCredentials) -> ssl.SSLContext | None:
    """Raises OSError for files or certificates that cannot be read."""
    if not plain.host.startswith("https"):
        return None
    context = _trusting(plain.authority, plain.authority_text, verify=plain.verify)
    if plain.client is not None:
        context.load_cert_chain(*plain.client)
    elif plain.client_text is not None:
        with tempfile.NamedTemporaryFile() as file:  # ssl reads files only; other users may not read this one
            file.write(plain.client_text)
            file.flush()
            context.load_cert_chain(file.name)
    return context


def _trusting(file: str | None, text: str | None, *, verify: bool) -> ssl.SSLContext:
    """The context that trusts the authorities of a file or a text; if both are None, it trusts those of the system."""
    context = ssl.create_default_context(cafile=file, cadata=text)
    # Certificate authorities made by older cluster installers lack extensions that newer Pythons insist on.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _problem(error: Exception) -> str:
    """What is wrong, for people: the package does not check the types of fields."""
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 (byte {error.start})"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    text = str(error)
    if isinstance(error, AttributeError | TypeError | LookupError) or " object at 0x" in text:
        return "it is not a kubeconfig: a field is missing or of a wrong type"
    return text
