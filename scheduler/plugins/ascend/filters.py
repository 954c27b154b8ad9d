"""Which nodes take the tasks of a class: by the family of their job, the health of nodes, and free chips or parts of
chips."""

from typing import Final

import numpy as np

from scheduler.api.names import ACCELERATOR_TYPE, NPU_CORE, SHARED_NODE
from scheduler.api.node import Mask, Rows
from scheduler.api.task import TaskClass
from scheduler.framework.columns import CodedFilter, Filter, MaskFilter, RefusingFilter
from scheduler.plugins.ascend.columns import ChipFilter
from scheduler.plugins.ascend.demand import ChipUse, CoreUse, NpuUse
from scheduler.plugins.ascend.family import ChipFamily
from scheduler.plugins.ascend.family_choices import selector_of
from scheduler.plugins.ascend.node_health import REASONS, HealthColumns
from scheduler.plugins.ascend.npu_requests import ChipResource, requests_of_init_containers
from scheduler.plugins.ascend.npu_session import NpuSession
from scheduler.plugins.ascend.share_ledger import share_filters
from scheduler.plugins.ascend.shares import ShareUse
from scheduler.plugins.ascend.super_pod_plans import SuperPodPlans
from scheduler.plugins.ascend.vnpu.columns import part_filters
from scheduler.plugins.ascend.vnpu.devices import VirtualDeviceFilter
from scheduler.plugins.ascend.vnpu.models import request_of

_SUB_HEALTHY: Final = "node(s) were sub-healthy, which the job's subHealthyStrategy excludes"
NOT_CHOSEN: Final = "node(s) were not chosen for the job in its super pods"


class NodeFilters:
    """The filters of one session."""

    def __init__(self, npus: NpuSession, plans: SuperPodPlans) -> None:
        self._session = npus.session
        self._demand = npus.demand
        self._health = npus.health
        self._ledgers = npus.ledgers
        self._plans = plans
        self._family_filters: dict[tuple[ChipFamily, ChipResource, bool], list[Filter]] = {}

    def of(self, cls: TaskClass, use: NpuUse | None) -> list[Filter]:
        """Returns the filters for the tasks of a class. ``use``: how their job uses chips."""
        if isinstance(use, ShareUse) and self._demand.chips(cls, use.resource):
            return self._share_filters(use)
        if self._ledgers.parts is not None and isinstance(use, CoreUse) and self._demand.cores(cls):
            request = request_of(cls, self._demand.cores(cls))
            return [
                *self._health_filters(use),
                *part_filters(self._ledgers.parts, use.resource.name, request, use.avoided),
            ]
        if not self._demand.asks(cls) and not self._demand.cores(cls):
            devices = (ledger for ledger in self._ledgers.devices if ledger.nodes and ledger.concerns(cls))
            return [*map(VirtualDeviceFilter, devices), *self._health_filters(use)]
        chips = self._demand.chips(cls, use.resource) if isinstance(use, ChipUse) else 0
        if isinstance(use, ChipUse) and not chips:
            return [RefusingFilter(f"the family of the job has {use.resource.name} only")]
        if not isinstance(use, ChipUse) or chips not in use.family.sizes:
            return [RefusingFilter("node(s) had no chips of a family that fits the job")]
        filters = [
            *self._nodes_of(use.family, use.resource, use.by_policy),
            ChipFilter(self._ledgers.whole[use.resource], use, chips),
        ]
        filters += [*self._whole_nodes(cls, use.resource, chips), *self._sub_health(use)]
        if use.failure and use.failure != NOT_CHOSEN:
            filters.append(RefusingFilter(use.failure))
        elif use.job or use.failure:
            filters.append(self._planned(cls, use))
        return filters

    def _nodes_of(self, family: ChipFamily, resource: ChipResource, by_policy: bool) -> list[Filter]:
        """Returns the filters of the nodes of a family, whatever their chips. ``by_policy``: the field of
        ``ChipUse``."""
        filters = self._family_filters.get((family, resource, by_policy))
        if filters is None:
            ledger = self._ledgers.whole[resource]
            bare = ledger.allocatable < 1
            lonely = ledger.super_pods < 0 if family.super_pods else np.zeros_like(bare)
            # A device plugin of shared chips reports each of them many times.
            chips = np.minimum(ledger.allocatable, ledger.capacity + ledger.broken)
            others = np.zeros_like(bare) if family.selection.any_ids else chips > family.chips
            for label, values in family.node_labels.items():
                codes, found = self._session.nodes.facts.label_column(label)
                others |= np.isin(codes, [code for code, value in enumerate(found) if value not in values])
                if "" not in values:
                    others |= codes < 0
            filters = self._family_filters[family, resource, by_policy] = [
                MaskFilter(~bare, f"node(s) had no {resource.prefix.removesuffix('-')} chips"),
                self._others(family, resource, bare | ~others, by_policy),
                MaskFilter(bare | others | ~lonely, "node(s) were in no super pod"),
                *self._open_nodes(resource),
            ]
        return filters

    def _whole_nodes(self, cls: TaskClass, resource: ChipResource, chips: int) -> list[Filter]:
        """Returns the filter of the nodes that have ``chips`` chips, for classes whose init containers request them:
        the device plugin does not serve other init containers."""
        asked = requests_of_init_containers(cls.spec, resource.name)
        if not asked:
            return []
        ledger = self._ledgers.whole[resource]
        text = (
            f"node(s) did not have exactly the {chips} chips that init container {next(iter(asked))} asks for; the "
            "device plugin serves init containers only if they ask for all chips of the node"
        )
        return [MaskFilter(ledger.capacity + ledger.broken == chips, text)]

    def _others(self, family: ChipFamily, resource: ChipResource, passes: Mask, by_policy: bool) -> Filter:
        """Returns the filter of the nodes of other families. Its reasons name the nodeSelector that chooses their
        family, if it would count."""
        reason = f"node(s) were not of the family {family.title}"
        rows = np.flatnonzero(~passes)
        if by_policy or not len(rows):
            return MaskFilter(passes, reason)
        types, values = self._session.nodes.facts.label_column(ACCELERATOR_TYPE)
        reasons, codes = [reason], np.where(passes, -1, 0).astype(np.int32)
        for code in np.unique(types[rows]).tolist():
            found = selector_of(values[code], resource.name) if code >= 0 else None
            if found is not None and found[0] is not family:
                codes[rows[types[rows] == code]] = len(reasons)
                reasons.append(f"{reason}, but of {found[0].title} ({found[1]})")
        return CodedFilter(codes, reasons) if len(reasons) > 1 else MaskFilter(passes, reason)

    def _open_nodes(self, resource: ChipResource) -> list[Filter]:
        """Returns the filters of the nodes that are healthy, and of which the free chips are known."""
        return [
            CodedFilter(self._health.of(resource).codes, REASONS),
            MaskFilter(~self._ledgers.whole[resource].unreported, "node(s) had no list of free chips that can be read"),
            MaskFilter(~self._ledgers.whole[resource].contradictory, "node(s) listed more free chips than were idle"),
        ]

    def _share_filters(self, use: ShareUse) -> list[Filter]:
        shares = self._ledgers.shares.get(use.resource)
        if shares is None:
            return [RefusingFilter(f"no node had the label {SHARED_NODE}=true")]
        own = frozenset(task.uid for task in self._session.jobs[use.job].tasks())
        shared = share_filters(shares, use, own, len(self._session.nodes))
        return [*self._open_nodes(use.resource), *shared, *self._sub_health(use)]

    def _health_filters(self, use: NpuUse | None) -> list[Filter]:
        """Returns the filters by the health of nodes. They hold for the Pods without chips of a job with chips, too: a
        fault of their node would restart the job."""
        return [] if use is None else [CodedFilter(self._health_for(use).codes, REASONS), *self._sub_health(use)]

    def _sub_health(self, use: NpuUse) -> list[Filter]:
        """Returns the filter of the nodes without faults that the job avoids; none if it ignores these."""
        if not use.avoids_sub_health:
            return []
        whole, sub_healthy = self._ledgers.whole.get(use.resource), self._health_for(use).sub_healthy
        return [MaskFilter(~(sub_healthy if whole is None else sub_healthy | whole.sub_healthy), _SUB_HEALTHY)]

    def _health_for(self, use: NpuUse) -> HealthColumns:
        """Returns the health of the nodes with chips of the resource that a job uses or, for parts of chips, of those
        with AI cores."""
        parts = self._ledgers.parts
        if not isinstance(use, CoreUse) or parts is None:
            return self._health.of(use.resource)
        return self._health.of_nodes(NPU_CORE, lambda: np.flatnonzero(parts.columns.kind >= 0))

    def _planned(self, cls: TaskClass, use: ChipUse) -> Filter:
        """Returns the filter of the nodes that were chosen for a job as a whole. Without a choice it passes no node, so
        that no Pods are evicted for a part of the job."""
        rows: Rows = np.zeros(0, dtype=np.intp)
        if not use.failure:
            job = self._session.jobs[use.job]
            rows = self._plans.rows(self._plans.of(job, use, self._ledgers.whole[use.resource]), job, cls)
        return MaskFilter(self._plans.mask(rows), NOT_CHOSEN)
