"""The accelerator cards of one node, determined from its labels and its allocatable resources.

A node has the labels ``<vendor domain>/<type>.product``, ``.count`` and ``.memory`` (MiB). The product is the name of
its whole cards. Without a product, the labels of MindCluster name the model of Ascend NPUs (``ascend_labels``). Parts
of cards have other names (``scheduler.api.card_kinds``):

* MPS, resource ``nvidia.com/gpu.shared``: ``<product>/mps-<memory>g*1/<replicas>``, the memory of the whole card in
  GiB, rounded to the nearest one (81559 MiB: ``mps-80g``)
* MIG, resource ``nvidia.com/mig-<profile>``: ``<product>/mig-<profile>-mixed``
* virtual NPUs that were created beforehand, resource ``huawei.com/Ascend910-<size>``: ``<model>/vnpu-<template>``
* resources that a rule of the configuration is about (``label_rules``): the name that the rule gives

The names of other parts depend on the request of a Pod, too. The node only says which model is divided
(``NodeCards.model``).

Labels and resources come from different programs, and each may be missing while the other is there. A resource that
counts cards by its name (``card_resources``) and lacks a label is in ``NodeCards.unlabeled``: no Pod gets these cards.
The cards that a node has offered before, and that running Pods still hold, follow from the labels alone
(``NodeCards.card_held``).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.api.card_kinds import MIG_PREFIX, MPS_RESOURCE, PART, VNPU, mig_part, mps_part, template_of, vnpu_part
from scheduler.api.names import MPS_REPLICAS
from scheduler.api.reasons import Malformed
from scheduler.plugins.capacity_card.ascend_labels import ascend_model, chip_problems, model_of_resource
from scheduler.plugins.capacity_card.card_resources import HUAWEI, KNOWN_CARDS, NVIDIA, CardResources, shared

_DESCRIPTIONS: Final = {NVIDIA: f"{NVIDIA}/gpu", HUAWEI: f"{HUAWEI}/npu"}
"""Vendor domain -> the beginning of its labels, where this is not the name of the resource."""
FIELDS: Final = (".product", ".count", ".memory")
_PRODUCT: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NUMBER: Final = re.compile(r"[0-9]{1,12}")
_NO_MODEL: Final = "missing, so the model of the node's cards is not known"
_CONSEQUENCE: Final = (
    "no more Pods get these cards, and Pods that hold some without a binding record are charged for every card that "
    "they may hold"
)


class CardLabels(msgspec.Struct, frozen=True):
    """The labels that describe the cards of one vendor and type on a node."""

    vendor: str
    exact: str
    """``<vendor>/<type>``: the beginning of the labels, and often the name of the resource. "": labels of MindCluster,
    which are about all NPUs of the node."""
    product: str
    mps: str = ""
    """The name of MPS cards; "" if the labels give none."""
    complete: bool = True
    """Whether the labels name the cards that the node offers: besides the product, a count or the memory is given."""


class DividedCard(NamedTuple):
    """The cards of a node that are divided into parts that requests determine."""

    model: str
    whole: str | None
    """The card that each unit of the resource counts as until a quota lists a part, as on nodes with a product label;
    None: parts always have names."""
    labels: tuple[tuple[str, str], ...]
    """The labels of the node that parts depend on."""


class NodeCards(msgspec.Struct, frozen=True):
    """The cards of one node."""

    by_resource: Mapping[str, str]
    """Resource name -> name of the card that it counts there."""
    problems: tuple[Malformed, ...] = ()
    families: tuple[CardLabels, ...] = ()
    unlabeled: Mapping[str, str] = {}
    """Resource that counts cards without a name -> the label that is missing or invalid."""
    labels: Mapping[str, str] = {}
    """The labels that parts of cards and rules depend on (``CardResources.labels``)."""
    divided: tuple[str, ...] = ()
    """The resources of the node that divide cards into parts that requests determine."""

    def card_held(self, resource: str, card_resources: CardResources) -> str | None:
        """Returns the card that a Pod on the node holds of a resource, also if the node no longer offers it."""
        card = self.by_resource.get(resource)
        if card is None:
            card = card_resources.named_by_rule(resource, self.labels)
        if card is not None:
            return card or None
        for family in self.families:
            if not resource.startswith(f"{family.vendor}/"):
                continue
            if shared(resource):
                return _shared_card(family, resource) or None
            if template_of(resource) and names_virtual(family, card_resources):
                return _virtual_npu(family, resource)
            if resource == family.exact or card_resources.count(resource):
                return family.product
        return None

    def divided_card(self, resource: str, card_resources: CardResources, *, held: bool) -> DividedCard | None:
        """Returns the cards that a resource divides; None if labels do not say which, or if the node does not offer the
        resource. ``held``: the cards that running Pods hold, whatever the node offers; the product alone is enough."""
        if not held and resource not in self.divided:
            return None
        vendor = card_resources.vendor_of_parts(resource)
        for family in self.families:
            if family.vendor == vendor and (held or family.complete):
                whole = self.card_held(resource, card_resources) if family.exact and vendor == HUAWEI else None
                return DividedCard(family.product, whole, tuple(self.labels.items()))
        model = model_of_resource(resource)
        return DividedCard(model, None, tuple(self.labels.items())) if model else None


NO_CARDS: Final = NodeCards({})


def read_cards(
    name: str, labels: Mapping[str, str], resources: Iterable[str], card_resources: CardResources = KNOWN_CARDS
) -> NodeCards:
    """Returns the cards of a node with these labels and allocatable resources. Invalid and missing labels are reported
    in ``problems``."""
    return _Reader(name, labels, sorted(resources), card_resources).read()


class _Reader:
    """Reads the cards of one node."""

    def __init__(
        self, name: str, labels: Mapping[str, str], offered: Sequence[str], card_resources: CardResources
    ) -> None:
        self._name = name
        self._labels = labels
        self._offered = offered
        self._card_resources = card_resources
        self._found: dict[str, str] = {}
        self._problems: list[Malformed] = []
        self._families: list[CardLabels] = []
        self._missing: dict[str, str] = {}
        """Vendor -> the label without which its cards have no name."""

    def read(self) -> NodeCards:
        described = _described(self._labels)
        for (vendor, kind), fields in described.items():
            self._read_family(vendor, kind, fields)
        if self._card_resources.ascend and not any(
            vendor == HUAWEI and "product" in fields for (vendor, _), fields in described.items()
        ):
            self._read_ascend()
        self._name_virtual()
        unlabeled = self._follow_rules()
        own = {key: self._labels[key] for key in self._card_resources.labels if key in self._labels}
        divided = tuple(each for each in self._offered if self._card_resources.vendor_of_parts(each))
        cards = NodeCards(self._found, (), tuple(self._families), {}, own, divided)
        named = any(family.vendor == HUAWEI for family in self._families)
        unlabeled |= {
            resource: self._missing_label(resource)
            for resource in self._offered
            if resource not in self._found
            and resource not in unlabeled
            and self._card_resources.count(resource)
            and self._is_card(resource)
            and cards.divided_card(resource, self._card_resources, held=False) is None
            and not (named and self._card_resources.only_parts(resource, self._labels))
        }
        for label in unlabeled.values():
            if label not in self._reported():
                self._problems.append(missing_label(self._name, label))
        if not (self._found or self._problems or self._families):
            return NO_CARDS
        return msgspec.structs.replace(cards, problems=tuple(self._problems), unlabeled=unlabeled)

    def _read_family(self, vendor: str, kind: str, fields: Mapping[str, str]) -> None:
        """Reads the labels of one vendor and type. ``fields``: product, count and memory, as far as they are given."""
        label = f"{vendor}/{kind}"
        product = fields.get("product")
        if product is None:
            if len(fields) == 2:  # a single label of this form may mean something else
                self._set_aside(f"{label}.product", "missing, though the card's count and memory are given")
            return
        if _PRODUCT.fullmatch(product) is None:
            if len(fields) > 1:
                self._set_aside(f"{label}.product", f"{product[:64]!r} is not the name of a card")
            return
        replicas, memory = self._labels.get(MPS_REPLICAS, ""), fields.get("memory", "")
        mps = ""
        if vendor == NVIDIA and _positive(replicas) and _positive(memory):
            mps = f"{product}{PART}{mps_part((int(memory) + 512) // 1024, int(replicas))}"
        family = CardLabels(vendor, label, product, mps, len(fields) > 1)
        self._families.append(family)
        if not family.complete:
            self._missing.setdefault(vendor, f"{label}.count")
            return
        for field in ("count", "memory"):
            if field in fields and _NUMBER.fullmatch(fields[field]) is None:
                self._set_aside(f"{label}.{field}", f"{fields[field][:64]!r} is not a whole number")
        for resource in _whole_card_resources(vendor, label, self._offered):
            self._found.setdefault(resource, product)
        if vendor != NVIDIA:
            return
        for resource in self._offered:
            if shared(resource) and (card := _shared_card(family, resource)):
                self._found.setdefault(resource, card)
        if MPS_RESOURCE in self._offered and not mps:
            if not _positive(replicas):
                problem = f"{replicas[:64]!r} is not a number of shares, the node's MPS cards have no name"
                self._set_aside(MPS_REPLICAS, problem)
            else:
                self._set_aside(f"{label}.memory", "no usable number, the node's MPS cards have no name")

    def _read_ascend(self) -> None:
        """Names NPUs by the labels of MindCluster, or by the resources of HAMi, which are called by the model."""
        model = ascend_model(self._labels)
        if model:
            self._families.append(CardLabels(HUAWEI, "", model))
        else:
            for label, problem in chip_problems(self._labels):
                self._set_aside(label, problem)
        for resource in self._offered:
            named = model or model_of_resource(resource)
            whole = self._card_resources.counts_whole_npus(resource)
            if named and whole and not self._card_resources.only_parts(resource, self._labels):
                self._found.setdefault(resource, named)

    def _name_virtual(self) -> None:
        """Names the virtual NPUs that were created beforehand."""
        for resource in self._offered:
            family = next((each for each in self._families if each.vendor == HUAWEI and each.complete), None)
            if family is not None and template_of(resource) and names_virtual(family, self._card_resources):
                self._found[resource] = _virtual_npu(family, resource)

    def _follow_rules(self) -> dict[str, str]:
        """Names cards by the rules of the configuration. Returns resource -> the label without which a rule names
        nothing."""
        missing: dict[str, str] = {}
        for resource in self._offered:
            found = None if shared(resource) else self._card_resources.rule_for(resource)
            if found is None:
                continue
            rule, text = found
            card = rule.card(text, self._labels)
            self._found.pop(resource, None)
            if card.name:
                self._found[resource] = card.name
            else:
                missing[resource] = card.label
                if card.label in self._labels:
                    value = self._labels[card.label]
                    self._set_aside(card.label, f"{value[:64]!r} gives no name of a card by the rule {rule.name!r:.80}")
        return missing

    def _set_aside(self, label: str, problem: str) -> None:
        self._problems.append(Malformed("Node", "", self._name, _field(label), problem, "ignored"))

    def _reported(self) -> set[str]:
        """Returns the labels about which a problem is reported."""
        return {problem.field.removeprefix(_LABELS).removesuffix("]") for problem in self._problems}

    def _missing_label(self, resource: str) -> str:
        """Returns the label without which a resource of the node has no card."""
        vendor = self._card_resources.vendor_of_parts(resource) or resource.partition("/")[0]
        for problem in self._problems:
            label = problem.field.removeprefix(_LABELS).removesuffix("]")
            if label.startswith(f"{vendor}/"):
                return label
        return self._missing.get(vendor) or product_label(resource, vendor)

    def _is_card(self, resource: str) -> bool:
        """Whether an offered resource without a name of a card counts cards. A resource that the labels of its vendor
        do not mean, because the node offers the resource with their name, does not."""
        vendor = resource.partition("/")[0]
        return shared(resource) or not any(
            family.vendor == vendor and family.exact in self._offered and family.exact != resource
            for family in self._families
        )


_LABELS: Final = "metadata.labels["


def _field(label: str) -> str:
    return f"{_LABELS}{label}]"


def _described(labels: Mapping[str, str]) -> dict[tuple[str, str], dict[str, str]]:
    """Returns (vendor, type) -> field -> value of the labels that describe cards, in order."""
    described: dict[tuple[str, str], dict[str, str]] = {}
    for key, value in labels.items():
        if not key.endswith(FIELDS):
            continue
        head, _, field = key.rpartition(".")
        vendor, _, kind = head.rpartition("/")
        if vendor and kind and not kind.startswith("mig-"):  # labels of MIG profiles describe no separate card
            described.setdefault((vendor, kind), {})[field] = value
    return dict(sorted(described.items()))


def missing_label(node: str, label: str) -> Malformed:
    """Reports that the model of a node's cards is not known."""
    return Malformed("Node", "", node, _field(label), _NO_MODEL, _CONSEQUENCE)


def product_label(resource: str, vendor: str = "") -> str:
    """Returns the label that names the cards that a resource counts, judging by the name of the resource. ``vendor``:
    the domain of the label, if it is not that of the resource."""
    return f"{_DESCRIPTIONS.get(vendor or resource.partition('/')[0], resource)}.product"


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
    return f"{family.product}{PART}{mig_part(resource.removeprefix(MIG_PREFIX))}"


def names_virtual(family: CardLabels, card_resources: CardResources) -> bool:
    """Whether virtual NPUs have names of their own. On nodes with a product label, they count as whole cards until a
    quota lists one."""
    return not family.exact or VNPU in card_resources.kinds


def _virtual_npu(family: CardLabels, resource: str) -> str:
    return f"{family.product}{PART}{vnpu_part(template_of(resource))}"


def _positive(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None and int(text) > 0
