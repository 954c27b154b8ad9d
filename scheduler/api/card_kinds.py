"""The naming rule of accelerator cards, with one entry for each kind of parts.

A whole card has the name of its model: ``NVIDIA-H200``. A part of a card has the name ``<model>/<part>``, and the part
begins with the word of its kind and a hyphen: ``NVIDIA-H200/mig-1g.18gb-mixed``. The word identifies the kind, and the
kind alone reads the rest, so no two kinds yield one name.

MPS and MIG follow the published design of card quotas. Virtual NPUs have the names of their templates in ``npu-smi``.
"""

import re
from typing import Final

import msgspec

from scheduler.api.names import ASCEND_310P, ASCEND_710, ASCEND_910, NVIDIA_GPU

WHOLE_CARD: Final = "whole card"
"""The title of cards that are not divided."""
MPS_RESOURCE: Final = f"{NVIDIA_GPU}.shared"
MIG_PREFIX: Final = "nvidia.com/mig-"
"""Resources that count MPS and MIG cards."""
PART: Final = "/"
"""Separates the model from the part."""
_MIB_PER_GIB: Final = 1024


class CardKind(msgspec.Struct, frozen=True):
    """A kind of parts of cards."""

    word: str
    """The beginning of the part, before the first hyphen."""
    title: str
    """The name of the kind in messages."""
    form: re.Pattern[str]
    """The form of the part after the word and the hyphen: its size."""

    def part(self, size: str) -> str:
        return f"{self.word}-{size}"

    def size_of(self, part: str) -> re.Match[str] | None:
        """Returns the size in a part; None if the part is not of this kind."""
        word, hyphen, size = part.partition("-")
        return self.form.fullmatch(size) if hyphen and word == self.word else None


_MEMORY: Final = r"[1-9][0-9]{0,8}[gm]"
"""Memory, in GiB or MiB."""
_CORES: Final = r"([1-9][0-9]{0,2})c"
"""A percentage of the cores of a card."""
MPS: Final = CardKind("mps", "MPS", re.compile(r"([0-9]{1,9})g\*1/([0-9]{1,9})"))
"""``mps-80g*1/2``: half of a card with 80 GiB."""
MIG: Final = CardKind("mig", "MIG", re.compile(r"(.+)-mixed"))
"""``mig-1g.18gb-mixed``: a MIG partition with the profile ``1g.18gb``."""
VGPU: Final = CardKind("vgpu", "vGPU", re.compile(rf"({_MEMORY}|[1-9][0-9]?p)(?:-{_CORES})?"))
"""``vgpu-8g-30c``: a slice of a GPU with 8 GiB and 30 percent of the cores; ``vgpu-50p``: with half of the memory."""
VNPU: Final = CardKind("vnpu", "vNPU", re.compile(r"([A-Za-z0-9_.]{1,63})"))
"""``vnpu-vir04_3c``: a virtual NPU of the template ``vir04_3c``."""
SHARE: Final = CardKind("share", "shared NPU", re.compile(rf"{_CORES}(?:-({_MEMORY}))?|({_MEMORY})"))
"""``share-25c-16g``: a share of an NPU with 25 percent of the AI cores and 16 GiB."""
KINDS: Final = {kind.word: kind for kind in (MPS, MIG, VGPU, VNPU, SHARE)}
"""Word -> kind."""


def kind_of(card: str) -> CardKind | None:
    """Returns the kind of a part by its name; None for whole cards, and for names of no known form."""
    part = card.partition(PART)[2]
    kind = KINDS.get(part.partition("-")[0])
    return kind if kind is not None and kind.size_of(part) is not None else None


def title_of(card: str) -> str:
    """Returns what a name is for: ``whole card``, ``MPS``, or the kind and size of a part. Cards with different titles
    are different resources."""
    part = card.partition(PART)[2]
    kind = kind_of(card)
    if kind is None:
        return part or WHOLE_CARD
    if kind is MPS:  # one resource counts all of them
        return kind.title
    size = part.removeprefix(kind.part(""))
    return f"{kind.title} {size.removesuffix('-mixed')}"


def mps_part(gib: int, replicas: int) -> str:
    """``gib``: the memory of the whole card; ``replicas``: the number of its parts."""
    return MPS.part(f"{gib}g*1/{replicas}")


def mig_part(profile: str) -> str:
    return MIG.part(f"{profile}-mixed")


def vgpu_part(mib: int, percent: int, cores: int) -> str:
    """Returns the part of a slice with ``mib`` of memory or, if this is 0, a percentage of the GPU's memory; ``cores``
    in percent. A slice with all memory is a whole card: ""."""
    memory = memory_text(mib) if mib > 0 else f"{percent}p"
    part = VGPU.part(f"{memory}-{cores}c" if cores > 0 else memory)
    return part if VGPU.size_of(part) is not None else ""


def vnpu_part(template: str) -> str:
    return VNPU.part(re.sub(r"[^A-Za-z0-9_.]", "_", template)[:63])


def share_part(cores: int, mib: int) -> str:
    """``cores``: percent of the AI cores. A share without limits is a whole card: ""."""
    sizes = [f"{cores}c"] if cores > 0 else []
    sizes += [memory_text(mib)] if mib > 0 else []
    return SHARE.part("-".join(sizes)) if sizes else ""


def memory_text(mib: int) -> str:
    """Formats memory in whole GiB (``8g``) or else in MiB (``5000m``)."""
    return f"{mib}m" if mib % _MIB_PER_GIB else f"{mib // _MIB_PER_GIB}g"


def mib_of(text: str) -> int:
    """Returns the MiB of a memory in the name of a part."""
    return int(text[:-1]) * (_MIB_PER_GIB if text.endswith("g") else 1)


def normal_name(card: str) -> str:
    """Returns the one name of a card that may be written in several ways: ``8192m`` of memory is ``8g``."""
    model, slash, part = card.partition(PART)
    kind = kind_of(card)
    if kind not in (VGPU, SHARE):
        return card
    size = re.sub(r"\b[0-9]+m\b", lambda match: memory_text(mib_of(match[0])), part.removeprefix(kind.part("")))
    return f"{model}{slash}{kind.part(size)}"


_DIVIDED: Final = (ASCEND_910, ASCEND_310P, ASCEND_710)
"""The resources of chips that can be divided beforehand."""
_STATIC: Final = re.compile(
    rf"({'|'.join(map(re.escape, _DIVIDED))})-([1-9][0-9]?)c"
    r"(?:\.([1-9])cpu(?:\.([1-9][0-9]?)g)?(?:\.(ndvpp|dvpp))?)?"
)
"""Resources that count virtual NPUs that were created beforehand: ``huawei.com/Ascend910-10c.3cpu.16g.ndvpp``."""
_TEMPLATE: Final = re.compile(r"vir([0-9]{2})(?:_([1-9])c(?:_([1-9][0-9]?)g(?:_(nm|m))?|_(ndvpp|dvpp))?)?")


def template_of(resource: str) -> str:
    """Returns the template of the virtual NPUs that a resource counts (``huawei.com/Ascend310P-2c.1cpu``:
    ``vir02_1c``); "" if the resource counts none."""
    match = _STATIC.fullmatch(resource)
    if match is None:
        return ""
    _, cores, cpus, memory, dvpp = match.groups()
    name = f"vir{int(cores):02}" + (f"_{cpus}c" if cpus else "") + (f"_{memory}g" if memory else "")
    if dvpp is None:
        return name
    short = {"ndvpp": "nm", "dvpp": "m"}
    return f"{name}_{short[dvpp] if memory else dvpp}"


def static_resources(template: str) -> tuple[str, ...]:
    """Returns the resources that count virtual NPUs of a template that were created beforehand."""
    match = _TEMPLATE.fullmatch(template)
    if match is None:
        return ()
    cores, cpus, memory, short, dvpp = match.groups()
    suffix = f"{int(cores)}c" + (f".{cpus}cpu" if cpus else "") + (f".{memory}g" if memory else "")
    long = {"nm": "ndvpp", "m": "dvpp", None: dvpp}[short]
    suffix += f".{long}" if long else ""
    return tuple(f"{resource}-{suffix}" for resource in _DIVIDED)
