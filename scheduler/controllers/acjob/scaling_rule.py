"""Scaling rules: which jobs of a service may create Pods, so that the service runs in a ratio of instances that works.

The jobs of a service (label ``jobID``) belong to groups, for example its prefill and its decode instances (label
``mind-cluster/group-name``). The ConfigMap that the label ``mind-cluster/scaling-rule`` names lists the states in which
the service works, the largest first: how many jobs of each group run. The service grows to the smallest state that it
has not reached. Jobs that this state does not need wait without Pods (Ascend operator, ``pkg/controllers/scaling``).

A rule is checked as the operator checks it: the numbers are texts, and from one state to the next no group is added and
no number grows.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler.api.acjob import AscendJob
from scheduler.api.json_texts import JsonFormat, JsonTextError
from scheduler.api.names import MINDIE_JOB, SCALING_GROUP, SCALING_RULE
from scheduler.api.objects import ConfigMap, KubeObject, is_controlled_by
from scheduler.api.scheduling import PodGroup

RULE_KEY: Final = "elastic_scaling.json"
"""The key of the data of the ConfigMap."""
_RUNNING: Final = "Running"
_DIGITS: Final = 7
"""More digits than numbers of jobs and Pods have."""


class ScalingRuleError(ValueError):
    """A scaling rule is malformed. The message says where, and what is wrong."""


class _Group(msgspec.Struct):
    group_name: str
    group_num: str | int
    server_num_per_group: str | int = 0


class _State(msgspec.Struct):
    group_list: list[_Group] = []


class _Rule(msgspec.Struct):
    elastic_scaling_list: list[_State]
    version: str = ""


_RULE: Final = JsonFormat(_Rule)


class GroupTarget(NamedTuple):
    """What a state says about a group."""

    jobs: int
    servers: int
    """Pods of each job."""


State = Mapping[str, GroupTarget]
"""Name of a group -> its target."""


class ScaledService(NamedTuple):
    """The jobs that a scaling rule counts together, by their labels. A job belongs to one if it names a rule."""

    namespace: str
    rule: str
    """The name of the ConfigMap."""
    job_id: str


def service_of(obj: KubeObject) -> ScaledService | None:
    """Returns the service of an AscendJob, or of its PodGroup; None if it names no rule."""
    labels = obj.metadata.labels or {}
    rule = labels.get(SCALING_RULE)
    return None if rule is None else ScaledService(obj.metadata.namespace, rule, labels.get(MINDIE_JOB, ""))


def waiting_reason(
    job: AscendJob, service: ScaledService, config_map: ConfigMap | None, groups: Iterable[PodGroup]
) -> str:
    """Returns why a job creates no Pods now; "" if it may. ``groups``: all PodGroups. Raises ScalingRuleError if the
    rule cannot be used."""
    if config_map is None:
        raise ScalingRuleError(f"ConfigMap {service.rule[:64]}, which the label {SCALING_RULE} names, does not exist")
    where = f"ConfigMap {service.rule[:64]}"
    text = (config_map.data or {}).get(RULE_KEY)
    if text is None:
        raise ScalingRuleError(f"{where} has no key {RULE_KEY}")
    try:
        states = parse_rule(text)
    except ScalingRuleError as error:
        raise ScalingRuleError(f"{where}, data[{RULE_KEY}]: {error}") from None
    group = (job.metadata.labels or {}).get(SCALING_GROUP, "")
    return why_waiting(states, group, running_jobs(service, groups, job.metadata.uid))


def parse_rule(text: str) -> list[State]:
    """Returns the states of a rule, the largest first. Raises ScalingRuleError."""
    try:
        rule = _RULE.decode(text)
    except JsonTextError as error:
        raise ScalingRuleError(str(error)) from None
    states: list[State] = []
    for number, item in enumerate(rule.elastic_scaling_list):
        where = f"elastic_scaling_list[{number}]"
        state = {group.group_name: _target(group, where) for group in item.group_list}
        if states:
            _check_grows(states[-1], state, where)
        states.append(state)
    return states


def running_jobs(service: ScaledService, groups: Iterable[PodGroup], owner: str) -> Counter[str]:
    """Returns how many jobs of each group run, by their PodGroups. ``owner``: the uid of a job that does not count: one
    that lost a Pod may create it again."""
    found: Counter[str] = Counter()
    for group in groups:
        if is_running(group) and service_of(group) == service and not is_controlled_by(group, owner):
            found[(group.metadata.labels or {}).get(SCALING_GROUP, "")] += 1
    return found


def is_running(group: PodGroup) -> bool:
    return group.status.phase == _RUNNING


def why_waiting(states: list[State], group: str, running: Mapping[str, int]) -> str:
    """Returns why a job of a group creates no Pods now; "" if it creates them."""
    for number in reversed(range(len(states))):
        state = states[number]
        if all(running.get(name, 0) >= target.jobs for name, target in state.items()):
            continue
        where = f"state {number + 1} of {len(states)}"
        if group not in state:
            return f"{where} of the scaling rule, which is not reached, has no group {group[:64]}"
        if running.get(group, 0) < state[group].jobs:
            return ""
        others = [
            f"{running.get(name, 0)} of {target.jobs} jobs of group {name[:64]}"
            for name, target in state.items()
            if running.get(name, 0) < target.jobs
        ]
        mine = f"{running.get(group, 0)} of {state[group].jobs} jobs of group {group[:64]} run"
        return f"{where} of the scaling rule is not reached: {mine}, {', '.join(others)}"
    return f"all {len(states)} states of the scaling rule are reached"


def _target(group: _Group, where: str) -> GroupTarget:
    """The target of a group. Raises ScalingRuleError."""
    return GroupTarget(
        _number(group.group_num, f"{where}: group_num of group {group.group_name[:64]}"),
        _number(group.server_num_per_group, f"{where}: server_num_per_group of group {group.group_name[:64]}"),
    )


def _number(value: str | int, what: str) -> int:
    """A number that is a text in the operator's format. Raises ScalingRuleError."""
    text = str(value)
    if not (text.isascii() and text.isdecimal() and len(text) < _DIGITS):
        raise ScalingRuleError(f"{what} is {text[:32]!r}, not a number from 0 to {10 ** (_DIGITS - 1) - 1:,}")
    return int(text)


def _check_grows(before: State, after: State, where: str) -> None:
    """Raises ScalingRuleError if a state has a group that the one before has not, or a larger number."""
    for name, target in after.items():
        if name not in before:
            raise ScalingRuleError(f"{where}: group {name[:64]} is not in the state before, which is the larger one")
        for field, now, then in zip(("group_num", "server_num_per_group"), target, before[name], strict=True):
            if now > then:
                text = f"{field} of group {name[:64]} grows from {then} to {now}; the largest state comes first"
                raise ScalingRuleError(f"{where}: {text}")
