"""The usage of the GPUs in a session, for metrics. It is computed when metrics are scraped."""

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.plugins.deviceshare.ledger import CardLedger

DEVICE_USAGE: Final = "deviceshare: usage"
"""Key of a list of DeviceUsage in ``session.shared``."""


class CardUsage(msgspec.Struct, frozen=True):
    """One GPU."""

    uuid: str
    node: str
    memory: int
    """Total memory."""
    used_memory: int
    used_cores: int
    pod_count: int
    """Number of Pods that use the GPU."""
    pods: dict[str, tuple[int, int]]
    """Name of a Pod -> (memory, cores). Pods with the same name in several namespaces are added up."""


class DeviceUsage:
    """The GPUs of one session after it has closed."""

    def __init__(self, ledger: CardLedger) -> None:
        self._ledger = ledger

    def cards(self) -> Iterator[CardUsage]:
        ledger = self._ledger
        for row, node_state in ledger.node_states.items():
            names = node_state.inventory.names
            pods: list[dict[str, tuple[int, int]]] = [{} for _ in names]
            pod_uids: list[set[str]] = [set() for _ in names]
            for task, grant in ledger.holders(row, later=False):
                for use in (use for uses in ledger.held(task.cls, grant) for use in uses):
                    memory, cores = pods[use.card].get(task.name, (0, 0))
                    pods[use.card][task.name] = (memory + use.memory, cores + use.cores)
                    pod_uids[use.card].add(task.uid)
            node, cards = ledger.node_name(row), ledger.cards(row, later=False)
            for i, card in enumerate(cards):
                used = (card.memory, card.used_memory, card.used_cores)
                yield CardUsage(names[i], node, *used, len(pod_uids[i]), pods[i])
