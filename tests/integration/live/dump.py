"""Dumps of a live cluster, one for each case, and what has become of the workloads in a dump."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from controlplane.client import ApiError, Client
from scheduler.api.kinds import (
    ACJOB,
    BATCH_JOB,
    CRON_JOB,
    EVENT,
    JOB_FLOW,
    KINDS,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    REPLICA_SET,
    SECRET,
    VCJOB,
)
from scheduler.api.names import ASCEND_910, DEFAULT_QUEUE, DEVICE_INFO_CONFIGMAP_PREFIX, ROOT_QUEUE
from tests.integration.live.case import POOL

Raw = dict[str, Any]
State = dict[str, list[str]]
"""Kind and name of an object, or of the owner of objects with generated names -> what has become of each."""
_LEFT_OUT: Final = {EVENT.name, SECRET.name}
_STATES: Final = (POD.name, POD_GROUP.name, VCJOB.name, ACJOB.name, JOB_FLOW.name, CRON_JOB.name, QUEUE.name)
_GENERATING: Final = {(kind.api_version, kind.name) for kind in (REPLICA_SET, BATCH_JOB, CRON_JOB)}
"""The owners whose controllers generate names."""
_COUNTS: Final = ("pending", "running", "succeeded", "failed", "terminating", "unknown")


def dumps(api: Client, cases: Sequence[str], nodes: Sequence[str] = ()) -> dict[str, list[Raw]]:
    """The objects of each case as ``kubectl get -o yaml`` shows them, by the name of the case. ``nodes``: the names of
    nodes that are in all dumps."""
    found: dict[str, list[Raw]] = {name: [] for name in cases}
    for raw in _everything(api):
        meta = raw["metadata"]
        case = meta.get("namespace") or (meta.get("labels") or {}).get(POOL) or meta["name"]
        if meta["name"].startswith(DEVICE_INFO_CONFIGMAP_PREFIX):
            case = meta["name"].removeprefix(DEVICE_INFO_CONFIGMAP_PREFIX).rpartition("-")[0]
        if case in found:
            found[case].append(raw)
        elif _is_common(raw) or (raw["kind"] == NODE.name and meta["name"] in nodes):
            for objects in found.values():
                objects.append(raw)
    return found


def _is_common(raw: Raw) -> bool:
    """Whether an object is one that every cluster has."""
    name = raw["metadata"]["name"]
    if raw["kind"] == PRIORITY_CLASS.name:
        return str(name).startswith("system-")
    return raw["kind"] == QUEUE.name and name in (ROOT_QUEUE, DEFAULT_QUEUE)


def _everything(api: Client) -> Iterable[Raw]:
    for kind in KINDS:
        if kind.name in _LEFT_OUT:
            continue
        try:
            items = api.get(kind.path)["items"]
        except ApiError as error:
            assert error.status == 404  # the API server does not have the kind
            continue
        for item in items:
            yield {"apiVersion": kind.api_version, "kind": kind.name, **item}


# --- what has become of it --------------------------------------------------------------------------------------------
def state(objects: Iterable[Raw]) -> State:
    """The phases of workloads and queues, and phase and node of each Pod."""
    result: State = defaultdict(list)
    for raw in objects:
        if raw["kind"] in _STATES and raw["metadata"]["name"] not in (ROOT_QUEUE, DEFAULT_QUEUE):
            result[alias(raw)].append(_summary(raw))
    return {key: sorted(values) for key, values in sorted(result.items())}


def alias(raw: Raw) -> str:
    """The key of an object in a state."""
    kind, meta = raw["kind"], raw["metadata"]
    owner = next((each for each in meta.get("ownerReferences") or () if each.get("controller")), None)
    generated = owner is not None and (kind == POD_GROUP.name or (owner["apiVersion"], owner["kind"]) in _GENERATING)
    if owner is None or not generated:
        return f"{kind} {meta['name']}"
    name = owner["name"].rpartition("-")[0] if owner["kind"] == "ReplicaSet" else owner["name"]
    return f"{kind} of {owner['kind']} {name}"


def _summary(raw: Raw) -> str:
    status, spec = raw.get("status") or {}, raw.get("spec") or {}
    going = " terminating" if raw["metadata"].get("deletionTimestamp") else ""
    match raw["kind"]:
        case POD.name:
            chips = (raw["metadata"].get("annotations") or {}).get(ASCEND_910, "")
            return f"{status.get('phase')} on {spec.get('nodeName') or 'no node'} {chips}{going}"
        case POD_GROUP.name:
            return str(status.get("phase")) + going
        case VCJOB.name | JOB_FLOW.name:
            phase = (status.get("state") or {}).get("phase")
            counts = [f"{status[name]} {name}" for name in _COUNTS if status.get(name)]
            return ", ".join([str(phase), *counts, f"retries {status.get('retryCount') or 0}"]) + going
        case ACJOB.name:
            conditions = [c["type"] for c in status.get("conditions") or () if c.get("status") == "True"]
            return " ".join(conditions) + going
        case CRON_JOB.name:
            return f"{len(status.get('active') or ())} active"
        case _:
            return str(status.get("state")) + going
