"""The restarts that a job has left after a Pod has failed: the scheduler carries them out, and records them in its
ConfigMap ``vcjob-fault-npu-cm``."""

from collections.abc import Mapping
from typing import Annotated, Final, TypeVar

import msgspec

from scheduler.api.kinds import CONFIG_MAP
from scheduler.api.names import (
    FAULT_RETRY_TIMES,
    FAULT_SCHEDULING,
    REMAINING_RETRIES,
    RESCHEDULING_RESTARTS,
    RESCHEDULING_STATE,
    SYSTEM_NAMESPACE,
)
from scheduler.api.objects import ConfigMap
from scheduler.controllers.store import Store

T = TypeVar("T")
_Number = Annotated[int, msgspec.Meta(ge=0, lt=10**9)]


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


def retry_times(labels: Mapping[str, str]) -> int:
    """Restarts after failures of Pods, by the labels of a job."""
    return number_in(labels.get(FAULT_RETRY_TIMES, ""))


def restarts_follow(store: Store, group: str, job_uid: str, labels: Mapping[str, str]) -> bool:
    """Whether the scheduler restarts a job after the failure of a Pod: it is asked to, and retries remain. ``group``:
    namespace/name of its PodGroup; ``labels``: of the job. Without a record, none of the retries is used."""
    allowed = retry_times(labels)
    if not allowed or labels.get(FAULT_SCHEDULING, "off") == "off":
        return False
    config_map = store.get(CONFIG_MAP, SYSTEM_NAMESPACE, RESCHEDULING_STATE)
    return config_map is None or RetryRecord(config_map).left(group, job_uid, allowed) > 0


def number_in(text: str) -> int:
    """A number of up to nine digits; 0 for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _decoded(text: str, decoder: "msgspec.json.Decoder[dict[str, T] | None]") -> dict[str, T]:
    try:
        return (decoder.decode(text) if text else None) or {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
