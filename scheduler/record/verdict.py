"""Converts decisions to their recorded form, and compares two of them."""

from collections.abc import Iterator
from typing import Any

import msgspec

from scheduler.api.decisions import Decisions
from scheduler.api.names import QUEUE_ALLOCATION_GATE
from scheduler.record.frames import Verdict


def verdict_of(decisions: Decisions) -> Verdict:
    """What is kept of a session's decisions; Events follow from the rest."""
    return Verdict(
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
    )


def differences(recorded: Verdict, now: Verdict) -> Iterator[tuple[str, str, str, str]]:
    """(field, name, recorded, now) of everything that is not the same; "" where there was or is nothing."""
    for field in Verdict.__struct_fields__:
        before: dict[str, Any] = getattr(recorded, field) or {}
        after: dict[str, Any] = getattr(now, field) or {}
        if recorded.queue_groups is None and field in ("queues", "queue_groups"):
            # A session of today updates a queue whose numbers of PodGroups change, too.
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
