"""Labels, annotations and label selectors."""

import re
from collections.abc import Mapping
from typing import Final

from scheduler.webhooks import names
from scheduler.webhooks.fields import Problems, forbidden, invalid, invalid_each, required, too_long
from scheduler.webhooks.job.podtemplate.wire import LabelSelector, Meta, Requirement

_ANNOTATIONS_SIZE: Final = 256 * 1024
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_MIRROR: Final = "kubernetes.io/config.mirror"
_COST: Final = re.compile("0|[1-9][0-9]{0,9}|-[0-9]{1,10}")


def check_labels(labels: Mapping[str, str], path: str) -> Problems:
    for key, value in labels.items():
        yield from invalid_each(path, key, names.qualified_name(key))
        yield from invalid_each(path, value, names.label_value(value))


def check_annotations(annotations: Mapping[str, str], path: str) -> Problems:
    size = 0
    for key, value in annotations.items():
        yield from invalid_each(path, key, names.qualified_name(key.lower()))
        size += sum(len(text.encode("utf-8", "surrogatepass")) for text in (key, value))
    if size > _ANNOTATIONS_SIZE:
        yield too_long(path, _ANNOTATIONS_SIZE)


def check_metadata(meta: Meta, path: str) -> Problems:
    """Of a Pod template."""
    yield from check_labels(meta.labels, f"{path}.labels")
    yield from check_annotations(meta.annotations, f"{path}.annotations")


def check_pod_annotations(annotations: Mapping[str, str], node_name: str, path: str) -> Problems:
    """Annotations that Kubernetes itself reads."""
    mirror = annotations.get(_MIRROR)
    if mirror is not None and not node_name:
        detail = "must set spec.nodeName if mirror pod annotation is set"
        yield invalid(f"{path}[{_MIRROR}]", mirror, detail)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not (_COST.fullmatch(cost) and -(2**31) <= int(cost) < 2**31):
        yield invalid(f"{path}[{_DELETION_COST}]", cost, "must be a 32bit integer")


def check_selector(selector: LabelSelector | None, path: str) -> Problems:
    if selector is None:
        return
    yield from check_labels(selector.match_labels, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.match_expressions):
        where = f"{path}.matchExpressions[{index}]"
        yield from check_operator(requirement, where)
        yield from invalid_each(f"{where}.key", requirement.key, names.qualified_name(requirement.key))
        yield from check_values(requirement, where)


def check_operator(requirement: Requirement, path: str, *more: str) -> Problems:
    """Operator and number of values; ``more`` operators take exactly one value, which is for the caller to check."""
    if requirement.operator in ("In", "NotIn"):
        if not requirement.values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif requirement.operator in ("Exists", "DoesNotExist"):
        if requirement.values:
            yield forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif requirement.operator not in more:
        yield invalid(f"{path}.operator", requirement.operator, "not a valid selector operator")


def check_values(requirement: Requirement, path: str) -> Problems:
    for index, value in enumerate(requirement.values):
        yield from invalid_each(f"{path}.values[{index}]", value, names.label_value(value))
