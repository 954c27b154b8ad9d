"""The card with the most free memory, for Pods that request a part of a card."""

from collections.abc import Iterator

from scheduler.api.job import Job
from scheduler.api.task import Task
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.framework.remedies.registry import pod_details
from scheduler.framework.session import Session
from scheduler.plugins.deviceshare.cards import UNLIMITED
from scheduler.plugins.deviceshare.plugin import DeviceShare


@pod_details(DeviceShare)
def cards(session: Session, plugin: DeviceShare, task: Task, job: Job, reasons: set[str]) -> Iterator[Gate]:
    """Yields the card with the most free memory, for each family that the task requests."""
    for ledger in plugin.ledgers:
        claim = ledger.claim(task.cls)
        cards = [(card, row) for row in ledger.node_states for card in ledger.cards(row, later=False) if card.slots]
        if claim is None or not cards or f"node(s) had no {claim.description}" not in reasons:
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
        text = f"{task.name} asks for {claim.description}; {where}, with {', '.join(amounts)} free"
        yield Gate(GateKind.NODES, text, DeviceShare.name)
