"""The number of restarts that a job has left after a Pod has failed, as recorded by the scheduler, which carries them
out."""

from typing import Annotated, Final, TypeVar

import msgspec

from scheduler.api.names import REMAINING_RETRIES, RESCHEDULING_RESTARTS
from scheduler.api.objects import ConfigMap

T = TypeVar("T")
_Number = Annotated[int, msgspec.Meta(ge=0, lt=10**6)]


class _Retries(msgspec.Struct):
    times: _Number = msgspec.field(name="Times")


class _Entry(msgspec.Struct):
    uid: str


class _Restart(msgspec.Struct):
    uid: str
    pods: list[_Entry] = []


_RETRIES: Final = msgspec.json.Decoder(dict[str, _Retries] | None)
_RESTARTS: Final = msgspec.json.Decoder(dict[str, _Restart] | None)


class RetryRecord:
    """The record of the scheduler. A malformed key counts as empty; the scheduler reports it."""

    def __init__(self, config_map: ConfigMap) -> None:
        self.source = config_map
        data = config_map.data or {}
        self._retries = _decoded(data.get(REMAINING_RETRIES, ""), _RETRIES)
        self._restarts = _decoded(data.get(RESCHEDULING_RESTARTS, ""), _RESTARTS)

    def left(self, group: str, job_uid: str, allowed: int) -> int:
        """The restarts that a job has left, at least 1 while one is under way. ``group``: namespace/name of its
        PodGroup; ``allowed``: the number that it asked for, of which none is used until there is an entry."""
        retries = self._retries.get(group)
        left = allowed if retries is None else retries.times
        return max(left, 1) if self.is_under_way(group, job_uid) else left

    def is_under_way(self, group: str, job_uid: str) -> bool:
        """Whether the scheduler restarts a job after a fault."""
        restart = self._restarts.get(group)
        return restart is not None and restart.uid == job_uid and bool(restart.pods)


def _decoded(text: str, decoder: "msgspec.json.Decoder[dict[str, T] | None]") -> dict[str, T]:
    try:
        return (decoder.decode(text) if text else None) or {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
