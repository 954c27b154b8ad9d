"""The credentials of clients and servers of the control plane of the tests.

This module creates three kinds of credentials, which are deleted after the run: a certificate authority for servers on
loopback, kubeconfig files, and the bearer tokens in them. kube-apiserver reads its token file only once, when it
starts, whereas tests need users with rights of their own at any time. So tokens are looked up over HTTP, in this
process, through the token webhook of the API server. `controlplane.run` starts the servers.
"""

import json
import secrets
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALIDITY = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Identity:
    """A user as the API server sees one after authentication."""

    user: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """Paths of a PEM certificate and of its unencrypted private key."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose certificate is at `path`. The certificates that it signs are valid for a few days
    on loopback."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "control plane for tests")])
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
        self.path = directory / "ca.crt"
        self.path.write_text(self.pem, encoding="ascii")

    def issue(self, name: str, hosts: Sequence[str] = (), *, client: bool = False) -> ServerCertificate:
        """Writes and returns a certificate for a server on 127.0.0.1 and localhost, and with the DNS names and IP
        addresses `hosts`; with `client`, a certificate for a client of this name."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = [_alternative(host) for host in ("localhost", "127.0.0.1", *hosts)]
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        certificate = (
            self._builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        issued = ServerCertificate(self._directory / f"{name}.crt", self._directory / f"{name}.key")
        issued.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        _write_private(issued.key, key)
        return issued

    def client_context(self) -> ssl.SSLContext:
        """TLS settings of a client that trusts only this authority."""
        return ssl.create_default_context(cadata=self.pem)

    def _builder(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        # Certificates are valid from an hour ago, because the clock that checks them may differ from the clock that
        # signs them.
        begin = datetime.now(UTC) - timedelta(hours=1)
        own = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + _VALIDITY)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), critical=False)
        )


def write_signing_key(path: Path) -> None:
    """Write a fresh RSA private key that the API server signs service account tokens with."""
    _write_private(path, rsa.generate_private_key(public_exponent=65537, key_size=2048))


def write_kubeconfig(path: Path, url: str, token: str, authority: Path) -> None:
    """Write a kubeconfig file with a single context for `url`. It is JSON, which every reader of YAML accepts."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": url, "certificate-authority": str(authority)}}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    path.chmod(0o600)


class TokenReviewer:
    """Issues bearer tokens, and answers the API server's requests for their users, over HTTP on 127.0.0.1.

    The class is a context manager; tokens are valid while it is open. `configuration` is the file for the API server's
    option `--authentication-token-webhook-config-file`.
    """

    def __init__(self, directory: Path) -> None:
        self._identities: dict[str, Identity] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._identities))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="token-reviewer", daemon=True)
        self.configuration = directory / "token-webhook.json"
        url = f"http://127.0.0.1:{self._server.server_port}/"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "reviewer", "cluster": {"server": url}}],
            "users": [{"name": "apiserver"}],
            "contexts": [{"name": "reviewer", "context": {"cluster": "reviewer", "user": "apiserver"}}],
            "current-context": "reviewer",
        }
        self.configuration.write_text(json.dumps(config), encoding="utf-8")

    def issue(self, user: str, groups: Sequence[str] = ()) -> str:
        """A new token for `user`, who is a member of exactly `groups` and of `system:authenticated`."""
        token = secrets.token_urlsafe(24)
        self._identities[token] = Identity(user, tuple(groups))
        return token

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(identities: dict[str, Identity]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            identity = identities.get(review["spec"]["token"])
            status: dict[str, Any] = {"authenticated": identity is not None}
            if identity is not None:
                status["user"] = {"username": identity.user, "uid": identity.user, "groups": list(identity.groups)}
            body = json.dumps({"apiVersion": review["apiVersion"], "kind": "TokenReview", "status": status}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing: a line per token on stderr would hide the output of the tests."""

    return Handler


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_private(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
