"""The readiness, status and restarts of a Pod, as ``kubectl get pods`` shows them.

The states of containers say more than the phase: a Pod whose container crashes repeatedly has the phase ``Running``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from scheduler.api.kinds import POD
from scheduler.api.names import POD_SCHEDULED
from scheduler.api.objects import ENDED_PHASES, KubeObject, PodCondition, PodSpec, Wire
from scheduler.api.pod_amounts import is_sidecar

GATED = "SchedulingGated"
_UNREACHABLE = "NodeLost"


class _Terminated(Wire):
    exit_code: int = 0
    reason: str = ""
    signal: int = 0
    finished_at: str | None = None


class _Waiting(Wire):
    reason: str = ""
    message: str = ""


class _State(Wire):
    terminated: _Terminated | None = None
    waiting: _Waiting | None = None
    running: dict[str, object] | None = None


class _ContainerStatus(Wire):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: _State | None = None
    last_state: _State | None = None


class _Status(Wire):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[PodCondition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class ListedPod(KubeObject):
    """A Pod with the fields of its row. The scheduler reads fewer fields of the status."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: _Status = msgspec.field(default_factory=_Status)


LISTED_POD: Final = POD.decoded_as(ListedPod)


@dataclass(frozen=True, slots=True)
class PodState:
    ready: int
    containers: int
    status: str
    restarts: int
    restarted: str | None = None
    """The time of the last restart, in Kubernetes' format; None if it is not known."""


def pod_state(pod: ListedPod) -> PodState:
    """Summarizes a Pod as kubectl does."""
    sidecars = {c.name for c in pod.spec.init_containers or () if is_sidecar(c)}
    starting = _init_status(pod, sidecars)
    statuses = pod.status.container_statuses or []
    init = pod.status.init_container_statuses or []
    ready = [s for s in statuses if s.ready and s.state and s.state.running is not None]
    ready_sidecars = [s for s in init if s.name in sidecars and s.started and s.ready]
    counted = init if starting else [*(s for s in init if s.name in sidecars), *statuses]
    return PodState(
        ready=len(ready_sidecars) + (0 if starting else len(ready)),
        containers=len(pod.spec.containers) + len(sidecars),
        status=_deletion_status(pod) or starting or _container_status(pod, statuses, bool(ready)),
        restarts=sum(s.restart_count for s in counted),
        restarted=max(filter(None, map(_last_end, counted)), default=None),
    )


def why_no_logs(pod: ListedPod, container: str) -> str:
    """Why a container of a Pod has written nothing: the phase of the Pod, and what the Pod or container waits for."""
    phase = f"its phase is {pod.status.phase}"
    conditions = pod.status.conditions or ()
    unscheduled = next((c for c in conditions if c.type == POD_SCHEDULED and c.status == "False"), None)
    if not pod.spec.node_name:
        why = unscheduled.message or unscheduled.reason if unscheduled is not None else ""
        return f"{phase}, and it has no node: {why}" if why else f"{phase}, and it has no node"
    statuses = [*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())]
    own = next((status.state for status in statuses if status.name == container and status.state is not None), None)
    if own is not None and (own.running is not None or own.terminated is not None):
        return f"{phase}, and container {container} has written nothing"
    waiting = [status.state.waiting for status in statuses if status.state is not None and status.state.waiting]
    message = next((each.message for each in waiting if each.message), pod.status.message)
    what = f"{phase}, and container {container} has not started on node {pod.spec.node_name}: {pod_state(pod).status}"
    return f"{what}: {message}" if message else what


def _last_end(status: _ContainerStatus) -> str | None:
    """When the last run of a container ended that was followed by a restart."""
    ended = status.last_state.terminated if status.last_state is not None else None
    return ended.finished_at if ended is not None else None


def _deletion_status(pod: ListedPod) -> str:
    if pod.metadata.deletion_timestamp is None:
        return ""
    if pod.status.reason == _UNREACHABLE:
        return "Unknown"
    return "" if pod.status.phase in ENDED_PHASES else "Terminating"


def _init_status(pod: ListedPod, sidecars: set[str]) -> str:
    """The status of the first init container that is not complete; "" if all are."""
    if any(c.type == "Initialized" and c.status == "True" for c in pod.status.conditions or ()):
        return ""
    for i, status in enumerate(pod.status.init_container_statuses or ()):
        state = status.state or _State()
        if state.terminated is not None and state.terminated.exit_code == 0:
            continue
        if status.name in sidecars and status.started:
            continue
        if state.terminated is not None:
            return f"Init:{_termination_reason(state.terminated)}"
        if state.waiting is not None and state.waiting.reason not in ("", "PodInitializing"):
            return f"Init:{state.waiting.reason}"
        return f"Init:{i}/{len(pod.spec.init_containers or ())}"
    return ""


def _container_status(pod: ListedPod, statuses: list[_ContainerStatus], some_ready: bool) -> str:
    """The reason of the first container that has one, else the Pod's own reason or phase."""
    found = next((reason for status in statuses if (reason := _reason(status))), "")
    if found == "Completed" and some_ready:
        return "Running" if _is_ready(pod) else "NotReady"
    gated = any(c.type == "PodScheduled" and c.reason == GATED for c in pod.status.conditions or ())
    return found or (GATED if gated else pod.status.reason or pod.status.phase)


def _reason(status: _ContainerStatus) -> str:
    state = status.state or _State()
    if state.waiting is not None and state.waiting.reason:
        return state.waiting.reason
    return _termination_reason(state.terminated) if state.terminated is not None else ""


def _termination_reason(terminated: _Terminated) -> str:
    if terminated.reason:
        return terminated.reason
    return f"Signal:{terminated.signal}" if terminated.signal else f"ExitCode:{terminated.exit_code}"


def _is_ready(pod: ListedPod) -> bool:
    conditions: Iterable[tuple[str, str]] = ((c.type, c.status) for c in pod.status.conditions or ())
    return ("Ready", "True") in conditions
