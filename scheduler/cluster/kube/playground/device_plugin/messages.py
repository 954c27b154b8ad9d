"""The messages of the kubelet's gRPC APIs for device plugins (``v1beta1``) and for the devices of Pods (``v1``).

They are declared here as data, so that no generated code is needed. Fields that the program does not use are left out:
readers of protobuf skip unknown fields.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

VERSION: Final = "v1beta1"
"""The version of the API of device plugins."""
REGISTER: Final = "/v1beta1.Registration/Register"
DEVICE_PLUGIN: Final = "v1beta1.DevicePlugin"
LIST_POD_RESOURCES: Final = "/v1.PodResourcesLister/List"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"

_Fields = Mapping[str, tuple[int, str]]
"""Name of a field -> its number and type: a scalar type, ``map`` (text to text) or a message, and ``*`` for several."""
_DEVICE_PLUGIN_MESSAGES: Final[Mapping[str, _Fields]] = {
    "Empty": {},
    "DevicePluginOptions": {"pre_start_required": (1, "bool"), "get_preferred_allocation_available": (2, "bool")},
    "RegisterRequest": {
        "version": (1, "string"),
        "endpoint": (2, "string"),
        "resource_name": (3, "string"),
        "options": (4, "DevicePluginOptions"),
    },
    "Device": {"ID": (1, "string"), "health": (2, "string")},
    "ListAndWatchResponse": {"devices": (1, "Device*")},
    "ContainerPreferredAllocationRequest": {
        "available_deviceIDs": (1, "string*"),
        "must_include_deviceIDs": (2, "string*"),
        "allocation_size": (3, "int32"),
    },
    "PreferredAllocationRequest": {"container_requests": (1, "ContainerPreferredAllocationRequest*")},
    "ContainerPreferredAllocationResponse": {"deviceIDs": (1, "string*")},
    "PreferredAllocationResponse": {"container_responses": (1, "ContainerPreferredAllocationResponse*")},
    "ContainerAllocateRequest": {"devices_ids": (1, "string*")},
    "AllocateRequest": {"container_requests": (1, "ContainerAllocateRequest*")},
    "ContainerAllocateResponse": {"envs": (1, "map")},
    "AllocateResponse": {"container_responses": (1, "ContainerAllocateResponse*")},
    "PreStartContainerRequest": {"devices_ids": (1, "string*")},
    "PreStartContainerResponse": {},
}
_POD_RESOURCES_MESSAGES: Final[Mapping[str, _Fields]] = {
    "ListPodResourcesRequest": {},
    "ContainerDevices": {"resource_name": (1, "string"), "device_ids": (2, "string*")},
    "ContainerResources": {"name": (1, "string"), "devices": (2, "ContainerDevices*")},
    "PodResources": {"name": (1, "string"), "namespace": (2, "string"), "containers": (3, "ContainerResources*")},
    "ListPodResourcesResponse": {"pod_resources": (1, "PodResources*")},
}
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "string": _Field.TYPE_STRING,
}


def _add_field(message: Any, path: str, name: str, number: int, type: str) -> None:
    """Adds a field to the description of a message. ``path``: the full name of the message."""
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if type == "map":
        entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        _add_field(entry, "", "key", 1, "string")
        _add_field(entry, "", "value", 2, "string")
        field.label, field.type, field.type_name = _Field.LABEL_REPEATED, _Field.TYPE_MESSAGE, f".{path}.{entry.name}"
        return
    if type.endswith("*"):
        field.label, type = _Field.LABEL_REPEATED, type[:-1]
    if type in _SCALARS:
        field.type = _SCALARS[type]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{path.rpartition('.')[0]}.{type}"


def _classes(package: str, messages: Mapping[str, _Fields]) -> dict[str, Any]:
    """The classes of messages, in a pool of their own: another program part may declare the same package."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, type) in fields.items():
            _add_field(message, f"{package}.{name}", field, number, type)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


_v1beta1: Final = _classes("v1beta1", _DEVICE_PLUGIN_MESSAGES)
_v1: Final = _classes("v1", _POD_RESOURCES_MESSAGES)

Empty: Final[Any] = _v1beta1["Empty"]
DevicePluginOptions: Final[Any] = _v1beta1["DevicePluginOptions"]
RegisterRequest: Final[Any] = _v1beta1["RegisterRequest"]
ListAndWatchResponse: Final[Any] = _v1beta1["ListAndWatchResponse"]
PreferredAllocationRequest: Final[Any] = _v1beta1["PreferredAllocationRequest"]
PreferredAllocationResponse: Final[Any] = _v1beta1["PreferredAllocationResponse"]
AllocateRequest: Final[Any] = _v1beta1["AllocateRequest"]
AllocateResponse: Final[Any] = _v1beta1["AllocateResponse"]
PreStartContainerRequest: Final[Any] = _v1beta1["PreStartContainerRequest"]
PreStartContainerResponse: Final[Any] = _v1beta1["PreStartContainerResponse"]
ListPodResourcesRequest: Final[Any] = _v1["ListPodResourcesRequest"]
ListPodResourcesResponse: Final[Any] = _v1["ListPodResourcesResponse"]
