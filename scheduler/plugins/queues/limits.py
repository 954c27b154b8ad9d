"""What queues may have at most where none stands above another."""

import numpy as np

from scheduler.api.resource import Vector
from scheduler.framework.session import Session


def guaranteed(session: Session) -> Vector:
    """What all queues together are guaranteed."""
    total = session.dimensions.zeros()
    for queue in session.queues.values():
        total += queue.guarantee
    return total


def flat_limits(session: Session) -> dict[str, Vector]:
    """Queue -> its capability, within what no other queue is guaranteed (Volcano's realCapability)."""
    free = np.maximum(session.total - guaranteed(session), 0)
    return {name: np.minimum(free + queue.guarantee, queue.capability) for name, queue in session.queues.items()}
