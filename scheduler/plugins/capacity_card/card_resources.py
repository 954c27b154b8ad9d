"""Which resources count accelerator cards, judging by their names and by the configuration."""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from scheduler.api.card_kinds import MIG_PREFIX, MPS_RESOURCE, VNPU, CardKind, template_of
from scheduler.api.cards import ASCEND_VENDOR
from scheduler.api.names import HUAWEI_PREFIX, SHARED_NODE, SHARED_NODE_VALUE
from scheduler.framework.arguments import Arguments
from scheduler.framework.card_parts import CardParts
from scheduler.plugins.capacity_card.ascend_labels import ASCEND_LABELS
from scheduler.plugins.capacity_card.label_rules import LabelRule, read_rules

NVIDIA: Final = "nvidia.com"
HUAWEI: Final = "huawei.com"
VENDORS: Final = {NVIDIA: "NVIDIA", HUAWEI: ASCEND_VENDOR}
"""Vendor domain -> the vendor as in ``vendor_of``."""
_BY_NAME: Final = re.compile(
    r"(?!huawei\.com/)[^/]+/(?:gpu|npu|ppu|xpu|tpu|dcu|dcunum|gcu|mlu|ipu|hpu|gaudi|neuron)[0-9]*"
)
"""Resources that count whole cards of vendors whose names for them are known."""
_ASCEND: Final = re.compile(r"huawei\.com/(?:npu[0-9]*|Ascend[0-9][-0-9A-Za-z]*(?<!-memory)(?<!-core))")
"""Resources that count Ascend NPUs, or parts of them."""


class CardResources(msgspec.Struct, frozen=True):
    """Which resources count cards, and how plugins and rules name cards."""

    further: tuple[str, ...] = ()
    """Names, with ``*`` for any text, besides the known ones."""
    known: bool = True
    """Whether the known ones count cards if no label says so; False: only MPS and MIG do."""
    ascend: bool = True
    """Whether those of Ascend NPUs are among the known ones."""
    kinds: frozenset[CardKind] = frozenset()
    """The kinds whose parts are counted by their names, besides MPS and MIG."""
    parts: tuple[CardParts, ...] = ()
    """How plugins divide cards into parts of these kinds."""
    rules: tuple[LabelRule, ...] = ()

    @classmethod
    def configured(cls, arguments: Arguments) -> "CardResources":
        """Returns what the arguments of the plugin say."""
        further = tuple(arguments.names("cardResources"))
        return cls(further, not arguments.boolean("cardAllowUnlabeled", False), rules=read_rules(arguments))

    def count(self, resource: str) -> bool:
        if shared(resource):
            return True
        if self.known and (_BY_NAME.fullmatch(resource) is not None or self.vendor_of_parts(resource)):
            return True
        if self.known and self.ascend and _ASCEND.fullmatch(resource) is not None:
            return True
        if self.known and VNPU in self.kinds and template_of(resource):
            return True
        return self.rule_for(resource) is not None or any(fnmatchcase(resource, text) for text in self.further)

    def counts_whole_npus(self, resource: str) -> bool:
        """Whether a resource counts whole Ascend NPUs, judging by its name."""
        return self.ascend and _ASCEND.fullmatch(resource) is not None and not template_of(resource)

    def vendor_of_parts(self, resource: str) -> str:
        """Returns the domain of the labels that name the model of the cards that a resource divides; "" if it divides
        none."""
        return next((parts.vendors[resource] for parts in self.parts if resource in parts.vendors), "")

    def only_parts(self, resource: str, labels: Mapping[str, str]) -> bool:
        """Whether units of a resource are no whole cards on a node with these labels, which no product describes."""
        if resource.startswith(HUAWEI_PREFIX) and labels.get(SHARED_NODE) == SHARED_NODE_VALUE:
            return True
        return any(parts.only_parts(labels) for parts in self.parts if resource in parts.vendors)

    def rule_for(self, resource: str) -> tuple[LabelRule, str] | None:
        """Returns the first rule for a resource, and what its ``*`` stands for."""
        for rule in self.rules:
            text = rule.matched(resource)
            if text is not None:
                return rule, text
        return None

    def named_by_rule(self, resource: str, labels: Mapping[str, str]) -> str | None:
        """Returns the name of a card by the rules, "" if labels are missing; None if no rule is about the resource."""
        found = self.rule_for(resource)
        return None if found is None else found[0].card(found[1], labels).name

    @property
    def labels(self) -> frozenset[str]:
        """The labels of nodes that parts of cards and rules depend on."""
        found = {label for parts in self.parts for label in parts.labels}
        found.update(label for rule in self.rules for label in rule.labels())
        return frozenset(found).union((*ASCEND_LABELS, SHARED_NODE) if self.ascend else ())


KNOWN_CARDS: Final = CardResources()


def shared(resource: str) -> bool:
    """Whether a resource counts MPS or MIG cards."""
    return resource == MPS_RESOURCE or resource.startswith(MIG_PREFIX)
