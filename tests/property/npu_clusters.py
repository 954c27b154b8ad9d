"""Random clusters of NPU servers that run for some sessions: jobs arrive and are deleted, Pods terminate, the scheduler
restarts.

``NpuCluster.session`` compares every binding with the bindings that the objects of the cluster allow.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final, NamedTuple

from scheduler.api.device_states import Availability, DeviceState
from scheduler.api.kinds import POD, POD_GROUP
from scheduler.api.names import (
    ACCELERATOR_TYPE,
    DEVICE_INFO_CONFIGMAP_PREFIX,
    DEVICE_INFO_NAMESPACE,
    DISTRIBUTED_JOB,
    HCCL_RANK_INDEX,
    PREDICATE_TIME,
    SCHEDULE_POLICY,
    SP_BLOCK,
    SUPER_POD_ID,
)
from scheduler.cache import ClusterCache
from scheduler.framework.extension import NODE_DEVICES
from scheduler.plugins.ascend.family import DISTRIBUTED, ChipFamily, ChipRequest
from scheduler.plugins.ascend.masks import first, format_chips, ids_of, mask_of, parse_chips
from scheduler.plugins.ascend.npu_requests import ChipResource
from tests.builders import NAME, Raw, World, configuration, group, manifests, node, pod
from tests.contradictions import contradictions

CONFIGURATION: Final = configuration(["priority", "gang"], ["ascend", "predicates"])
POOL: Final = "pool"
"""The label of nodes and node selector of Pods that contains the family, so that families with the same labels use
their own nodes."""
SUPER_POD_NODES: Final = 3
AVAILABILITY: Final = {
    **dict.fromkeys((DeviceState.NETWORK_UNHEALTHY, DeviceState.SUB_HEALTHY), Availability.DEGRADED),
    **dict.fromkeys((DeviceState.UNHEALTHY, DeviceState.RECOVERING), Availability.UNHEALTHY),
    DeviceState.FREE: Availability.FREE,
    DeviceState.UNKNOWN: Availability.UNKNOWN,
}
"""State of a device -> the state that metrics show. All others are ``ALLOCATED``."""


class Job(NamedTuple):
    family: ChipFamily
    chips: int
    """The number of chips of each Pod."""
    pods: int

    @property
    def request(self) -> ChipRequest:
        return ChipRequest(self.chips, self.pods > 1)


def random_job(random: Random, family: ChipFamily, size: int) -> Job:
    """A job that the family accepts, for nodes of ``size`` chips."""
    chips = random.choice([each for each in sorted(family.sizes) if each <= size])
    pods = random.randint(1, 4)
    if family.super_pods:
        return Job(family, size if pods > 1 else chips, pods)
    dies = family.name == "a3_x16"
    one = (family.name == "module_910_x8" and chips < 8) or (dies and chips == 1)
    one = one or (family.traits or {}).get(DISTRIBUTED) is not None
    return Job(family, chips, 1 if one else pods)


def traits_of(family: ChipFamily) -> dict[str, str]:
    """A value of each trait that a job of the family has to have."""
    values = {trait: patterns[0].replace("*", "") for trait, patterns in (family.traits or {}).items()}
    return {trait: value for trait, value in values.items() if value}


class NpuCluster:
    """Generates some servers of each family. ``sizes`` and ``broken`` are by node."""

    def __init__(self, random: Random, families: Sequence[ChipFamily], nodes_each: int) -> None:
        self._random = random
        self._families = families
        self._size = {family: family.chips if family.chips <= 16 else 12 for family in families}
        self._family_of: dict[str, ChipFamily] = {}
        self._healthy: dict[str, int] = {}
        """Maps each node to the mask of its healthy chips."""
        self._super_pod: dict[str, str] = {}
        self._jobs: dict[str, Job] = {}
        self._created = 0
        self.bound = 0
        self.world = World([each for family in families for i in range(nodes_each) for each in self._server(family, i)])

    # --- what comes and goes ---
    def _server(self, family: ChipFamily, number: int) -> Iterator[Raw]:
        name, size, resource = f"{family.name.replace('_', '-')}-{number:03d}", self._size[family], family.resources[0]
        broken = self._random.randrange(size) if self._random.random() < 0.2 else None
        healthy = first(size) if broken is None else first(size) & ~(1 << broken)
        prefix = ChipResource(resource).prefix
        self._family_of[name], self._healthy[name] = family, healthy
        labels = {POOL: family.name, **{label: sorted(values)[-1] for label, values in family.node_labels.items()}}
        if ACCELERATOR_TYPE in traits_of(family):
            labels[ACCELERATOR_TYPE] = traits_of(family)[ACCELERATOR_TYPE]
        server = node(name, f"640c+2Ti+{resource}={healthy.bit_count()}", labels=labels)
        self._super_pod[name] = str(number // SUPER_POD_NODES)
        server["metadata"]["annotations"] = {"superPodID": self._super_pod[name]}
        yield server
        if broken is not None or self._random.random() < 0.5:
            lists = {resource: format_chips(ids_of(healthy), prefix)}
            if broken is not None:
                lists[f"{resource}-Unhealthy"] = format_chips([broken], prefix)
            info = {"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}}
            yield {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": DEVICE_INFO_CONFIGMAP_PREFIX + name, "namespace": DEVICE_INFO_NAMESPACE},
                "data": {"DeviceInfoCfg": json.dumps(info)},
            }

    def create_jobs(self, number: int) -> None:
        for _ in range(number):
            family = self._random.choice(self._families)
            job = random_job(self._random, family, self._size[family])
            name = f"j{self._created:04d}"
            self._created += 1
            self._jobs[name] = job
            traits = traits_of(family)
            selector = {POOL: family.name, **{k: v for k, v in traits.items() if k == ACCELERATOR_TYPE}}
            annotations = {} if family.traits is not None else {SCHEDULE_POLICY: min(family.policies)}
            if family.super_pods and job.pods > 1:
                annotations[SP_BLOCK] = str(job.chips * (job.pods if self._random.random() < 0.5 else 1))
            labels = {k: v for k, v in traits.items() if k != ACCELERATOR_TYPE}
            request = f"1c+1Gi+{family.resources[0]}={job.chips}"
            members = [
                pod(f"{name}-{i}", request, name, selector=selector, labels=labels, annotations=annotations)
                for i in range(job.pods)
            ]
            self.world.cluster.load(manifests(group(name, minimum=job.pods, annotations=annotations), *members))

    def delete_jobs(self, share: float) -> None:
        """Deletes some jobs. Their Pods on nodes terminate for two sessions."""
        server = self.world.cluster.server
        for name in [each for each in self._jobs if self._random.random() < share]:
            for i in range(self._jobs.pop(name).pods):
                server.delete(POD, "default", f"{name}-{i}")
            server.delete(POD_GROUP, "default", name)

    def restart(self) -> None:
        """The scheduler starts again: it knows the objects of the cluster, and nothing else."""
        server, cache = self.world.cluster.server, ClusterCache([NAME])
        for kind, raw in server:
            if kind is not None and kind.struct is not None:
                decoded = server.decoded(kind, raw["metadata"].get("namespace") or "", raw["metadata"]["name"])
                assert decoded is not None
                cache.upsert(kind, decoded)
        self.world.cluster.cache = cache

    # --- one session and its checks ---
    def session(self) -> None:
        held, terminating = self._held()
        self.world.run(CONFIGURATION, kubelet=True)
        self._check_counts()
        settled = not terminating
        for bind in self.world.decisions.binds:
            job = self._jobs[bind.task.name.rpartition("-")[0]]
            family = job.family
            resource = family.resources[0]
            prefix = ChipResource(resource).prefix
            assert self._family_of[bind.node] is family
            taken = parse_chips(bind.annotations[resource], prefix)
            free = self._healthy[bind.node] & ~held.get(bind.node, 0)
            assert taken & ~free == 0, f"{bind.task.key} got {bind.annotations[resource]} of {bind.node} twice"
            assert taken.bit_count() == job.chips
            assert {PREDICATE_TIME, HCCL_RANK_INDEX, DISTRIBUTED_JOB} <= bind.annotations.keys()
            assert_together(family, taken)
            if settled:
                if not family.super_pods:
                    assert bind.node == self._best_node(job, held)
                choice = family.selection.choose(free, job.request)
                assert choice is not None
                assert bind.annotations[resource] == format_chips(choice.chips, prefix)
            held[bind.node] = held.get(bind.node, 0) | taken
            self.bound += 1
        self._check_blocks()
        after, _ = self._held()
        assert {name: mask for name, mask in held.items() if mask & ~after.get(name, 0)} == {} or terminating
        if settled:
            self._check_waiting(held)

    def _check_counts(self) -> None:
        """Asserts that the counts for metrics equal the chips that tools show."""
        assert self.world.outcome is not None
        session = self.world.outcome.session
        shown = Counter(
            (each.resource, each.node, AVAILABILITY.get(each.state, Availability.ALLOCATED))
            for part in session.ask(NODE_DEVICES)
            for each in part
        )
        counted = {
            (each.resource, node, state): number
            for figures in session.figures()
            for each in figures.devices
            for node, numbers in zip(each.nodes, each.counts.tolist(), strict=True)
            for state, number in zip(Availability, numbers, strict=True)
            if number
        }
        assert counted == dict(shown)

    def _held(self) -> tuple[dict[str, int], bool]:
        """Maps each node to the mask of the chips of its Pods, and to whether one of these terminates. Asserts that no
        chip is held twice."""
        held: dict[str, int] = {}
        terminating = False
        for raw in self.world.cluster.server.of(POD):
            name = raw["spec"].get("nodeName")
            if name:
                resource = self._family_of[name].resources[0]
                mask = parse_chips(raw["metadata"]["annotations"][resource], ChipResource(resource).prefix)
                assert mask
                assert mask & held.get(name, 0) == 0
                held[name] = held.get(name, 0) | mask
                terminating = terminating or "deletionTimestamp" in raw["metadata"]
        return held, terminating

    def _free(self, family: ChipFamily, held: dict[str, int]) -> Iterator[tuple[str, int]]:
        for name, of in self._family_of.items():
            if of is family:
                yield name, self._healthy[name] & ~held.get(name, 0)

    def _best_node(self, job: Job, held: dict[str, int]) -> str:
        """The first node by name of those that the family ranks highest."""
        found = []
        for name, free in self._free(job.family, held):
            choice = job.family.selection.choose(free, job.request)
            if choice is not None:
                all_chips = job.family.chips if job.family.missing_is_broken else self._size[job.family]
                broken = all_chips - self._healthy[name].bit_count()
                found.append((broken * job.family.broken_cost + choice.penalty, name))
        return min(found)[1]

    def _check_blocks(self) -> None:
        """Asserts that the Pods of a block are in one super pod, which their annotation names."""
        for bind in self.world.decisions.binds:
            if SUPER_POD_ID in bind.annotations:
                assert bind.annotations[SUPER_POD_ID] == self._super_pod[bind.node]

    def _check_waiting(self, held: dict[str, int]) -> None:
        """Asserts that no gang waits for which there is room: the chips of gangs that did not fit are free again."""
        for text in self.world.waiting.values():
            assert list(contradictions(text)) == [], text
        for name, job in self._jobs.items():
            raw = self.world.get("Pod", f"{name}-0")
            if not raw["spec"].get("nodeName") and not job.family.super_pods:
                room = sum(room_of(job, free) for _, free in self._free(job.family, held))
                assert room < job.pods, f"{name} waits: {job}"


def room_of(job: Job, free: int) -> int:
    number = 0
    while (choice := job.family.selection.choose(free, job.request)) is not None:
        free &= ~mask_of(choice.chips)
        number += 1
    return number


def assert_together(family: ChipFamily, taken: int) -> None:
    """The chips of a Pod are in one ring, half, card or mesh, or are whole cards, where the family wants this."""
    ids = ids_of(taken)
    if len(ids) <= family.group:
        assert len({chip // family.group for chip in ids}) == 1
    if family.name.startswith("a3_") and len(ids) > 1:
        assert all(chip ^ 1 in ids for chip in ids)
    if family.name == "module_910b_x16" and len(ids) > 8:
        assert 2 * sum(1 for chip in ids if chip < 8) == len(ids)
    if family.name == "chip_310p_duo_distributed":
        assert sum(1 for chip in ids if chip ^ 1 not in ids) == len(ids) % 2
