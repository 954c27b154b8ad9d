"""Core v1 Events, counted instead of repeated.

An Event equal to an earlier one (object, type, reason, message) increases the count of that one, at most once per
interval. A burst beyond the limits is dropped and counted: Events inform, and never delay anything else.
"""

import asyncio
import time
from collections import OrderedDict
from itertools import count

import msgspec
import structlog

from scheduler.api.decisions import EventPost, ObjectRef
from scheduler.api.kinds import KINDS
from scheduler.api.names import DEFAULT_NAMESPACE, EVENT_WARNING
from scheduler.api.reasons import Malformed
from scheduler.api.times import format_timestamp
from scheduler.cluster.kube.transport.backoff import Backoff
from scheduler.cluster.kube.transport.client import MERGE_PATCH, ApiClient, ApiError, TransportError
from scheduler.cluster.kube.transport.fence import Fence, Fenced
from scheduler.cluster.kube.transport.ratelimit import Priority
from scheduler.cluster.kube.write.lanes import Lanes, Urgency
from scheduler.observability.role_metrics import RoleMetrics

REMEMBERED = 16_384
"""How many different Events are remembered for counting."""
ATTEMPTS = 4
LONGEST = 1024
"""Characters of a message; the API server's limit."""
_API_VERSIONS = {kind.name: kind.api_version for kind in reversed(KINDS)}
_encode = msgspec.json.Encoder().encode
log = structlog.get_logger(__name__)


class _Series:
    """One Event and its number of occurrences."""

    __slots__ = ("backoff", "count", "event", "first", "last", "name", "posted", "sent_at", "timer")

    def __init__(self, event: EventPost, name: str, now: float) -> None:
        self.event = event
        self.name = name
        self.first = self.last = now
        self.count = 1
        self.posted = False
        """The API server has the Event."""
        self.sent_at = 0.0
        """When it was last sent, by the loop's clock."""
        self.timer: asyncio.TimerHandle | None = None
        self.backoff = Backoff(0.5, 10.0)


class Recorder:
    """Belongs to one event loop; ``post`` returns at once."""

    def __init__(
        self,
        client: ApiClient,
        lanes: Lanes,
        metrics: RoleMetrics,
        fence: Fence,
        component: str,
        *,
        interval: float = 30.0,
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
        self._series: OrderedDict[EventPost, _Series] = OrderedDict()
        self._numbers = count(time.time_ns())

    def post(self, event: EventPost) -> None:
        """Posts an Event, or increases the count of an equal one."""
        now = time.time()
        series = self._series.get(event)
        if series is None:
            name = f"{event.about.name[:230]}.{next(self._numbers):x}"
            series = self._series[event] = _Series(event, name, now)
            if len(self._series) > self._remembered:
                _, forgotten = self._series.popitem(last=False)
                if forgotten.timer is not None:
                    forgotten.timer.cancel()
            self._send(series)
            return
        self._series.move_to_end(event)
        series.count += 1
        series.last = now
        if series.posted and series.timer is None:
            loop = asyncio.get_running_loop()
            wait = series.sent_at + self._interval - loop.time()
            if wait <= 0:
                self._send(series)
            else:
                series.timer = loop.call_later(wait, self._send, series)

    def malformed(self, problem: Malformed, about: ObjectRef | None = None) -> None:
        """Posts a Warning on the object that names the field that is ignored and the reason."""
        ref = about or ObjectRef(
            _API_VERSIONS.get(problem.kind, "v1"), problem.kind, problem.namespace, problem.name, problem.uid
        )
        self._metrics.malformed.labels(problem.kind).inc()
        log.warning(
            "set aside", kind=problem.kind, namespace=problem.namespace, name=problem.name, problem=problem.message
        )
        self.post(EventPost(ref, EVENT_WARNING, problem.reason, problem.message))

    def _send(self, series: _Series) -> None:
        series.timer = None

        async def work() -> float | None:
            return await self._write(series)

        if not self._lanes.submit(Urgency.EVENT, id(series), work):
            self._metrics.dropped_events.inc()
            if not series.posted:
                self._series.pop(series.event, None)

    async def _write(self, series: _Series) -> float | None:
        namespace = series.event.about.namespace or DEFAULT_NAMESPACE
        path = f"/api/v1/namespaces/{namespace}/events"
        counted = series.count
        try:
            if series.posted:
                body = _encode({"count": counted, "lastTimestamp": format_timestamp(series.last)})
                await self._client.request(
                    "PATCH",
                    f"{path}/{series.name}",
                    body=body,
                    content_type=MERGE_PATCH,
                    priority=Priority.EVENT,
                    fence=self._fence,
                )
            else:
                body = self._body(series, namespace)
                await self._client.request("POST", path, body=body, priority=Priority.EVENT, fence=self._fence)
        except Fenced:
            return None
        except (ApiError, TransportError) as error:
            done = isinstance(error, ApiError) and error.status == 409 and not series.posted
            if not done:  # 409 on creation: an earlier attempt, whose answer was lost, came about
                return self._failed(series, error)
        series.posted = True
        series.sent_at = asyncio.get_running_loop().time()
        series.backoff.reset()
        if series.count > counted and series.timer is None:
            series.timer = asyncio.get_running_loop().call_later(self._interval, self._send, series)
        return None

    def _failed(self, series: _Series, error: ApiError | TransportError) -> float | None:
        transient = isinstance(error, TransportError) or error.transient
        if transient and series.backoff.failures + 1 < ATTEMPTS:
            return series.backoff.next(error.retry_after if isinstance(error, ApiError) else None)
        self._series.pop(series.event, None)  # an equal Event starts a new series
        if isinstance(error, ApiError) and error.status == 404 and series.posted:
            return None  # the old one has expired on the server
        self._metrics.dropped_events.inc()
        log.debug("an Event could not be posted", reason=series.event.reason, error=str(error))
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
                "message": event.message[:LONGEST],
                "count": series.count,
                "firstTimestamp": format_timestamp(series.first),
                "lastTimestamp": format_timestamp(series.last),
                "source": {"component": self._component},
                "reportingComponent": self._component,
                "reportingInstance": "",
            }
        )
