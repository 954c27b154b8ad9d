"""Parses what device plugins register on nodes, and parses and formats the card lists in annotations of Pods.

The vGPU device plugin registers ``uuid,count,memory,model,healthy,mode:`` for each GPU, HAMi's device plugin a JSON
list of NPUs. A card list has ``uuid,type,memory,cores:`` for each card of a container. Semicolons separate
containers.
"""

from collections.abc import Sequence
from typing import Final

from scheduler.api.json_texts import HAMI_NPUS, JsonTextError, RegisteredNpu
from scheduler.api.names import HAMI_CORE
from scheduler.api.text_cache import OF_NODES, cache_texts
from scheduler.plugins.deviceshare.cards import ALL_CORES, MAX_CARDS, Card, CardUse
from scheduler.plugins.deviceshare.device_config import VgpuConfig
from scheduler.plugins.deviceshare.family import FamilyInventory

MAX_LENGTH: Final = 65536
"""Longest annotation that is parsed, in characters."""
_FIELDS: Final = 4


class WireError(ValueError):
    """The text is not a valid card list. The message gives the reason."""


def format_uses(uses: Sequence[CardUse], names: Sequence[str], kind: str) -> str:
    """Formats the cards of one container."""
    return "".join(f"{_name(use, names)},{kind},{use.reported_memory},{use.cores}:" for use in uses)


def _name(use: CardUse, names: Sequence[str]) -> str:
    name = names[use.card]
    return name if use.part is None else f"{name}[{use.part.name}-{use.part.position}]"


def parse_uses(text: str) -> list[list[tuple[str, int, int]]]:
    """Returns (name, memory, cores) for each card of each container. Raises WireError."""
    if len(text) > MAX_LENGTH:
        raise WireError(f"{len(text)} characters, at most {MAX_LENGTH} are looked at")
    return [[_use(entry) for entry in container.split(":") if entry] for container in text.split(";") if container]


def _use(entry: str) -> tuple[str, int, int]:
    fields = entry.split(",")
    if len(fields) < _FIELDS:
        raise WireError(f"{entry[:64]!r} is not name,type,memory,cores")
    return fields[0], number(fields[2]), number(fields[3])


def number(text: str) -> int:
    """Parses a non-negative integer that fits into 31 bits. Raises WireError."""
    if not (text.isascii() and text.isdecimal() and len(text) < 11 and int(text) < 2**31):
        raise WireError(f"{text[:64]!r} is not a whole number")
    return int(text)


@cache_texts(8192, OF_NODES)
def parse_npus(text: str, model: str, linked: bool) -> FamilyInventory:
    """Returns the NPUs of a register without any usage, sorted by index. Networks are read if ``linked``. Raises
    WireError."""
    if len(text) > MAX_LENGTH:
        raise WireError(f"{len(text)} characters, at most {MAX_LENGTH} are looked at")
    try:
        npus = HAMI_NPUS.decode(text)
    except JsonTextError as error:
        raise WireError(str(error)) from None
    npus.sort(key=lambda npu: npu.index)
    if not npus or len(npus) > MAX_CARDS:
        raise WireError(f"lists {len(npus)} NPUs, 1 to {MAX_CARDS} are looked at")
    if len({npu.id for npu in npus}) < len(npus):
        raise WireError("an NPU is listed twice")
    if any(not 0 <= amount < 2**31 for npu in npus for amount in (npu.count, npu.devmem, npu.devcore)):
        raise WireError("an amount is negative or does not fit into 31 bits")
    cards = tuple(
        Card(npu.count if npu.health else 0, npu.devmem, npu.devcore, link=_link(npu) if linked else -1) for npu in npus
    )
    unhealthy = {i: f"{model} {npu.id}" for i, npu in enumerate(npus) if not npu.health}
    return FamilyInventory(cards, tuple(npu.id for npu in npus), unhealthy=unhealthy)


def _link(npu: RegisteredNpu) -> int:
    value = (npu.custominfo or {}).get("NetworkID")
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**31 else -1


MIG: Final = "mig"
VENDOR: Final = "NVIDIA"
_REGISTER_FIELDS: Final = 6
_HEALTHY: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})


@cache_texts(8192, OF_NODES)
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
        if len(fields) < _REGISTER_FIELDS:
            raise WireError(f"{entry[:64]!r} is not uuid,count,memory,model,healthy,mode")
        uuid, count, memory, model, healthy, shared = fields[:_REGISTER_FIELDS]
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
