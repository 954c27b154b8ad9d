"""Sources of the serving certificate: files that another program maintains, or a Secret that the replicas share."""

import base64
import binascii
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import structlog

from scheduler.api.kinds import SECRET, object_path
from scheduler.api.objects import Secret
from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.serving.certificates import (
    AUTHORITY_CERTIFICATES,
    SERVING_CERTIFICATE,
    SERVING_KEY,
    CertificateError,
    from_pem,
    renewed,
    to_pem,
)
from scheduler.cluster.kube.transport.client import MERGE_PATCH, ApiClient
from scheduler.cluster.kube.transport.errors import ApiError
from scheduler.cluster.kube.transport.ratelimit import CallPriority

ATTEMPTS: Final = 5
"""Attempts to write the Secret before conflicts are reported."""
_encode = msgspec.json.Encoder().encode
log = structlog.get_logger(__name__)


class ServingCertificate(msgspec.Struct, frozen=True):
    """The serving certificate with its key and CA bundle, all PEM."""

    certificate: bytes
    """The certificate chain."""
    key: bytes
    bundle: bytes
    """The CA certificates that clients must trust; empty if another program configures the clients."""


class CertificateFiles(msgspec.Struct, frozen=True):
    """Paths of certificate files that another program maintains. An empty ``bundle`` means that it also writes the CA
    bundle into the objects that make API servers trust the server."""

    certificate: str
    key: str
    bundle: str


class CertificateSecret(msgspec.Struct, frozen=True):
    """The Secret of a certificate that the replicas maintain, and the hosts that it is valid for."""

    name: str
    hosts: tuple[str, ...]


class CertificateSource(Protocol):
    async def read(self) -> ServingCertificate:
        """Returns the current certificate. Raises CertificateError, RequestError."""


class FileSource:
    """Certificate, key and CA bundle in files; the path of the bundle may be ""."""

    def __init__(self, certificate: str, key: str, bundle: str) -> None:
        self._certificate = Path(certificate)
        self._key = Path(key)
        self._bundle = Path(bundle) if bundle else None

    async def read(self) -> ServingCertificate:
        bundle = _contents(self._bundle) if self._bundle else b""
        return ServingCertificate(_contents(self._certificate), _contents(self._key), bundle)


def _contents(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror or error}") from None


class SecretSource:
    """A Secret that the replicas share; the first replica that finds it due for renewal writes it.

    An empty Secret, as the chart creates it, is filled, so that no permission to create Secrets is needed. An invalid
    one is overwritten. A deleted one is created again with a new authority; delete it to revoke a key.
    """

    def __init__(
        self, client: ApiClient, namespace: str, name: str, hosts: Collection[str], clock: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._hosts = hosts
        self._clock = clock

    async def read(self) -> ServingCertificate:
        for _ in range(ATTEMPTS):
            stored = await self._stored()
            try:
                material = from_pem(_decoded(stored.data)) if stored and stored.data else None
            except CertificateError as error:
                log.warning("the certificates in the Secret are invalid and will be replaced", error=str(error))
                material = None
            current = renewed(material, self._hosts, self._clock())
            if current is material or await self._write(stored, to_pem(current)):
                pem = to_pem(current)
                return ServingCertificate(pem[SERVING_CERTIFICATE], pem[SERVING_KEY], pem[AUTHORITY_CERTIFICATES])
        raise CertificateError(f"Secret {self._namespace}/{self._name} was changed by others {ATTEMPTS} times")

    async def _stored(self) -> Secret | None:
        path = object_path(SECRET, self._namespace, self._name)
        try:
            body = await self._client.request("GET", path, priority=CallPriority.CONTROL)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        try:
            return msgspec.json.decode(body, type=Secret)
        except DECODE_ERRORS as error:
            raise CertificateError(f"Secret {self._namespace}/{self._name}: {error}") from None

    async def _write(self, stored: Secret | None, data: dict[str, bytes]) -> bool:
        """Writes the Secret. Returns False if another replica was faster."""
        metadata: dict[str, Any] = {"name": self._name, "namespace": self._namespace}
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        try:
            if stored is None:
                manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque"}
                body = _encode({**manifest, "data": encoded})
                path = SECRET.path_in(self._namespace)
                await self._client.request("POST", path, body=body, priority=CallPriority.CONTROL)
            else:
                # A patch keeps the labels and annotations of the Secret's creator.
                metadata = {"resourceVersion": stored.metadata.resource_version}
                await self._client.request(
                    "PATCH",
                    object_path(SECRET, self._namespace, self._name),
                    body=_encode({"metadata": metadata, "data": encoded}),
                    content_type=MERGE_PATCH,
                    priority=CallPriority.CONTROL,
                )
        except ApiError as error:
            if error.status == 409 or (stored is not None and error.status == 404):
                return False
            raise
        log.info("certificates written", secret=f"{self._namespace}/{self._name}")
        return True


def certificate_source(
    certificates: CertificateFiles | CertificateSecret, client: ApiClient, namespace: str
) -> CertificateSource:
    """The source of a certificate. ``namespace``: of the Secret."""
    if isinstance(certificates, CertificateFiles):
        return FileSource(certificates.certificate, certificates.key, certificates.bundle)
    return SecretSource(client, namespace, certificates.name, certificates.hosts, lambda: datetime.now(UTC))


def _decoded(data: dict[str, str]) -> dict[str, bytes]:
    """Decodes the data of a Secret. Raises CertificateError."""
    try:
        return {key: base64.b64decode(value, validate=True) for key, value in data.items()}
    except binascii.Error as error:
        raise CertificateError(str(error)) from None
