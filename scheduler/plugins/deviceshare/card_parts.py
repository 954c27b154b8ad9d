"""The parts of cards that Pods request of the families of this plugin, for card quota.

A vGPU is named by its memory and cores, an NPU of HAMi by its template or, if it is shared by software, by its cores
and memory, and AI cores of MindCluster by their template. Containers that run one after the other use the same cards,
so the most that a Pod uses at once counts.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import ClassVar

import msgspec

from scheduler.api.card_kinds import SHARE, VGPU, VNPU, CardKind, mib_of, share_part, vgpu_part, vnpu_part
from scheduler.api.job import Job
from scheduler.api.names import ACCELERATOR, HAMI_CORE, NPU_CORE, SERVER_TYPE, VNPU_MODE
from scheduler.api.objects import Container, PodSpec
from scheduler.api.pod_amounts import effective_total
from scheduler.api.task import TaskClass
from scheduler.framework.card_parts import CardParts, Labels, PartRequest, Parts
from scheduler.plugins.deviceshare.cards import ALL_CORES
from scheduler.plugins.deviceshare.containers import card_request
from scheduler.plugins.deviceshare.device_config import DeviceConfig, NpuModel, VgpuConfig
from scheduler.plugins.deviceshare.mindcluster import core_claim, cores_per_chip
from scheduler.plugins.deviceshare.npu_templates import CPUS, TEMPLATES
from scheduler.plugins.deviceshare.settings import DeviceShareSettings

_NVIDIA, _HUAWEI = "nvidia.com", "huawei.com"
_Numbers = Mapping[str, int]
"""Part -> number."""


def card_parts(settings: DeviceShareSettings, config: DeviceConfig) -> list[CardParts]:
    """Returns the parts of the enabled families that share cards."""
    found: list[CardParts] = []
    if settings.vgpu:
        found.append(VgpuParts(config.vgpu))
    if settings.mindcluster:
        found.append(MindClusterCoreParts())
    if settings.hami:
        found += map(HamiParts, config.npus)
    return found


class VgpuParts(msgspec.Struct, frozen=True):
    """vGPUs."""

    config: VgpuConfig
    kinds: ClassVar[frozenset[CardKind]] = frozenset({VGPU})
    labels: ClassVar[frozenset[str]] = frozenset()
    per_job: ClassVar[bool] = False

    @property
    def vendors(self) -> Mapping[str, str]:
        return {self.config.number: _NVIDIA}

    @property
    def counted(self) -> tuple[str, ...]:
        config = self.config
        return config.number, config.memory, config.cores, config.percentage

    def only_parts(self, labels: Labels) -> bool:
        return False

    def of_job(self, job: Job) -> Hashable:
        return None

    def requests(self, cls: TaskClass, of_job: Hashable) -> list[PartRequest]:
        return _requests(self.config.number, VGPU, cls.spec, self._parts)

    def _parts(self, container: Container) -> Parts | None:
        config = self.config
        request = card_request(container, config.number, config.memory, config.cores, config.percentage)
        if request is None:
            return None
        mib = request.memory * config.memory_factor if request.percent < 0 else 0
        return Parts(vgpu_part(mib, request.percent, request.cores), request.number)

    def count(self, part: str, labels: Labels, amounts: Mapping[str, int]) -> int:
        size = VGPU.size_of(part)
        number, memory, cores, _ = map(amounts.__getitem__, self.counted)
        gpus = cores // ALL_CORES
        if size is None or not gpus:
            return 0 if part else gpus
        limits = [number // gpus]
        if size[1].endswith("p"):
            limits.append(100 // int(size[1][:-1]))
        else:
            limits.append(memory * self.config.memory_factor // gpus // mib_of(size[1]))
        limits += [ALL_CORES // int(size[2])] if size[2] else []
        return gpus * min(limits)


class HamiParts(msgspec.Struct, frozen=True):
    """NPUs of one model that HAMi's device plugin divides."""

    model: NpuModel
    kinds: ClassVar[frozenset[CardKind]] = frozenset({VNPU, SHARE})
    labels: ClassVar[frozenset[str]] = frozenset()
    per_job: ClassVar[bool] = False

    @property
    def vendors(self) -> Mapping[str, str]:
        return {self.model.resource: _HUAWEI}

    @property
    def counted(self) -> tuple[str, ...]:
        return self.model.resource, self.model.memory_resource, self.model.core_resource

    def only_parts(self, labels: Labels) -> bool:
        return True

    def of_job(self, job: Job) -> Hashable:
        return None

    def requests(self, cls: TaskClass, of_job: Hashable) -> list[PartRequest]:
        soft = cls.annotations.get(VNPU_MODE) == HAMI_CORE
        kind = SHARE if soft else VNPU
        return _requests(self.model.resource, kind, cls.spec, lambda container: self._parts(container, soft))

    def _parts(self, container: Container, soft: bool) -> Parts | None:
        model = self.model
        request = card_request(container, model.resource, model.memory_resource, model.core_resource)
        if request is None:
            return None
        if soft:
            return Parts(share_part(request.cores, request.memory), request.number)
        trimmed = model.trimmed(request.memory) if request.percent < 0 else None
        return Parts("" if trimmed is None or not trimmed[1] else vnpu_part(trimmed[1]), request.number)

    def count(self, part: str, labels: Labels, amounts: Mapping[str, int]) -> int:
        """Nodes report for how many Pods their NPUs have places, not the memory of the NPUs."""
        size = VNPU.size_of(part)
        known = size is None or any(vnpu_part(template.name) == part for template in self.model.templates)
        return amounts[self.model.resource] if known else 0


class MindClusterCoreParts(msgspec.Struct, frozen=True):
    """Virtual NPUs on Ascend 310P chips that MindCluster's device plugin creates on demand."""

    kinds: ClassVar[frozenset[CardKind]] = frozenset({VNPU})
    labels: ClassVar[frozenset[str]] = frozenset({ACCELERATOR, SERVER_TYPE})
    per_job: ClassVar[bool] = False
    vendors: ClassVar[Mapping[str, str]] = {NPU_CORE: _HUAWEI}
    counted: ClassVar[tuple[str, ...]] = (NPU_CORE,)

    def only_parts(self, labels: Labels) -> bool:
        return False

    def of_job(self, job: Job) -> Hashable:
        return None

    def requests(self, cls: TaskClass, of_job: Hashable) -> list[PartRequest]:
        claim = core_claim(cls)
        if claim is None:
            return []

        def on_node(labels: Labels) -> Parts | None:
            size = cores_per_chip(labels)
            if size and claim.cores % size == 0:
                return Parts("", claim.cores // size)
            return Parts(vnpu_part(claim.template), 1) if size and claim.template else None

        return [PartRequest(NPU_CORE, VNPU, on_node)]

    def count(self, part: str, labels: Labels, amounts: Mapping[str, int]) -> int:
        match, size = VNPU.size_of(part), cores_per_chip(labels)
        template = TEMPLATES.get(match[1]) if match is not None else None
        if not size or (part and template is None):
            return 0
        chips = amounts[NPU_CORE] // size
        return chips if template is None else chips * min(size // template.cores, CPUS // template.cpus)


def _requests(
    resource: str, kind: CardKind, spec: PodSpec, parts_of: Callable[[Container], Parts | None]
) -> list[PartRequest]:
    """Returns the requests of a Pod whose containers request parts that are the same on all nodes."""

    def numbers(container: Container) -> _Numbers:
        parts = parts_of(container)
        return {} if parts is None else {parts.part: parts.number}

    nothing: _Numbers = {}
    total = effective_total(spec.containers, spec.init_containers, numbers, nothing, _sum, _maximum)
    return [PartRequest(resource, kind, _constant(Parts(part, number))) for part, number in total.items() if number]


def _constant(parts: Parts) -> Callable[[Labels], Parts | None]:
    return lambda labels: parts


def _sum(left: _Numbers, right: _Numbers) -> _Numbers:
    return {part: left.get(part, 0) + right.get(part, 0) for part in {**left, **right}}


def _maximum(left: _Numbers, right: _Numbers) -> _Numbers:
    return {part: max(left.get(part, 0), right.get(part, 0)) for part in {**left, **right}}
