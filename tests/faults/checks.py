"""What must hold in every history: pure functions of etcd's history and of the requests that the proxy saw.

Each check returns its findings as sentences, which name the object and the revision; none means that it holds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scheduler.api.names import ASCEND_910, GROUP_NAME, VGPU_IDS
from tests.faults.proxy import Exchange, Takeover
from tests.faults.revisions import Change
from tests.faults.schedule import Role, Target

ENDED: Final = frozenset({"Succeeded", "Failed"})
_COUNTED: Final = frozenset({"cpu", ASCEND_910})
"""The resources of nodes whose sums are checked."""
JOB_LABEL: Final = "volcano.sh/job-name"


@dataclass(frozen=True, slots=True)
class PodState:
    """The parts of a Pod that the checks read."""

    name: str
    uid: str
    node: str
    phase: str
    terminating: bool
    group: str
    """``namespace/name`` of its PodGroup, or ""."""
    job: str
    """``namespace/name`` of its vcjob, or ""."""
    requests: Mapping[str, int]
    chips: tuple[str, ...]
    vgpus: tuple[tuple[str, int, int], ...]
    """Card, memory and cores of each part of a GPU."""

    @property
    def holds(self) -> bool:
        """Whether it holds resources of its node."""
        return bool(self.node) and self.phase not in ENDED


@dataclass
class World:
    """The cluster at one revision."""

    pods: dict[str, PodState] = field(default_factory=dict)
    """By name; a namesake has another uid."""
    groups: dict[str, tuple[int, str]] = field(default_factory=dict)
    """PodGroup -> its minimum and its queue."""
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def apply(self, change: Change) -> tuple[PodState | None, PodState | None]:
        """Applies a change. Returns a Pod before and after it."""
        if change.kind == "Pod":
            before = self.pods.pop(change.name, None)
            if change.object is None:
                return before, None
            after = self.pods[change.name] = state_of(change.name, change.object)
            return (before if before is not None and before.uid == after.uid else None), after
        if change.kind == "PodGroup":
            if change.object is None:
                self.groups.pop(change.name, None)
            else:
                spec = change.object.get("spec") or {}
                self.groups[change.name] = int(spec.get("minMember", 1)), str(spec.get("queue", ""))
        elif change.kind == "Node":
            if change.object is None:
                self.nodes.pop(change.name, None)
            else:
                self.nodes[change.name] = change.object.get("status", {}).get("allocatable") or {}
        return None, None


def state_of(name: str, pod: Mapping[str, Any]) -> PodState:
    """A Pod as the checks see it."""
    meta, spec = pod["metadata"], pod["spec"]
    annotations, labels = meta.get("annotations") or {}, meta.get("labels") or {}
    namespace = name.partition("/")[0]
    requests: Counter[str] = Counter()
    for container in spec["containers"]:
        for resource, amount in (container.get("resources", {}).get("requests") or {}).items():
            if resource in _COUNTED:
                requests[resource] += _amount(amount)
    group, job = annotations.get(GROUP_NAME, ""), labels.get(JOB_LABEL, "")
    return PodState(
        name,
        meta["uid"],
        spec.get("nodeName", ""),
        (pod.get("status") or {}).get("phase", ""),
        "deletionTimestamp" in meta,
        f"{namespace}/{group}" if group else "",
        f"{namespace}/{job}" if job else "",
        requests,
        tuple(filter(None, annotations.get(ASCEND_910, "").split(","))),
        tuple(_vgpus(annotations.get(VGPU_IDS, ""))),
    )


def _vgpus(text: str) -> Iterator[tuple[str, int, int]]:
    """Reads ``gpu-0,NVIDIA,1000,10:;``: devices end with a colon, containers with a semicolon."""
    for device in text.replace(";", ":").split(":"):
        if device:
            card, _, memory, cores = device.split(",")
            yield card, int(memory), int(cores)


def _amount(text: str | int) -> int:
    """An amount of the schedules: whole numbers, or thousandths."""
    text = str(text)
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def double_bindings(changes: Iterable[Change]) -> Iterator[str]:
    """A Pod is bound once, and keeps its node and its devices."""
    world = World()
    for change in changes:
        before, after = world.apply(change)
        if before is None or after is None or not before.node:
            continue
        if (before.node, before.chips, before.vgpus) != (after.node, after.chips, after.vgpus):
            was, now = (f"{each.node} {each.chips}{each.vgpus}" for each in (before, after))
            yield f"Pod {after.name} was bound to {was} and then to {now} (revision {change.revision})"


def devices_used_twice(changes: Iterable[Change], memory: int) -> Iterator[str]:
    """No chip belongs to two Pods at once, and no GPU to more than it has. ``memory``: of each GPU."""
    world = World()
    for change in changes:
        _, after = world.apply(change)
        if after is None or not after.holds:
            continue
        others = [pod for pod in world.pods.values() if pod.holds and pod.node == after.node]
        chips = Counter(chip for pod in others for chip in pod.chips)
        for chip, number in chips.items():
            if number > 1:
                owners = sorted(pod.name for pod in others if chip in pod.chips)
                yield f"chip {chip} of {after.node} is used by {owners} (revision {change.revision})"
        requested = after.requests.get(ASCEND_910, 0) // 1000
        if len(after.chips) != requested:
            yield f"Pod {after.name} requests {requested} chips and has {after.chips} (revision {change.revision})"
        for card in {each[0] for each in after.vgpus}:
            held = [each for pod in others for each in pod.vgpus if each[0] == card]
            used = sum(each[1] for each in held), sum(each[2] for each in held)
            if used[0] > memory or used[1] > 100:
                yield f"{card} of {after.node}: {used[0]} memory, {used[1]} % in use (revision {change.revision})"


def overcommitted_nodes(changes: Iterable[Change]) -> Iterator[str]:
    """The Pods of a node request at most what it has."""
    world = World()
    for change in changes:
        before, after = world.apply(change)
        if after is None or not after.holds or (before is not None and before.holds):
            continue
        has = world.nodes.get(after.node)
        if has is None:
            continue  # deleted a moment ago
        used: Counter[str] = Counter()
        for pod in world.pods.values():
            if pod.holds and pod.node == after.node:
                used.update(pod.requests)
        for resource, amount in used.items():
            if amount > _amount(has.get(resource, "0")):
                yield f"{after.node}: {amount} thousandths of {resource} in use (revision {change.revision})"


def exceeded_quota(changes: Iterable[Change], queue: str, chips: int) -> Iterator[str]:
    """The Pods of a queue use at most its chips."""
    world = World()
    for change in changes:
        before, after = world.apply(change)
        if after is None or not after.holds or (before is not None and before.holds):
            continue
        used = sum(
            len(pod.chips)
            for pod in world.pods.values()
            if pod.holds and world.groups.get(pod.group, (0, ""))[1] == queue
        )
        if used > chips:
            yield f"queue {queue} uses {used} chips of {chips} (revision {change.revision})"


def torn_gangs(changes: Sequence[Change]) -> Iterator[str]:
    """No Pod of a gang is bound before all Pods that the gang requires exist, and none is alone at the end."""
    world = World()
    for change in changes:
        before, after = world.apply(change)
        if after is None or not after.node or (before is not None and before.node):
            continue
        minimum, _ = world.groups.get(after.group, (0, ""))
        there = sum(pod.group == after.group and not pod.terminating for pod in world.pods.values())
        if there < minimum and not after.terminating:
            yield f"Pod {after.name} was bound while {there} of {minimum} Pods existed (revision {change.revision})"
    placed: defaultdict[str, int] = defaultdict(int)
    for pod in world.pods.values():
        placed[pod.group] += bool(pod.node)
    for group, (minimum, _) in world.groups.items():
        if 0 < placed[group] < minimum:
            yield f"{placed[group]} of {minimum} Pods of {group} are bound at the end"


def needless_pods(changes: Iterable[Change], sizes: Mapping[str, int], disturbed: frozenset[str]) -> Iterator[str]:
    """A job whose Pods neither fail nor are deleted by others creates each Pod once. ``sizes``: Pods of each job;
    ``disturbed``: jobs of which nodes or failures took Pods."""
    uids: defaultdict[str, set[str]] = defaultdict(set)
    for change in changes:
        if change.kind == "Pod" and change.object is not None:
            state = state_of(change.name, change.object)
            uids[state.job].add(state.uid)
    for job, size in sizes.items():
        if job not in disturbed and len(uids[job]) > size:
            yield f"job {job} of {size} Pods created {len(uids[job])}"


def writes_of_former_leaders(placements: Iterable[Exchange], takeovers: Sequence[Takeover]) -> Iterator[str]:
    """Bindings and new Pods that the API server accepted come from the process that held the lease."""
    for each in placements:
        before = [takeover for takeover in takeovers if takeover.role is each.role and takeover.at <= each.received]
        if before and before[-1].client != each.client and not _took_next(each, takeovers):
            what = "bound a Pod" if each.target is Target.BINDING else "created a Pod"
            late = each.received - before[-1].at
            yield f"{each.client} {what} {late:.2f} s after {before[-1].client} took the lease: {each.path}"


def _took_next(each: Exchange, takeovers: Sequence[Takeover]) -> bool:
    """Whether the process acquired the lease while the proxy was passing the answer on."""
    return any(
        takeover.client == each.client and each.received < takeover.at < each.received + 0.05
        for takeover in takeovers
        if takeover.role is each.role
    )


def failovers(kills: Iterable[tuple[Role, str, float]], takeovers: Iterable[Takeover]) -> list[float]:
    """Seconds from the end of each leader to the next acquisition of its lease by another process."""
    takeovers = list(takeovers)
    found = []
    for role, client, at in kills:
        later = [each.at - at for each in takeovers if each.role is role and each.at > at and each.client != client]
        if later:
            found.append(min(later))
    return found
