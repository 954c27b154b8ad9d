"""The run of one preparation: it computes the next step, writes, waits, and undoes its writes when the binding fails.

The current object comes from the cache, or from the server where the cache is known to be stale. The cache receives
each answer of the server before the watch does.
"""

import asyncio
import time
from typing import Protocol

import msgspec
import structlog

from scheduler.api.decisions import Bind
from scheduler.api.kinds import Kind, object_path
from scheduler.api.objects import KubeObject
from scheduler.api.preparation import Fail, Preparation, PreparationPatch, Step, Wait
from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.transport.backoff import Backoff
from scheduler.cluster.kube.transport.client import JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from scheduler.cluster.kube.transport.errors import ApiError, RequestError
from scheduler.cluster.kube.transport.fence import Fenced
from scheduler.cluster.kube.write import bodies

ATTEMPTS = 8
"""Failed requests in a row after which the preparation fails; conflicts do not count."""
UNDOING = 30.0
"""Seconds for undoing one write."""
log = structlog.get_logger(__name__)


class PreparationError(Exception):
    """A Pod cannot be prepared for its binding."""

    def __init__(self, bind: Bind, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.bind = bind
        self.gone = gone
        """The Pod is gone, or is no longer to be bound as decided: nothing is reported."""


class CachedObjects(Protocol):
    """The cached objects of the cluster."""

    def stores(self, kind: Kind) -> bool: ...

    def find(self, kind: Kind, namespace: str, name: str) -> KubeObject | None: ...

    def confirm(self, kind: Kind, obj: KubeObject) -> None: ...

    def is_binding(self, bind: Bind) -> bool: ...


class PreparationClient(Protocol):
    """Sends requests for preparations."""

    objects: CachedObjects

    async def request(self, method: str, path: str, body: bytes | None = None, content_type: str = JSON) -> bytes:
        """Raises RequestError, Fenced."""
        ...


class PreparationRun:
    """Runs one preparation, for a binding or for several that share it, and those that follow from it."""

    def __init__(self, client: PreparationClient, preparation: Preparation, bind: Bind) -> None:
        self.bind = bind
        self.at_binding = preparation.at_binding
        self._client = client
        self._preparation = preparation
        self._deadline: float | None = None
        self._sent: dict[int, Preparation] = {}
        """Preparations whose write may have taken effect, by identity."""
        self._accepted = False
        """A write of the current preparation has succeeded."""
        self._stale = not client.objects.stores(preparation.kind)
        """The cached object is out of date, or the cache does not keep its kind."""
        self._pause = Backoff(0.05, 1.0)
        self._failures = 0

    async def advance(self) -> float | None:
        """Takes all steps that are possible now. Returns the seconds to wait before the next call, or None when
        everything is prepared.

        Raises PreparationError, and Fenced if this process is no longer the leader.
        """
        if self._deadline is None:
            self._deadline = time.monotonic() + self._preparation.timeout
        try:
            found = await self._fetch()
            while True:
                step = self._next_step(found)
                if step is None:
                    return None
                if isinstance(step, Fail):
                    raise PreparationError(self.bind, step.message)
                if isinstance(step, Wait):
                    self._check_time(step.what)
                    return self._pause.next()
                if isinstance(step, Preparation):
                    self._go_on_with(step)
                    found = await self._fetch()
                elif found is None:
                    raise PreparationError(self.bind, f"{self._preparation} is gone")
                else:
                    self._check_time(f"{self._preparation} to be written")
                    found = await self._write(step, found)
                    self._accepted = True
                    self._pause.reset()
        except RequestError as error:
            return self._again(error)
        except DECODE_ERRORS as error:
            raise PreparationError(self.bind, f"{self._preparation} cannot be read: {error}") from None

    async def undo(self) -> None:
        """Undoes the writes as far as possible. Raises nothing."""
        for preparation in reversed(list(self._sent.values())):
            self._go_on_with(preparation)
            self._deadline = time.monotonic() + UNDOING
            while (seconds := await self._undo()) is not None:
                await asyncio.sleep(seconds)
        self._sent.clear()

    async def _undo(self) -> float | None:
        """Tries to undo the current preparation. Returns the seconds to wait before the next attempt, or None when
        done."""
        preparation = self._preparation
        try:
            found = await self._fetch()
            patch = None if found is None else preparation.undo(found, time.time())
            if patch is not None and found is not None:
                await self._write(patch, found)
        except RequestError as error:
            try:
                return self._again(error)
            except PreparationError:
                log.warning("write could not be undone", object=str(preparation), error=str(error))
        except (Fenced, *DECODE_ERRORS) as error:
            log.warning("write was not undone", object=str(preparation), error=str(error))
        return None

    def _next_step(self, found: KubeObject | None) -> Step:
        """Computes the next step. Raises PreparationError for any exception: a binding must not hang."""
        preparation = self._preparation
        ask = preparation.follow_up if self._accepted else preparation.step
        try:
            return ask(found, time.time())
        except Exception as error:
            log.exception("preparation raised an exception", object=str(preparation))
            raise PreparationError(self.bind, f"{preparation}: {type(error).__name__}: {error}") from error

    def _go_on_with(self, preparation: Preparation) -> None:
        self._preparation = preparation
        self._accepted = False
        self._failures = 0
        self._stale = not self._client.objects.stores(preparation.kind)

    def _check_time(self, what: str) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise PreparationError(self.bind, f"timed out after {self._preparation.timeout:g} s waiting for {what}")

    def _again(self, error: RequestError) -> float:
        """Returns the seconds until the next attempt, after an error. Raises PreparationError."""
        conflict = error.status in (404, 409)
        self._failures += not conflict
        if not (conflict or error.transient) or self._failures >= ATTEMPTS:
            raise PreparationError(self.bind, f"{self._preparation}: {error}")
        self._stale = True
        self._check_time(f"{self._preparation} to be written, last answered {error}")
        return self._pause.next(error.retry_after)

    async def _fetch(self) -> KubeObject | None:
        """The current object, from the cache unless that is stale or does not keep the kind."""
        client, preparation = self._client, self._preparation
        if not self._stale:
            return client.objects.find(preparation.kind, preparation.namespace, preparation.name)
        try:
            body = await client.request("GET", self._path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        self._stale = not client.objects.stores(preparation.kind)
        return self._received(body)

    async def _write(self, patch: PreparationPatch, found: KubeObject) -> KubeObject:
        self._sent[id(self._preparation)] = self._preparation
        path = f"{self._path}/{patch.subresource}" if patch.subresource else self._path
        content_type = STRATEGIC_MERGE_PATCH if patch.strategic else MERGE_PATCH
        body = await self._client.request("PATCH", path, bodies.exactly(patch, found), content_type)
        self._failures = 0
        return self._received(body)

    def _received(self, body: bytes) -> KubeObject:
        """Decodes an answer and passes the object to the cache."""
        kind = self._preparation.kind
        assert kind.struct is not None
        found = msgspec.json.decode(body, type=kind.struct)
        self._client.objects.confirm(kind, found)
        return found

    @property
    def _path(self) -> str:
        preparation = self._preparation
        return object_path(preparation.kind, preparation.namespace, preparation.name)
