"""What the reasons of nodes leave unsaid, with numbers: volumes, node groups, hours, loads, cards, cpus; and how long a
job may wait to be let in."""

from collections.abc import Iterator, Sequence
from datetime import datetime

import numpy as np

from scheduler.api.duration import format_duration
from scheduler.api.job import Job
from scheduler.api.names import NODEGROUP_NAME, REVOCABLE_ZONE
from scheduler.api.task import Task, revocable
from scheduler.explain.explanation import Gate, Held, NodeGroup
from scheduler.explain.volumes import volumes
from scheduler.explain.witness import Witness
from scheduler.plugins import nodegroup
from scheduler.plugins.deviceshare.cards import UNLIMITED
from scheduler.plugins.deviceshare.plugin import DeviceShare
from scheduler.plugins.numa_aware.demand import demand_of
from scheduler.plugins.numa_aware.plugin import NumaAware
from scheduler.plugins.sla import Sla
from scheduler.plugins.tdm import Tdm
from scheduler.plugins.usage.plugin import BUSY_CPU, BUSY_MEMORY, Usage
from scheduler.plugins.usage.settings import Settings


def circumstances(session: Witness, task: Task, job: Job, refusing: Sequence[NodeGroup]) -> Iterator[Gate]:
    """``task``: one of the job that finds no node; ``refusing``: the nodes that refuse it."""
    reasons = {reason for nodes in refusing for reason in nodes.reasons}
    yield from volumes(session, task)
    yield from _node_groups(session, task, job, reasons)
    yield from _zones(session, task, reasons)
    yield from _loads(session, reasons)
    yield from _cards(session, task, reasons)
    yield from _numa_nodes(session, task, reasons)


def deadline(session: Witness, job: Job) -> Iterator[Gate]:
    """When a job that waits to be let in is let in whatever its queue has (``sla``)."""
    sla = session.plugin(Sla)
    then = sla.deadlines[job.key] if sla is not None and job.waiting_for_queue else np.inf
    if np.isfinite(then):
        wait, left = format_duration(round(then - job.creation)), format_duration(round(then - session.now))
        yield Gate(Held.ENQUEUE, f"it is let in once it has waited {wait}, that is in {left}", Sla.name)


def _node_groups(session: Witness, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    plugin = session.plugin(nodegroup.NodeGroup)
    if plugin is None:
        return
    codes, names = session.nodes.facts.label_column(NODEGROUP_NAME)
    theirs, limits = plugin.groups.get(job.queue, nodegroup.ANYWHERE), plugin.limits.get(job.queue)
    if not reasons.isdisjoint((nodegroup.NO_LABEL, nodegroup.NO_AFFINITY, nodegroup.OTHER_GROUP)):
        numbers = [f"{name}: {number}" for code, name in enumerate(names) if (number := int((codes == code).sum()))]
        admitted = ", ".join(name for name in names if theirs.admits(name)) or "none"
        there = ", ".join([*numbers, f"without: {int((codes < 0).sum())}"])
        text = f"of the node groups that are there queue {job.queue} may use {admitted} (nodes by group: {there})"
        yield Gate(Held.NODES, text, plugin.name)
    if nodegroup.LIMIT_EXCEEDED in reasons and limits is not None:
        for group in limits.of:
            asked = [d for d in np.flatnonzero(task.cls.request).tolist() if np.isfinite(limits.of[group][d])]
            amounts = "; ".join(
                session.dimensions.numbers(
                    d, asked=task.cls.request[d], used=limits.used[group][d], limit=limits.of[group][d]
                )
                for d in asked
            )
            yield Gate(Held.NODES, f"queue {job.queue} in node group {group}: {amounts}", plugin.name)


def _zones(session: Witness, task: Task, reasons: set[str]) -> Iterator[Gate]:
    if session.plugin(Tdm) is not None and any("revocable" in reason for reason in reasons):
        codes, _ = session.nodes.facts.label_column(REVOCABLE_ZONE)
        number = int((codes >= 0).sum())
        clock = datetime.fromtimestamp(session.now).strftime("%H:%M")
        who = "may use them" if revocable(task.cls.annotations) else f"may not, without annotation {REVOCABLE_ZONE}"
        yield Gate(
            Held.NODES, f"{number} of {len(codes)} nodes are on loan, {task.name} {who}; it is {clock}", Tdm.name
        )


def _loads(session: Witness, reasons: set[str]) -> Iterator[Gate]:
    usage = session.snapshot.usage
    if usage is None or reasons.isdisjoint((BUSY_CPU, BUSY_MEMORY)):
        return
    settings, known = Settings(session.arguments(Usage.name)), usage.known(session.now)
    for what, load, most in (("cpu", usage.cpu, settings.most_cpu), ("memory", usage.memory, settings.most_memory)):
        busy = np.flatnonzero(known & (load > most))
        if len(busy):
            row = int(busy[load[busy].argmin()])
            idlest = f"the idlest of them, {session.nodes.names[row]}, uses {load[row]:g}%"
            text = f"{len(busy)} of {len(known)} nodes use more than {most:g}% of their {what}; {idlest}"
            yield Gate(Held.NODES, text, Usage.name)


def _cards(session: Witness, task: Task, reasons: set[str]) -> Iterator[Gate]:
    """The card of which most is free, of each family that the task asks for."""
    plugin = session.plugin(DeviceShare)
    for ledger in plugin.ledgers if plugin is not None else ():
        claim = ledger.claim(task.cls)
        cards = [(card, row) for row in ledger.readings for card in ledger.cards(row, later=False) if card.slots]
        if claim is None or not cards or f"node(s) had no {claim.words}" not in reasons:
            continue
        best, row = max(cards, key=lambda entry: (entry[0].free_memory, entry[0].free_cores, -entry[1]))
        amounts = [
            f"{left} of {all_} {what}"
            for what, left, all_ in (
                ("memory", best.free_memory, best.memory),
                ("cores", best.free_cores, best.cores),
                ("places", best.slots - best.used, best.slots),
            )
            if 0 < all_ < UNLIMITED
        ]
        where = f"of {len(cards)} cards the one with most memory free is on node {session.nodes.names[row]}"
        text = f"{task.name} asks for {claim.words}; {where}, with {', '.join(amounts)} free"
        yield Gate(Held.NODES, text, DeviceShare.name)


def _numa_nodes(session: Witness, task: Task, reasons: set[str]) -> Iterator[Gate]:
    """Of a Pod that gets cpus of its own: the most free ones that are together anywhere."""
    plugin, demand = session.plugin(NumaAware), demand_of(task.cls)
    if plugin is None or demand is None or not plugin.topologies or not any("numa" in reason for reason in reasons):
        return
    free = {
        row: max(topology.per_numa(plugin.ledger.free[row]).values(), default=0)
        for row, topology in plugin.topologies.items()
    }
    row = max(free, key=lambda row: (free[row], -row))
    asked = ", ".join(f"{name} {number}" for name, number in demand.containers)
    most = f"at most {free[row]} are free on one NUMA node (of {session.nodes.names[row]})"
    yield Gate(Held.NODES, f"{task.name} asks for cpus of its own (by container: {asked}); {most}", NumaAware.name)
