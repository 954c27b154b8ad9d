"""The sub-jobs of a PodGroup: its Pods sorted into groups by spec.subGroupPolicy (Volcano's getOrCreateSubJob).

A Pod belongs to the first policy whose selector it meets and whose label keys it all has; the values of these labels
tell the groups of one policy apart. A policy without label keys takes no Pod. What no policy takes is a group of its
own.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from scheduler.api.names import HARD, SOFT
from scheduler.api.scheduling import NetworkTopology, PodGroupSpec, SubGroupPolicy
from scheduler.api.selectors import ignore_field, is_valid, matches
from scheduler.api.subjob import SubJob
from scheduler.api.task import Task

Problem = tuple[str, str]
"""A field and what is wrong with it."""


def sub_jobs_of(key: str, spec: PodGroupSpec, tasks: Iterable[Task]) -> dict[str, SubJob]:
    """Key -> sub-job, for the job ``key``; none where neither sub-groups nor a network topology are asked for."""
    result: dict[str, SubJob] = {}
    if spec.network_topology is None and not spec.sub_group_policy:
        return result
    policies = [policy for policy in spec.sub_group_policy or () if is_valid(policy.label_selector, ignore_field)]
    for task in tasks:
        found = _group_of(policies, task)
        name = "/".join((key, found[0].name, *found[1])) if found else key
        sub_job = result.get(name)
        if sub_job is None:
            sub_job = result[name] = _sub_job(name, key, *found) if found else _rest(key, spec)
        sub_job.add(task)
    return result


def _group_of(policies: Iterable[SubGroupPolicy], task: Task) -> tuple[SubGroupPolicy, list[str]] | None:
    """The policy that takes a task, and the values of its label keys."""
    for policy in policies:
        if policy.label_selector is not None and not matches(policy.label_selector, task.labels):
            continue
        values = [task.labels.get(key, "") for key in policy.match_label_keys or ()]
        if values and all(values):
            return policy, values
    return None


def _sub_job(key: str, job: str, policy: SubGroupPolicy, values: list[str]) -> SubJob:
    index = int(values[0]) if values[0].isdecimal() and len(values[0]) < 19 else 0
    size = 1 if policy.sub_group_size is None else max(policy.sub_group_size, 1)
    return SubJob(key, job, policy.name, size, index, policy.network_topology, {})


def _rest(key: str, spec: PodGroupSpec) -> SubJob:
    minimum = 1 if spec.sub_group_policy else spec.min_member
    return SubJob(key, key, None, minimum, 0, spec.network_topology, {})


def minimum_of(spec: PodGroupSpec) -> dict[str, int] | None:
    """Name of a policy -> how many of its groups have to be placed; None: there are no policies."""
    if not spec.sub_group_policy:
        return None
    return {policy.name: max(policy.min_sub_groups or 0, 0) for policy in spec.sub_group_policy}


def problems_of(spec: PodGroupSpec) -> Iterator[Problem]:
    """What cannot be used of a PodGroup's topology and policies."""
    yield from _topology_problems("spec.networkTopology", spec.network_topology)
    for i, policy in enumerate(spec.sub_group_policy or ()):
        place = f"spec.subGroupPolicy[{i}]"
        yield from _topology_problems(f"{place}.networkTopology", policy.network_topology)
        if policy.sub_group_size is not None and policy.sub_group_size < 1:
            yield f"{place}.subGroupSize", f"{policy.sub_group_size} is below 1; taken for 1"
        if policy.min_sub_groups is not None and policy.min_sub_groups < 0:
            yield f"{place}.minSubGroups", f"{policy.min_sub_groups} is below 0; taken for 0"
        faults: list[str] = []
        if not is_valid(policy.label_selector, partial(_note, faults)):
            yield f"{place}.labelSelector", "; ".join(faults)


def _topology_problems(place: str, topology: NetworkTopology | None) -> Iterator[Problem]:
    if topology is not None and topology.mode not in (None, HARD, SOFT):
        yield f"{place}.mode", f"{topology.mode[:32]!r} is neither {HARD} nor {SOFT}"


def _note(faults: list[str], field: str, problem: str) -> None:
    faults.append(f"{field}: {problem}")
