"""Watches, with kopf, the objects that people write by hand (Queues, Commands, CronJobs, JobFlows, JobTemplates).

kopf costs about half a millisecond per event, which does not matter for these; Pods, PodGroups and vcjobs change by the
ten thousand, and ``informer`` handles them at a thirtieth of that. Only event handlers are used, so kopf stores nothing
on the objects. It does not report when its first lists are complete, so this module lists the objects itself, and again
periodically, which also removes objects whose deletion was missed. kopf cancels every task of its event loop and takes
over signals when it ends, so it runs on a thread and a loop of its own, which also imports it: that takes a fifth of a
start.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from scheduler.api.kinds import Kind
from scheduler.api.objects import KubeObject, Wire
from scheduler.api.reasons import field_and_problem
from scheduler.cluster.decoding import DECODE_ERRORS, decode
from scheduler.cluster.kube.operator.change_receiver import ChangeReceiver
from scheduler.cluster.kube.transport.client import ApiClient
from scheduler.cluster.kube.transport.credentials import Credentials
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS, status_of
from scheduler.cluster.kube.transport.ratelimit import Backoff, CallPriority
from scheduler.cluster.kube.watch.informer import OVERDUE, WATCH_SECONDS
from scheduler.cluster.kube.watch.problems import ProblemReports, Report

if TYPE_CHECKING:
    import kopf

FIRST_RESYNC = 15.0
RESYNC = 600.0
"""Seconds between two lists."""
JOIN = 5.0
"""Seconds that kopf has to end."""
log = structlog.get_logger(__name__)


class _Items(Wire):
    items: list[dict[str, Any]] | None = None


_items = msgspec.json.Decoder(_Items)


class Handlers:
    """Belongs to one event loop. ``run`` until cancelled; ``synced`` is set when the first lists are in."""

    def __init__(
        self,
        kinds: Sequence[Kind],
        client: ApiClient,
        credentials: Credentials,
        receiver: ChangeReceiver,
        report: Report,
    ) -> None:
        """``report`` is called with objects that could not be decoded."""
        self.synced = asyncio.Event()
        self._kinds = kinds
        self._client = client
        self._credentials = credentials
        self._receiver = receiver
        self._keys: dict[Kind, set[tuple[str, str]]] = {kind: set() for kind in kinds}
        self._problems = {kind: ProblemReports(kind, report) for kind in kinds}

    async def run(self) -> None:
        loop, stop = asyncio.get_running_loop(), threading.Event()
        thread = threading.Thread(target=self._run_kopf, args=(loop, stop), name="kopf", daemon=True)
        thread.start()
        try:
            await self._resync()
        finally:
            stop.set()
            await asyncio.to_thread(thread.join, JOIN)

    def _run_kopf(self, loop: asyncio.AbstractEventLoop, stop: threading.Event) -> None:
        """Runs kopf until stopped; restarts it if it ends before."""
        import kopf

        backoff = Backoff(1.0, 60.0)
        while True:
            try:
                operator = kopf.operator(
                    registry=self._registry(loop),
                    settings=_settings(),
                    clusterwide=True,
                    standalone=True,
                    # Otherwise kopf asks for the name of the user, and in containers the user has a number only.
                    identity="controllers",  # type: ignore[arg-type]
                    stop_flag=stop,
                )
                asyncio.run(operator)
                why = "it ended"
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
            if stop.is_set():
                return
            log.warning("restarting kopf", why=why)
            stop.wait(backoff.next())

    def _registry(self, loop: asyncio.AbstractEventLoop) -> "kopf.OperatorRegistry":
        import kopf

        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> "kopf.ConnectionInfo":
            return self._connection()

        for kind in self._kinds:
            self._serve(kind, registry, loop)
        return registry

    def _serve(self, kind: Kind, registry: "kopf.OperatorRegistry", loop: asyncio.AbstractEventLoop) -> None:
        import kopf

        version = kind.api_version.rpartition("/")[2]

        @kopf.on.event(kind.group, version, kind.plural, registry=registry, id=f"{kind}/event")
        async def on_event(event: Any, **_: Any) -> None:
            raw = dict(event["object"])
            with contextlib.suppress(RuntimeError):  # the other loop is closed: the program ends
                if event["type"] == "DELETED":
                    loop.call_soon_threadsafe(self._delete, kind, _key(raw))
                else:
                    loop.call_soon_threadsafe(self._upsert, kind, raw)

    def _connection(self) -> "kopf.ConnectionInfo":
        import kopf

        server = self._credentials.load().host
        files = self._credentials.files()
        scheme, _, token = self._credentials.authorization().partition(" ")
        return kopf.ConnectionInfo(
            server=server,
            ca_path=files.authority,
            insecure=not files.verify,
            certificate_path=files.certificate,
            private_key_path=files.key,
            scheme=scheme or None,
            token=token or None,
        )

    # --- lists --------------------------------------------------------------------------------------------------------
    async def _resync(self) -> None:
        """Lists everything now, again soon, and then every ten minutes."""
        for kind in self._kinds:
            await self._list(kind)
        self.synced.set()
        pause = FIRST_RESYNC
        while True:
            await asyncio.sleep(pause)
            pause = RESYNC
            for kind in self._kinds:
                await self._list(kind)

    async def _list(self, kind: Kind) -> None:
        backoff = Backoff(0.5, 30.0)
        while True:
            known = set(self._keys[kind])
            try:
                body = await self._client.request("GET", kind.path, priority=CallPriority.READ)
                items = decode(_items, body).items or []
            except REQUEST_ERRORS as error:
                log.warning("cannot list", kind=str(kind), error=str(error))
                if status_of(error) == 404:
                    return  # its CRD is not installed: none of them can exist
                await asyncio.sleep(backoff.next())
                continue
            for raw in items:
                self._upsert(kind, raw)
            for key in known - {_key(raw) for raw in items}:
                self._delete(kind, key)
            return

    # --- updates ------------------------------------------------------------------------------------------------------
    def _upsert(self, kind: Kind, raw: dict[str, Any]) -> None:
        key = _key(raw)
        self._keys[kind].add(key)
        try:
            obj: KubeObject = msgspec.convert(raw, kind.struct)
        except DECODE_ERRORS as error:
            field, problem = field_and_problem(error)
            self._problems[kind].report(key, _uid(raw), field or "object", problem)
            return
        try:
            self._receiver.written(kind, obj)
        except Exception as error:  # whatever an object holds, it must not stop the others
            log.exception("object could not be processed", kind=str(kind), namespace=key[0], name=key[1])
            problem = f"could not be taken in ({type(error).__name__}: {error})"
            self._problems[kind].report(key, _uid(raw), "metadata", problem)
        else:
            self._problems[kind].forget(key)

    def _delete(self, kind: Kind, key: tuple[str, str]) -> None:
        self._keys[kind].discard(key)
        self._problems[kind].forget(key)
        try:
            self._receiver.removed(kind, *key)
        except Exception:
            log.exception("object could not be removed", kind=str(kind), namespace=key[0], name=key[1])


def _key(raw: dict[str, Any]) -> tuple[str, str]:
    metadata = raw.get("metadata") or {}
    return str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _uid(raw: dict[str, Any]) -> str:
    return str((raw.get("metadata") or {}).get("uid", ""))


def _settings() -> "kopf.OperatorSettings":
    import kopf

    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.watching.server_timeout = WATCH_SECONDS[1]
    settings.watching.inactivity_timeout = WATCH_SECONDS[1] + OVERDUE
    logging.getLogger("kopf").setLevel(logging.WARNING)
    return settings
