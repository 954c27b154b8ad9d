"""What the kubelet of a simulated node does next: it starts, ends and removes Pods, and reports its node."""

from collections.abc import Sequence

from scheduler.api.names import ASCEND_REAL, PREDICATE_TIME, UNEXPECTED_ADMISSION
from scheduler.api.times import DurationError, format_timestamp, parse_duration, parse_timestamp
from scheduler.playground.device_plugin import (
    AdmissionError,
    PodDevices,
    allocate,
    annotations_for,
    in_allocation_order,
    kubelet_decides,
    swap_message,
)
from scheduler.playground.faults import Faults, Kubelet
from scheduler.playground.node import Holdings, Machine, read_holdings, resources_of
from scheduler.playground.objects import (
    CONSUMED,
    EXIT_CODE,
    KUBELET_DEVICES,
    NODE,
    POD,
    RUNS_FOR,
    SWAPPED,
    Container,
    Json,
    Patch,
    Remove,
    SimulatedNode,
    SimulatedPod,
    Step,
    Warn,
    annotations_of,
    whole_number,
)

MALFORMED = "MalformedAnnotation"


def next_step(machine: Machine, node: SimulatedNode, faults: Faults, pods: Sequence[SimulatedPod], now: float) -> Step:
    """What happens next on a node; a step without writes if nothing does.

    ``pods``: its Pods, in the order in which the kubelet learned of them; ``now``: seconds since the epoch.
    """
    step = Step()
    holdings = read_holdings(machine.family, pods)
    _report_node(step, machine, node, faults, holdings, now)
    if step.writes or faults.kubelet is Kubelet.STOPPED:
        return step
    for pod in pods:
        if pod.metadata.deletion_timestamp:
            step.writes.append(Remove(POD, pod.metadata.namespace, pod.metadata.name, pod.metadata.uid))
        elif not pod.ended and pod.status.phase == "Running":
            _end_if_due(step, pod, now)
        elif not pod.ended and not step.writes:
            _start(step, machine, faults, pods, holdings, pod, now)
    return step


def _report_node(
    step: Step, machine: Machine, node: SimulatedNode, faults: Faults, holdings: Holdings, now: float
) -> None:
    """Reports the amounts of working devices, and whether the node is ready."""
    running = faults.kubelet is Kubelet.RUNNING
    status: Json = {}
    ready = next((each.status for each in node.status.conditions or () if each.type == "Ready"), "")
    if ready != ("True" if running else "Unknown"):
        status |= ready_conditions(now, running=running)
    amounts = machine.amounts(faults.broken(holdings.used))
    allocatable = node.status.allocatable or {}
    if running and any(str(allocatable.get(name)) != str(amount) for name, amount in amounts.items()):
        status["allocatable"] = {name: str(amount) for name, amount in amounts.items()}
    if status:
        step.writes.append(Patch(NODE, node.metadata, {"status": status}, "status"))


def ready_conditions(now: float, *, running: bool = True) -> Json:
    """The conditions of a Node. Those of a kubelet that stopped are what the node lifecycle controller writes."""
    time = format_timestamp(now)
    word = "True" if running else "Unknown"
    ready = {
        "type": "Ready",
        "status": word,
        "reason": "KubeletReady",
        "message": "simulated",
        "lastTransitionTime": time,
    }
    if running:
        ready["lastHeartbeatTime"] = time
    else:
        ready |= {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    return {"conditions": [ready]}


def _start(
    step: Step,
    machine: Machine,
    faults: Faults,
    pods: Sequence[SimulatedPod],
    holdings: Holdings,
    pod: SimulatedPod,
    now: float,
) -> None:
    """Admits a Pod, has its devices mounted, and reports that it runs."""
    try:
        if KUBELET_DEVICES not in annotations_of(pod):
            _mount(step, machine, faults, pods, holdings, pod)
    except AdmissionError as error:
        message = f"Allocate failed due to {error}, which is unexpected"
        failed = {"phase": "Failed", "reason": UNEXPECTED_ADMISSION, "message": f"Pod was rejected: {message}"}
        step.writes += [
            Patch(POD, pod.metadata, {"status": failed}, "status"),
            Warn(POD, pod.metadata, UNEXPECTED_ADMISSION, message),
        ]
        step.news.append(f"Pod {pod.key} was rejected: {message}")
        return
    taken = {other.status.pod_ip for other in pods if other.status.pod_ip and not other.ended}
    step.writes.append(Patch(POD, pod.metadata, {"status": _running(machine, pod, taken, now)}, "status"))
    if not step.news:
        step.news.append(f"Pod {pod.key} runs")


def _mount(
    step: Step,
    machine: Machine,
    faults: Faults,
    pods: Sequence[SimulatedPod],
    holdings: Holdings,
    pod: SimulatedPod,
) -> None:
    """Raises AdmissionError."""
    found: PodDevices | None = None
    for resource in resources_of(machine):
        again = True
        for amount, ends in in_allocation_order(pod, resource):
            if found is None:
                found = allocate(machine, faults, pods, holdings, resource, amount)
            elif not again or not kubelet_decides(machine, resource, amount) or amount != len(found.kubelet):
                raise AdmissionError(f"{resource}: only one container of a Pod can have devices")
            again = ends
    if found is None:
        return
    annotations = annotations_for(machine, pod, found)
    chosen = found.chosen
    if chosen is not None and chosen.metadata.uid != pod.metadata.uid:
        step.writes.append(Patch(POD, chosen.metadata, {"metadata": {"annotations": {PREDICATE_TIME: CONSUMED}}}))
        message = swap_message(annotations[ASCEND_REAL], chosen.key)
        step.writes.append(Warn(POD, pod.metadata, SWAPPED, message))
        step.news.append(f"Pod {pod.key}: {message}")
    elif PREDICATE_TIME in annotations_of(pod):
        annotations[PREDICATE_TIME] = CONSUMED
    step.writes.append(Patch(POD, pod.metadata, {"metadata": {"annotations": annotations}}))
    step.news.append(f"Pod {pod.key} runs with {', '.join(found.mounted)}")


def _end_if_due(step: Step, pod: SimulatedPod, now: float) -> None:
    """Ends a Pod whose time is over."""
    annotations = annotations_of(pod)
    if RUNS_FOR not in annotations:
        return
    try:
        seconds = parse_duration(annotations[RUNS_FOR])
    except DurationError:
        return
    left = (parse_timestamp(pod.status.start_time) or now) + seconds - now
    if left > 0:
        step.after = left if step.after is None else min(step.after, left)
        return
    code = _exit_code(pod)
    code = 1 if code is None else code
    step.writes.append(Patch(POD, pod.metadata, {"status": _ended(pod, code, now)}, "status"))
    step.news.append(f"Pod {pod.key} ended with exit code {code}")


def pod_problem(pod: SimulatedPod) -> tuple[str, str] | None:
    """The first annotation of the playground on a Pod that is malformed, and why."""
    annotations = annotations_of(pod)
    try:
        parse_duration(annotations.get(RUNS_FOR, "0"))
    except DurationError as error:
        return RUNS_FOR, str(error)
    if _exit_code(pod) is None:
        return EXIT_CODE, f"{annotations[EXIT_CODE]!r:.66} is not a number from 0 to 255"
    return None


def _exit_code(pod: SimulatedPod) -> int | None:
    """The exit code with which a Pod ends; None if the annotation is malformed."""
    code = whole_number(annotations_of(pod).get(EXIT_CODE, "0"))
    return code if code is not None and code < 256 else None


def _running(machine: Machine, pod: SimulatedPod, taken: set[str], now: float) -> Json:
    time = format_timestamp(now)
    types = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    address = machine.pod_address(taken)
    running = {"running": {"startedAt": time}}
    return {
        "phase": "Running",
        "startTime": time,
        "hostIP": machine.address,
        "hostIPs": [{"ip": machine.address}],
        **({"podIP": address, "podIPs": [{"ip": address}]} if address else {}),
        "conditions": [{"type": type, "status": "True", "lastTransitionTime": time} for type in types],
        "containerStatuses": [_status(each, running, ready=True) for each in pod.spec.containers or ()],
        "initContainerStatuses": [
            _status(each, running if each.restart_policy == "Always" else _terminated(0, time), ready=True)
            for each in pod.spec.init_containers or ()
        ],
    }


def _ended(pod: SimulatedPod, code: int, now: float) -> Json:
    time = format_timestamp(now)
    reason = "PodFailed" if code else "PodCompleted"
    return {
        "phase": "Failed" if code else "Succeeded",
        "conditions": [
            {"type": type, "status": "False", "reason": reason, "lastTransitionTime": time}
            for type in ("ContainersReady", "Ready")
        ],
        "containerStatuses": [
            _status(each, _terminated(code, time), ready=False) for each in pod.spec.containers or ()
        ],
    }


def _status(container: Container, state: Json, *, ready: bool) -> Json:
    common = {"name": container.name, "image": container.image, "imageID": "", "restartCount": 0}
    return {**common, "ready": ready, "started": ready, "state": state}


def _terminated(code: int, time: str) -> Json:
    reason = "Error" if code else "Completed"
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": time, "finishedAt": time}}
