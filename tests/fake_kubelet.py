"""A kubelet as device plugins see it: registration, the devices that it follows, and requests for Pods that it starts.

It runs in threads of the test process. Its methods wait for the device plugin: on an event loop that also runs the
device plugin, call them with ``asyncio.to_thread``.
"""

import random
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from scheduler.cluster.kube.playground.device_plugin import messages

AUTHORITY = (("grpc.default_authority", "localhost"),)
SECONDS = 20.0


class RejectedError(Exception):
    """The kubelet does not start a Pod. The message is that of the Pod's status."""


class Endpoint:
    """The kubelet's connection to the device plugin of a resource."""

    def __init__(self, socket: Path) -> None:
        self.channel = grpc.insecure_channel(f"unix:{socket}", options=AUTHORITY)
        self.health: dict[str, str] = {}
        self.options = self.call("GetDevicePluginOptions", messages.Empty(), messages.DevicePluginOptions)
        call: Any = self.channel.unary_stream(
            f"/{messages.DEVICE_PLUGIN}/ListAndWatch",
            request_serializer=messages.Empty.SerializeToString,
            response_deserializer=messages.ListAndWatchResponse.FromString,
        )
        self._stream = call(messages.Empty())
        threading.Thread(target=self._follow, daemon=True).start()

    def call(self, method: str, request: Any, answer: Any) -> Any:
        call: Any = self.channel.unary_unary(
            f"/{messages.DEVICE_PLUGIN}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return call(request, timeout=SECONDS)

    def close(self) -> None:
        self._stream.cancel()
        self.channel.close()

    def _follow(self) -> None:
        with suppress(grpc.RpcError, ValueError):
            for answer in self._stream:
                self.health = {device.ID: device.health for device in answer.devices}
        self.health = dict.fromkeys(self.health, messages.UNHEALTHY)


class FakeKubelet:
    """``start`` and ``stop`` restart it; the devices of Pods stay, as in the checkpoint of a kubelet."""

    def __init__(self, root: Path, *, follows_preferences: bool = True) -> None:
        self.root = root
        self.directory = root / "device-plugins"
        self.directory.mkdir()
        self._pod_resources = root / "pod-resources" / "kubelet.sock"
        self._pod_resources.parent.mkdir()
        self.follows_preferences = follows_preferences
        self.registrations: list[str] = []
        self.endpoints: dict[str, Endpoint] = {}
        self.assigned: dict[str, dict[str, list[str]]] = {}
        """Pod -> resource -> devices."""
        self._servers: list[Any] = []

    # --- its life -----------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Removes all sockets, as a kubelet does that starts."""
        for path in self.directory.iterdir():
            if stat.S_ISSOCK(path.stat().st_mode):
                path.unlink()
        self._serve(
            self.directory / "kubelet.sock", "v1beta1.Registration",
            {"Register": (self._register, messages.RegisterRequest, messages.Empty)},
        )  # fmt: skip
        self._serve(
            self._pod_resources, "v1.PodResourcesLister",
            {"List": (self._list, messages.ListPodResourcesRequest, messages.ListPodResourcesResponse)},
        )  # fmt: skip

    def stop(self) -> None:
        for endpoint in self.endpoints.values():
            endpoint.close()
        self.endpoints.clear()
        for server in self._servers:
            server.stop(None).wait()
        self._servers.clear()

    def _serve(self, socket: Path, service: str, methods: Mapping[str, tuple[Callable[..., Any], Any, Any]]) -> None:
        server = grpc.server(ThreadPoolExecutor(4))
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                function, request_deserializer=request.FromString, response_serializer=answer.SerializeToString
            )
            for name, (function, request, answer) in methods.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        self._servers.append(server)

    def _register(self, request: Any, context: Any) -> Any:
        if request.version != "v1beta1":
            context.abort(grpc.StatusCode.UNKNOWN, f"version {request.version} is not supported")
        endpoint = Endpoint(self.directory / request.endpoint)
        before = self.endpoints.pop(request.resource_name, None)
        if before is not None:
            before.close()
        self.endpoints[request.resource_name] = endpoint
        self.registrations.append(request.resource_name)
        return messages.Empty()

    def _list(self, request: Any, context: Any) -> Any:
        pods = []
        for key, resources in self.assigned.items():
            namespace, _, name = key.partition("/")
            devices = [{"resource_name": each, "device_ids": ids} for each, ids in resources.items()]
            pods.append({"namespace": namespace, "name": name, "containers": [{"name": "main", "devices": devices}]})
        return messages.ListPodResourcesResponse(pod_resources=pods)

    # --- Pods ---------------------------------------------------------------------------------------------------------
    def healthy(self, resource: str) -> list[str]:
        endpoint = self.endpoints.get(resource)
        return [name for name, health in endpoint.health.items() if health == "Healthy"] if endpoint else []

    def admit(self, pod: str, resource: str, amount: int, *, dies: bool = False) -> dict[str, str]:
        """Assigns devices to a Pod (``namespace/name``) and returns its environment. Raises RejectedError.

        ``dies``: the kubelet ends before it stores the answer.
        """
        self.assigned.setdefault(pod, {})
        endpoint = self.endpoints[resource]
        used = {name for resources in self.assigned.values() for name in resources.get(resource, ())}
        available = [name for name in self.healthy(resource) if name not in used]
        if len(available) < amount:
            raise RejectedError(f"requested {amount} of {resource}, available {len(available)}")
        names = available[:amount]
        try:
            if self.follows_preferences and endpoint.options.get_preferred_allocation_available:
                names = self._preferred(endpoint, available, amount)
            random.Random(0).shuffle(names)  # the kubelet keeps sets
            answer = endpoint.call(
                "Allocate",
                messages.AllocateRequest(container_requests=[{"devices_ids": names}]),
                messages.AllocateResponse,
            )
        except grpc.RpcError as error:
            details: Any = error
            raise RejectedError(f"Allocate failed due to rpc error: {details.details()}, which is unexpected") from None
        if not dies:
            self.assigned[pod][resource] = names
        return dict(answer.container_responses[0].envs)

    def end(self, pod: str) -> None:
        del self.assigned[pod]

    def _preferred(self, endpoint: Endpoint, available: Iterable[str], amount: int) -> list[str]:
        request = {"available_deviceIDs": available, "allocation_size": amount}
        answer = endpoint.call(
            "GetPreferredAllocation",
            messages.PreferredAllocationRequest(container_requests=[request]),
            messages.PreferredAllocationResponse,
        )
        preferred = [name for name in answer.container_responses[0].deviceIDs if name in available]
        return list(dict.fromkeys([*preferred, *available]))[:amount]
