"""The section of ``job view`` about restarts after faults: how often, why, and how many retries remain."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from scheduler.api.messages import listed
from scheduler.api.names import FAULT_RETRY_TIMES, FAULT_SCHEDULING
from scheduler.cli.connection import Cluster
from scheduler.cli.errors import CommandError
from scheduler.cli.job.fields import Field
from scheduler.cli.text import age
from scheduler.cli.view import read_object

if TYPE_CHECKING:
    from scheduler.api.objects import ConfigMap
    from scheduler.plugins.ascend.rescheduling.state import Extent, Record, Restart

_EXTERNAL: Final = "external-"


async def restarts(cluster: Cluster, labels: Mapping[str, str], key: str, now: float) -> list[Field]:
    """Fetches the restarts of a job and returns the lines of the section; none for a job without the label
    ``fault-scheduling``. ``labels``: of the job or its Pods; ``key``: namespace/name of its PodGroup, which does not
    exist at times; ``now``: Unix time."""
    from scheduler.api.names import RESCHEDULING_HISTORY, RESCHEDULING_STATE, SYSTEM_NAMESPACE
    from scheduler.plugins.ascend.cluster_reports import NAMESPACE
    from scheduler.plugins.ascend.rescheduling.state import read_history, read_state

    if FAULT_SCHEDULING not in labels:
        return []
    lines: list[Field] = [(0, "Rescheduling", None), (1, "Strategy", labels[FAULT_SCHEDULING])]
    try:
        known = read_state(await _config_map(cluster, SYSTEM_NAMESPACE, RESCHEDULING_STATE))
        histories, problems = read_history(await _config_map(cluster, NAMESPACE, RESCHEDULING_HISTORY))
    except CommandError as error:
        return [*lines, (1, "History", f"not readable: {error}")]
    problem = next(iter([*known.problems, *problems]), None)
    if problem is not None:
        lines.append((1, "Warning", f"ConfigMap {problem.namespace}/{problem.name}: {problem.message}"))
    if key in known.retries:
        of = f" of {labels[FAULT_RETRY_TIMES]}" if FAULT_RETRY_TIMES in labels else ""
        lines.append((1, "Retries Left", f"{known.retries[key].times}{of}"))
    restart, history = known.restarts.get(key), histories.get(key)
    lines.append(
        (1, "Restarts", max(restart.number if restart else 0, history.total_reschedule_times if history else 0))
    )
    if restart is not None and restart.pods:
        lines.append((1, "In Progress", _progress(restart)))
    extents = {extent.number: extent for extent in restart.extents} if restart is not None else {}
    external = labels[FAULT_SCHEDULING].startswith(_EXTERNAL)
    if history is not None:
        number = history.total_reschedule_times
        lines += [
            (1, f"Restart {number - i}", text)
            for i, record in enumerate(history.reschedule_records)
            for text in _texts(record, extents.get(number - i), external, now)
        ]
    return lines


async def _config_map(cluster: Cluster, namespace: str, name: str) -> "ConfigMap | None":
    """Fetches a ConfigMap; None if it does not exist. Raises CommandError."""
    from scheduler.api.kinds import CONFIG_MAP

    try:
        found: ConfigMap | None = read_object(CONFIG_MAP, await cluster.get(CONFIG_MAP, namespace, name))
    except CommandError as error:
        if error.status == 404:
            return None
        raise
    return found


def _progress(restart: "Restart") -> str:
    pods, names = "all Pods" if restart.whole else "Pods", listed([entry.name for entry in restart.pods], 3)
    return f"restart {restart.number}: {pods} are deleted and replaced ({names})"


def _texts(record: "Record", extent: "Extent | None", external: bool, now: float) -> Iterator[str]:
    """One restart: what failed, and which Pods were replaced. ``external``: they were only marked."""
    from scheduler.api.times import format_timestamp

    when = age(format_timestamp(record.reschedule_time_stamp), now)
    for reason in record.reason_of_task:
        where = f" on node {reason.node_name}" if reason.node_name else ""
        rank = f" (rank {reason.node_rank_index})" if reason.node_rank_index else ""
        yield f"{when} ago: {reason.reschedule_reason} of Pod {reason.pod_name}{where}{rank}"
    if extent is not None:
        yield f"{when} ago: {_outcome(extent, 'marked' if external else 'replaced')}"
    elif not record.reason_of_task:
        yield f"{when} ago"


def _outcome(extent: "Extent", done: str) -> str:
    """``done``: ``replaced``, or ``marked``."""
    if extent.whole:
        return f"the only Pod was {done}" if extent.pods == 1 else f"all {extent.pods} Pods were {done}"
    names = ", ".join(extent.names)
    if extent.pods == 1:
        return f"Pod {names} was {done}"
    more = f" and {extent.pods - len(extent.names)} more" if extent.pods > len(extent.names) else ""
    return f"{extent.pods} Pods ({names}{more}) were {done}"
