"""Parses the GPUs that the vGPU device plugin registers on a node: ``uuid,count,memory,model,healthy,mode:`` for
each."""

from functools import lru_cache
from typing import Final

from scheduler.api.names import HAMI_CORE
from scheduler.plugins.deviceshare.cards import ALL_CORES, MAX_CARDS, Card
from scheduler.plugins.deviceshare.device_config import VgpuConfig
from scheduler.plugins.deviceshare.family import FamilyInventory
from scheduler.plugins.deviceshare.wire import MAX_LENGTH, WireError, number

MIG: Final = "mig"
VENDOR: Final = "NVIDIA"
_FIELDS: Final = 6
_HEALTHY: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})


@lru_cache(maxsize=8192)
def parse_register(text: str, config: VgpuConfig) -> FamilyInventory:
    """Returns the GPUs without any usage. Raises WireError.

    The last GPU determines how the node shares its GPUs. GPUs of a model without known geometries are shared with
    HAMi-core. A GPU that is unhealthy, or not by NVIDIA, keeps its index and takes no Pod.
    """
    if len(text) > MAX_LENGTH:
        raise WireError(f"{len(text)} characters, at most {MAX_LENGTH} are looked at")
    cards: list[Card] = []
    names: list[str] = []
    models: list[str] = []
    mode = HAMI_CORE
    layouts = []
    unhealthy: dict[int, str] = {}
    for entry in filter(None, text.split(":")):
        fields = entry.split(",")
        if len(fields) < _FIELDS:
            raise WireError(f"{entry[:64]!r} is not uuid,count,memory,model,healthy,mode")
        uuid, count, memory, model, healthy, shared = fields[:_FIELDS]
        known = config.layouts(model) if shared == MIG else None
        mode = HAMI_CORE if known is None else MIG
        usable = healthy in _HEALTHY and VENDOR in model
        if healthy not in _HEALTHY:
            unhealthy[len(cards)] = f"GPU {uuid}"
        cards.append(Card(number(count) if usable else 0, number(memory), ALL_CORES))
        names.append(uuid)
        models.append(model)
        layouts.append(known)
    if not cards:
        raise WireError(f"{text[:64]!r} lists no GPU")
    if len(cards) > MAX_CARDS:
        raise WireError(f"{len(cards)} GPUs, at most {MAX_CARDS} are looked at")
    if len(set(names)) < len(names):
        raise WireError("a GPU is listed twice")
    if mode == MIG:
        cards = [
            card._replace(layouts=known, slots=card.slots if known is not None else 0)
            for card, known in zip(cards, layouts, strict=True)
        ]
    return FamilyInventory(tuple(cards), tuple(names), models=tuple(models), mode=mode, unhealthy=unhealthy)
