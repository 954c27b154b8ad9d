"""vGPUs: slices of GPUs by memory and cores, with HAMi-core or as MIG instances (Volcano's device ``hamivgpu``).

The device plugin registers the GPUs of a node in an annotation. The scheduler writes the allocated slices into
annotations of the Pod, which the device plugin reads when the kubelet allocates the Pod's devices: for each container,
it takes the first entry that is left.

For an entry, the device plugin looks up the container with the same index, not counting init containers, and crashes
if there is none. So it cannot serve more containers than the Pod has besides its init containers.
"""

from collections.abc import Hashable, Mapping
from operator import add

import msgspec

from scheduler.api.names import (
    BIND_ALLOCATING,
    GPU_NO_USE_TYPE,
    GPU_USE_TYPE,
    VGPU_BIND_PHASE,
    VGPU_BIND_TIME,
    VGPU_CORES,
    VGPU_IDS,
    VGPU_IDS_TO_ALLOCATE,
    VGPU_MEMORY,
    VGPU_MODE,
    VGPU_NO_USE_UUID,
    VGPU_NODE,
    VGPU_NODE_LOCK,
    VGPU_NUMBER,
    VGPU_REGISTER,
    VGPU_TIME,
    VGPU_USE_UUID,
)
from scheduler.api.objects import Container, Node, PodSpec
from scheduler.api.task import Task, TaskClass
from scheduler.framework.remedies.adjustments import join_names
from scheduler.plugins.deviceshare.cards import (
    ALL_CARDS,
    MAX_CONTAINERS,
    SPREAD,
    CardPlacement,
    CardRequests,
    Cards,
    CardUse,
    ContainerKind,
    ContainerRequest,
    Grant,
    Part,
)
from scheduler.plugins.deviceshare.containers import (
    ContainerFamily,
    card_request,
    description_of,
    in_allocation_order,
    peak,
    requests_of,
)
from scheduler.plugins.deviceshare.device_config import VgpuConfig
from scheduler.plugins.deviceshare.family import FamilyInventory, has_allocatable, pod_room
from scheduler.plugins.deviceshare.settings import VGPU_INIT_CONTAINERS
from scheduler.plugins.deviceshare.vgpu_placement import card_order, place
from scheduler.plugins.deviceshare.wire import VENDOR, format_uses, parse_register


class VgpuClaim(msgspec.Struct, frozen=True):
    """The requests of the containers, and the GPUs that they accept."""

    containers: CardRequests
    mode: str = ""
    """``hami-core`` or ``mig``; "": any."""
    use_types: str | None = None
    no_types: str | None = None
    use_uuids: str = ""
    no_uuids: str = ""
    unserved: str = ""
    """Why the device plugin cannot serve the Pods, or ""."""

    @property
    def description(self) -> str:
        return description_of(self.containers, _description)


class Vgpu(ContainerFamily[VgpuClaim]):
    """The family of vGPUs, with the configured names of resources."""

    name = "hamivgpu"
    title = "vGPUs"
    register_key = VGPU_REGISTER
    held_key = VGPU_IDS

    def __init__(
        self, config: VgpuConfig, policy: str, now: float, *, locks: bool, serves_init_containers: bool = False
    ) -> None:
        """``serves_init_containers``: the device plugin serves any number of containers."""
        self._serves_init_containers = serves_init_containers
        self.lock = VGPU_NODE_LOCK if locks else ""
        self._config = config
        self._policy = policy
        self._now = str(int(now))

    @property
    def key(self) -> Hashable:
        return self.name, self._config

    # --- Pods ---
    def claim(self, cls: TaskClass) -> VgpuClaim | None:
        containers = requests_of(cls.spec, self._card_request)
        if not containers:
            return None
        given = cls.annotations
        return VgpuClaim(
            containers[:MAX_CONTAINERS],
            mode=given.get(VGPU_MODE, ""),
            use_types=given.get(GPU_USE_TYPE),
            no_types=given.get(GPU_NO_USE_TYPE),
            use_uuids=given.get(VGPU_USE_UUID, ""),
            no_uuids=given.get(VGPU_NO_USE_UUID, ""),
            unserved=self._unserved(cls.spec, len(containers)),
        )

    def _unserved(self, spec: PodSpec, number: int) -> str:
        """Returns why the device plugin cannot serve ``number`` containers of a Pod, or ""."""
        if number > MAX_CONTAINERS:
            return f"{number} containers of the Pod ask for vGPUs; at most {MAX_CONTAINERS} may"
        if self._serves_init_containers or number <= len(spec.containers):
            return ""
        asking = [
            f"{container.name} (an init container)" if kind is not ContainerKind.APP else container.name
            for container, kind in in_allocation_order(spec)
            if self._card_request(container) is not None
        ]
        return (
            f"the device plugin of vGPUs serves at most as many containers of a Pod as it has besides init containers, "
            f"here {len(spec.containers)}; {number} ask for vGPUs: {join_names(asking)} "
            f"(with another device plugin: {VGPU_INIT_CONTAINERS}: true)"
        )

    def _card_request(self, container: Container) -> ContainerRequest | None:
        config = self._config
        return card_request(container, config.number, config.memory, config.cores, config.percentage)

    def annotations(
        self, task: Task, claim: VgpuClaim, node: Node, inventory: FamilyInventory, grant: Grant
    ) -> dict[str, str]:
        ids = ";".join(format_uses(uses, inventory.names, VENDOR) for uses in grant)
        return {
            VGPU_NODE: node.metadata.name,
            VGPU_TIME: self._now,
            VGPU_IDS: ids,
            VGPU_IDS_TO_ALLOCATE: ids,
            VGPU_BIND_PHASE: BIND_ALLOCATING,
            VGPU_BIND_TIME: self._now,
        }

    def amounts(self, claim: VgpuClaim, grant: Grant) -> dict[str, int]:
        """Returns the most memory and cores that a Pod uses at once, summed over its GPUs. (Requests are per GPU.)"""
        if not any(grant):
            return {}
        memory = peak(claim.containers, grant, lambda uses: sum(use.reported_memory for use in uses), 0, add, max)
        cores = peak(claim.containers, grant, lambda uses: sum(use.cores for use in uses), 0, add, max)
        return {self._config.memory: memory, self._config.cores: cores}

    # --- nodes ---
    def has(self, node: Node) -> bool:
        registered = VGPU_REGISTER in (node.metadata.annotations or {})
        return registered and all(has_allocatable(node, name) for name in (VGPU_NUMBER, VGPU_MEMORY, VGPU_CORES))

    def _registered(self, text: str) -> FamilyInventory:
        return parse_register(text, self._config)

    def _use(
        self, register: FamilyInventory, places: Mapping[str, int], name: str, memory: int, cores: int
    ) -> CardUse | None:
        """Returns the use of a GPU, or of its MIG instance (``uuid[group-position]``)."""
        uuid, _, instance = name.partition("[")
        use = super()._use(register, places, uuid, memory, cores)
        group, _, position = instance.removesuffix("]").rpartition("-")
        layouts = None if use is None else register.cards[use.card].layouts
        if use is None or not group or layouts is None:
            return use
        if not (position.isascii() and position.isdecimal() and len(position) < 6):
            return use
        found = layouts.find(group)
        real = found.memory_at(int(position)) if found is not None else None
        held = memory if real is None else real // self._config.memory_factor
        return CardUse(use.card, held, cores, Part(group, int(position)), memory)

    def names_cards(self, claim: VgpuClaim) -> bool:
        return bool(claim.use_uuids or claim.no_uuids)

    def eligible(self, claim: VgpuClaim, inventory: FamilyInventory) -> int:
        if claim.mode and claim.mode != inventory.mode:
            return 0
        if claim.use_types is None and claim.no_types is None and not claim.use_uuids and not claim.no_uuids:
            return ALL_CARDS
        wanted, unwanted = _listed(claim.use_uuids), _listed(claim.no_uuids)
        mask = 0
        for i, (uuid, model) in enumerate(zip(inventory.names, inventory.models, strict=True)):
            if uuid not in unwanted and (not wanted or uuid in wanted) and _of_type(claim, model):
                mask |= 1 << i
        return mask

    def place(self, cards: Cards, claim: VgpuClaim, eligible: int) -> CardPlacement | None:
        if claim.unserved:
            return None
        return place(cards, claim.containers, eligible, self._policy, self._config.memory_factor)

    def room(self, cards: Cards, claim: VgpuClaim, eligible: int, exclusive: bool) -> int:
        if claim.unserved:
            return 0
        (request, *more) = claim.containers
        changing = request.number > 1 and self._policy == SPREAD
        cut = self._config.models and any(card.layouts is not None for card in cards)
        if more or changing or cut:
            return super().room(cards, claim, eligible, exclusive)
        return pod_room(cards, request, card_order(cards, eligible, self._policy), exclusive=exclusive)


def _description(request: ContainerRequest) -> str:
    memory = f"{request.memory}" if request.percent < 0 else f"{request.percent}%"
    if request.number == 1:
        return f"GPU with {memory} of its memory and {request.cores}% of the cores free"
    return f"{request.number} GPUs with {memory} of their memory and {request.cores}% of the cores free"


def _listed(text: str) -> frozenset[str]:
    return frozenset(filter(None, (part.strip() for part in text.split(","))))


def _of_type(claim: VgpuClaim, model: str) -> bool:
    """Whether the claim accepts a GPU model. If it lists wanted types, unwanted types are ignored."""
    model = model.upper()
    if claim.use_types is not None:
        return any(part.upper() in model for part in claim.use_types.split(","))
    return claim.no_types is None or not any(part.upper() in model for part in claim.no_types.split(","))
