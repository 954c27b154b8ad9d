"""The accelerator cards of one node, determined from its labels and its allocatable resources.

A node has the labels ``<vendor domain>/<type>.product``, ``.count`` and ``.memory`` (MiB). The product is the name of
its whole cards. Cards that are shared by MPS or partitioned by MIG have other names:

* MPS, resource ``nvidia.com/gpu.shared``: ``<product>/mps-<memory>g*1/<replicas>``, the memory of the whole card in
  GiB, rounded to the nearest one (81559 MiB: ``mps-80g``)
* MIG, resource ``nvidia.com/mig-<profile>``: ``<product>/mig-<profile>-mixed``

Labels and resources come from different programs, and each may be missing while the other is there. A resource that
counts cards by its name (``CardResources``) and lacks a label is in ``NodeCards.unlabeled``: no Pod gets these cards.
The cards that a node has offered before, and that running Pods still hold, follow from the labels alone
(``NodeCards.card_held``).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from scheduler.api.cards import ASCEND_VENDOR
from scheduler.api.names import MPS_REPLICAS
from scheduler.api.reasons import Malformed

NVIDIA: Final = "nvidia.com"
_HUAWEI: Final = "huawei.com"
MPS_RESOURCE: Final = f"{NVIDIA}/gpu.shared"
MIG_PREFIX: Final = f"{NVIDIA}/mig-"
_DESCRIPTIONS: Final = {NVIDIA: f"{NVIDIA}/gpu", _HUAWEI: f"{_HUAWEI}/npu"}
"""Vendor domain -> the beginning of its labels, where this is not the name of the resource."""
VENDORS: Final = {NVIDIA: "NVIDIA", _HUAWEI: ASCEND_VENDOR}
"""Vendor domain -> the vendor as in ``vendor_of``."""
_BY_NAME: Final = re.compile(
    r"(?!huawei\.com/)[^/]+/(?:gpu|npu|ppu|xpu|tpu|dcu|dcunum|gcu|mlu|ipu|hpu|gaudi|neuron)[0-9]*"
)
"""Resources that count whole cards of vendors whose names for them are known."""
_ASCEND: Final = re.compile(r"huawei\.com/(?:npu[0-9]*|Ascend[0-9][-0-9A-Za-z]*(?<!-memory)(?<!-core))")
"""Resources that count Ascend NPUs, or parts of them."""
FIELDS: Final = (".product", ".count", ".memory")
_PRODUCT: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NUMBER: Final = re.compile(r"[0-9]{1,12}")
_NO_MODEL: Final = "missing, so the model of the node's cards is not known"
_CONSEQUENCE: Final = (
    "no more Pods get these cards, and Pods that hold some without a binding record are charged for every card that "
    "they may hold"
)


class CardResources(msgspec.Struct, frozen=True):
    """Which resources count cards, judging by their names."""

    further: tuple[str, ...] = ()
    """Names, with ``*`` for any text, besides the known ones."""
    known: bool = True
    """Whether the known ones count cards if no label says so; False: only shares of NVIDIA's cards do."""
    ascend: bool = True
    """Whether those of Ascend NPUs are among the known ones."""

    def count(self, resource: str) -> bool:
        if shared(resource) or (self.known and _BY_NAME.fullmatch(resource) is not None):
            return True
        if self.known and self.ascend and _ASCEND.fullmatch(resource) is not None:
            return True
        return any(fnmatchcase(resource, pattern) for pattern in self.further)


KNOWN_CARDS: Final = CardResources()


class CardLabels(msgspec.Struct, frozen=True):
    """The labels that describe the cards of one vendor and type on a node."""

    vendor: str
    exact: str
    """``<vendor>/<type>``: the beginning of the labels, and often the name of the resource."""
    product: str
    mps: str
    """The name of MPS cards; "" if the labels give none."""


class NodeCards(msgspec.Struct, frozen=True):
    """The cards of one node."""

    by_resource: Mapping[str, str]
    """Resource name -> name of the card that it counts there."""
    problems: tuple[Malformed, ...] = ()
    families: tuple[CardLabels, ...] = ()
    unlabeled: Mapping[str, str] = {}
    """Resource that counts cards without a name -> the label that is missing or invalid."""

    def card_held(self, resource: str, card_resources: CardResources) -> str | None:
        """Returns the card that a Pod on the node holds of a resource, also if the node no longer offers it."""
        card = self.by_resource.get(resource)
        if card is not None:
            return card
        for family in self.families:
            if not resource.startswith(f"{family.vendor}/"):
                continue
            if shared(resource):
                return _shared_card(family, resource) or None
            if resource == family.exact or card_resources.count(resource):
                return family.product
        return None


NO_CARDS: Final = NodeCards({})


def read_cards(
    name: str, labels: Mapping[str, str], resources: Iterable[str], card_resources: CardResources = KNOWN_CARDS
) -> NodeCards:
    """Returns the cards of a node with these labels and allocatable resources. Invalid and missing labels are reported
    in ``problems``."""
    described: dict[tuple[str, str], dict[str, str]] = {}
    for key, value in labels.items():
        if not key.endswith(FIELDS):
            continue
        head, _, field = key.rpartition(".")
        vendor, _, kind = head.rpartition("/")
        if vendor and kind and not kind.startswith("mig-"):  # labels of MIG profiles describe no separate card
            described.setdefault((vendor, kind), {})[field] = value
    offered = sorted(resources)
    found: dict[str, str] = {}
    problems: list[Malformed] = []
    families: list[CardLabels] = []
    missing: dict[str, str] = {}
    """Vendor -> the label without which its cards have no name."""

    def set_aside(label: str, problem: str, consequence: str = "ignored") -> None:
        problems.append(Malformed("Node", "", name, f"metadata.labels[{label}]", problem, consequence))

    for (vendor, kind), fields in sorted(described.items()):
        label = f"{vendor}/{kind}"
        product = fields.get("product")
        if product is None:
            if len(fields) == 2:  # a single label of this form may mean something else
                set_aside(f"{label}.product", "missing, though the card's count and memory are given")
            continue
        if len(fields) > 1 and _PRODUCT.fullmatch(product) is None:
            set_aside(f"{label}.product", f"{product[:64]!r} is not the name of a card")
            continue
        if _PRODUCT.fullmatch(product) is None:
            continue
        replicas, memory = labels.get(MPS_REPLICAS, ""), fields.get("memory", "")
        mps = ""
        if vendor == NVIDIA and _positive(replicas) and _positive(memory):
            mps = f"{product}/mps-{(int(memory) + 512) // 1024}g*1/{int(replicas)}"
        family = CardLabels(vendor, label, product, mps)
        families.append(family)
        if len(fields) == 1:
            missing.setdefault(vendor, f"{label}.count")
            continue
        for field in ("count", "memory"):
            if field in fields and _NUMBER.fullmatch(fields[field]) is None:
                set_aside(f"{label}.{field}", f"{fields[field][:64]!r} is not a whole number")
        for resource in _whole_card_resources(vendor, label, offered):
            found.setdefault(resource, product)
        if vendor != NVIDIA:
            continue
        for resource in offered:
            if shared(resource) and (card := _shared_card(family, resource)):
                found.setdefault(resource, card)
        if MPS_RESOURCE in offered and not mps:
            if not _positive(replicas):
                problem = f"{replicas[:64]!r} is not a number of shares, the node's MPS cards have no name"
                set_aside(MPS_REPLICAS, problem)
            else:
                set_aside(f"{label}.memory", "no usable number, the node's MPS cards have no name")
    unlabeled = {
        resource: _missing_label(resource, missing, problems)
        for resource in offered
        if resource not in found and card_resources.count(resource) and _is_card(resource, families, offered)
    }
    reported = {problem.field for problem in problems}
    for label in unlabeled.values():
        if f"metadata.labels[{label}]" not in reported:
            reported.add(f"metadata.labels[{label}]")
            problems.append(missing_label(name, label))
    if not (found or problems or families):
        return NO_CARDS
    return NodeCards(found, tuple(problems), tuple(families), unlabeled)


def missing_label(node: str, label: str) -> Malformed:
    """Reports that the model of a node's cards is not known."""
    return Malformed("Node", "", node, f"metadata.labels[{label}]", _NO_MODEL, _CONSEQUENCE)


def product_label(resource: str) -> str:
    """Returns the label that names the cards that a resource counts, judging by the name of the resource."""
    vendor = resource.partition("/")[0]
    return f"{_DESCRIPTIONS.get(vendor, resource)}.product"


def _missing_label(resource: str, missing: Mapping[str, str], problems: Sequence[Malformed]) -> str:
    """Returns the label without which a resource of the node has no card."""
    vendor = resource.partition("/")[0]
    for problem in problems:
        label = problem.field.removeprefix("metadata.labels[").removesuffix("]")
        if label.startswith(f"{vendor}/"):
            return label
    return missing.get(vendor) or product_label(resource)


def _is_card(resource: str, families: Iterable[CardLabels], offered: Iterable[str]) -> bool:
    """Whether an offered resource without a name of a card counts cards. A resource that the labels of its vendor do
    not mean, because the node offers the resource with their name, does not."""
    vendor = resource.partition("/")[0]
    return shared(resource) or not any(
        family.vendor == vendor and family.exact in offered and family.exact != resource for family in families
    )


def _whole_card_resources(vendor: str, exact: str, offered: Sequence[str]) -> list[str]:
    """Returns the resources that count whole cards: the one with the name of the labels, else all resources of the
    vendor that do not count shares."""
    if exact in offered and not shared(exact):
        return [exact]
    return [r for r in offered if r.startswith(f"{vendor}/") and not shared(r)]


def _shared_card(family: CardLabels, resource: str) -> str:
    """Returns the name of the shares that a resource counts, or ""."""
    if resource == MPS_RESOURCE:
        return family.mps
    return f"{family.product}/mig-{resource.removeprefix(MIG_PREFIX)}-mixed"


def shared(resource: str) -> bool:
    """Whether a resource counts shares of NVIDIA's cards."""
    return resource == MPS_RESOURCE or resource.startswith(MIG_PREFIX)


def _positive(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and int(text) > 0
