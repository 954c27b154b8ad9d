"""The names that exist in a cluster, as far as they are known: schedulers, resources, cards, queues, PriorityClasses,
labels and taints.

``simulate`` and ``explain`` know all nodes; the webhooks only know common resources, queues and the names in them.
"""

from functools import cache, cached_property
from typing import Final, Protocol

import msgspec

from scheduler.api import names
from scheduler.api.cards import parse_quota
from scheduler.api.names import (
    ASCEND_310,
    ASCEND_310P,
    ASCEND_710,
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
        NVIDIA_GPU, "nvidia.com/gpu.shared", ASCEND_910, ASCEND_310, ASCEND_310P, ASCEND_710, NPU, NPU_CORE,
        VGPU_NUMBER, VGPU_MEMORY, VGPU_CORES, VGPU_MEMORY_PERCENTAGE, GPU_MEMORY, GPU_NUMBER,
    }
)  # fmt: skip
"""Extended resources that are known without a look at nodes."""


READ_PREFIXES: Final = ("scheduling.k8s.io/", "scheduling.volcano.sh/", "volcano.sh/", "huawei.com/", "volcano-py/")
"""The prefixes of most annotations that the program reads."""


@cache
def read_keys() -> frozenset[str]:
    """The keys with these prefixes that the program reads."""
    texts = [text for name, text in vars(names).items() if name.isupper() and isinstance(text, str)]
    return frozenset(text for text in texts if text.startswith(READ_PREFIXES) and text not in READ_PREFIXES)


class KnownNames(Protocol):
    """The names that exist in a cluster, as far as they are known."""

    @property
    def schedulers(self) -> tuple[str, ...]: ...

    @property
    def resources(self) -> frozenset[str]: ...

    @property
    def cards(self) -> frozenset[str]: ...

    @property
    def queues(self) -> frozenset[str]: ...

    @property
    def priority_classes(self) -> frozenset[str]: ...

    @property
    def labels(self) -> frozenset[str]:
        """The keys of the labels of nodes."""

    @property
    def taints(self) -> frozenset[str]:
        """The keys of the taints of nodes."""

    @property
    def complete(self) -> bool:
        """Whether the names are all that the cluster has. If not, only names of resources and cards that closely
        resemble a known one are mistakes."""


class ClusterNames(msgspec.Struct, frozen=True):
    """All names of a cluster."""

    schedulers: tuple[str, ...]
    resources: frozenset[str] = frozenset()
    cards: frozenset[str] = frozenset()
    queues: frozenset[str] = frozenset()
    priority_classes: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    taints: frozenset[str] = frozenset()
    complete: bool = False
    """False without nodes."""


class QueueNames:
    """The names that webhooks know: of common resources, and of those and the cards in queues."""

    complete: Final = False
    priority_classes: Final = frozenset[str]()
    labels: Final = frozenset[str]()
    taints: Final = frozenset[str]()

    def __init__(self, cluster: ClusterView, settings: WebhookSettings) -> None:
        self.schedulers = settings.scheduler_names
        self._cluster = cluster

    @cached_property
    def queues(self) -> frozenset[str]:
        return frozenset(queue.metadata.name for queue in self._cluster.queues())

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
