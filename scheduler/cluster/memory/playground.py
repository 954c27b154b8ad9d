"""Simulated NPU nodes in memory: what device plugin, NodeD, ClusterD and kubelet of the Nodes with the label of the
playground do between two cycles."""

import json
from collections.abc import Callable
from contextlib import suppress

import msgspec

from scheduler.api.kinds import CONFIG_MAP, NODE, POD
from scheduler.api.names import DEVICE_INFO_CONFIGMAP_PREFIX, DEVICE_INFO_NAMESPACE, PREDICATE_TIME
from scheduler.cluster.memory.index import node_of
from scheduler.cluster.memory.raw_objects import Json
from scheduler.cluster.memory.server import MemoryServer, key_of
from scheduler.playground import objects
from scheduler.playground.faults import Kubelet
from scheduler.playground.kubelet import next_step
from scheduler.playground.node import Machine, faults_of, machine_of, read_holdings
from scheduler.playground.objects import FAMILY, Patch, Put, Remove, SimulatedNode, SimulatedPod, Warn, Write
from scheduler.playground.reports import Report, cluster_writes, report_of, report_writes

_KINDS = {objects.NODE: NODE, objects.POD: POD}


def is_simulated(node: Json) -> bool | None:
    """Whether a Node belongs to the playground."""
    return FAMILY in (node["metadata"].get("labels") or {}) or None


def run_playground(server: MemoryServer, warn: Callable[[Warn], None]) -> bool:
    """Does all that is due on simulated nodes. Returns whether anything changed."""
    nodes = server.by_index(NODE, is_simulated)
    changed = False
    reports: list[tuple[Machine, Report]] = []
    for raw in nodes:
        name = raw["metadata"]["name"]
        while writes := _next_writes(server, name):
            changed = True
            for write in writes:
                _carry_out(server, write, warn)
        report = _report(server, name)
        if report is not None:
            reports.append(report)
            changed |= _publish(server, *report, warn)
    if changed:
        for put in cluster_writes(reports, server.now):
            _carry_out(server, put, warn)
    return changed


def _next_writes(server: MemoryServer, name: str) -> list[Write]:
    try:
        node = _node(server, name)
        machine, faults = machine_of(node), faults_of(node)
    except ValueError:  # of the manifests: the scheduler reports what is malformed for it
        return []
    return next_step(machine, node, faults, _pods(server, name), server.now).writes


def _report(server: MemoryServer, name: str) -> tuple[Machine, Report] | None:
    """What a node reports; None if it is malformed, or does not answer."""
    try:
        node = _node(server, name)
        machine, faults = machine_of(node), faults_of(node)
    except ValueError:
        return None
    if faults.kubelet is Kubelet.STOPPED:
        return None
    return machine, report_of(machine, faults, read_holdings(machine.family, _pods(server, name)))


def _publish(server: MemoryServer, machine: Machine, report: Report, warn: Callable[[Warn], None]) -> bool:
    """Writes the ConfigMaps of a node if more than their time changed. Returns whether it did."""
    known = server.find(CONFIG_MAP, DEVICE_INFO_NAMESPACE, f"{DEVICE_INFO_CONFIGMAP_PREFIX}{machine.name}")
    if known is not None and all(_is_done(server, each) for each in report_writes(machine, report, _written_at(known))):
        return False
    for write in report_writes(machine, report, server.now):
        _carry_out(server, write, warn)
    return True


def _written_at(config_map: Json) -> float:
    try:
        return float(json.loads(config_map["data"]["DeviceInfoCfg"])["DeviceInfo"]["UpdateTime"])
    except (KeyError, TypeError, ValueError, RecursionError):  # a manifest gave another one
        return 0.0


def _is_done(server: MemoryServer, write: Write) -> bool:
    if isinstance(write, Put):
        meta = write.manifest["metadata"]
        known = server.find(write.kind, meta["namespace"], meta["name"])
        return known is not None and known.get("data") == write.manifest["data"]
    return isinstance(write, Remove) and server.find(write.kind, write.namespace, write.name) is None


def _carry_out(server: MemoryServer, write: Write, warn: Callable[[Warn], None]) -> None:
    match write:
        case Put(kind, manifest):
            meta = manifest["metadata"]
            if not server.create(kind, manifest):
                server.patch(kind, meta["namespace"], meta["name"], {"data": None})
                server.patch(kind, meta["namespace"], meta["name"], {"data": manifest["data"]})
        case Patch(kind, metadata, body):
            server.patch(_KINDS[kind], metadata.namespace, metadata.name, body)
        case Remove(kind, namespace, name):
            stored = _KINDS.get(kind, kind)
            if server.find(stored, namespace, name) is not None:
                server.remove(key_of(stored, namespace, name))
        case Warn():
            warn(write)


def _node(server: MemoryServer, name: str) -> SimulatedNode:
    return msgspec.convert(server.find(NODE, "", name), SimulatedNode)


def _pods(server: MemoryServer, node: str) -> list[SimulatedPod]:
    """The Pods of a node in the order of their bindings, which is that of their predicate times."""
    pods = []
    for raw in server.by_index(POD, node_of, node):
        with suppress(ValueError):  # a malformed Pod of the manifests does not start
            pods.append(msgspec.convert(raw, SimulatedPod))
    return sorted(pods, key=_predicate_time)


def _predicate_time(pod: SimulatedPod) -> int:
    return objects.whole_number(objects.annotations_of(pod).get(PREDICATE_TIME, "")) or 0
