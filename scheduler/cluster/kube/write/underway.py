"""One preparation on its way: asked, written, waited for, and taken back if need be.

The object in hand comes from the cache, or from the server where the cache is known to be behind; what the server
answers, the cache is told before the watch is.
"""

import asyncio
import time
from typing import Protocol

import msgspec
import structlog

from scheduler.api.decisions import Bind
from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject
from scheduler.api.preparation import Fails, Patch, Preparation, Step, Waits
from scheduler.cluster.faults import UNREADABLE
from scheduler.cluster.kube.transport.backoff import Backoff
from scheduler.cluster.kube.transport.client import JSON, MERGE_PATCH, STRATEGIC_MERGE_PATCH, ApiError, TransportError
from scheduler.cluster.kube.transport.fence import Fenced
from scheduler.cluster.kube.transport.sources import object_path
from scheduler.cluster.kube.write import bodies

ATTEMPTS = 8
"""How often in a row a request may fail before the preparation does; conflicts do not count."""
UNDOING = 30.0
"""Seconds for taking one write back."""
log = structlog.get_logger(__name__)


class PreparationError(Exception):
    """A Pod cannot be prepared for its binding."""

    def __init__(self, bind: Bind, message: str, *, gone: bool = False) -> None:
        super().__init__(message)
        self.bind = bind
        self.gone = gone
        """The Pod is not there any more, or not to be bound as was decided: nobody needs to be told."""


class Objects(Protocol):
    """What is known of the cluster without asking it."""

    def keeps(self, kind: Kind) -> bool: ...

    def find(self, kind: Kind, namespace: str, name: str) -> KubeObject | None: ...

    def confirm(self, kind: Kind, obj: KubeObject) -> None: ...

    def awaits(self, bind: Bind) -> bool: ...


class Hands(Protocol):
    """Who sends requests for preparations."""

    objects: Objects

    async def request(self, method: str, path: str, body: bytes | None = None, content_type: str = JSON) -> bytes:
        """Raises ApiError, TransportError, Fenced."""
        ...


class Underway:
    """One preparation on its way, for a binding or for several that share it, with those that follow from it."""

    def __init__(self, hands: Hands, preparation: Preparation, bind: Bind) -> None:
        self.bind = bind
        self.at_binding = preparation.at_binding
        self._hands = hands
        self._preparation = preparation
        self._deadline: float | None = None
        self._sent: dict[int, Preparation] = {}
        """Those of which a write may have come about, by identity."""
        self._accepted = False
        """A write of the present one has come about."""
        self._stale = not hands.objects.keeps(preparation.kind)
        """What the cache holds will not do."""
        self._pause = Backoff(0.05, 1.0)
        self._failures = 0

    async def advance(self) -> float | None:
        """Do what can be done now: the seconds after which to go on, or None when everything is as it must be.

        Raises PreparationError, and Fenced if this process is no longer the leader.
        """
        if self._deadline is None:
            self._deadline = time.monotonic() + self._preparation.timeout
        try:
            found = await self._look()
            while True:
                step = self._ask(found)
                if step is None:
                    return None
                if isinstance(step, Fails):
                    raise PreparationError(self.bind, step.message)
                if isinstance(step, Waits):
                    self._check_time(step.what)
                    return self._pause.next()
                if isinstance(step, Preparation):
                    self._go_on_with(step)
                    found = await self._look()
                elif found is None:
                    raise PreparationError(self.bind, f"{self._preparation} is gone")
                else:
                    self._check_time(f"{self._preparation} to be written")
                    found = await self._write(step, found)
                    self._accepted = True
                    self._pause.reset()
        except (ApiError, TransportError) as error:
            return self._again(error)
        except UNREADABLE as error:
            raise PreparationError(self.bind, f"{self._preparation} cannot be read: {error}") from None

    async def undo(self) -> None:
        """Take back what was written, as far as that is possible. Raises nothing."""
        for preparation in reversed(list(self._sent.values())):
            self._go_on_with(preparation)
            self._deadline = time.monotonic() + UNDOING
            while (seconds := await self._undo()) is not None:
                await asyncio.sleep(seconds)
        self._sent.clear()

    async def _undo(self) -> float | None:
        """Try to undo the present one: the seconds after which to try again, or None when that is over."""
        preparation = self._preparation
        try:
            found = await self._look()
            patch = None if found is None else preparation.undo(found, time.time())
            if patch is not None and found is not None:
                await self._write(patch, found)
        except (ApiError, TransportError) as error:
            try:
                return self._again(error)
            except PreparationError:
                log.warning("a write could not be taken back", object=str(preparation), error=str(error))
        except (Fenced, *UNREADABLE) as error:
            log.warning("a write was not taken back", object=str(preparation), error=str(error))
        return None

    def _ask(self, found: KubeObject | None) -> Step:
        """Raises PreparationError, whatever goes wrong: a binding must not hang."""
        preparation = self._preparation
        ask = preparation.follow_up if self._accepted else preparation.step
        try:
            return ask(found, time.time())
        except Exception as error:
            log.exception("a preparation failed", object=str(preparation))
            raise PreparationError(self.bind, f"{preparation}: {type(error).__name__}: {error}") from error

    def _go_on_with(self, preparation: Preparation) -> None:
        self._preparation = preparation
        self._accepted = False
        self._failures = 0
        self._stale = not self._hands.objects.keeps(preparation.kind)

    def _check_time(self, what: str) -> None:
        if self._deadline is not None and time.monotonic() >= self._deadline:
            raise PreparationError(self.bind, f"timed out after {self._preparation.timeout:g} s waiting for {what}")

    def _again(self, error: ApiError | TransportError) -> float:
        """Seconds until the next attempt, after an error. Raises PreparationError."""
        conflict = isinstance(error, ApiError) and error.status in (404, 409)
        passing = isinstance(error, TransportError) or error.transient
        self._failures += not conflict
        if not (conflict or passing) or self._failures >= ATTEMPTS:
            raise PreparationError(self.bind, f"{self._preparation}: {error}")
        self._stale = True
        self._check_time(f"{self._preparation} to be written, last answered {error}")
        return self._pause.next(error.retry_after if isinstance(error, ApiError) else None)

    async def _look(self) -> KubeObject | None:
        """The object as it is; from the cache, unless that is known to be behind or does not keep its kind."""
        hands, preparation = self._hands, self._preparation
        if not self._stale:
            return hands.objects.find(preparation.kind, preparation.namespace, preparation.name)
        try:
            body = await hands.request("GET", self._path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        self._stale = not hands.objects.keeps(preparation.kind)
        return self._received(body)

    async def _write(self, patch: Patch, found: KubeObject) -> KubeObject:
        self._sent[id(self._preparation)] = self._preparation
        path = f"{self._path}/{patch.subresource}" if patch.subresource else self._path
        content_type = STRATEGIC_MERGE_PATCH if patch.strategic else MERGE_PATCH
        body = await self._hands.request("PATCH", path, bodies.exactly(patch, found), content_type)
        self._failures = 0
        return self._received(body)

    def _received(self, body: bytes) -> KubeObject:
        """The object of an answer; the cache is told of it."""
        kind = self._preparation.kind
        assert kind.struct is not None
        found = msgspec.json.decode(body, type=kind.struct)
        self._hands.objects.confirm(kind, found)
        return found

    @property
    def _path(self) -> str:
        preparation = self._preparation
        return object_path(preparation.kind, preparation.namespace, preparation.name)
