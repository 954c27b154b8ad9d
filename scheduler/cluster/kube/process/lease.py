"""Leader election by a coordination.k8s.io/v1 Lease: one of several replicas writes, the others stand by.

The leader renews the lease after a quarter of its duration, as the kubelet renews the lease of its node, and retries
every retry period. If it does not succeed within the renew deadline, it gives up leadership before the lease expires
for others; ``fence`` stops requests after that moment.

A standby measures the lease's duration by its own clock, from the moment at which it saw the last renewal. It checks
the lease several times per retry period, and when the lease expires: it replaces a killed leader after at most the
duration plus the pause between two checks. Between the time until which the leader may write and the expiry, it calls
``on_expiring``, so that it can learn what the leader has written before it leads itself.
"""

import asyncio
import random
import socket
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import structlog

from scheduler.api.objects import ObjectMeta, Wire
from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, TransportError
from scheduler.cluster.kube.transport.fence import Fence, clock
from scheduler.cluster.kube.transport.ratelimit import Priority

RELEASE_TIMEOUT = 3.0
"""Seconds for each request that releases the lease."""
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


class _Spec(Wire):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(Wire):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


async def free_version(client: ApiClient, settings: LeaseSettings | None) -> str:
    """Returns the resource version of a lease that no process holds; "" if a process holds it, if there is no lease, or
    if that is not known."""
    if settings is None:
        return ""
    path = f"{_leases(settings)}/{settings.name}"
    try:
        body = await client.request("GET", path, priority=Priority.CONTROL, timeout=settings.retry_period)
        lease = msgspec.json.decode(body, type=_Lease)
    except (ApiError, TransportError, *DECODE_ERRORS):
        return ""
    return "" if lease.spec.holder_identity else lease.metadata.resource_version


async def until_released(client: ApiClient, settings: LeaseSettings, progress: Callable[[], None]) -> None:
    """Waits while another process holds a lease and renews it. A lease that does not exist is not held. Calls
    ``progress`` again and again meanwhile."""
    path = f"{_leases(settings)}/{settings.name}"
    renewed: str | None = None
    since = clock()
    while True:
        try:
            body = await client.request("GET", path, priority=Priority.CONTROL, timeout=settings.retry_period)
            spec = msgspec.json.decode(body, type=_Lease).spec
            if not spec.holder_identity:
                return
            if spec.renew_time != renewed:
                if renewed is None:
                    log.info("waiting for the holder of a lease", lease=settings.name, holder=spec.holder_identity)
                renewed, since = spec.renew_time, clock()
            elif clock() - since > (spec.lease_duration_seconds or settings.duration):
                return
        except ApiError as error:
            if error.status == 404:
                return
            log.warning("cannot read a lease", lease=settings.name, error=str(error))
        except (TransportError, *DECODE_ERRORS) as error:
            log.warning("cannot read a lease", lease=settings.name, error=str(error))
        progress()
        await asyncio.sleep(settings.check_period)


def _leases(settings: LeaseSettings) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{settings.namespace}/leases"


def new_identity() -> str:
    """Host name and a random part: unique for every process."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """``acquire``, then ``hold`` until it returns (lost) or is cancelled, then ``release``."""

    def __init__(
        self,
        client: ApiClient,
        settings: LeaseSettings,
        fence: Fence,
        identity: str,
        *,
        on_change: Callable[[bool], None] = lambda leading: None,
        on_attempt: Callable[[], None] = lambda: None,
        on_expiring: Callable[[], None] = lambda: None,
        free: str = "",
    ) -> None:
        """``on_change`` is called with whether this process leads, ``on_attempt`` after each failed attempt to lead,
        ``on_expiring`` when another's lease has not been renewed for longer than its holder may write. ``free``: the
        result of ``free_version`` before this process began to read the cluster."""
        self._client = client
        self._settings = settings
        self._fence = fence
        self._identity = identity
        self._on_change = on_change
        self._on_attempt = on_attempt
        self._on_expiring = on_expiring
        self._free_version = free
        self._succeeds = False
        """Whether another process held the lease after this one began to read the cluster."""
        self._lease: _Lease | None = None
        self._seen: tuple[str, float] = ("", 0.0)
        """Resource version of another's lease, and when (by our clock) it was first seen."""
        self._free_at = 0.0
        """When that lease expires."""
        self._announced = ""
        """Resource version of the lease for which ``on_expiring`` was called last."""
        self.replaced_expired = False
        """Whether this process took the lease after it had expired, unchanged since ``on_expiring`` was called."""
        self._path = _leases(settings)

    async def acquire(self) -> bool:
        """Waits until this process leads; returns whether another process may have written since this one began to read
        the cluster."""
        waited = False
        logged = ""
        timeout = self._first_timeout
        while True:
            started = clock()
            pause = self._settings.retry_period * random.uniform(1.0, 1.2)
            try:
                if await self._try(started, timeout):
                    log.info("leading", lease=self._settings.name, identity=self._identity)
                    self._on_change(True)
                    return waited or self._succeeds
                holder = (self._lease.spec.holder_identity if self._lease else None) or ""
                text = f"held by {holder}"
                timeout = self._first_timeout
                self._announce_expiry()
                check_pause = self._settings.check_period * random.uniform(1.0, 1.2)
                pause = min(check_pause, max(0.0, self._free_at - clock())) or check_pause
            except (ApiError, TransportError, *DECODE_ERRORS) as error:
                text = str(error)
                timeout = min(self._settings.renew_deadline, 2 * timeout)
            waited = True
            if text != logged:
                log.info("standing by", lease=f"{self._settings.namespace}/{self._settings.name}", why=text)
                logged = text
            self._on_attempt()
            await asyncio.sleep(pause)

    def _announce_expiry(self) -> None:
        version = self._seen[0]
        if version != self._announced and clock() >= self._free_at - self._settings.expiring:
            self._announced = version
            self._on_expiring()

    async def hold(self) -> str:
        """Renews until renewal fails for too long or another process holds the lease. Returns why leadership was lost.
        One attempt may take half of the deadline: if its connection is dead, the next attempt uses another."""
        started = clock()
        deadline, pause = started + self._settings.renew_deadline, self._settings.renew_period
        why = "not renewed in time"
        while True:
            await asyncio.sleep(max(0.0, min(started + pause, deadline) - clock()))
            started, pause = clock(), self._settings.retry_period
            if started >= deadline:
                break
            try:
                if not await self._try(started, min(deadline - started, self._settings.renew_deadline / 2)):
                    why = f"taken over by {self._lease.spec.holder_identity if self._lease else 'another'}"
                    break
                deadline, pause = started + self._settings.renew_deadline, self._settings.renew_period
            except (ApiError, TransportError, *DECODE_ERRORS) as error:
                why = str(error)
                log.warning("the lease could not be renewed", error=why, seconds_left=round(deadline - clock(), 1))
        self._fence.close()
        self._on_change(False)
        return why

    async def release(self) -> None:
        """Releases the lease, so that others can take it at once. No writes follow."""
        leading = self._fence.is_open
        self._fence.close()
        self._on_change(False)
        if not leading or self._lease is None:
            return
        try:
            await self._clear(self._lease)
            log.info("lease released", lease=self._settings.name)
        except (ApiError, TransportError, *DECODE_ERRORS) as error:
            log.warning("the lease could not be released", error=str(error))

    async def _clear(self, lease: _Lease) -> None:
        """Writes the lease without a holder. A renewal that was cancelled may have been stored: its version of the
        lease is read and cleared, if this process is still the holder."""
        try:
            await self._put(_Lease(metadata=lease.metadata, spec=_no_holder(lease.spec)), RELEASE_TIMEOUT)
        except ApiError as error:
            if error.status != 409:
                raise
            lease = await self._get(RELEASE_TIMEOUT)
            if lease.spec.holder_identity == self._identity:
                await self._put(_Lease(metadata=lease.metadata, spec=_no_holder(lease.spec)), RELEASE_TIMEOUT)

    @property
    def _first_timeout(self) -> float:
        """Seconds for the first check of another's lease: a connection that died with the leader must not delay the
        takeover. Later checks may take longer, in case the API server is slow."""
        return min(self._settings.renew_deadline, max(1.0, self._settings.retry_period))

    # --- attempts -----------------------------------------------------------------------------------------------------
    async def _try(self, started: float, seconds: float) -> bool:
        """Tries to take or renew the lease once; returns whether this process holds it. Raises ApiError,
        TransportError."""
        try:
            async with asyncio.timeout(seconds):
                won = await self._attempt(seconds)
        except TimeoutError:
            raise TransportError("no answer in time", sent=True) from None
        if won:
            self._fence.extend(started + self._settings.renew_deadline, started + self._settings.duration)
        return won

    async def _attempt(self, seconds: float) -> bool:
        if self._lease is not None and self._lease.spec.holder_identity == self._identity:
            try:
                await self._write(self._lease, seconds)  # unchanged since, so there is no need to read it
                return True
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
        try:
            lease = await self._get(seconds)
        except ApiError as error:
            if error.status != 404:
                raise
            return await self._create(seconds)
        self._lease = lease
        if not self._free(lease):
            return False
        holder, version = lease.spec.holder_identity, lease.metadata.resource_version
        self._succeeds = holder != self._identity and version != self._free_version
        self.replaced_expired = bool(holder) and holder != self._identity and version == self._announced
        try:
            await self._write(lease, seconds)
        except ApiError as error:
            if error.status == 409:
                return False
            raise
        return True

    def _free(self, lease: _Lease) -> bool:
        """Whether the lease is ours, has no holder, or has not been renewed for its duration by our clock."""
        holder = lease.spec.holder_identity
        if not holder or holder == self._identity:
            return True
        version = lease.metadata.resource_version
        if self._seen[0] != version:
            self._seen = (version, clock())
        self._free_at = self._seen[1] + (lease.spec.lease_duration_seconds or self._settings.duration)
        return clock() >= self._free_at

    async def _get(self, seconds: float) -> _Lease:
        path = f"{self._path}/{self._settings.name}"
        body = await self._client.request("GET", path, priority=Priority.CONTROL, timeout=seconds)
        return msgspec.json.decode(body, type=_Lease)

    async def _create(self, seconds: float) -> bool:
        now = _micro_time()
        spec = _Spec(
            holder_identity=self._identity,
            lease_duration_seconds=max(1, round(self._settings.duration)),
            acquire_time=now,
            renew_time=now,
            lease_transitions=0,
        )
        lease = _Lease(metadata=ObjectMeta(name=self._settings.name, namespace=self._settings.namespace), spec=spec)
        try:
            body = await self._client.request(
                "POST", self._path, body=_encoded(lease), priority=Priority.CONTROL, timeout=seconds
            )
        except ApiError as error:
            if error.status == 409:
                return False
            raise
        self._lease = msgspec.json.decode(body, type=_Lease)
        return True

    async def _write(self, lease: _Lease, seconds: float) -> None:
        """Writes our identity and the time into the lease."""
        spec = lease.spec
        now = _micro_time()
        renewed = _Spec(
            holder_identity=self._identity,
            lease_duration_seconds=max(1, round(self._settings.duration)),
            acquire_time=spec.acquire_time if spec.holder_identity == self._identity else now,
            renew_time=now,
            lease_transitions=(spec.lease_transitions or 0) + (spec.holder_identity != self._identity),
        )
        await self._put(_Lease(metadata=lease.metadata, spec=renewed), seconds)

    async def _put(self, lease: _Lease, seconds: float) -> None:
        path = f"{self._path}/{self._settings.name}"
        body = await self._client.request("PUT", path, body=_encoded(lease), priority=Priority.CONTROL, timeout=seconds)
        self._lease = msgspec.json.decode(body, type=_Lease)


def _no_holder(spec: _Spec) -> _Spec:
    """A released lease: any candidate may take it at once. The number of transitions is kept."""
    now = _micro_time()
    return _Spec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=now,
        renew_time=now,
        lease_transitions=spec.lease_transitions,
    )


def _encoded(lease: _Lease) -> bytes:
    fields = msgspec.to_builtins(lease)
    return msgspec.json.encode({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **fields})


def _micro_time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
