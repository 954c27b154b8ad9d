"""The Lease of leader election (coordination.k8s.io/v1): its settings, its fields, and the requests about it.

A write names the version that it replaces, and the API server refuses it if there is a later one (409).
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import structlog

from scheduler.api.objects import ObjectMeta, Wire
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS, status_of
from scheduler.cluster.kube.transport.fence import clock
from scheduler.cluster.kube.transport.ratelimit import CallPriority

RENEWALS = 4
"""How often a leader renews the lease per duration of the lease."""
CHECKS = 10
"""How often a standby checks the lease per retry period."""
log = structlog.get_logger(__name__)


class LeaseSettings(msgspec.Struct, frozen=True):
    """Name and namespace of the Lease, and its times in seconds."""

    namespace: str
    name: str
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    @property
    def renew_period(self) -> float:
        """Seconds between two renewals: time for two more attempts remains before the renew deadline."""
        latest = self.renew_deadline - 2 * self.retry_period
        return max(self.retry_period, min(self.duration / RENEWALS, latest))

    @property
    def check_period(self) -> float:
        """Seconds between two checks of a lease that another process holds."""
        return self.retry_period / CHECKS

    @property
    def expiring(self) -> float:
        """Seconds before its expiry from which a lease that is not renewed counts as expiring: half of the time in
        which its holder does not write any more."""
        return (self.duration - self.renew_deadline) / 2


class LeaseSpec(Wire):
    """``spec`` of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None

    def held(self, identity: str, duration: float) -> "LeaseSpec":
        """The next spec: a process acquires the lease now, or renews its own. ``duration`` in seconds."""
        now = _micro_time()
        acquired = self.holder_identity != identity
        return LeaseSpec(
            holder_identity=identity,
            lease_duration_seconds=max(1, round(duration)),
            acquire_time=now if acquired else self.acquire_time,
            renew_time=now,
            lease_transitions=0 if self.lease_transitions is None else self.lease_transitions + acquired,
        )

    def released(self) -> "LeaseSpec":
        """The next spec without a holder: any candidate may take the lease at once. The number of transitions is
        kept."""
        now = _micro_time()
        return LeaseSpec(
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=now,
            renew_time=now,
            lease_transitions=self.lease_transitions,
        )


class Lease(Wire):
    """A Lease, with the fields that leader election uses."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class LeaseClient:
    """Reads and writes one Lease. Each request takes at most the given number of seconds. All methods raise
    REQUEST_ERRORS."""

    def __init__(self, client: ApiClient, settings: LeaseSettings) -> None:
        self._client = client
        self._settings = settings
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{settings.namespace}/leases"
        self._path = f"{self._leases}/{settings.name}"

    async def read(self, seconds: float) -> Lease:
        return await self._request("GET", self._path, None, seconds)

    async def create(self, identity: str, seconds: float) -> Lease:
        """Creates the lease, held by a process."""
        spec = LeaseSpec().held(identity, self._settings.duration)
        meta = ObjectMeta(name=self._settings.name, namespace=self._settings.namespace)
        return await self._request("POST", self._leases, Lease(metadata=meta, spec=spec), seconds)

    async def write(self, lease: Lease, spec: LeaseSpec, seconds: float) -> Lease:
        """Writes the next spec of a lease; returns the new version of the lease."""
        return await self._request("PUT", self._path, Lease(metadata=lease.metadata, spec=spec), seconds)

    async def _request(self, method: str, path: str, lease: Lease | None, seconds: float) -> Lease:
        body = None if lease is None else _encoded(lease)
        answer = await self._client.request(method, path, body=body, priority=CallPriority.CONTROL, timeout=seconds)
        return msgspec.json.decode(answer, type=Lease)


async def free_version(client: ApiClient, settings: LeaseSettings | None) -> str:
    """Returns the resource version of a lease that no process holds; "" if a process holds it, if there is no lease, or
    if that is not known."""
    if settings is None:
        return ""
    try:
        lease = await LeaseClient(client, settings).read(settings.retry_period)
    except REQUEST_ERRORS:
        return ""
    return "" if lease.spec.holder_identity else lease.metadata.resource_version


async def until_released(client: ApiClient, settings: LeaseSettings, progress: Callable[[], None]) -> None:
    """Waits while another process holds a lease and renews it. A lease that does not exist is not held. Calls
    ``progress`` again and again meanwhile."""
    leases = LeaseClient(client, settings)
    renewed: str | None = None
    since = clock()
    while True:
        try:
            spec = (await leases.read(settings.retry_period)).spec
            if not spec.holder_identity:
                return
            if spec.renew_time != renewed:
                if renewed is None:
                    log.info("waiting for the holder of a lease", lease=settings.name, holder=spec.holder_identity)
                renewed, since = spec.renew_time, clock()
            elif clock() - since > (spec.lease_duration_seconds or settings.duration):
                return
        except REQUEST_ERRORS as error:
            if status_of(error) == 404:
                return
            log.warning("cannot read a lease", lease=settings.name, error=str(error))
        progress()
        await asyncio.sleep(settings.check_period)


def _encoded(lease: Lease) -> bytes:
    fields = msgspec.to_builtins(lease)
    return msgspec.json.encode({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **fields})


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
