"""Parses the NPUs that HAMi's device plugin registers on a node: a JSON list of objects."""

from functools import lru_cache
from typing import Any

import msgspec

from scheduler.api.json_texts import json_problem
from scheduler.plugins.deviceshare.cards import MAX_CARDS, Card
from scheduler.plugins.deviceshare.family import FamilyInventory
from scheduler.plugins.deviceshare.wire import MAX_LENGTH, WireError


class _Npu(msgspec.Struct):
    """One entry of a register. An NPU without the field ``health`` is healthy."""

    id: str
    index: int = 0
    count: int = 0
    devmem: int = 0
    devcore: int = 0
    health: bool = True
    custominfo: dict[str, Any] | None = None

    @property
    def link(self) -> int:
        value = (self.custominfo or {}).get("NetworkID")
        return int(value) if isinstance(value, int | float) and 0 <= value < 2**31 else -1


@lru_cache(maxsize=8192)
def parse_npus(text: str, model: str, linked: bool) -> FamilyInventory:
    """Returns the NPUs of a register without any usage, sorted by index. Networks are read if ``linked``. Raises
    WireError."""
    if len(text) > MAX_LENGTH:
        raise WireError(f"{len(text)} characters, at most {MAX_LENGTH} are looked at")
    try:
        npus = msgspec.json.decode(text, type=list[_Npu])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise WireError(json_problem(text) or str(error)) from None
    npus.sort(key=lambda npu: npu.index)
    if not npus or len(npus) > MAX_CARDS:
        raise WireError(f"lists {len(npus)} NPUs, 1 to {MAX_CARDS} are looked at")
    if len({npu.id for npu in npus}) < len(npus):
        raise WireError("an NPU is listed twice")
    if any(not 0 <= amount < 2**31 for npu in npus for amount in (npu.count, npu.devmem, npu.devcore)):
        raise WireError("an amount is negative or does not fit into 31 bits")
    cards = tuple(
        Card(npu.count if npu.health else 0, npu.devmem, npu.devcore, link=npu.link if linked else -1) for npu in npus
    )
    unhealthy = {i: f"{model} {npu.id}" for i, npu in enumerate(npus) if not npu.health}
    return FamilyInventory(cards, tuple(npu.id for npu in npus), unhealthy=unhealthy)
