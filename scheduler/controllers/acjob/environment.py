"""The environment variables of the container ``ascend``, by which the frameworks find each other.

As the Ascend operator sets them. A variable that the template sets is replaced. By some of them, PyTorch and MindSpore
recover from faults of processes: annotation ``recover-strategy``, labels ``pod-rescheduling`` and
``subHealthyStrategy``.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from scheduler.api.acjob import (
    MINDSPORE,
    PORT,
    PORT_NAME,
    PYTORCH,
    WORKER,
    AscendJob,
    JobRoles,
    Role,
    requested_keys,
    variables_of,
)
from scheduler.api.names import (
    ASCEND_310,
    ASCEND_310P,
    ASCEND_710,
    ASCEND_910,
    MINDIE_APP,
    MINDIE_JOB,
    NPU,
    POD_RESCHEDULING,
    RECOVER_STRATEGY,
    SOFT_SHARE,
    SUB_HEALTHY_STRATEGY,
    SUPER_POD_AFFINITY,
    SUPER_POD_RANK,
    SUPER_POD_SOFT,
)
from scheduler.controllers.ranktable.workloads import block_chips

Json = dict[str, Any]
CLUSTERD: Final = "clusterd-grpc-svc"
CLUSTERD_NAMESPACE: Final = "mindx-dl"
CLUSTERD_DOMAIN: Final = f"{CLUSTERD}.{CLUSTERD_NAMESPACE}.svc.cluster.local"
_WHOLE_CHIPS: Final = frozenset({ASCEND_910, ASCEND_310, ASCEND_310P, ASCEND_710, NPU})


class Addresses(NamedTuple):
    """The addresses of Services."""

    leader: str
    """Cluster IP of the Service of the leader, or ""."""
    clusterd: str
    """Cluster IP of ClusterD's Service, or its domain name."""


def environment(job: AscendJob, roles: JobRoles, role: Role, index: int, addresses: Addresses) -> list[Json]:
    """The variables of one Pod; none for a MindSpore job without a Scheduler."""
    if is_mindie(job):
        return [*_mindie(job, addresses)]
    if roles.framework == MINDSPORE and roles.leader is None:
        return []
    rank = roles.rank(role, index)
    variables = [*_common(job, role, rank, addresses)]
    if not roles.chip_pods:
        return variables
    sizes = _Sizes.of(job, roles, role)
    if roles.framework == PYTORCH:
        variables += _pytorch(roles, sizes, rank, addresses)
    elif roles.framework == MINDSPORE:
        variables += _mindspore(roles, role, sizes, rank, addresses)
    else:
        variables += _tensorflow(roles, role, sizes, rank, addresses)
    own = {each["name"]: each.get("value") or "" for each in variables_of(role.template)}
    return [*variables, *(_value(*each) for each in recovery(job, roles.framework, own).items())]


class _Sizes(NamedTuple):
    """The numbers of ranks that the environment states."""

    local: int
    """Ranks of a Pod."""
    world: int
    """Ranks of the job."""
    known: bool
    """Pods have whole chips, or share them."""

    @classmethod
    def of(cls, job: AscendJob, roles: JobRoles, role: Role) -> "_Sizes":
        sized = roles.sized(role)
        local = 1 if shares_chips(job) else sized.chips
        return cls(local, local * roles.chip_pods, not sized.cuts_chips)


def is_mindie(job: AscendJob) -> bool:
    """Whether the job is one of MindIE, an inference service."""
    labels = job.metadata.labels or {}
    return MINDIE_JOB in labels and MINDIE_APP in labels


def shares_chips(job: AscendJob) -> bool:
    """Whether the Pods have quotas of chips that they share."""
    return all(label in (job.metadata.labels or {}) for label in SOFT_SHARE)


def _value(name: str, value: object) -> Json:
    return {"name": name, "value": str(value)}


def _field(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _mindie(job: AscendJob, addresses: Addresses) -> Iterator[Json]:
    labels = job.metadata.labels or {}
    yield _value("MINDX_TASK_ID", labels[MINDIE_JOB])
    yield _value("APP_TYPE", labels[MINDIE_APP])
    yield from _clusterd(addresses)


def _clusterd(addresses: Addresses) -> Iterator[Json]:
    yield _value("MINDX_SERVER_IP", addresses.clusterd)
    yield _value("MINDX_SERVER_DOMAIN", CLUSTERD_DOMAIN)


def _common(job: AscendJob, role: Role, rank: int, addresses: Addresses) -> Iterator[Json]:
    keys = requested_keys(role.template)
    if role.resource in _WHOLE_CHIPS and _WHOLE_CHIPS.issuperset(keys) and not shares_chips(job):
        yield _field("ASCEND_VISIBLE_DEVICES", f"metadata.annotations['{role.resource}']")
    yield _value("MINDX_TASK_ID", job.metadata.uid)
    yield from _clusterd(addresses)
    yield _value("HostNetwork", str(bool((role.template.get("spec") or {}).get("hostNetwork"))).lower())
    if role.resource:
        if (job.metadata.labels or {}).get(SUPER_POD_AFFINITY) == SUPER_POD_SOFT and role.resource != NPU:
            yield _field("HCCL_LOGIC_SUPERPOD_ID", f"metadata.annotations['{SUPER_POD_RANK}']")
        else:
            yield _value("HCCL_LOGIC_SUPERPOD_ID", _super_pod(job, role, rank))
    yield _value("REPLICA_TYPE", role.type)


def _super_pod(job: AscendJob, role: Role, rank: int) -> int:
    """Number of the logical super pod of a Pod."""
    chips = block_chips(job.metadata.annotations or {}, role.chips)
    return rank // max(1, chips // role.chips) if chips and role.chips else 0


def _pytorch(roles: JobRoles, sizes: _Sizes, rank: int, addresses: Addresses) -> Iterator[Json]:
    if sizes.known:
        yield _value("LOCAL_WORLD_SIZE", sizes.local)
        yield _value("WORLD_SIZE", sizes.world)
        yield _value("LOCAL_RANK", ",".join(map(str, range(sizes.local))))
    yield _value("MASTER_ADDR", addresses.leader)
    yield _value("MASTER_PORT", leader_port(roles))
    yield _value("RANK", rank)


def _mindspore(roles: JobRoles, role: Role, sizes: _Sizes, rank: int, addresses: Addresses) -> Iterator[Json]:
    leads = role.type != WORKER
    yield _field("MS_SCHED_HOST", "status.podIP") if leads else _value("MS_SCHED_HOST", addresses.leader)
    if sizes.known:
        yield _value("MS_LOCAL_WORKER", sizes.local)
        yield _value("MS_WORKER_NUM", sizes.world)
    yield _value("MS_NODE_RANK", rank)
    yield _value("MS_SCHED_PORT", leader_port(roles))
    yield _value("MS_SERVER_NUM", 0)
    yield _value("MS_ROLE", "MS_SCHED" if leads else "MS_WORKER")
    yield _value("NPU_POD", str(bool(role.chips)).lower())


def _tensorflow(roles: JobRoles, role: Role, sizes: _Sizes, rank: int, addresses: Addresses) -> Iterator[Json]:
    leads = role.type != WORKER
    yield _field("CM_CHIEF_IP", "status.podIP") if leads else _value("CM_CHIEF_IP", addresses.leader)
    if sizes.known:
        yield _value("CM_LOCAL_WORKER", sizes.local)
        yield _value("CM_WORKER_SIZE", sizes.world)
    yield _value("CM_CHIEF_PORT", leader_port(roles))
    yield _value("CM_RANK", rank)
    yield _value("CM_CHIEF_DEVICE", 0)
    yield _field("CM_WORKER_IP", "status.podIP")


def leader_port(roles: JobRoles) -> int:
    """The port that the leader listens on."""
    leader = roles.leader
    spec: Mapping[str, Any] = {} if leader is None else leader.template.get("spec") or {}
    for container in spec.get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == PORT_NAME and isinstance(port.get("containerPort"), int):
                return int(port["containerPort"])
    return PORT


# --- recovery from faults ---------------------------------------------------------------------------------------------
_ON: Final = "on"
_HOT_SWITCH: Final = "hotSwitch"
_AVAILABILITY: Final = "HIGH_AVAILABILITY"
"""PyTorch: words, separated by commas."""
_TFT: Final = "MS_ENABLE_TFT"
"""MindSpore: words, separated by commas, in braces."""
_RESCHEDULING: Final = "RSC:1"
_RECOVERY: Final = {"PROCESS_RECOVER": _ON, "ELASTIC_PROCESS_RECOVER_ENABLE": "1"}
_MINDIO: Final = {"MINDIO_FOR_MINDSPORE": "1"}


class _Strategy(NamedTuple):
    """The words and variables that a word of the annotation turns on."""

    pytorch: tuple[str, ...] = ()
    mindspore: tuple[str, ...] = ()
    variables: Mapping[str, str] = _RECOVERY


_STRATEGIES: Final[Mapping[str, _Strategy]] = {
    "recover": _Strategy(("recover",), ("ARF:1",)),
    "exit": _Strategy(("recover",), ("ARF:1",)),
    "retry": _Strategy(("retry",), ("UCE:1", "HCCE:1")),
    "dump": _Strategy(("dump",), ("TTP:1",)),
    "recover-in-place": _Strategy(("recover",), ("ARF:1",), {**_RECOVERY, "ENABLE_RESTART_FAULT_PROCESS": _ON}),
}
_ELASTIC: Final = _Strategy(("elastic-training",), (), {"PROCESS_RECOVER": _ON})
"""PyTorch only."""


def recovery(job: AscendJob, framework: str, template: Mapping[str, str]) -> dict[str, str]:
    """The variables of a Pod; none for TensorFlow. ``template``: the variables that its template sets."""
    if framework == PYTORCH:
        return _pytorch_recovery(job, template)
    return _mindspore_recovery(job, template) if framework == MINDSPORE else {}


def _pytorch_recovery(job: AscendJob, template: Mapping[str, str]) -> dict[str, str]:
    strategies = list(_strategies(job, {**_STRATEGIES, "elastic-training": _ELASTIC}))
    found = _turned_on(strategies)
    if _annotation(job):
        found["HCCL_ASYNC_ERROR_HANDLING"] = "0"
        found[_AVAILABILITY] = _joined(word for each in strategies for word in each.pytorch)
    if _is_hot_switch(job):
        known = found.get(_AVAILABILITY, template.get(_AVAILABILITY, ""))
        found |= {_AVAILABILITY: _joined([*known.split(","), "recover"]), **_RECOVERY}
    return found


def _mindspore_recovery(job: AscendJob, template: Mapping[str, str]) -> dict[str, str]:
    strategies = list(_strategies(job, _STRATEGIES))
    found = _turned_on(strategies)
    reschedules = [_RESCHEDULING] if (job.metadata.labels or {}).get(POD_RESCHEDULING) == _ON else []
    if _annotation(job):
        found[_TFT] = _braced([*(word for each in strategies for word in each.mindspore), *reschedules])
        found |= {**_MINDIO, "MS_ENABLE_THM": "{HCCL_WATCHDOG:0}"}
    elif reschedules and _TFT not in template:
        found[_TFT] = _braced(reschedules)
    if _is_hot_switch(job):
        known = found.get(_TFT, template.get(_TFT, "")).strip().removeprefix("{").removesuffix("}")
        found |= {_TFT: _braced([*known.split(","), "ARF:1"]), **_MINDIO, **_RECOVERY}
    return found


def _annotation(job: AscendJob) -> str:
    return (job.metadata.annotations or {}).get(RECOVER_STRATEGY, "")


def _strategies(job: AscendJob, known: Mapping[str, _Strategy]) -> Iterator[_Strategy]:
    """Yields the strategies of the annotation. Unknown words are ignored, as by the operator."""
    for word in _annotation(job).split(","):
        if word.strip() in known:
            yield known[word.strip()]


def _turned_on(strategies: Iterable[_Strategy]) -> dict[str, str]:
    return {name: value for each in strategies for name, value in each.variables.items()}


def _is_hot_switch(job: AscendJob) -> bool:
    return (job.metadata.labels or {}).get(SUB_HEALTHY_STRATEGY) == _HOT_SWITCH


def _joined(words: Iterable[str]) -> str:
    return ",".join(sorted({word.strip() for word in words} - {""}))


def _braced(words: Iterable[str]) -> str:
    return f"{{{_joined(words)}}}"
