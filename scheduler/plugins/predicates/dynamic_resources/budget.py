"""The work that choosing devices may take in one session, for each Pod, each namespace, and together.

Users of a namespace write the CEL expressions and the constraints of claims, which may take hours to evaluate. Work is
counted in steps of about a tenth of a microsecond before it is done, so sessions of equal snapshots do the same,
whatever the machine. Beyond the budget a node is refused with the reason; the Pod may still be placed on nodes for
which the budget sufficed. The next attempt follows after a pause that doubles (``Attempts``). The results of
expressions are kept (``selectors``), so it comes further.
"""

from collections.abc import Callable, Hashable
from typing import Final

import msgspec

POD_STEPS: Final = 1_000_000
"""Steps for the claims of one Pod (of the Pods of a class) in a session: about 0.1 s."""
NAMESPACE_STEPS: Final = 1_500_000
SESSION_STEPS: Final = 4_000_000
TRY_STEPS: Final = 30
"""Steps to try one device for one request."""
PAUSE_STEPS: Final = POD_STEPS // 10
"""Steps in a session after which claims pause. With fewer, they had no turn yet."""
FIRST_PAUSE: Final = 1.0
"""Seconds from a session in which the budget was exceeded to the next attempt, the first time."""
MAX_PAUSE: Final = 16.0
MAX_KEPT: Final = 4096
"""Classes of Pods whose attempts are remembered."""
TIMED_OUT: Final = "timed out trying to allocate devices"


class NodeRejectedError(Exception):
    """The search on a node failed; the message says why."""


class OverBudgetError(NodeRejectedError):
    """The work exceeds a budget."""


class SessionBudget:
    """What is left in a session, for all and for each namespace."""

    def __init__(self) -> None:
        self._left = SESSION_STEPS
        self._namespaces: dict[str, int] = {}

    def limit(self, namespace: str, steps: int) -> str:
        """Whose limit some more steps would exceed, or "" if they are within the limits."""
        if steps > self._namespaces.get(namespace, NAMESPACE_STEPS):
            return f"{NAMESPACE_STEPS} steps for all Pods of namespace {namespace}"
        return f"{SESSION_STEPS} steps for all Pods" if steps > self._left else ""

    def spend(self, namespace: str, steps: int) -> None:
        """Takes steps that are within the limits; a negative number gives them back."""
        self._left -= steps
        self._namespaces[namespace] = self._namespaces.get(namespace, NAMESPACE_STEPS) - steps


class Budget:
    """What is left for the Pods of one class."""

    def __init__(
        self,
        choices: int | None,
        session: SessionBudget,
        namespace: str,
        exceeded: "Callable[[Budget], str] | None" = None,
    ) -> None:
        """``choices``: how many choices searches may undo; None for no limit. ``exceeded`` is called when a limit is
        reached, unless others have used most of it; it returns what is added to the reason."""
        self._choices = choices
        self._session = session
        self._namespace = namespace
        self._exceeded = exceeded
        self.spent = 0
        self.evaluations = 0
        """CEL expressions evaluated for one device."""
        self.over = ""
        """Why no more work is done, or ""."""
        self.row = 0
        """The node for which devices are chosen, by its row."""
        self.first_row = 0
        """The node with which the search begins, so that each has its turn."""

    def undo_choice(self) -> None:
        """Counts one undone choice. Raises NodeRejectedError beyond the limit."""
        if self._choices is not None:
            self._choices -= 1
            if self._choices < 0:
                raise NodeRejectedError(TIMED_OUT)

    def spend(self, steps: int) -> None:
        """Takes steps before they are made. Raises OverBudgetError if they exceed a limit, and from then on."""
        if self.over:
            raise OverBudgetError(self.over)
        limit = f"{POD_STEPS} steps for one Pod" if self.spent + steps > POD_STEPS else ""
        limit = limit or self._session.limit(self._namespace, steps)
        if limit:
            self.over = (
                f"choosing devices takes more than one session: its claims have used {self.spent} steps, with "
                f"{self.evaluations} evaluations of CEL expressions, in the last one; the limit is {limit}"
            )
            if self.spent >= PAUSE_STEPS and self._exceeded is not None:
                self.over += self._exceeded(self)
            raise OverBudgetError(self.over)
        self.spent += steps
        self._session.spend(self._namespace, steps)

    def spend_evaluation(self, steps: int) -> None:
        """Takes the steps of one evaluation of a CEL expression, as ``spend``."""
        self.spend(steps)
        self.evaluations += 1

    def give_back(self, steps: int) -> None:
        """Gives back steps: what leads to a placement is no wasted work."""
        self.spent -= steps
        self._session.spend(self._namespace, -steps)


class Attempt(msgspec.Struct, frozen=True):
    """A session in which the claims of a class exceeded the budget."""

    number: int
    """1 for the first of consecutive ones."""
    retry_at: float
    """Seconds since the epoch: when the next attempt is due."""
    reason: str
    node: str
    """The node with which the next attempt begins."""


class Attempts:
    """The last attempts of the classes that exceeded the budget. Kept across sessions."""

    def __init__(self) -> None:
        self._attempts: dict[Hashable, Attempt] = {}

    def last(self, key: Hashable) -> Attempt | None:
        """The last attempt, if the budget was exceeded in it."""
        return self._attempts.get(key)

    def failed(self, key: Hashable, before: Attempt | None, now: float, reason: str, node: str) -> str:
        """Notes that the budget was exceeded, after the attempt ``before``. Returns what is added to the reason."""
        number = before.number + 1 if before is not None else 1
        pause = min(FIRST_PAUSE * 2 ** min(number - 1, 16), MAX_PAUSE)
        if len(self._attempts) >= MAX_KEPT:
            del self._attempts[next(iter(self._attempts))]
        after = f"; next attempt after {pause:g} s"
        self._attempts[key] = Attempt(number, now + pause, reason + after, node)
        return after

    def forget(self, key: Hashable) -> None:
        self._attempts.pop(key, None)
