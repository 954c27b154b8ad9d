"""What an extender answers. Fields are Volcano's, in small letters (see ``client``); what lacks has its default."""

from typing import Any, Final

import msgspec

UNSCHEDULABLE: Final = 2
"""The code of a refusal that evictions may help against."""


class Predicate(msgspec.Struct):
    """May the task run on the node?"""

    status: str = ""
    """Why not; "": it may."""
    code: int = 0


class Prioritize(msgspec.Struct):
    """How good are the nodes for the task?"""

    nodescore: dict[str, float] | None = None
    errormessage: str = ""


class Victims(msgspec.Struct):
    """Which of the tasks may be evicted?"""

    status: int = 0
    """0: the extender has no opinion."""
    victims: list[dict[str, Any]] = []

    @property
    def uids(self) -> set[str]:
        found = (value for victim in self.victims for key, value in victim.items() if key.lower() == "uid")
        return {uid for uid in found if isinstance(uid, str)}


class Vote(msgspec.Struct):
    """May the job be let in? Above 0: yes, below: no."""

    status: int = 0


class Overused(msgspec.Struct):
    """Has the queue all it may have?"""

    overused: bool = False


class Ready(msgspec.Struct):
    """May the job start?"""

    status: bool = False


class Event(msgspec.Struct):
    """A task was given a node, or lost it. Is that all right?"""

    errormessage: str = ""
    """Why not; "": it is."""
