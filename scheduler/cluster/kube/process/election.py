"""Leader election by a Lease: one of several replicas writes, the others stand by.

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

import structlog

from scheduler.cluster.kube.process.lease import Lease, LeaseClient, LeaseSettings
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS, ApiError, TransportError
from scheduler.cluster.kube.transport.fence import Fence, clock

RELEASE_TIMEOUT = 3.0
"""Seconds for each request that releases the lease."""
log = structlog.get_logger(__name__)


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
        self._leases = LeaseClient(client, settings)
        self._settings = settings
        self._fence = fence
        self._identity = identity
        self._on_change = on_change
        self._on_attempt = on_attempt
        self._on_expiring = on_expiring
        self._free_version = free
        self._succeeds = False
        """Whether another process held the lease after this one began to read the cluster."""
        self._lease: Lease | None = None
        self._seen: tuple[str, float] = ("", 0.0)
        """Resource version of another's lease, and when (by our clock) it was first seen."""
        self._free_at = 0.0
        """When that lease expires."""
        self._announced = ""
        """Resource version of the lease for which ``on_expiring`` was called last."""
        self.replaced_expired = False
        """Whether this process took the lease after it had expired, unchanged since ``on_expiring`` was called."""

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
            except REQUEST_ERRORS as error:
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
            except REQUEST_ERRORS as error:
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
        except REQUEST_ERRORS as error:
            log.warning("the lease could not be released", error=str(error))

    async def _clear(self, lease: Lease) -> None:
        """Writes the lease without a holder. A renewal that was cancelled may have been stored: its version of the
        lease is read and cleared, if this process is still the holder."""
        try:
            await self._leases.write(lease, lease.spec.released(), RELEASE_TIMEOUT)
        except ApiError as error:
            if error.status != 409:
                raise
            lease = await self._leases.read(RELEASE_TIMEOUT)
            if lease.spec.holder_identity == self._identity:
                await self._leases.write(lease, lease.spec.released(), RELEASE_TIMEOUT)

    @property
    def _first_timeout(self) -> float:
        """Seconds for the first check of another's lease: a connection that died with the leader must not delay the
        takeover. Later checks may take longer, in case the API server is slow."""
        return min(self._settings.renew_deadline, max(1.0, self._settings.retry_period))

    # --- attempts -----------------------------------------------------------------------------------------------------
    async def _try(self, started: float, seconds: float) -> bool:
        """Tries to take or renew the lease once; returns whether this process holds it. Raises RequestError."""
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
            self._lease = await self._leases.read(seconds)
        except ApiError as error:
            if error.status != 404:
                raise
            return await self._create(seconds)
        lease = self._lease
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

    async def _create(self, seconds: float) -> bool:
        try:
            self._lease = await self._leases.create(self._identity, seconds)
        except ApiError as error:
            if error.status == 409:
                return False
            raise
        return True

    async def _write(self, lease: Lease, seconds: float) -> None:
        spec = lease.spec.held(self._identity, self._settings.duration)
        self._lease = await self._leases.write(lease, spec, seconds)

    def _free(self, lease: Lease) -> bool:
        """Whether the lease is ours, has no holder, or has not been renewed for its duration by our clock."""
        holder = lease.spec.holder_identity
        if not holder or holder == self._identity:
            return True
        version = lease.metadata.resource_version
        if self._seen[0] != version:
            self._seen = (version, clock())
        self._free_at = self._seen[1] + (lease.spec.lease_duration_seconds or self._settings.duration)
        return clock() >= self._free_at
