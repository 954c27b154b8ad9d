"""What a Pod is doing, in the words of ``kubectl get pods``: readiness, status and restarts.

Containers say more than the phase does: a Pod whose container crashes again and again is ``Running`` by its phase.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from scheduler.api.objects import ENDED_PHASES, KubeObject, PodCondition, PodSpec, Wire
from scheduler.api.pod_rules import is_sidecar

GATED = "SchedulingGated"
_UNREACHABLE = "NodeLost"


class _Terminated(Wire):
    exit_code: int = 0
    reason: str = ""
    signal: int = 0


class _Waiting(Wire):
    reason: str = ""


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


class _Status(Wire):
    phase: str = ""
    reason: str = ""
    conditions: list[PodCondition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None


class ListedPod(KubeObject):
    """A Pod with what its line tells; schedulers read less of the status."""

    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True, slots=True)
class PodState:
    ready: int
    containers: int
    status: str
    restarts: int


def pod_state(pod: ListedPod) -> PodState:
    """As kubectl's printer sums it up."""
    sidecars = {c.name for c in pod.spec.init_containers or () if is_sidecar(c)}
    starting = _starting(pod, sidecars)
    statuses = pod.status.container_statuses or []
    init = pod.status.init_container_statuses or []
    ready = [s for s in statuses if s.ready and s.state and s.state.running is not None]
    ready_sidecars = [s for s in init if s.name in sidecars and s.started and s.ready]
    counted = init if starting else [*(s for s in init if s.name in sidecars), *statuses]
    return PodState(
        ready=len(ready_sidecars) + (0 if starting else len(ready)),
        containers=len(pod.spec.containers) + len(sidecars),
        status=_leaving(pod) or starting or _running(pod, statuses, bool(ready)),
        restarts=sum(s.restart_count for s in counted),
    )


def _leaving(pod: ListedPod) -> str:
    if pod.metadata.deletion_timestamp is None:
        return ""
    if pod.status.reason == _UNREACHABLE:
        return "Unknown"
    return "" if pod.status.phase in ENDED_PHASES else "Terminating"


def _starting(pod: ListedPod, sidecars: set[str]) -> str:
    """What the first init container that has not done its part is about; "" if all have."""
    if any(c.type == "Initialized" and c.status == "True" for c in pod.status.conditions or ()):
        return ""
    for i, status in enumerate(pod.status.init_container_statuses or ()):
        state = status.state or _State()
        if state.terminated is not None and state.terminated.exit_code == 0:
            continue
        if status.name in sidecars and status.started:
            continue
        if state.terminated is not None:
            return f"Init:{_end(state.terminated)}"
        if state.waiting is not None and state.waiting.reason not in ("", "PodInitializing"):
            return f"Init:{state.waiting.reason}"
        return f"Init:{i}/{len(pod.spec.init_containers or ())}"
    return ""


def _running(pod: ListedPod, statuses: list[_ContainerStatus], some_ready: bool) -> str:
    """The first container that has something to say; otherwise the Pod's own reason or phase."""
    said = next((words for status in statuses if (words := _words(status))), "")
    if said == "Completed" and some_ready:
        return "Running" if _is_ready(pod) else "NotReady"
    gated = any(c.type == "PodScheduled" and c.reason == GATED for c in pod.status.conditions or ())
    return said or (GATED if gated else pod.status.reason or pod.status.phase)


def _words(status: _ContainerStatus) -> str:
    state = status.state or _State()
    if state.waiting is not None and state.waiting.reason:
        return state.waiting.reason
    return _end(state.terminated) if state.terminated is not None else ""


def _end(terminated: _Terminated) -> str:
    if terminated.reason:
        return terminated.reason
    return f"Signal:{terminated.signal}" if terminated.signal else f"ExitCode:{terminated.exit_code}"


def _is_ready(pod: ListedPod) -> bool:
    conditions: Iterable[tuple[str, str]] = ((c.type, c.status) for c in pod.status.conditions or ())
    return ("Ready", "True") in conditions
