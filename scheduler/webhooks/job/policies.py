"""Validation of lifecycle policies: events, exit codes, actions and timeouts."""

from collections.abc import Iterator
from typing import Final

from scheduler.api.batch import Action, JobEvent, LifecyclePolicy
from scheduler.api.times import DurationError, parse_duration
from scheduler.webhooks.fields import invalid

_EVENTS: Final = (
    JobEvent.ANY, JobEvent.JOB_UPDATED, JobEvent.POD_EVICTED, JobEvent.POD_FAILED, JobEvent.POD_PENDING,
    JobEvent.TASK_COMPLETED, JobEvent.TASK_FAILED, JobEvent.UNKNOWN,
)  # fmt: skip
_ACTIONS: Final = (
    Action.ABORT_JOB, Action.COMPLETE_JOB, Action.RESTART_JOB, Action.RESTART_PARTITION, Action.RESTART_POD,
    Action.RESTART_TASK, Action.RESUME_JOB, Action.TERMINATE_JOB,
)  # fmt: skip
_VALID_VALUES: Final = f" valid events are [{' '.join(_EVENTS)}], valid actions are [{' '.join(_ACTIONS)}];"


def policy_problems(policies: list[LifecyclePolicy], path: str) -> str:
    """The problems up to the first invalid policy, as in Volcano's validatePolicies. ``path``: Volcano's name of the
    field."""
    events: set[str] = set()
    problems = []
    problem = _first_problem(policies, events, path)
    if problem:
        problems.append(problem)
    if JobEvent.ANY in events and len(events) > 1:
        problems.append("if there's * here, no other policy should be here")
    if not problems:
        return ""
    title = "1 error" if len(problems) == 1 else f"{len(problems)} errors"
    return f"{title} occurred:\n" + "".join(f"\t* {each}\n" for each in problems) + f"\n{_VALID_VALUES}"


def _first_problem(policies: list[LifecyclePolicy], events: set[str], path: str) -> str:
    """The first problem, or "". Adds the events of valid policies to ``events``."""
    exit_codes: set[int] = set()
    for policy in policies:
        named = dict.fromkeys([*(policy.events or ()), *([policy.event] if policy.event else ())])
        code = policy.exit_code
        if named and code is not None:
            return "must not specify event and exitCode simultaneously"
        for event in named:
            if event not in _EVENTS:
                return invalid(path, event, "invalid policy event")
            if policy.action not in _ACTIONS:
                return invalid(path, policy.action, "invalid policy action")
            if event in events:
                return f"duplicate event {event}  across different policy"
            events.add(event)
        if named:
            continue
        if code is None:
            return "either event and exitCode should be specified"
        if code == 0:
            return "0 is not a valid error code"
        if code in exit_codes:
            return f"duplicate exitCode {code}"
        exit_codes.add(code)
    return ""


def timeout_problems(policies: list[LifecyclePolicy], path: str) -> Iterator[str]:
    for index, policy in enumerate(policies):
        if policy.timeout is not None:
            yield from duration_problems(policy.timeout, f"{path}[{index}].timeout")


def duration_problems(text: str, path: str) -> Iterator[str]:
    try:
        seconds = parse_duration(text)
    except DurationError:
        seconds = -1.0
    if seconds < 0:
        yield invalid(path, text, "must be a duration such as 30s, 5m or 1h30m")
