"""Makes dumps of a live cluster, one for each case, and reads the state of the workloads in a dump."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from controlplane.client import ApiError, Client
from scheduler.api.kinds import (
    ACJOB,
    BATCH_JOB,
    CRON_JOB,
    EVENT,
    HYPER_NODE,
    JOB_FLOW,
    KINDS,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    REPLICA_SET,
    RESOURCE_CLAIM,
    SECRET,
    VCJOB,
)
from scheduler.api.names import ASCEND_910, DEFAULT_QUEUE, DEVICE_INFO_CONFIGMAP_PREFIX, ROOT_QUEUE
from tests.integration.live.case import POOL

Raw = dict[str, Any]
State = dict[str, list[str]]
"""Maps the kind and name of an object, or of the owner of objects with generated names, to the states of these
objects."""
_LEFT_OUT: Final = {EVENT.name, SECRET.name}
_STATES: Final = frozenset(
    kind.name for kind in (POD, POD_GROUP, VCJOB, ACJOB, JOB_FLOW, CRON_JOB, QUEUE, RESOURCE_CLAIM, HYPER_NODE)
)
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
    """Returns the phases of workloads and queues, the phase and node of each Pod, and the allocations of claims."""
    every = list(objects)
    names = Aliases(every)
    result: State = defaultdict(list)
    for raw in every:
        if raw["kind"] in _STATES and raw["metadata"]["name"] not in (ROOT_QUEUE, DEFAULT_QUEUE):
            result[names.of(raw)].append(_summary(raw))
    return {key: sorted(values) for key, values in sorted(result.items())}


class Aliases:
    """The keys of objects in a state: kind and name, or the owner of objects with generated names."""

    def __init__(self, objects: Iterable[Raw]) -> None:
        self._named: dict[str, str] = {}
        """Maps the uid of each owner with a generated name to its key."""
        for raw in objects:
            meta, owner = raw["metadata"], _controller(raw)
            if raw["kind"] in _STATES and owner is not None and _generates(owner):
                self._named[meta["uid"]] = self.of(raw)

    def of(self, raw: Raw) -> str:
        kind, meta = raw["kind"], raw["metadata"]
        owner = _controller(raw)
        if owner is None:
            return f"{kind} {meta['name']}"
        if owner["uid"] in self._named:
            return f"{kind} of {self._named[owner['uid']]}"
        if kind not in (POD_GROUP.name, RESOURCE_CLAIM.name) and not _generates(owner):
            return f"{kind} {meta['name']}"
        name = owner["name"].rpartition("-")[0] if owner["kind"] == REPLICA_SET.name else owner["name"]
        return f"{kind} of {owner['kind']} {name}"


def _controller(raw: Raw) -> Raw | None:
    return next((each for each in raw["metadata"].get("ownerReferences") or () if each.get("controller")), None)


def _generates(owner: Raw) -> bool:
    """Whether the names of the objects that an object controls are generated."""
    return (owner["apiVersion"], owner["kind"]) in _GENERATING


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
        case RESOURCE_CLAIM.name:
            results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
            devices = sorted(f"{each['pool']}/{each['device']}" for each in results)
            return f"{' '.join(devices) or 'no device'}, reserved for {len(status.get('reservedFor') or ())}{going}"
        case HYPER_NODE.name:
            return f"{status.get('nodeCount') or 0} nodes"
        case _:
            return str(status.get("state")) + going
