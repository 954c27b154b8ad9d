"""Chips that init containers request, sidecars included.

The device plugin finds the Pod to which a request of the kubelet belongs by what the Pod's containers request without
init containers, and serves one request of a Pod. So it does not serve init containers. A container that requests all
chips of its node gets them without this search, whatever kind of container it is.
"""

from collections.abc import Mapping

from scheduler.api.objects import Container, PodSpec
from scheduler.api.quantity import parse_quantity
from scheduler.framework.remedies.adjustments import join_names


def requests_of_init_containers(spec: PodSpec, resource: str) -> dict[str, int]:
    """Returns name -> request of the init containers that request a resource, in whole units, rounded up."""
    return {c.name: amount for c in spec.init_containers or () if (amount := _amount(c, resource))}


def without_whole_nodes(spec: PodSpec, resource: str, chips: int) -> str:
    """Returns why no node serves a Pod of which an init container requests chips, or "": not every container that
    requests chips requests ``chips``, the most that the Pod has at once."""
    asked = requests_of_init_containers(spec, resource)
    others = {c.name: amount for c in spec.containers if (amount := _amount(c, resource))}
    if not asked or {*asked.values(), *others.values()} == {chips}:
        return ""
    parts = [_listed("init container", asked), *([_listed("container", others)] if others else [])]
    return (
        f"asks for {resource}: {', '.join(parts)}; the device plugin serves init containers only if every container "
        "that asks for chips asks for all chips of the node"
    )


def unserved(spec: PodSpec, resource: str) -> str:
    """Returns why a device plugin that serves no init containers cannot serve a Pod, or ""."""
    asked = requests_of_init_containers(spec, resource)
    if not asked:
        return ""
    return f"asks for {resource}: {_listed('init container', asked)}; the device plugin serves no init containers"


def _listed(kind: str, asked: Mapping[str, int]) -> str:
    return join_names([f"{amount} in {kind} {name}" for name, amount in asked.items()])


def _amount(container: Container, resource: str) -> int:
    resources = container.resources
    if resources is None:
        return 0
    return parse_quantity({**(resources.limits or {}), **(resources.requests or {})}.get(resource, 0))
