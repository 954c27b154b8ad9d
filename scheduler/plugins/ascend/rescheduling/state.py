"""The ConfigMaps with the state and the history of rescheduling.

``volcano-system/vcjob-fault-npu-cm`` is the state. The keys ``fault-node`` and ``remain-retry-times`` are those of
MindCluster's scheduler plugin, and other components read them. The key ``restarts`` is this program's own: what each
restart deletes, so that a scheduler that is killed in between continues where its predecessor stopped. All keys are
written in one request, so the number of retries that remain and the restart that took one of them never disagree.

``mindx-dl/job-reschedule-reason`` is the history, as MindCluster's scheduler plugin writes it. It follows from the
recorded restarts, so a restart that it lacks is added later.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import structs

from scheduler.api.job import Job
from scheduler.api.json_texts import json_problem
from scheduler.api.names import (
    FAULT_NODES,
    REMAINING_RETRIES,
    RESCHEDULING_HISTORY,
    RESCHEDULING_RECORDS,
    RESCHEDULING_RESTARTS,
    RESCHEDULING_STATE,
    SYSTEM_NAMESPACE,
)
from scheduler.api.objects import ConfigMap
from scheduler.api.reasons import Malformed
from scheduler.plugins.ascend.cluster_reports import NAMESPACE

KEPT_TIME: Final = 300
"""Seconds for which the restart of a job without a PodGroup is kept, in addition to the time that Pods have to
stop."""
MAX_BYTES: Final = 950 * 1024
"""Bytes of data that a ConfigMap of this package may have; the API server stores up to a MiB."""
T = TypeVar("T")
Number = Annotated[int, msgspec.Meta(ge=0, lt=10**6)]
Moment = Annotated[int, msgspec.Meta(ge=0, lt=2**33)]
"""Unix seconds; larger values are no dates."""
MAX_RECORDS: Final = 10
"""Records of the history per job; older ones are dropped."""
_SHORTENED: Final = "older records were dropped for lack of room"


class ReportedFault(msgspec.Struct, frozen=True):
    """A fault of a chip, as the device plugin reports it (key ``...-Fault`` of its lists)."""

    fault_type: str = ""
    npu_name: str = ""
    fault_level: str = ""
    fault_handling: str = ""
    large_model_fault_level: str = ""
    fault_code: str = ""


class FaultNode(msgspec.Struct, frozen=True, rename="pascal"):
    """A node with a fault."""

    fault_device_list: tuple[ReportedFault, ...]
    node_name: str
    unhealthy: tuple[str, ...] | None = msgspec.field(name="UnhealthyNPU")
    """Names of chips; None: there are none."""
    network_unhealthy: tuple[str, ...] | None = msgspec.field(name="NetworkUnhealthyNPU")
    node_health_state: str
    update_time: Moment
    """Unix time since when this is so."""


class Retries(msgspec.Struct, frozen=True):
    """How many times a job may still restart after a Pod has failed."""

    uuid: str = msgspec.field(name="UUID")
    """uid of the owner of the PodGroup."""
    times: Annotated[int, msgspec.Meta(ge=0, lt=10**9)] = msgspec.field(name="Times")


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Pod that a restart deletes."""

    uid: str
    name: str
    node: str = ""
    rank: str = ""
    fault: str = ""
    """The kind of its fault; "": it is healthy and restarts with the others."""
    block: str = ""
    """The logical super pod of the Pod (annotation ``super-pod-rank``)."""


class Extent(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much of a job one of its restarts concerned."""

    number: Number
    """The number of the restart."""
    pods: Number
    """Number of Pods that were replaced, or marked for another component."""
    whole: bool = False
    """Whether they were all Pods of the job."""
    names: tuple[str, ...] = ()
    """The first of them, if they were not all."""


class Restart(msgspec.Struct, frozen=True, omit_defaults=True):
    """The latest restart of a job."""

    uid: str
    """The uid of the owner of the PodGroup, or of the PodGroup if it has none. Controllers create the PodGroup again
    when a job restarts."""
    number: Number
    """1 for the first restart of the job."""
    time: Moment
    """Unix time of the decision."""
    force: bool = False
    """The Pods are deleted without a grace period."""
    whole: bool = False
    """All Pods of the job are deleted."""
    external: bool = False
    """Another component deletes the Pods; the scheduler marks them."""
    pods: tuple[Entry, ...] = ()
    """The Pods that it deletes. Empty once all of them have replacements with nodes."""
    reasons: tuple[Entry, ...] = ()
    """The faulty Pods, without uids."""
    extents: tuple[Extent, ...] = ()
    """The extents of the latest restarts of the job, the latest first."""
    gone: Moment = 0
    """Unix time since when the PodGroup does not exist; 0: it exists."""

    @property
    def why(self) -> str:
        """Why the job restarts, for users."""
        texts = [
            f"{each.fault} of Pod {each.name}" + (f" on node {each.node}" if each.node else "") for each in self.reasons
        ]
        return ", ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else "")


@dataclass(slots=True)
class RestartState:
    """The content of the ConfigMap. Jobs by ``namespace/name`` of their PodGroups."""

    fault_nodes: tuple[FaultNode, ...] = ()
    retries: dict[str, Retries] = field(default_factory=dict)
    restarts: dict[str, Restart] = field(default_factory=dict)
    problems: list[Malformed] = field(default_factory=list)


def owner_of(job: Job) -> str:
    """Returns the uid by which a job is known over restarts (``Restart.uid``)."""
    return job.owner_uid or job.uid


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


_NODES: Final = msgspec.json.Decoder(tuple[FaultNode, ...] | None)
_RETRIES: Final = msgspec.json.Decoder(dict[str, Retries] | None)
_RESTARTS: Final = msgspec.json.Decoder(dict[str, Restart] | None)
_HISTORIES: Final = msgspec.json.Decoder(Histories | None)


def present(
    restarts: Mapping[str, Restart], jobs: Mapping[str, Job], now: float, kept_time: float
) -> dict[str, Restart]:
    """Returns the restarts of jobs that exist, or did until ``kept_time`` seconds ago."""
    result = {}
    for key, restart in restarts.items():
        job = jobs.get(key)
        if job is not None and owner_of(job) == restart.uid:
            result[key] = structs.replace(restart, gone=0) if restart.gone else restart
        elif job is None and not restart.gone:
            result[key] = structs.replace(restart, gone=int(now))
        elif job is None and now - restart.gone < kept_time:
            result[key] = restart
    return result


def read_state(config_map: ConfigMap | None) -> RestartState:
    """Returns the content of the ConfigMap with the state. A malformed key counts as empty."""
    state, name = RestartState(), RESCHEDULING_STATE
    if config_map is not None:
        state.fault_nodes = _decoded(config_map, name, FAULT_NODES, _NODES, state.problems) or ()
        state.retries = _decoded(config_map, name, REMAINING_RETRIES, _RETRIES, state.problems) or {}
        state.restarts = _decoded(config_map, name, RESCHEDULING_RESTARTS, _RESTARTS, state.problems) or {}
    return state


def state_data(state: RestartState) -> dict[str, str]:
    """Returns the data of the ConfigMap with the state."""
    documents: Mapping[str, object] = {
        FAULT_NODES: state.fault_nodes,
        REMAINING_RETRIES: state.retries,
        RESCHEDULING_RESTARTS: state.restarts,
    }
    return {key: msgspec.json.encode(value).decode() if value else "" for key, value in documents.items()}


def read_history(config_map: ConfigMap | None) -> tuple[Histories, list[Malformed]]:
    """Returns the histories by job. A malformed ConfigMap counts as empty."""
    problems: list[Malformed] = []
    if config_map is None:
        return {}, problems
    return _decoded(config_map, RESCHEDULING_HISTORY, RESCHEDULING_RECORDS, _HISTORIES, problems) or {}, problems


def _decoded(
    config_map: ConfigMap, name: str, key: str, decoder: "msgspec.json.Decoder[T]", problems: list[Malformed]
) -> T | None:
    text = (config_map.data or {}).get(key)
    if not text:
        return None
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        namespace = SYSTEM_NAMESPACE if name == RESCHEDULING_STATE else NAMESPACE
        problem = json_problem(text) or str(error)
        problems.append(Malformed("ConfigMap", namespace, name, f"data[{key}]", problem, "counts as empty"))
        return None


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


def history_data(histories: Histories) -> dict[str, str]:
    """Returns the data of the ConfigMap with the history. If it is too large, only the latest record of each job is
    kept, and then only the numbers of restarts."""
    text = msgspec.json.encode(histories)
    for most in (1, 0):
        if len(text) > MAX_BYTES:
            histories = {
                key: History(key, history.total_reschedule_times, history.reschedule_records[:most], _SHORTENED)
                for key, history in histories.items()
            }
            text = msgspec.json.encode(histories)
    return {RESCHEDULING_RECORDS: text.decode() if histories else ""}


def _record(restart: Restart) -> Record:
    moment = datetime.fromtimestamp(restart.time, UTC)
    reasons = tuple(TaskReason(each.fault, each.name, each.node, each.rank) for each in restart.reasons)
    return Record(moment.strftime("I%m%d %H:%M:%S"), restart.time, reasons)
