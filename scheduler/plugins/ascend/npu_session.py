"""What one session knows of NPUs: the demand of jobs, the chips by the way in which Pods get them, and their health.

A Pod gets chips whole, a share of a chip, a virtual NPU that was created beforehand, or a part of a chip on demand. The
ledgers of shares, devices and parts mark their chips in the ledger of whole chips, so no chip is given in two ways.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from scheduler.api.names import NPU_CORE
from scheduler.framework.cache_requirements import cache_requirements_of
from scheduler.framework.ledger import Ledger
from scheduler.framework.plugin_session import PluginSession
from scheduler.plugins.ascend import cluster_reports
from scheduler.plugins.ascend.cluster_reports import ClusterReports
from scheduler.plugins.ascend.demand import ChipDemand
from scheduler.plugins.ascend.inventory import ChipRules, NodeChips, read_exhausted, whole_chips
from scheduler.plugins.ascend.ledger import ChipLedger, read_columns
from scheduler.plugins.ascend.node_health import SessionHealth
from scheduler.plugins.ascend.npu_requests import ChipRequests, ChipResource
from scheduler.plugins.ascend.resolve import CHIP_RESOURCES
from scheduler.plugins.ascend.settings import AscendSettings, settings_of
from scheduler.plugins.ascend.share_ledger import ShareLedger
from scheduler.plugins.ascend.vnpu.devices import VirtualDeviceLedger
from scheduler.plugins.ascend.vnpu.inventory import PartColumns
from scheduler.plugins.ascend.vnpu.inventory import read_columns as read_part_columns
from scheduler.plugins.ascend.vnpu.ledger import PartLedger
from scheduler.plugins.support.vnpu_failures import VnpuFailures


class NpuLedgers:
    """Reads the chips when it is created, and reports the problems that it finds to the session."""

    def __init__(
        self,
        session: PluginSession,
        demand: ChipDemand,
        parts: PartColumns,
        reports: ClusterReports,
        *,
        self_maintain: bool,
    ) -> None:
        """``parts``: the nodes with AI cores; ``self_maintain``: the option of ``AscendSettings``."""
        self._session = session
        self._demand = demand
        self._reports = reports
        self._self_maintain = self_maintain
        self.whole: dict[ChipResource, ChipLedger] = {}
        self.chips: dict[ChipResource, Mapping[int, NodeChips]] = {}
        """Row of a node -> its chips when the session was opened."""
        self.shares: dict[ChipResource, ShareLedger] = {}
        """The chips that Pods share, for resources with nodes whose chips are shared."""
        for position, resource in demand.resources.items():
            if resource.name in CHIP_RESOURCES:
                self._read_chips(resource, position)
        self.devices = [self._read_devices(resource, position) for position, resource in demand.virtual.items()]
        """The virtual NPUs that were created beforehand, a ledger for each resource."""
        cores = session.dimensions.find(NPU_CORE)
        self.parts = None if cores is None else PartLedger(session, demand, cores, parts, self.whole)
        """The parts of chips; None: no node and no Pod has AI cores."""

    def __iter__(self) -> Iterator[Ledger[Any]]:
        """Returns all ledgers, in the order in which they follow a placement."""
        parts = () if self.parts is None else (self.parts,)
        return chain(self.whole.values(), self.shares.values(), self.devices, parts)

    def exhausted(
        self, resource: ChipResource, *, with_pods: bool = True, with_virtual: bool = False
    ) -> Mapping[int, NodeChips]:
        """Returns row -> chips of the nodes of which no chip is allocatable. ``with_pods``: only those with Pods that
        request the resource; ``with_virtual``: or virtual NPUs that were created on its chips."""
        dimensions = self._session.dimensions
        position, requested = dimensions.index(resource.name), None
        if with_pods:
            requested = [position]
        if requested is not None and with_virtual:
            requested += [dimensions.index(each.resource.name) for each in self.devices_on(resource)]
        return read_exhausted(self._session.snapshot, self._rules(resource), position, self._reports, requested)

    def devices_on(self, resource: ChipResource) -> list[VirtualDeviceLedger]:
        """Returns the virtual NPUs that were created beforehand on chips of a resource."""
        return [each for each in self.devices if each.resource.name.startswith(f"{resource.name}-")]

    def _rules(self, resource: ChipResource) -> ChipRules:
        requests = ChipRequests(resource, self._session.dimensions)
        return ChipRules(resource, requests, self._session.snapshot.signed_since, self._self_maintain)

    def _read_chips(self, resource: ChipResource, position: int) -> None:
        session = self._session
        chips = read_columns(session.snapshot, self._rules(resource), position, self._reports)
        for problem in chips.problems:
            session.malformed_field(problem)
        self.chips[resource] = chips.by_row
        allocatable = whole_chips(session.nodes.allocatable[position])
        whole = self.whole[resource] = ChipLedger(session, resource, self._demand, chips, allocatable)
        shares = ShareLedger(session, self._demand, whole, chips)
        if shares.memory:
            self.shares[resource] = shares

    def _read_devices(self, resource: ChipResource, position: int) -> VirtualDeviceLedger:
        """Reads the devices of a resource of virtual NPUs. Their chips are not assigned whole."""
        devices = VirtualDeviceLedger(self._session, resource, position)
        for problem in devices.problems:
            self._session.malformed_field(problem)
        whole = self.whole.get(ChipResource(resource.name.partition("-")[0]))
        if whole is not None:
            whole.in_parts |= devices.chips
        return devices


@dataclass(frozen=True, slots=True)
class NpuSession:
    """What all parts of the plugin know in one session."""

    session: PluginSession
    settings: AscendSettings
    reports: ClusterReports
    owned_elsewhere: frozenset[str]
    """Resources about which another plugin decides."""
    demand: ChipDemand
    ledgers: NpuLedgers
    health: SessionHealth
    failures: VnpuFailures

    @classmethod
    def read(cls, session: PluginSession) -> "NpuSession":
        """Reads reports, requests and chips, and reports the problems that it finds to the session."""
        snapshot, settings = session.snapshot, settings_of(session)
        reports = cluster_reports.read(snapshot) if settings.cluster_reports else cluster_reports.NO_REPORTS
        for problem in reports.problems:
            session.malformed_field(problem)
        owned = cache_requirements_of(session.configuration, snapshot.config_maps).devices
        parts = read_part_columns(snapshot, session.dimensions.find(NPU_CORE), reports)
        models = {parts.kinds[number].model for number in set(parts.kind.tolist()) if number >= 0}
        failures = VnpuFailures(session)
        demand = ChipDemand(session, settings, owned, models, failures.avoided)
        ledgers = NpuLedgers(session, demand, parts, reports, self_maintain=settings.self_maintain)
        for problem in () if NPU_CORE in owned else parts.problems:
            session.malformed_field(problem)
        health = SessionHealth(session, ledgers.whole, reports)
        return cls(session, settings, reports, owned, demand, ledgers, health, failures)
