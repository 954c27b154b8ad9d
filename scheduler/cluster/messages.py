"""Messages of Events and conditions about decisions, the same on a real cluster and in memory."""

from scheduler.api.decisions import Bind


def binding_message(bind: Bind) -> str:
    """The message of the Event of a binding."""
    return f"Successfully assigned {bind.task.key} to {bind.node}"


def eviction_message(reason: str) -> str:
    """The message of the condition and the Event of an evicted Pod."""
    return f"Pod is evicted, because of {reason}"


def preparation_message(bind: Bind, at_fault: Bind, problem: str) -> str:
    """The message about a failed preparation of the Pod itself, or of another Pod of its gang."""
    why = problem if bind is at_fault else f"pod {at_fault.task.key} of its gang: {problem}"
    return f"execute preBind for pod {bind.task.key} failed: {why}, resync the task"
