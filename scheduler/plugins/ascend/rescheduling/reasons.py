"""The ConfigMap with the history of restarts: ``mindx-dl/job-reschedule-reason``, as MindCluster's scheduler plugin
writes it. It follows from the recorded restarts, so a restart that it lacks is added later."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from scheduler.api.json_texts import json_problem
from scheduler.api.names import RESCHEDULING_HISTORY, RESCHEDULING_RECORDS
from scheduler.api.objects import ConfigMap
from scheduler.api.reasons import Malformed
from scheduler.plugins.ascend.cluster_reports import NAMESPACE
from scheduler.plugins.ascend.rescheduling.state import MAX_BYTES, Moment, Number, Restart

NAME: Final = RESCHEDULING_HISTORY
RECORDS: Final = RESCHEDULING_RECORDS
MAX_RECORDS: Final = 10
"""Records per job; older ones are dropped."""
_SHORTENED: Final = "older records were dropped for lack of room"


class TaskReason(msgspec.Struct, frozen=True, rename="pascal"):
    """A faulty Pod of a restart."""

    reschedule_reason: str = ""
    pod_name: str = ""
    node_name: str = ""
    node_rank_index: str = ""


class Record(msgspec.Struct, frozen=True, rename="pascal"):
    """One restart."""

    log_file_format_time: str = ""
    reschedule_time_stamp: Moment = 0
    reason_of_task: tuple[TaskReason, ...] = ()


class History(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True):
    """The restarts of one job, the latest first."""

    job_id: str = msgspec.field(name="JobID")
    total_reschedule_times: Number
    reschedule_records: tuple[Record, ...]
    additional_info: str = ""


Histories = dict[str, History]
_DECODER: Final = msgspec.json.Decoder(Histories | None)


def read(config_map: ConfigMap | None) -> tuple[Histories, list[Malformed]]:
    """Returns the histories by job. A malformed ConfigMap counts as empty."""
    text = (config_map.data or {}).get(RECORDS) if config_map is not None else None
    if not text:
        return {}, []
    try:
        return _DECODER.decode(text) or {}, []
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        problem = json_problem(text) or str(error)
        return {}, [Malformed("ConfigMap", NAMESPACE, NAME, f"data[{RECORDS}]", problem, "counts as empty")]


def completed(histories: Histories, restarts: Mapping[str, Restart], jobs: Collection[str]) -> Histories:
    """Returns the histories with the restarts that they lack, and without jobs that no longer exist. The same object if
    nothing changes."""
    missing = {
        key: restart
        for key, restart in restarts.items()
        if key not in histories or histories[key].total_reschedule_times < restart.number
    }
    gone = {key for key in histories if key not in jobs and key not in restarts}
    if not missing and not gone:
        return histories
    result = {key: history for key, history in histories.items() if key not in gone}
    for key, restart in missing.items():
        before = histories[key].reschedule_records if key in histories else ()
        result[key] = History(key, restart.number, (_record(restart), *before)[:MAX_RECORDS])
    return result


def data_of(histories: Histories) -> dict[str, str]:
    """Returns the data of the ConfigMap. If it is too large, only the latest record of each job is kept, and then only
    the numbers of restarts."""
    text = msgspec.json.encode(histories)
    for most in (1, 0):
        if len(text) > MAX_BYTES:
            histories = {
                key: History(key, history.total_reschedule_times, history.reschedule_records[:most], _SHORTENED)
                for key, history in histories.items()
            }
            text = msgspec.json.encode(histories)
    return {RECORDS: text.decode() if histories else ""}


def _record(restart: Restart) -> Record:
    moment = datetime.fromtimestamp(restart.time, UTC)
    reasons = tuple(TaskReason(each.fault, each.name, each.node, each.rank) for each in restart.reasons)
    return Record(moment.strftime("I%m%d %H:%M:%S"), restart.time, reasons)
