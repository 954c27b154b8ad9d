"""Which family a job belongs to: its resource, schedule policy, node selector and labels decide."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from scheduler.api.names import (
    ACCELERATOR_TYPE,
    ASCEND_310,
    ASCEND_310P,
    ASCEND_710,
    ASCEND_910,
    NPU,
    SCHEDULE_POLICY,
    SP_BLOCK,
)
from scheduler.api.reasons import Refusal
from scheduler.plugins.ascend.families import FAMILIES
from scheduler.plugins.ascend.family import DISTRIBUTED, DUO, STRATEGY, ChipFamily

REASON_POLICY: Final = "NotSupportPolicy"
CHIP_RESOURCES: Final = (ASCEND_910, ASCEND_310, ASCEND_310P, ASCEND_710, NPU)
"""The extended resources that count whole chips."""
JOB_LABELS: Final = (STRATEGY, DUO, DISTRIBUTED)
"""Labels that are traits of a job."""
_UNSUPPORTED_POLICIES: Final = frozenset({"chip8-node8-ra64-sp", "multilevel"})
"""Policies of racks in A5 super pods, and of several levels of networks between A3 super pods."""


def resolve(resource: str, annotations: Mapping[str, str], traits: Mapping[str, str]) -> ChipFamily | Refusal:
    """Returns the family of a job that requests chips of a resource. ``annotations``: the annotations of its PodGroup
    and Pods; ``traits``: ``accelerator-type`` in the node selectors of its Pods, and its ``JOB_LABELS``.

    A policy that is not known does not count, as in the NPU plugin; but jobs with ``huawei.com/npu`` need one."""
    policy = annotations.get(SCHEDULE_POLICY, "")
    if policy in _UNSUPPORTED_POLICIES:
        return Refusal(REASON_POLICY, f"{SCHEDULE_POLICY}={policy} is not supported")
    families = [family for family in FAMILIES if resource in family.resources]
    for family in families:
        if policy in family.policies:
            return family
    if resource == NPU and SCHEDULE_POLICY not in annotations:
        known = sorted(policy for family in families for policy in family.policies)
        text = f"{resource} without {SCHEDULE_POLICY} is not supported; supported: {', '.join(known)}"
        return Refusal(REASON_POLICY, text)
    if SP_BLOCK in annotations and resource in (ASCEND_910, NPU):
        families = [family for family in families if family.super_pods]
        return next((family for family in families if _has_traits(family, traits)), families[0])
    for family in families:
        if _has_traits(family, traits):
            return family
    return Refusal(REASON_POLICY, _unknown(resource, families, traits))


def _has_traits(family: ChipFamily, traits: Mapping[str, str]) -> bool:
    return family.traits is not None and all(
        any(fnmatchcase(traits.get(trait, ""), pattern) for pattern in patterns)
        for trait, patterns in family.traits.items()
    )


def _unknown(resource: str, families: list[ChipFamily], traits: Mapping[str, str]) -> str:
    if not families:
        return f"{resource} is not a resource of chips that are known; known: {', '.join(CHIP_RESOURCES)}"
    asked: dict[str, set[str]] = {}
    for family in families:
        for trait, patterns in (family.traits or {}).items():
            asked.setdefault(trait, set()).update(patterns)
    parts = [
        f"{trait}={traits.get(trait, '')[:64]} (supported: {', '.join(sorted(p for p in patterns if p))} or none)"
        for trait, patterns in asked.items()
    ]
    return f"no family of {resource} is chosen by {', '.join(parts)}"


SELECTED: Final = (ACCELERATOR_TYPE,)
"""Keys of node selectors that are traits of a job."""
