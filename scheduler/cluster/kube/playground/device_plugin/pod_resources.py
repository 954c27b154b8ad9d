"""The kubelet's list of Pods with their devices (the API ``PodResourcesLister``)."""

from pathlib import Path
from typing import Any, Final

import grpc

from scheduler.cluster.kube.playground.device_plugin import messages
from scheduler.cluster.kube.playground.device_plugin.registration import CHANNEL_OPTIONS
from scheduler.playground.corrections import Assigned

_LIMIT: Final = 16 << 20
"""Bytes of an answer; the kubelet's own limit."""
_SECONDS: Final = 10.0


class PodResourcesError(Exception):
    """The kubelet does not list the devices of its Pods."""


async def assigned_devices(socket: Path) -> Assigned:
    """The devices of each Pod of the kubelet, by resource. Raises PodResourcesError."""
    options = (*CHANNEL_OPTIONS, ("grpc.max_receive_message_length", _LIMIT))
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
        call: Any = channel.unary_unary(
            messages.LIST_POD_RESOURCES,
            request_serializer=messages.ListPodResourcesRequest.SerializeToString,
            response_deserializer=messages.ListPodResourcesResponse.FromString,
        )
        try:
            answer = await call(messages.ListPodResourcesRequest(), timeout=_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise PodResourcesError(f"the kubelet at {socket} does not list devices: {error.details()}") from None
    found: dict[str, dict[str, list[str]]] = {}
    for pod in answer.pod_resources:
        resources = found.setdefault(f"{pod.namespace}/{pod.name}", {})
        for container in pod.containers:
            for devices in container.devices:
                resources.setdefault(devices.resource_name, []).extend(devices.device_ids)
    return found
