"""The recorded form of decisions, and the differences between two of them."""

from collections.abc import Iterator
from typing import Any

import msgspec

from scheduler.api.decisions import Decisions
from scheduler.api.names import QUEUE_ALLOCATION_GATE
from scheduler.record.frames import RecordedDecisions


def recorded_decisions(decisions: Decisions) -> RecordedDecisions:
    """The decisions of a session without its Events, which follow from the rest."""
    return RecordedDecisions(
        binds={bind.task.key: (bind.node, bind.annotations) for bind in decisions.binds},
        evictions={eviction.task.key: eviction.reason for eviction in decisions.evictions},
        pod_groups={
            f"{update.namespace}/{update.name}": (
                update.phase,
                [(c.type, c.status, c.reason, c.message) for c in update.conditions],
                update.running,
                update.succeeded,
                update.failed,
            )
            for update in decisions.pod_groups
        },
        pods={pod.task.key: pod[1:] for update in decisions.pods for pod in update.pods()},
        queues={queue.name: queue.allocated for queue in decisions.queues},
        ungates={ungate.task.key: QUEUE_ALLOCATION_GATE for ungate in decisions.ungates},
        writes={
            f"{write.kind.name} {write.namespace}/{write.name}": msgspec.json.encode(write.body).decode()
            for write in decisions.writes
        },
        queue_cards={queue.name: queue.cards for queue in decisions.queues if queue.cards is not None},
        queue_groups={queue.name: queue.groups for queue in decisions.queues if queue.groups},
        queue_deserved={queue.name: queue.deserved for queue in decisions.queues if queue.deserved is not None},
    )


def differences(recorded: RecordedDecisions, now: RecordedDecisions) -> Iterator[tuple[str, str, str, str]]:
    """(field, name, recorded, now) of all that differs; "" for a missing value."""
    for field in RecordedDecisions.__struct_fields__:
        before: dict[str, Any] = getattr(recorded, field) or {}
        after: dict[str, Any] = getattr(now, field) or {}
        older = recorded.queue_groups is None or recorded.queue_deserved is None
        if older and field in ("queues", "queue_groups", "queue_deserved"):
            # Newer sessions also update a queue when only its numbers of PodGroups, or what it deserves, change.
            after = {name: value for name, value in after.items() if name in before}
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                yield field, name, _format(before.get(name)), _format(after.get(name))


def _format(value: Any) -> str:
    """Formats a decision as one line."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        return " ".join(_format(part) for part in value if part not in ("", {}, []))
    if isinstance(value, dict):
        return ", ".join(f"{key}={part}" for key, part in value.items())
    if isinstance(value, list):
        return "; ".join(" ".join(part) for part in value)
    return str(value)
