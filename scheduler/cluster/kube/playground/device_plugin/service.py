"""The gRPC service ``DevicePlugin`` of one resource, on a socket in the kubelet's directory."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import grpc

from scheduler.cluster.kube.playground.device_plugin import messages
from scheduler.cluster.kube.transport.errors import REQUEST_ERRORS
from scheduler.playground.device_plugin import AdmissionError

OPTIONS: Final[Any] = messages.DevicePluginOptions(get_preferred_allocation_available=True)
"""Containers need no preparation before they start: ``pre_start_required`` is false."""


class DeviceSource(Protocol):
    """Decides about the devices of a node."""

    def offered(self, resource: str) -> Mapping[str, bool]:
        """The devices, and whether each is healthy."""
        ...

    async def preferred(
        self, resource: str, available: Sequence[str], required: Sequence[str], amount: int
    ) -> list[str]:
        """The devices that the kubelet should assign. Raises RequestError."""
        ...

    async def allocate(self, resource: str, devices: Sequence[str]) -> dict[str, str]:
        """The environment of a container to which the kubelet assigned devices. Raises AdmissionError, RequestError."""
        ...


class DevicePluginService:
    """Serves the devices of one resource. Belongs to one event loop."""

    def __init__(self, resource: str, socket: Path, source: DeviceSource) -> None:
        self.resource: Final = resource
        self.socket: Final = socket
        self._source = source
        self._server: Any = None
        self._streams: set[asyncio.Event] = set()

    @property
    def connected(self) -> bool:
        """Whether a kubelet follows the devices."""
        return bool(self._streams)

    async def start(self) -> None:
        """Serves on a new socket, also if it was served before. Raises OSError, RuntimeError."""
        await self.stop()
        self.socket.unlink(missing_ok=True)
        self._server = server = grpc.aio.server()
        server.add_generic_rpc_handlers((self._handlers(),))
        server.add_insecure_port(f"unix:{self.socket}")
        await server.start()

    async def stop(self) -> None:
        """Ends all calls, and removes the socket."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(None)
            self._streams.clear()
            self.socket.unlink(missing_ok=True)

    def changed(self) -> None:
        """Sends the devices to the kubelet if their health has changed."""
        for stream in self._streams:
            stream.set()

    def _handlers(self) -> Any:
        def unary(function: Any, request: Any, response: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                function, request_deserializer=request.FromString, response_serializer=response.SerializeToString
            )

        return grpc.method_handlers_generic_handler(
            messages.DEVICE_PLUGIN,
            {
                "GetDevicePluginOptions": unary(self._options, messages.Empty, messages.DevicePluginOptions),
                "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                    self._list_and_watch,
                    request_deserializer=messages.Empty.FromString,
                    response_serializer=messages.ListAndWatchResponse.SerializeToString,
                ),
                "GetPreferredAllocation": unary(
                    self._preferred, messages.PreferredAllocationRequest, messages.PreferredAllocationResponse
                ),
                "Allocate": unary(self._allocate, messages.AllocateRequest, messages.AllocateResponse),
                "PreStartContainer": unary(
                    self._pre_start, messages.PreStartContainerRequest, messages.PreStartContainerResponse
                ),
            },
        )

    async def _options(self, request: Any, context: Any) -> Any:
        return OPTIONS

    async def _list_and_watch(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Sends all devices at first, and again when the health of one has changed."""
        changed = asyncio.Event()
        self._streams.add(changed)
        sent: Mapping[str, bool] | None = None
        try:
            while True:
                changed.clear()
                devices = dict(self._source.offered(self.resource))
                if devices != sent:
                    sent = devices
                    yield messages.ListAndWatchResponse(
                        devices=[
                            {"ID": name, "health": messages.HEALTHY if healthy else messages.UNHEALTHY}
                            for name, healthy in devices.items()
                        ]
                    )
                await changed.wait()
        finally:
            self._streams.discard(changed)

    async def _preferred(self, request: Any, context: Any) -> Any:
        answers = []
        for each in request.container_requests:
            available, required = list(each.available_deviceIDs), list(each.must_include_deviceIDs)
            try:
                names = await self._source.preferred(self.resource, available, required, each.allocation_size)
            except REQUEST_ERRORS as error:
                await context.abort(grpc.StatusCode.UNAVAILABLE, f"the Pods of the node were not read: {error}")
            answers.append(names)
        return messages.PreferredAllocationResponse(container_responses=[{"deviceIDs": names} for names in answers])

    async def _allocate(self, request: Any, context: Any) -> Any:
        environments = []
        for each in request.container_requests:
            try:
                environments.append(await self._source.allocate(self.resource, list(each.devices_ids)))
            except AdmissionError as error:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            except REQUEST_ERRORS as error:
                await context.abort(grpc.StatusCode.UNAVAILABLE, f"the Pod was not annotated: {error}")
        return messages.AllocateResponse(container_responses=[{"envs": each} for each in environments])

    async def _pre_start(self, request: Any, context: Any) -> Any:
        """Refuses devices that the node does not have. A kubelet does not call it: see ``OPTIONS``."""
        known = self._source.offered(self.resource)
        if unknown := [name for name in request.devices_ids if name not in known]:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{self.resource} has no device {unknown[0]}")
        return messages.PreStartContainerResponse()
