"""Tolerations, spreading over topologies, and gates."""

from collections import Counter
from typing import Final

from scheduler.api.objects import Toleration
from scheduler.webhooks import names
from scheduler.webhooks.fields import (
    Problems,
    among,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    required,
    unsupported,
)
from scheduler.webhooks.job.podtemplate.metadata import check_selector
from scheduler.webhooks.job.podtemplate.pod_wire import ReadinessGate, SpreadConstraint
from scheduler.webhooks.job.podtemplate.wire import Named

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POLICIES: Final = ("Honor", "Ignore")
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")


def check_tolerations(tolerations: list[Toleration], path: str) -> Problems:
    for index, toleration in enumerate(tolerations):
        where = f"{path}[{index}]"
        if toleration.key:
            yield from invalid_each(f"{where}.key", toleration.key, names.qualified_name(toleration.key))
        elif toleration.operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid(f"{where}.operator", toleration.operator, text)
        if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(f"{where}.effect", toleration.effect, text)
        yield from _check_operator(toleration, f"{where}.operator")
        if toleration.effect:
            yield from among(f"{where}.effect", toleration.effect, _EFFECTS)


def _check_operator(toleration: Toleration, path: str) -> Problems:
    if toleration.operator in ("Equal", ""):
        wrong = names.label_value(toleration.value)
        if wrong:
            yield invalid(path, toleration.value, ";".join(wrong))
    elif toleration.operator == "Exists":
        if toleration.value:
            yield invalid(path, toleration.value, "value must be empty when `operator` is 'Exists'")
    else:
        comparing = ("Lt", "Gt") if toleration.operator in ("Lt", "Gt") else ()
        yield unsupported(path, toleration.operator, ("Equal", "Exists", *comparing))


def check_spread(constraints: list[SpreadConstraint], path: str) -> Problems:
    ahead = Counter((each.topology_key, each.when_unsatisfiable) for each in constraints)
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        action = constraint.when_unsatisfiable
        if constraint.max_skew <= 0:
            yield invalid(f"{where}.maxSkew", constraint.max_skew, "must be greater than zero")
        if not constraint.topology_key:
            yield required(f"{where}.topologyKey", "can not be empty")
        if action not in _ACTIONS:
            yield unsupported(f"{where}.whenUnsatisfiable", action, _ACTIONS)
        ahead[constraint.topology_key, action] -= 1
        if ahead[constraint.topology_key, action]:
            shown = f"{{{constraint.topology_key}, {action}}}"
            yield duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", shown)
        yield from _check_min_domains(constraint, f"{where}.minDomains")
        yield from among(f"{where}.nodeAffinityPolicy", constraint.node_affinity_policy, _POLICIES)
        yield from among(f"{where}.nodeTaintsPolicy", constraint.node_taints_policy, _POLICIES)
        yield from _check_label_keys(constraint, f"{where}.matchLabelKeys")
        yield from check_selector(constraint.label_selector, f"{where}.labelSelector")


def _check_min_domains(constraint: SpreadConstraint, path: str) -> Problems:
    number, action = constraint.min_domains, constraint.when_unsatisfiable
    if number is None:
        return
    if number <= 0:
        yield invalid(path, number, "must be greater than zero")
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        yield invalid(path, number, text)


def _check_label_keys(constraint: SpreadConstraint, path: str) -> Problems:
    if not constraint.match_label_keys:
        return
    selector = constraint.label_selector
    if selector is None:
        yield forbidden(path, "must not be specified when labelSelector is not set")
        selected: set[str] = set()
    else:
        selected = {*selector.match_labels, *(each.key for each in selector.match_expressions)}
    for index, key in enumerate(constraint.match_label_keys):
        yield from invalid_each(f"{path}[{index}]", key, names.qualified_name(key))
        if key in selected:
            yield invalid(f"{path}[{index}]", key, "exists in both matchLabelKeys and labelSelector")


def check_gates(readiness: list[ReadinessGate], scheduling: list[Named], path: str) -> Problems:
    for index, gate in enumerate(readiness):
        wrong = names.qualified_name(gate.condition_type)
        yield from invalid_each(f"{path}.readinessGates[{index}].conditionType", gate.condition_type, wrong)
    seen: set[str] = set()
    for index, named in enumerate(scheduling):
        where = f"{path}.schedulingGates[{index}]"
        yield from invalid_each(where, named.name, names.qualified_name(named.name))
        if named.name in seen:
            yield duplicate(where, named.name)
        seen.add(named.name)
