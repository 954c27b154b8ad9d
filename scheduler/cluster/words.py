"""What Pods, PodGroups and Events are told of decisions, word for word: on a real cluster as in memory."""

from typing import Any

from scheduler.api.decisions import Bind, PodGroupStatusUpdate


def assigned(bind: Bind) -> str:
    """The Event of a binding."""
    return f"Successfully assigned {bind.task.key} to {bind.node}"


def evicted(reason: str) -> str:
    """The condition and the Event of a Pod that is evicted."""
    return f"Pod is evicted, because of {reason}"


def why_not_prepared(bind: Bind, at_fault: Bind, problem: str) -> str:
    """Why a Pod is not bound: what its binding depends on cannot be had, or that of another Pod of its gang."""
    why = problem if bind is at_fault else f"pod {at_fault.task.key} of its gang: {problem}"
    return f"execute preBind for pod {bind.task.key} failed: {why}, resync the task"


def conditions_of(update: PodGroupStatusUpdate) -> list[dict[str, Any]]:
    """The conditions of a PodGroup."""
    return [
        {
            "type": c.type,
            "status": c.status,
            "transitionID": c.transition_id,
            **({"lastTransitionTime": c.last_transition_time} if c.last_transition_time else {}),
            **({"reason": c.reason} if c.reason else {}),
            **({"message": c.message} if c.message else {}),
        }
        for c in update.conditions
    ]
