"""Core v1 Events, counted instead of repeated.

An object has one Event for each cause: type, reason, and message without its numbers. Its count and its message are
updated at most once per interval. The name of an Event is a digest of object and cause, so a restarted scheduler
continues to count where its predecessor stopped. A burst beyond the limits is dropped and counted: Events inform, and
never delay anything else.
"""

import asyncio
import re
import time
from collections import OrderedDict
from hashlib import blake2b
from typing import Final

import msgspec
import structlog

from scheduler.api.decisions import EventRecord, ObjectRef
from scheduler.api.kinds import api_version_of
from scheduler.api.names import DEFAULT_NAMESPACE, EVENT_WARNING
from scheduler.api.reasons import Malformed
from scheduler.api.times import format_timestamp
from scheduler.cluster.kube.transport.client import MERGE_PATCH, ApiClient
from scheduler.cluster.kube.transport.errors import ApiError, RequestError
from scheduler.cluster.kube.transport.fence import Fence, Fenced
from scheduler.cluster.kube.transport.ratelimit import Backoff, CallPriority
from scheduler.cluster.kube.write.lanes import Lanes, Urgency
from scheduler.observability.role_metrics import RoleMetrics

REMEMBERED = 16_384
"""How many different Events are remembered for counting."""
ATTEMPTS = 4
MAX_MESSAGE_LENGTH = 1024
"""Characters of a message; the API server's limit."""
INTERVAL: Final = 60.0
"""Least number of seconds between two updates of an Event."""
_NUMBER = re.compile(r"(?<![\w.-])\d[\d.]*(?:[numkKMGTPE]i?\b)?")
"""A number or amount, but not the number in a name such as ``train-0``."""
_encode = msgspec.json.Encoder().encode
log = structlog.get_logger(__name__)


class _Existing(msgspec.Struct, rename="camel"):
    """The result of an update of an Event."""

    first_timestamp: str | None = None
    count: int | None = None


class _Series:
    """One Event and its number of occurrences."""

    __slots__ = ("backoff", "cause", "count", "event", "first", "last", "name", "sent_at", "stored", "timer")

    def __init__(self, event: EventRecord, cause: EventRecord, component: str, now: float) -> None:
        self.event = event
        """The latest occurrence."""
        self.cause = cause
        digest = blake2b(_encode((component, cause)), digest_size=8)
        self.name = f"{event.about.name[:230]}.{digest.hexdigest()}"
        self.first = self.last = now
        self.count = 1
        self.stored = False
        """The API server has the Event."""
        self.sent_at = 0.0
        """When it was last sent, by the loop's clock."""
        self.timer: asyncio.TimerHandle | None = None
        self.backoff = Backoff(0.5, 10.0)


class EventRecorder:
    """Belongs to one event loop; ``record`` returns at once."""

    def __init__(
        self,
        client: ApiClient,
        lanes: Lanes,
        metrics: RoleMetrics,
        fence: Fence,
        component: str,
        *,
        interval: float = INTERVAL,
        remembered: int = REMEMBERED,
    ) -> None:
        """``component``: the scheduler's name; ``interval``: seconds between two updates of one Event."""
        self._client = client
        self._lanes = lanes
        self._metrics = metrics
        self._fence = fence
        self._component = component
        self._interval = interval
        self._remembered = remembered
        self._series: OrderedDict[EventRecord, _Series] = OrderedDict()

    def record(self, event: EventRecord) -> None:
        """Records an Event, or increases the count of the Event with the same object and cause."""
        now = time.time()
        cause = msgspec.structs.replace(event, message=_NUMBER.sub("#", event.message))
        series = self._series.get(cause)
        if series is None:
            series = self._series[cause] = _Series(event, cause, self._component, now)
            if len(self._series) > self._remembered:
                _, forgotten = self._series.popitem(last=False)
                if forgotten.timer is not None:
                    forgotten.timer.cancel()
            self._send(series)
            return
        self._series.move_to_end(cause)
        series.event = event
        series.count += 1
        series.last = now
        if series.stored and series.timer is None:
            loop = asyncio.get_running_loop()
            wait = series.sent_at + self._interval - loop.time()
            if wait <= 0:
                self._send(series)
            else:
                series.timer = loop.call_later(wait, self._send, series)

    def malformed(self, problem: Malformed, about: ObjectRef | None = None) -> None:
        """Records a Warning on the object that names the field that is ignored and the reason."""
        ref = about or ObjectRef(
            api_version_of(problem.kind), problem.kind, problem.namespace, problem.name, problem.uid
        )
        self._metrics.malformed.labels(problem.kind).inc()
        log.warning(
            "set aside", kind=problem.kind, namespace=problem.namespace, name=problem.name, problem=problem.message
        )
        self.record(EventRecord(ref, EVENT_WARNING, problem.reason, problem.message))

    def _send(self, series: _Series) -> None:
        series.timer = None

        async def work() -> float | None:
            return await self._write(series)

        if not self._lanes.submit(Urgency.EVENT, id(series), work):
            self._metrics.dropped_events.inc()
            if not series.stored:
                self._series.pop(series.cause, None)

    async def _write(self, series: _Series) -> float | None:
        namespace = series.event.about.namespace or DEFAULT_NAMESPACE
        path = f"/api/v1/namespaces/{namespace}/events"
        counted = series.count
        try:
            if series.stored:
                await self._patch(
                    series, path, {"count": counted, "message": series.event.message[:MAX_MESSAGE_LENGTH]}
                )
            else:
                try:
                    body = self._body(series, namespace)
                    await self._client.request("POST", path, body=body, priority=CallPriority.EVENT, fence=self._fence)
                except ApiError as error:
                    if error.status != 409:
                        raise
                    counted = await self._continue(series, path)
        except Fenced:
            return None
        except RequestError as error:
            return self._failed(series, error)
        series.stored = True
        series.sent_at = asyncio.get_running_loop().time()
        series.backoff.reset()
        if series.count > counted and series.timer is None:
            series.timer = asyncio.get_running_loop().call_later(self._interval, self._send, series)
        return None

    async def _continue(self, series: _Series, path: str) -> int:
        """Adds the count of a series to the existing Event of its name. Returns the sum. Raises RequestError and
        Fenced."""
        reply = await self._patch(series, path, {"message": series.event.message[:MAX_MESSAGE_LENGTH]})
        existing = msgspec.json.decode(reply, type=_Existing)
        written = existing.count or 0
        series.stored = True
        if existing.first_timestamp == format_timestamp(series.first):
            return written  # created by an attempt of this series whose answer was lost
        series.count += written
        counted = series.count
        await self._patch(series, path, {"count": counted})
        return counted

    async def _patch(self, series: _Series, path: str, changes: dict[str, object]) -> bytes:
        return await self._client.request(
            "PATCH",
            f"{path}/{series.name}",
            body=_encode({**changes, "lastTimestamp": format_timestamp(series.last)}),
            content_type=MERGE_PATCH,
            priority=CallPriority.EVENT,
            fence=self._fence,
        )

    def _failed(self, series: _Series, error: RequestError) -> float | None:
        if error.transient and series.backoff.failures + 1 < ATTEMPTS:
            return series.backoff.next(error.retry_after)
        self._series.pop(series.cause, None)  # an equal Event starts a new series
        if error.status == 404 and series.stored:
            return None  # the old one has expired on the server
        self._metrics.dropped_events.inc()
        log.debug("an Event could not be recorded", reason=series.event.reason, error=str(error))
        return None

    def _body(self, series: _Series, namespace: str) -> bytes:
        event, about = series.event, series.event.about
        involved = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        }
        return _encode(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": series.name, "namespace": namespace},
                "involvedObject": {key: value for key, value in involved.items() if value},
                "type": event.type,
                "reason": event.reason,
                "message": event.message[:MAX_MESSAGE_LENGTH],
                "count": series.count,
                "firstTimestamp": format_timestamp(series.first),
                "lastTimestamp": format_timestamp(series.last),
                "source": {"component": self._component},
                "reportingComponent": self._component,
                "reportingInstance": "",
            }
        )
