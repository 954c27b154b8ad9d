"""Lifecycle policies: the actions that a job asks for when an event occurs."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from scheduler.api import batch
from scheduler.api.batch import Action, JobEvent
from scheduler.api.times import DurationError, parse_duration
from scheduler.controllers.job.phases import ACTIONS

_WITHIN: Final = frozenset({JobEvent.OUT_OF_SYNC, JobEvent.COMMAND_ISSUED, JobEvent.POD_RUNNING})
"""Events that no policy is asked about."""


class Policy(msgspec.Struct, frozen=True):
    """A valid LifecyclePolicy."""

    action: Action
    events: frozenset[str]
    exit_code: int | None
    timeout: float | None
    """Seconds to wait before the action."""

    def covers(self, event: JobEvent, exit_code: int) -> bool:
        """Whether the policy is about the event, or about the exit code of a container. That a Pod is pending counts
        only once it has lasted."""
        matches = event in self.events or JobEvent.ANY in self.events
        if matches and (event is not JobEvent.POD_PENDING or self.timeout is not None):
            return True
        return self.exit_code is not None and self.exit_code == exit_code


def parse_policies(
    policies: Sequence[batch.LifecyclePolicy] | None, where: str
) -> tuple[list[Policy], list[tuple[str, str]]]:
    """The policies that can be used, and (field, problem) of those that cannot. ``where`` is the path of the list."""
    good, bad = [], []
    for index, policy in enumerate(policies or ()):
        field = f"{where}[{index}]"
        timeout = None
        if policy.action not in ACTIONS:
            bad.append((f"{field}.action", f"{policy.action[:64]!r} is none of {', '.join(sorted(ACTIONS))}"))
            continue
        if policy.timeout is not None:
            try:
                timeout = max(0.0, parse_duration(policy.timeout))
            except DurationError as error:
                bad.append((f"{field}.timeout", str(error)))
                continue
        events = frozenset(filter(None, [policy.event, *(policy.events or ())]))
        good.append(Policy(Action(policy.action), events, policy.exit_code, timeout))
    return good, bad


def first_policy(event: JobEvent, exit_code: int, *levels: Iterable[Policy]) -> Policy | None:
    """The first policy about an event, the task's before the job's; None: only look what is to be done."""
    if event in _WITHIN:
        return None
    return next((policy for level in levels for policy in level if policy.covers(event, exit_code)), None)
