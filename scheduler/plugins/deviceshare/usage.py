"""What is in use of the GPUs of a session's nodes, for metrics; worked out when somebody asks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from scheduler.plugins.deviceshare.ledger import CardLedger

DEVICE_USAGE: Final = "deviceshare: usage"
"""Key of a list of DeviceUsage in ``session.shared``."""


@dataclass(frozen=True, slots=True)
class CardUsage:
    """One GPU."""

    uuid: str
    node: str
    memory: int
    """All of it."""
    used_memory: int
    used_cores: int
    sharers: int
    """How many Pods have something of it."""
    pods: dict[str, tuple[int, int]]
    """Name of a Pod -> memory and cores it has; Pods of one name in several namespaces are as one."""


class DeviceUsage:
    """The GPUs of one session as it left them."""

    def __init__(self, ledger: CardLedger) -> None:
        self._ledger = ledger

    def cards(self) -> Iterator[CardUsage]:
        ledger = self._ledger
        for row, reading in ledger.readings.items():
            names = reading.inventory.names
            pods: list[dict[str, tuple[int, int]]] = [{} for _ in names]
            sharers: list[set[str]] = [set() for _ in names]
            for task, grant in ledger.holders(row, later=False):
                for use in (use for uses in grant for use in uses):
                    memory, cores = pods[use.card].get(task.name, (0, 0))
                    pods[use.card][task.name] = (memory + use.memory, cores + use.cores)
                    sharers[use.card].add(task.uid)
            node, cards = ledger.node_name(row), ledger.cards(row, later=False)
            for i, card in enumerate(cards):
                used = (card.memory, card.used_memory, card.used_cores)
                yield CardUsage(names[i], node, *used, len(sharers[i]), pods[i])
