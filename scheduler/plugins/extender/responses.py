"""The responses of an extender. Field names are Volcano's in lower case (see ``client``); missing fields have
defaults."""

from typing import Any, Final

import msgspec

UNSCHEDULABLE: Final = 2
"""The code of a rejection that evictions can resolve."""


class Predicate(msgspec.Struct):
    """Whether the task can run on the node."""

    status: str = ""
    """Why the node is rejected, or ""."""
    code: int = 0


class Prioritize(msgspec.Struct):
    """The scores of the nodes for the task."""

    nodescore: dict[str, float] | None = None
    errormessage: str = ""


class Victims(msgspec.Struct):
    """Which of the tasks may be evicted."""

    status: int = 0
    """0 for an abstention."""
    victims: list[dict[str, Any]] = []

    @property
    def uids(self) -> set[str]:
        found = (value for victim in self.victims for key, value in victim.items() if key.lower() == "uid")
        return {uid for uid in found if isinstance(uid, str)}


class VoteResponse(msgspec.Struct):
    """Whether the job may be enqueued: above 0 for yes, below 0 for no, 0 for an abstention."""

    status: int = 0


class Overused(msgspec.Struct):
    """Whether the queue is overused."""

    overused: bool = False


class Ready(msgspec.Struct):
    """Whether the job is ready."""

    status: bool = False


class EventResponse(msgspec.Struct):
    """The response to an allocation or deallocation of a task."""

    errormessage: str = ""
    """Why the extender rejects it, or ""."""
