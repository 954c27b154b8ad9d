"""What a job would have to say so that the nodes of another family are used: the nodeSelector ``accelerator-type``, a
label, or the annotation ``huawei.com/schedule_policy``.

A job that says nothing about its family gets the first one of its resource, Ascend 910 with eight chips. On a cluster
of other servers no node is of that family, and its rules may refuse the job. So reasons name what chooses the family of
the nodes that there are, and ``explain`` tries it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

import numpy as np

from scheduler.api.job import Job
from scheduler.api.names import ACCELERATOR_TYPE, NPU, SCHEDULE_POLICY, SERVER_TYPE
from scheduler.api.node import NodeFacts
from scheduler.api.reasons import Refusal
from scheduler.plugins.ascend.demand import ChipDemand
from scheduler.plugins.ascend.families import FAMILIES
from scheduler.plugins.ascend.family import DUO, STRATEGY, ChipFamily
from scheduler.plugins.ascend.ledger import ChipLedger

NODE_SELECTOR, LABEL, ANNOTATION = "nodeSelector", "label", "annotation"
NODE_LABELS: Final = tuple(
    dict.fromkeys((ACCELERATOR_TYPE, SERVER_TYPE, *(label for family in FAMILIES for label in family.node_labels)))
)
"""The labels of nodes that tell families apart."""
_POLICY: Final = re.compile(r"(chip[0-9]+)-node([0-9]+)(?:-sp)?")
"""The chips that are connected, and the chips of a node."""
_CONNECTED: Final = {"Ascend910A3": "chip2", "Ascend910B": "chip8"}
"""The beginning of the label ``servertype`` -> the beginning of its policies."""
_LABEL_SETTINGS: Final = ((DUO, ("true",)), (STRATEGY, ("card", "chip")))


class Setting(NamedTuple):
    """A part of a Pod that chooses the family of its job."""

    where: str
    """``nodeSelector``, ``label`` or ``annotation``."""
    key: str
    value: str

    def __str__(self) -> str:
        return f"{self.where} {self.key}: {self.value}"


class NodeKind(NamedTuple):
    """What tells the families of nodes apart."""

    labels: tuple[str, ...]
    """The values of ``NODE_LABELS``; "" without the label."""
    chips: int

    def label(self, key: str) -> str:
        return self.labels[NODE_LABELS.index(key)]

    def fits(self, family: ChipFamily) -> bool:
        """Whether nodes of this kind are of a family."""
        if self.chips > family.chips and not family.selection.any_ids:
            return False
        return all(self.label(key) in values for key, values in family.node_labels.items())


NodeKinds = tuple[tuple[NodeKind, int], ...]
"""Kinds of nodes with their numbers, those of most nodes first."""


class FamilyChoice(NamedTuple):
    """A family of the cluster's nodes that a job could have."""

    family: ChipFamily
    setting: Setting
    nodes: int
    """Number of nodes of the family."""
    refusal: str
    """Why the family refuses the job as it is, or ""."""
    certain: bool
    """Whether labels of the nodes say that they are of the family, not their number of chips alone."""

    @property
    def nodes_text(self) -> str:
        return "1 node" if self.nodes == 1 else f"{self.nodes} nodes"

    def __str__(self) -> str:
        if self.refusal:
            return f"{self.nodes_text} of {self.family.title} ({self.setting}) would refuse it too: {self.refusal}"
        return f"{self.setting} would choose {self.nodes_text} of {self.family.title}"


def node_kinds(facts: NodeFacts, ledger: ChipLedger) -> NodeKinds:
    """Returns the kinds of the nodes that have chips of a resource."""
    rows = np.flatnonzero(ledger.allocatable > 0)
    columns = []
    for label in NODE_LABELS:
        codes, values = facts.label_column(label)
        columns.append(["" if code < 0 else values[code] for code in codes[rows].tolist()])
    chips = np.minimum(ledger.allocatable, ledger.capacity + ledger.broken)[rows].tolist()
    kinds = Counter(NodeKind(labels, number) for labels, number in zip(zip(*columns, strict=True), chips, strict=True))
    return tuple(sorted(kinds.items(), key=lambda item: (-item[1], item[0])))


def selector_of(accelerator_type: str, resource: str) -> tuple[ChipFamily, Setting] | None:
    """Returns the family of nodes with a label ``accelerator-type``, and the nodeSelector that chooses it."""
    for family in FAMILIES:
        patterns = (family.traits or {}).get(ACCELERATOR_TYPE, ())
        if (
            resource in family.resources
            and accelerator_type
            and any(fnmatchcase(accelerator_type, p) for p in patterns)
        ):
            return family, Setting(NODE_SELECTOR, ACCELERATOR_TYPE, accelerator_type)
    return None


def choices(job: Job, demand: ChipDemand, kinds: NodeKinds) -> Sequence[FamilyChoice]:
    """Returns the other families that a job could have, best first: those that accept it as it is, those that labels of
    nodes confirm, those of most nodes."""
    resource, use = demand.resource(job), demand.use(job)
    if resource is None:
        return ()
    found: dict[ChipFamily, FamilyChoice] = {}
    for setting, family in _settings(resource.name, kinds):
        there = demand.use_with(job, {setting.key: setting.value})
        if there is None or (use is not None and use.family is family):
            continue
        nodes = sum(number for kind, number in kinds if kind.fits(family) and _selected(kind, setting))
        refusal = there.message if isinstance(there, Refusal) else ""
        if nodes and (isinstance(there, Refusal) or there.family is family):
            certain = setting.where != ANNOTATION or resource.name != NPU
            found.setdefault(family, FamilyChoice(family, setting, nodes, refusal, certain))
    return sorted(found.values(), key=lambda choice: (choice.refusal != "", not choice.certain, -choice.nodes))


def advice(found: Sequence[FamilyChoice], refusal: Refusal) -> str:
    """Returns what a refused job should say, or ""."""
    if not found or found[0].refusal == refusal.message:
        return ""
    best = found[0]
    if best.certain or best.refusal:
        return str(best)
    listed = " or ".join(choice.setting.value for choice in found if not (choice.certain or choice.refusal))
    return f"{ANNOTATION} {best.setting.key}: {listed}, according to the hardware, would choose {best.nodes_text}"


def _settings(resource: str, kinds: NodeKinds) -> Iterator[tuple[Setting, ChipFamily]]:
    """Yields what chooses the families of the nodes, without regard to the job."""
    unknown = []
    for kind, _ in kinds:
        found = selector_of(kind.label(ACCELERATOR_TYPE), resource)
        if found is None:
            unknown.append(kind)
        else:
            yield found[1], found[0]
    families = [family for family in FAMILIES if resource in family.resources]
    for key, values in _LABEL_SETTINGS:
        for value in values:
            for family in families:
                if family.traits is not None and value in family.traits.get(key, ()):
                    yield Setting(LABEL, key, value), family
    for family in families:
        for policy in sorted(family.policies):
            if any(_is_policy_of(policy, kind, resource) for kind in unknown):
                yield Setting(ANNOTATION, SCHEDULE_POLICY, policy), family


def _is_policy_of(policy: str, kind: NodeKind, resource: str) -> bool:
    """Whether a policy may be meant for nodes of a kind. A policy for other hardware would place Pods across its links,
    so for Ascend 910 the label ``servertype`` has to say that it is not the first generation."""
    match = _POLICY.fullmatch(policy)
    if match is None or int(match[2]) != kind.chips:
        return False
    return resource == NPU or match[1] == _CONNECTED.get(kind.label(SERVER_TYPE).partition("-")[0])


def _selected(kind: NodeKind, setting: Setting) -> bool:
    return setting.where != NODE_SELECTOR or kind.label(setting.key) == setting.value
