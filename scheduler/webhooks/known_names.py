"""The names of schedulers, resources and cards that exist in a cluster, as far as they are known.

``simulate`` and ``explain`` know all nodes; the webhooks only know common resources and the names in queues.
"""

from functools import cached_property
from typing import Final, Protocol

import msgspec

from scheduler.api.cards import parse_quota
from scheduler.api.names import (
    ASCEND_310,
    ASCEND_310P,
    ASCEND_910,
    CARD_QUOTA,
    GPU_MEMORY,
    GPU_NUMBER,
    NPU,
    NPU_CORE,
    NVIDIA_GPU,
    VGPU_CORES,
    VGPU_MEMORY,
    VGPU_MEMORY_PERCENTAGE,
    VGPU_NUMBER,
)
from scheduler.webhooks.contract import ClusterView, WebhookSettings

COMMON: Final = frozenset(
    {
        NVIDIA_GPU, "nvidia.com/gpu.shared", ASCEND_910, ASCEND_310, ASCEND_310P, NPU, NPU_CORE, VGPU_NUMBER,
        VGPU_MEMORY, VGPU_CORES, VGPU_MEMORY_PERCENTAGE, GPU_MEMORY, GPU_NUMBER,
    }
)  # fmt: skip
"""Extended resources that are known without a look at nodes."""


class KnownNames(Protocol):
    """The names that exist in a cluster, as far as they are known."""

    @property
    def schedulers(self) -> tuple[str, ...]: ...

    @property
    def resources(self) -> frozenset[str]: ...

    @property
    def cards(self) -> frozenset[str]: ...

    @property
    def complete(self) -> bool:
        """Whether the resources and cards are those of all nodes. If not, only names that closely resemble a known one
        are mistakes."""


class NodeNames(msgspec.Struct, frozen=True):
    """The names on all nodes of a cluster."""

    schedulers: tuple[str, ...]
    resources: frozenset[str] = frozenset()
    cards: frozenset[str] = frozenset()
    complete: bool = False
    """False without nodes."""


class QueueNames:
    """The names that webhooks know: of common resources, and of those and the cards in queues."""

    complete: Final = False

    def __init__(self, cluster: ClusterView, settings: WebhookSettings) -> None:
        self.schedulers = settings.scheduler_names
        self._cluster = cluster

    @cached_property
    def resources(self) -> frozenset[str]:
        specs = [queue.spec for queue in self._cluster.queues()]
        return COMMON.union(*(amounts for spec in specs for amounts in (spec.capability, spec.deserved) if amounts))

    @cached_property
    def cards(self) -> frozenset[str]:
        annotations = [queue.metadata.annotations or {} for queue in self._cluster.queues()]
        return frozenset(
            name for each in annotations for names in parse_quota(each.get(CARD_QUOTA)).amounts for name in names
        )
