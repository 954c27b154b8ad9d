"""What the components of the simulated nodes report: ConfigMaps of device plugins, NodeD and ClusterD, and Leases."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from scheduler.api.kinds import CONFIG_MAP
from scheduler.cluster.kube.playground.nodes import NodeTasks, PlaygroundState
from scheduler.cluster.kube.playground.writes import PlaygroundWriter, Progress
from scheduler.cluster.kube.transport.errors import RequestError
from scheduler.playground.faults import Kubelet
from scheduler.playground.node import Machine, faults_of, machine_of, read_holdings
from scheduler.playground.objects import Remove, SimulatedNode
from scheduler.playground.reports import NODE_INFO_NAMESPACE, Report, cluster_writes, report_of, report_writes

REFRESH_SECONDS: Final = 300.0
"""Seconds after which a device plugin reports again though nothing has changed."""
LEASE_RENEWAL: Final = 10.0
CLUSTER_SECONDS: Final = 1.0
"""Seconds between two reports of ClusterD."""
AT_ONCE: Final = 4
"""Nodes that report at once: few, so that the writes of Pods that start do not wait for reports."""


class Reporter:
    """Writes what the simulated nodes report. Belongs to one event loop."""

    def __init__(self, writer: PlaygroundWriter, state: PlaygroundState, progress: Progress) -> None:
        self._writer = writer
        self._state = state
        self._progress = progress
        self._nodes = NodeTasks(self._report, AT_ONCE, progress)
        self.reports: dict[str, tuple[Machine, Report, float]] = {}
        """The last report of each node, and when it was written."""
        self._reported = asyncio.Event()
        self.add: Final = self._nodes.add
        """Has a node report if something has changed, or if its last report is old."""

    async def run(self) -> None:
        """Reports for device plugins and NodeD until it is cancelled."""
        await self._nodes.run()

    async def _report(self, name: str) -> None:
        node, now = self._state.nodes.get(name), time.time()
        if node is None:
            if self.reports.pop(name, None) is not None:
                self._reported.set()
            return
        try:
            machine, faults = machine_of(node), faults_of(node)
        except ValueError:  # the node has a Warning
            return
        if faults.kubelet is not Kubelet.RUNNING:
            return
        report = report_of(machine, faults, read_holdings(machine.family, self._state.pods_of(name)))
        last = self.reports.get(name)
        self._nodes.add_after(name, REFRESH_SECONDS)
        if last is not None and last[:2] == (machine, report) and now - last[2] < REFRESH_SECONDS:
            return
        for write in report_writes(machine, report, now):
            if not (isinstance(write, Remove) and last is not None and last[1].node is None):  # not removed already
                await self._writer.carry_out(write)
        self.reports[name] = (machine, report, now)
        self._reported.set()
        if last is None or last[1] != report:
            self._progress("node", name, summary(machine, report))

    async def renew_leases(self, write_all: Callable[[Iterable[Awaitable[object]]], Awaitable[None]]) -> None:
        """Renews the Leases of nodes whose kubelet runs, for the node lifecycle controller, until it is cancelled.

        ``write_all``: awaits requests, a limited number at once.
        """
        while True:
            try:
                await write_all(
                    self._writer.renew_lease(name, node.metadata.uid)
                    for name, node in list(self._state.nodes.items())
                    if _kubelet_runs(node)
                )
            except RequestError as error:
                self._progress("error", "", f"Leases were not renewed: {error}")
            await asyncio.sleep(LEASE_RENEWAL)

    async def report_cluster(self) -> None:
        """Writes ClusterD's ConfigMaps when a report changed, unless another ClusterD does so, until cancelled."""
        written: set[str] = set()
        while True:
            await self._reported.wait()
            self._reported.clear()
            try:
                if not written and await self._writer.is_foreign(
                    CONFIG_MAP, NODE_INFO_NAMESPACE, "cluster-info-device-0"
                ):
                    self._progress("node", "", "another ClusterD writes cluster-info-device-0: none is simulated")
                    return
                writes = cluster_writes(
                    ((machine, report) for machine, report, _ in self.reports.values()), time.time()
                )
                for write in writes:
                    await self._writer.carry_out(write)
                names = {write.manifest["metadata"]["name"] for write in writes}
                for name in written - names:
                    await self._writer.remove(CONFIG_MAP, NODE_INFO_NAMESPACE, name)
                written = names
            except RequestError as error:
                self._progress("error", "", f"ClusterD: {error}")
                self._reported.set()
            await asyncio.sleep(CLUSTER_SECONDS)


def summary(machine: Machine, report: Report) -> str:
    """The report of a node in one line."""
    resource = machine.family.resource
    counts = {key.removeprefix(resource).lstrip("-") or "free": text for key, text in report.devices.items()}
    del counts["Fault"]
    parts = [f"{text.count(',') + 1 if text else 0} {key}" for key, text in counts.items() if text or key == "free"]
    if report.node is not None:
        parts.append(f"node {report.node['NodeStatus']}")
    if report.switch is not None and report.switch["NodeStatus"] != "Healthy":
        parts.append(f"switch {report.switch['NodeStatus']}")
    return f"{resource}: {', '.join(parts)}"


def _kubelet_runs(node: SimulatedNode) -> bool:
    try:
        return faults_of(node).kubelet is Kubelet.RUNNING
    except ValueError:
        return True
