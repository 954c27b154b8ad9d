"""Builders of clusters with cards: labelled nodes, queues with quotas, Pods that name cards."""

import json
from collections.abc import Mapping
from typing import Any

import scheduler.plugins.capacity_card  # noqa: F401
from scheduler.api.names import CARD_NAME, CARD_QUOTA, CARD_REQUEST
from tests.builders import Raw, configuration, group, node, pod, queue

H200, H800, D4090, D4090D = "NVIDIA-H200", "NVIDIA-H800", "NVIDIA-GeForce-RTX-4090", "NVIDIA-GeForce-RTX-4090-D"
GPU = "nvidia.com/gpu"
PLUGINS = (["priority", "gang"], ["capacity-card"])
CONFIGURATION = configuration(*PLUGINS)
UNLIMITED = configuration(*PLUGINS, arguments={"capacity-card": {"cardUnlimitedCpuMemory": True}})
SEED_QUOTA = {
    "NVIDIA-H200": 3,
    "NVIDIA-H800": 2,
    "NVIDIA-GeForce-RTX-4090": 2,
    "NVIDIA-H800/mps-80g*1/2": 2,
    "NVIDIA-H200/mig-1g.18gb-mixed": 3,
    "NVIDIA-H200/mig-3g.71gb-mixed": 1,
}


def labels(product: str, count: int = 8, memory: int = 97871, **more: str) -> dict[str, str]:
    return {f"{GPU}.product": product, f"{GPU}.count": str(count), f"{GPU}.memory": str(memory), **more}


def gpu_node(name: str, product: str = H200, cards: int = 8, offers: str = "", **more: str) -> Raw:
    """A node with whole cards, 64 cpu; ``offers`` are further amounts, ``more`` further labels."""
    extra = f"+{offers}" if offers else ""
    return node(name, f"64c+256Gi+{GPU}={cards}{extra}", labels(product, cards) | more)


def quota_queue(name: str, quota: Mapping[str, Any] | str | None, capability: str = "", **spec: Any) -> Raw:
    raw = queue(name, capability=capability, **spec)
    if quota is not None:
        raw["metadata"]["annotations"] = {CARD_QUOTA: quota if isinstance(quota, str) else json.dumps(quota)}
    return raw


def card_group(name: str, queue: str, minimum: int = 1, request: object = None, **rest: Any) -> Raw:
    raw = group(name, queue, minimum, **rest)
    if request is not None:
        text = request if isinstance(request, str) else json.dumps(request)
        raw["metadata"]["annotations"] = {CARD_REQUEST: text}
    return raw


def card_pod(name: str, group: str, card: str | None = H200, asks: str = f"1c+1Gi+{GPU}=1", **rest: Any) -> Raw:
    return pod(name, asks, group, annotations={} if card is None else {CARD_NAME: card}, **rest)


def gang(name: str, queue: str, number: int, card: str | None = H200, asks: str = f"1c+1Gi+{GPU}=1") -> list[Raw]:
    """An admitted PodGroup with ``number`` Pods."""
    return [
        card_group(name, queue, number, phase="Inqueue"),
        *(card_pod(f"{name}-{i}", name, card, asks) for i in range(number)),
    ]


def insufficient(queue: str, what: str, requested: int, total: int, capability: int) -> str:
    return (
        f"Queue <{queue}> has insufficient <{what}> quota: requested <{requested}>, "
        f"total would be <{total}>, but capability is <{capability}>"
    )
