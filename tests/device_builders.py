"""Short builders of devices and claims: manifests of ``resource.k8s.io/v1``, as plain dictionaries (see
``builders``)."""

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.api.names import RESOURCE_API_VERSION
from tests.builders import Raw

DRIVER = "gpu.example.com"


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> Raw:
    return _object("DeviceClass", {"name": name}, {"selectors": selectors(*expressions), **spec})


def device(
    name: str, attributes: Mapping[str, Any] | None = None, capacity: Mapping[str, Any] | None = None, **spec: Any
) -> Raw:
    """Builds a device. Attributes are strings, numbers or booleans; ``=1.2.3`` is a version. Capacities are quantities,
    or API objects."""
    return {
        "name": name,
        **({"attributes": {key: _attribute(value) for key, value in attributes.items()}} if attributes else {}),
        **({"capacity": {key: _capacity(value) for key, value in capacity.items()}} if capacity else {}),
        **spec,
    }


def gpus(number: int, **attributes: Any) -> list[Raw]:
    """Builds the devices ``gpu-0``, ``gpu-1``, ..., with their number as attribute ``index``."""
    return [device(f"gpu-{i}", {"index": i, **attributes}, {"memory": "40Gi"}) for i in range(number)]


def resource_slice(
    devices: Sequence[Raw] | None,
    node: str = "",
    *,
    name: str = "",
    pool: str = "",
    driver: str = DRIVER,
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> Raw:
    """Builds one slice of a pool with ``count`` slices; by default the only slice of the node's pool."""
    name = name or f"{pool or node}-{driver}"
    body = {
        "driver": driver,
        "pool": {"name": pool or node or name, "generation": generation, "resourceSliceCount": count},
        **({"nodeName": node} if node else {}),
        **({"devices": list(devices)} if devices is not None else {}),
        **spec,
    }
    return _object("ResourceSlice", {"name": name}, body)


def request(name: str = "gpu", device_class: str = "gpu", *expressions: str, **spec: Any) -> Raw:
    """A request for one device, or for ``count``."""
    exactly = {"deviceClassName": device_class, "selectors": selectors(*expressions), **spec}
    return {"name": name, "exactly": exactly}


def alternatives(name: str, *choices: tuple[str, Raw]) -> Raw:
    """A request with names and requests to choose from, the preferred one first."""
    return {"name": name, "firstAvailable": [{**choice["exactly"], "name": own} for own, choice in choices]}


def claim_spec(*requests: Raw, **rest: Any) -> Raw:
    return {"devices": {"requests": list(requests), **rest}}


def claim(name: str, *requests: Raw, status: Raw | None = None, **rest: Any) -> Raw:
    found = _object("ResourceClaim", {"name": name, "namespace": "default"}, claim_spec(*requests, **rest))
    return {**found, "status": status} if status is not None else found


def template(name: str, *requests: Raw, **rest: Any) -> Raw:
    spec = {"spec": claim_spec(*requests, **rest)}
    return _object("ResourceClaimTemplate", {"name": name, "namespace": "default"}, spec)


def named(*claims: str) -> list[Raw]:
    """The ``spec.resourceClaims`` of a Pod that uses existing claims."""
    return [{"name": f"c{i}", "resourceClaimName": name} for i, name in enumerate(claims)]


def templated(*templates: str) -> list[Raw]:
    """The ``spec.resourceClaims`` of a Pod that gets claims of its own."""
    return [{"name": f"c{i}", "resourceClaimTemplateName": name} for i, name in enumerate(templates)]


def allocated(node: str, *devices: str, request: str = "gpu", driver: str = DRIVER) -> Raw:
    """The status of a claim to which devices of a node's pool are allocated."""
    results = [{"request": request, "driver": driver, "pool": node, "device": name} for name in devices]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"allocation": {"devices": {"results": results}, "nodeSelector": selector}}


def selectors(*expressions: str) -> list[Raw]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def _object(kind: str, meta: Raw, spec: Raw) -> Raw:
    return {"apiVersion": RESOURCE_API_VERSION, "kind": kind, "metadata": meta, "spec": spec}


def _attribute(value: Any) -> Raw:
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    return {"version": value[1:]} if value.startswith("=") else {"string": value}


def _capacity(value: Any) -> Raw:
    return dict(value) if isinstance(value, Mapping) else {"value": value}
