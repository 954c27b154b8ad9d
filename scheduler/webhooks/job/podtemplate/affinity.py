"""Affinity to nodes and to Pods."""

from typing import Final

from scheduler.webhooks import names
from scheduler.webhooks.fields import Problems, forbidden, invalid, invalid_each, required
from scheduler.webhooks.job.podtemplate.metadata import check_operator, check_selector, check_values
from scheduler.webhooks.job.podtemplate.pod_wire import (
    Affinity,
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
)
from scheduler.webhooks.job.podtemplate.wire import LabelSelector, Requirement

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def check_affinity(affinity: Affinity | None, path: str) -> Problems:
    if affinity is None:
        return
    if affinity.node_affinity is not None:
        yield from _check_node_affinity(affinity.node_affinity, f"{path}.nodeAffinity")
    for key, each in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if each is not None:
            yield from _check_pod_affinity(each, f"{path}.{key}")


def _check_node_affinity(affinity: NodeAffinity, path: str) -> Problems:
    selector = affinity.required_during_scheduling_ignored_during_execution
    if selector is not None:
        where = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        if not selector.node_selector_terms:
            yield required(where, "must have at least one node selector term")
        for index, term in enumerate(selector.node_selector_terms):
            yield from _check_term(term, f"{where}[{index}]", values_too=True)
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        where = f"{path}.{_PREFERRED}[{index}]"
        yield from _check_weight(preferred.weight, where)
        yield from _check_term(preferred.preference, f"{where}.preference", values_too=False)


def _check_weight(weight: int, path: str) -> Problems:
    if not 1 <= weight <= 100:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _check_term(term: NodeSelectorTerm, path: str, values_too: bool) -> Problems:
    """``values_too``: values must be possible values of labels; a mere preference for others is let through."""
    for index, requirement in enumerate(term.match_expressions):
        where = f"{path}.matchExpressions[{index}]"
        yield from check_operator(requirement, where, "Gt", "Lt")
        if requirement.operator in ("Gt", "Lt") and len(requirement.values) != 1:
            yield required(f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        yield from invalid_each(f"{where}.key", requirement.key, names.qualified_name(requirement.key))
        if values_too:
            yield from check_values(requirement, where)
    for index, requirement in enumerate(term.match_fields):
        yield from _check_field(requirement, f"{path}.matchFields[{index}]")


def _check_field(requirement: Requirement, path: str) -> Problems:
    if requirement.operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", requirement.operator, "not a valid selector operator")
    elif len(requirement.values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", text)
    if requirement.key != "metadata.name":
        yield invalid(f"{path}.key", requirement.key, "not a valid field selector key")
        return
    for index, value in enumerate(requirement.values):
        yield from invalid_each(f"{path}.values[{index}]", value, names.dns_subdomain(value))


def _check_pod_affinity(affinity: PodAffinity, path: str) -> Problems:
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        yield from _check_pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        where = f"{path}.{_PREFERRED}[{index}]"
        yield from _check_weight(weighted.weight, where)
        yield from _check_pod_term(weighted.pod_affinity_term, f"{where}.podAffinityTerm")


def _check_pod_term(term: PodAffinityTerm, path: str) -> Problems:
    yield from check_selector(term.label_selector, f"{path}.labelSelector")
    yield from check_selector(term.namespace_selector, f"{path}.namespaceSelector")
    for namespace in term.namespaces:
        yield from invalid_each(f"{path}.namespace", namespace, names.dns_label(namespace))
    yield from _check_label_keys(term, path)
    if not term.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from invalid_each(f"{path}.topologyKey", term.topology_key, names.qualified_name(term.topology_key))


def _check_label_keys(term: PodAffinityTerm, path: str) -> Problems:
    for key, listed in (("matchLabelKeys", term.match_label_keys), ("mismatchLabelKeys", term.mismatch_label_keys)):
        if listed and term.label_selector is None:
            yield forbidden(f"{path}.{key}", "must not be specified when labelSelector is not set")
            continue
        for index, label in enumerate(listed):
            yield from invalid_each(f"{path}.{key}[{index}]", label, names.qualified_name(label))
    yield from _check_repeated_keys(term.label_selector, term.match_label_keys, path)
    mismatched = set(term.mismatch_label_keys)
    for index, label in enumerate(term.match_label_keys):
        if label in mismatched:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{path}.matchLabelKeys[{index}]", label, text)


def _check_repeated_keys(selector: LabelSelector | None, keys: list[str], path: str) -> Problems:
    if selector is None:
        return
    places = {key: index for index, key in enumerate(keys)}
    seen = set(selector.match_labels)
    for requirement in selector.match_expressions:
        if requirement.key in places and requirement.key in seen:
            text = "exists in both matchLabelKeys and labelSelector"
            yield invalid(f"{path}[{places[requirement.key]}]", requirement.key, text)
        seen.add(requirement.key)
