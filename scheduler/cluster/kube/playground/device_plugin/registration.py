"""Keeps the services of a node registered with its kubelet.

A kubelet that starts removes all sockets in its directory and forgets the device plugins. So the services start again
and register whenever the kubelet has a new socket, one of their own sockets is gone, or the kubelet has not followed
the devices for some time.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import grpc

from scheduler.cluster.kube.playground.device_plugin import messages
from scheduler.cluster.kube.playground.device_plugin.service import OPTIONS, DevicePluginService
from scheduler.cluster.kube.playground.writes import Progress

KUBELET_SOCKET: Final = "kubelet.sock"
CHANNEL_OPTIONS: Final = (("grpc.default_authority", "localhost"),)
"""The name of the server; servers written in Go refuse the path of a socket as the name."""
POLL_SECONDS: Final = 0.2
"""Seconds between two looks at the sockets."""
RETRY_SECONDS: Final = 1.0
UNFOLLOWED_SECONDS: Final = 5.0
"""Seconds without a kubelet that follows the devices, after which the services register again."""
CALL_SECONDS: Final = 15.0
"""Seconds for a call of the kubelet: it calls the device plugin back before it answers a registration."""


class Registrations:
    """Registers services with the kubelet of a directory. Belongs to one event loop."""

    def __init__(
        self,
        node: str,
        directory: Path,
        services: Sequence[DevicePluginService],
        progress: Progress,
        registered: Callable[[], None],
    ) -> None:
        """``registered``: is called before the services register."""
        self._before = registered
        self._node = node
        self._socket = directory / KUBELET_SOCKET
        self._services = services
        self._progress = progress
        self._registered: tuple[int, int] | None = None
        """The socket of the kubelet with which the services are registered."""
        self._followed = 0.0
        """When the kubelet followed all services last."""
        self._problem = ""
        """The last problem that was reported."""

    async def run(self) -> None:
        """Registers until it is cancelled."""
        while True:
            await asyncio.sleep(await self._step())

    async def _step(self) -> float:
        """Registers if it must. Returns the seconds until the next step."""
        socket = self._kubelet()
        if socket is None:
            self._registered = None
            self._report(f"no kubelet at {self._socket}")
        elif self._must_register(socket):
            self._registered = None
            try:
                await self._register()
            except grpc.aio.AioRpcError as error:
                self._report(f"the kubelet at {self._socket} refused: {error.details()}")
                return RETRY_SECONDS
            except (OSError, RuntimeError) as error:
                self._report(f"no socket beside {self._socket}: {error}")
                return RETRY_SECONDS
            self._registered, self._followed, self._problem = socket, time.monotonic(), ""
        return POLL_SECONDS

    def _kubelet(self) -> tuple[int, int] | None:
        """The identity of the kubelet's socket; None if there is none."""
        try:
            found = self._socket.stat()
        except OSError:
            return None
        return found.st_ino, found.st_ctime_ns

    def _must_register(self, socket: tuple[int, int]) -> bool:
        if socket != self._registered or not all(service.socket.exists() for service in self._services):
            return True
        now = time.monotonic()
        if all(service.connected for service in self._services):
            self._followed = now
        return now - self._followed > UNFOLLOWED_SECONDS

    async def _register(self) -> None:
        """Raises AioRpcError, OSError, RuntimeError."""
        self._before()
        for service in self._services:
            await service.start()
        async with grpc.aio.insecure_channel(f"unix:{self._socket}", options=CHANNEL_OPTIONS) as channel:
            register: Any = channel.unary_unary(
                messages.REGISTER,
                request_serializer=messages.RegisterRequest.SerializeToString,
                response_deserializer=messages.Empty.FromString,
            )
            for service in self._services:
                request = messages.RegisterRequest(
                    version=messages.VERSION,
                    endpoint=service.socket.name,
                    resource_name=service.resource,
                    options=OPTIONS,
                )
                await register(request, timeout=CALL_SECONDS)
        names = ", ".join(service.resource for service in self._services)
        self._progress("node", self._node, f"{names} is registered with the kubelet at {self._socket}")

    def _report(self, problem: str) -> None:
        """Reports a problem once."""
        if problem != self._problem:
            self._problem = problem
            self._progress("error", self._node, problem)
