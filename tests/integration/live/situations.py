"""Situations on a live cluster, and what may happen to them next.

Each function builds a case from random numbers; ``cases`` takes them in turn.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from scheduler.api.kinds import (
    ACJOB,
    BATCH_JOB,
    CRON_JOB,
    DEPLOYMENT,
    JOB_FLOW,
    NODE,
    POD,
    QUEUE,
    STATEFUL_SET,
    VCJOB,
    Kind,
)
from tests.integration.live.case import FINALIZER, HELD, Case

SEED: Final = 31
Situation = Callable[[Case], None]
_END: Final = {"volcano-py.test/outcome": "succeed"}
_FAIL: Final = {"volcano-py.test/outcome": "fail"}


def cases(number: int, seed: int = SEED) -> list[Case]:
    """``number`` cases, the same for the same seed."""
    found = []
    for index in range(number):
        situation = SITUATIONS[index % len(SITUATIONS)]
        case = Case(f"live-{index:03d}", Random(f"{seed}/{index}"))
        situation(case)
        found.append(case)
    return found


def title(index: int) -> str:
    """The name of the situation of a case."""
    return SITUATIONS[index % len(SITUATIONS)].__name__.strip("_")


# --- jobs that wait for room ------------------------------------------------------------------------------------------
def _gang_waits_for_nodes(case: Case) -> None:
    size, cpu = case.random.randint(2, 4), case.random.randint(1, 3)
    case.add(case.node("n1", cpu * (size - 1)), case.vcjob("big", case.task("w", size, cpu)))
    case.waiting = ("job", "big")
    case.changes = [case.node("n2", cpu * case.random.randint(1, 2))]


def _gang_waits_as_explain_says(case: Case) -> None:
    size, cpu = case.random.randint(2, 5), case.random.randint(1, 3)
    case.add(case.node("n1", cpu), case.vcjob("big", case.task("w", size, cpu)))
    case.waiting, case.advised = ("job", "big"), True


def _gang_waits_for_a_cordoned_node(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    taint = {"key": "maintenance", "value": "yes", "effect": "NoSchedule"}
    blocked: dict[str, object] = case.random.choice([{"unschedulable": True}, {"taints": [taint]}])
    case.add(case.node("n1", cpu), case.node("n2", cpu, spec=blocked), case.vcjob("big", case.task("w", 2, cpu)))
    case.waiting = ("job", "big")
    case.changes = [case.merge(NODE, f"{case.name}-n2", spec=dict.fromkeys(blocked))]


def _gang_waits_for_a_node_that_is_not_ready(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    broken = case.node("n2", cpu, annotations={"volcano-py.test/ready": "false"})
    broken["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    case.add(case.node("n1", cpu), broken, case.vcjob("big", case.task("w", 2, cpu)))
    case.waiting = ("job", "big")
    case.changes = [case.merge(NODE, f"{case.name}-n2", status={"conditions": [{"type": "Ready", "status": "True"}]})]


def _gang_waits_for_capability(case: Case) -> None:
    size, cpu = case.random.randint(2, 4), case.random.randint(1, 3)
    case.steps[0][0] = case.queue(cpu=str(size * cpu - 1))
    case.add(case.node("n1", 32), case.vcjob("big", case.task("w", size, cpu)))
    case.waiting = ("job", "big")
    if case.random.random() < 0.5:
        case.advised = True
    else:
        case.changes = [case.merge(QUEUE, case.name, spec={"capability": {"cpu": str(size * cpu)}})]


def _gang_waits_for_another_job(case: Case) -> None:
    size, cpu = case.random.randint(2, 3), case.random.randint(1, 3)
    case.add(case.node("n1", size * cpu), case.vcjob("first", case.task("w", size, cpu)))
    case.then(case.vcjob("second", case.task("w", size, cpu)))
    case.waiting = ("job", "second")
    case.changes = [
        case.random.choice(
            [
                case.delete(VCJOB, "first"),
                case.command("AbortJob", "first"),
                case.command("TerminateJob", "first"),
                case.command("CompleteJob", "first"),
            ]
        )
    ]


def _elastic_job_grows(case: Case) -> None:
    size, cpu = case.random.randint(3, 5), case.random.randint(1, 3)
    case.add(case.node("n1", 2 * cpu), case.vcjob("elastic", case.task("w", size, cpu, minimum=2)))
    if case.random.random() < 0.5:
        case.changes = [case.node("n2", cpu * (size - 2))]
    else:
        spec = {"minAvailable": 1, "tasks": [case.task("w", 1, cpu)]}
        case.changes = [case.merge(VCJOB, "elastic", spec=spec)]


def _running_job_is_scaled_up(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    case.add(case.node("n1", 4 * cpu), case.vcjob("train", case.task("w", 2, cpu)))
    spec = {"minAvailable": 3, "tasks": [case.task("w", case.random.randint(3, 5), cpu, minimum=3)]}
    case.changes = [case.merge(VCJOB, "train", spec=spec)]


# --- actions on jobs --------------------------------------------------------------------------------------------------
def _after_action(case: Case, action: str, held: bool, change: str) -> None:
    cpu = case.random.randint(1, 3)
    task = case.task("w", case.random.randint(1, 3), cpu, annotations=HELD if held else None)
    case.add(case.node("n1", 16), case.vcjob("train", task))
    case.then(case.command(action, "train"))
    case.changes = [case.delete(VCJOB, "train") if change == "delete" else case.command(change, "train")]


def _aborted_job_is_resumed(case: Case) -> None:
    _after_action(case, "AbortJob", held=False, change="ResumeJob")


def _aborting_job_is_resumed(case: Case) -> None:
    _after_action(case, "AbortJob", held=True, change="ResumeJob")


def _restarting_job_starts_again(case: Case) -> None:
    _after_action(case, "RestartJob", held=True, change=case.random.choice(["AbortJob", "RestartJob", "delete"]))


def _completing_job_ends(case: Case) -> None:
    _after_action(case, "CompleteJob", held=True, change=case.random.choice(["ResumeJob", "delete"]))


def _terminating_job_ends(case: Case) -> None:
    _after_action(case, "TerminateJob", held=True, change=case.random.choice(["ResumeJob", "delete"]))


def _waiting_job_is_aborted(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    case.add(case.node("n1", cpu), case.vcjob("big", case.task("w", 3, cpu)))
    case.then(case.command("AbortJob", "big"))
    case.changes = [case.node("n2", 2 * cpu), case.command("ResumeJob", "big")]


def _completed_job_is_deleted(case: Case) -> None:
    case.add(case.node("n1", 8), case.vcjob("short", case.task("w", 2, 4, annotations=_END)))
    case.then(case.vcjob("next", case.task("w", 2, 4)))
    case.changes = [case.delete(VCJOB, case.random.choice(["short", "next"]))]


def _failed_job_stays(case: Case) -> None:
    event = case.random.choice(["PodFailed", "*"])
    action = case.random.choice(["RestartJob", "TerminateJob", "AbortJob", "CompleteJob"])
    policies = [{"event": event, "action": action}]
    task = case.task("w", 2, 1, annotations=_FAIL)
    case.add(case.node("n1", 8), case.vcjob("broken", task, policies=policies, maxRetry=1))
    case.then(case.vcjob("next", case.task("w", 1, 8)))
    case.changes = [case.delete(VCJOB, "broken")]


def _failed_pods_without_policies(case: Case) -> None:
    case.add(
        case.node("n1", 8),
        case.vcjob("partly", case.task("good", 2, 1), case.task("bad", 1, 1, 0, annotations=_FAIL), minimum=2),
    )
    case.changes = [case.random.choice([case.command("AbortJob", "partly"), case.delete(POD, "partly-good-0")])]


def _tasks_depend_on_each_other(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    second = case.task("second", 1, cpu, dependsOn={"name": ["first"]})
    room = case.random.choice([cpu, 2 * cpu])
    case.add(case.node("n1", room), case.vcjob("chain", case.task("first", 1, cpu), second, minimum=1))
    case.changes = [case.node("n2", cpu)]


# --- queues -----------------------------------------------------------------------------------------------------------
def _job_waits_in_a_closed_queue(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    case.add(case.node("n1", cpu), case.vcjob("train", case.task("w", 2, cpu)))
    case.then(case.queue_command("CloseQueue"))
    case.then(case.node("n2", cpu))
    case.waiting = ("job", "train")
    case.changes = [case.queue_command("OpenQueue")]


def _queue_is_closing(case: Case) -> None:
    case.add(case.node("n1", 4), case.vcjob("train", case.task("w", 2, 1)))
    case.then(case.queue_command("CloseQueue"))
    case.changes = [case.random.choice([case.delete(VCJOB, "train"), case.queue_command("OpenQueue")])]


# --- workloads of Kubernetes ------------------------------------------------------------------------------------------
def _workload(case: Case, kind: Kind, **spec: object) -> None:
    fits, cpu = case.random.randint(1, 3), case.random.randint(1, 3)
    template = case.pod_template(cpu)
    case.add(case.node("n1", fits * cpu), case.workload(kind, "web", fits + 2, template, **spec))
    field = "parallelism" if kind is BATCH_JOB else "replicas"
    case.changes = [
        case.random.choice(
            [
                case.node("n2", 2 * cpu),
                case.merge(kind, "web", spec={field: fits}),
                case.merge(kind, "web", spec={field: 0}),
                case.delete(kind, "web"),
            ]
        )
    ]


def _deployment_waits(case: Case) -> None:
    _workload(case, DEPLOYMENT)


def _stateful_set_waits(case: Case) -> None:
    _workload(case, STATEFUL_SET, podManagementPolicy=case.random.choice(["Parallel", "OrderedReady"]))


def _batch_job_waits(case: Case) -> None:
    _workload(case, BATCH_JOB, completions=case.random.choice([None, 9]))


def _pod_of_a_deployment_terminates(case: Case) -> None:
    case.add(case.node("n1", 2), case.deployment("web", 2, 1))
    case.then(case.pod("waits", 1))
    case.waiting = ("pod", "waits")
    case.changes = [case.merge(DEPLOYMENT, "web", spec={"replicas": 1})]


# --- Pods -------------------------------------------------------------------------------------------------------------
def _bare_gang_waits(case: Case) -> None:
    size = case.random.randint(2, 4)
    case.add(case.node("n1", size - 1), case.group("gang", size))
    case.add(*(case.pod(f"p{i}", 1, "gang") for i in range(size)))
    case.waiting = ("podgroup", "gang")
    if case.random.random() < 0.5:
        case.advised = True
    else:
        case.changes = [case.node("n2", 1)]


def _pod_waits_for_a_terminating_one(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    case.add(case.node("n1", cpu), case.pod("old", cpu, annotations=HELD))
    case.then(case.delete(POD, "old"), case.pod("new", cpu))
    case.waiting = ("pod", "new")
    case.changes = [case.delete(POD, "new")]


def _pod_waits_for_one_with_a_finalizer(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    case.add(case.node("n1", cpu), case.pod("old", cpu, annotations=HELD, metadata={"finalizers": [FINALIZER]}))
    case.then(case.delete(POD, "old"), case.pod("new", cpu))
    case.waiting = ("pod", "new")
    case.changes = [case.merge(POD, "old", {"finalizers": None})]


def _job_with_pods_that_keep_a_finalizer(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    case.add(case.node("n1", 2 * cpu), case.vcjob("train", case.task("w", 2, cpu, annotations=HELD)))
    case.then(case.merge(POD, "train-w-0", {"finalizers": [FINALIZER]}))
    case.then(case.command(case.random.choice(["RestartJob", "AbortJob", "TerminateJob"]), "train"))
    case.changes = [case.merge(POD, "train-w-0", {"finalizers": None})]


def _gated_pod(case: Case) -> None:
    case.add(case.node("n1", 2), case.pod("gated", 1, schedulingGates=[{"name": "example.com/wait"}]))
    case.waiting = ("pod", "gated")
    case.changes = [case.merge(POD, "gated", spec={"schedulingGates": None})]


def _pod_of_a_vcjob_is_deleted(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    case.add(case.node("n1", 2 * cpu), case.vcjob("train", case.task("w", 2, cpu, annotations=HELD)))
    case.then(case.delete(POD, "train-w-1"))
    case.changes = [case.delete(VCJOB, "train")]


# --- flows and schedules ----------------------------------------------------------------------------------------------
def _flow_waits_for_its_first_step(case: Case) -> None:
    first = case.vcjob("a", case.task("w", 1, 1, annotations=_END if case.random.random() < 0.5 else None))
    case.add(
        case.node("n1", 2),
        case.job_template("a", first),
        case.job_template("b", case.vcjob("b", case.task("w", 2, 2))),
        case.job_flow("flow", {"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}),
    )
    case.changes = [case.random.choice([case.node("n2", 2), case.delete(JOB_FLOW, "flow")])]


def _schedule_with_a_running_job(case: Case) -> None:
    policy = case.random.choice(["Forbid", "Replace", "Allow"])
    job = case.vcjob("unnamed", case.task("w", 1, 1))
    case.add(case.node("n1", 2), case.cron_job("often", job, schedule="@every 5s", concurrencyPolicy="Forbid"))
    case.then(case.merge(CRON_JOB, "often", spec={"suspend": True, "concurrencyPolicy": policy}))
    case.changes = [case.random.choice([case.delete(CRON_JOB, "often"), case.node("n2", 2)])]


# --- AscendJobs -------------------------------------------------------------------------------------------------------
def _acjob_waits(case: Case) -> None:
    workers, cpu = case.random.randint(1, 3), case.random.randint(1, 3)
    case.add(case.node("n1", cpu * (workers - 1) or 1))
    case.add(case.acjob("ac", workers, case.pod_template(cpu + (workers == 1))))
    case.changes = [case.node("n2", cpu + 1)]


def _acjob_is_suspended(case: Case) -> None:
    case.add(case.node("n1", 4), case.acjob("ac", 2, case.pod_template(1)))
    case.then(case.merge(ACJOB, "ac", spec={"runPolicy": {"suspend": True}}))
    case.changes = [case.merge(ACJOB, "ac", spec={"runPolicy": {"suspend": False}})]


def _acjob_runs(case: Case) -> None:
    case.add(case.node("n1", 4), case.acjob("ac", 2, case.pod_template(1)))
    case.changes = [case.random.choice([case.delete(ACJOB, "ac"), case.delete(POD, "ac-worker-0")])]


SITUATIONS: Final[tuple[Situation, ...]] = (
    _gang_waits_for_nodes,
    _gang_waits_as_explain_says,
    _gang_waits_for_a_cordoned_node,
    _gang_waits_for_a_node_that_is_not_ready,
    _gang_waits_for_capability,
    _gang_waits_for_another_job,
    _elastic_job_grows,
    _running_job_is_scaled_up,
    _aborted_job_is_resumed,
    _aborting_job_is_resumed,
    _restarting_job_starts_again,
    _completing_job_ends,
    _terminating_job_ends,
    _waiting_job_is_aborted,
    _completed_job_is_deleted,
    _failed_job_stays,
    _failed_pods_without_policies,
    _tasks_depend_on_each_other,
    _job_waits_in_a_closed_queue,
    _queue_is_closing,
    _deployment_waits,
    _stateful_set_waits,
    _batch_job_waits,
    _pod_of_a_deployment_terminates,
    _bare_gang_waits,
    _pod_waits_for_a_terminating_one,
    _pod_waits_for_one_with_a_finalizer,
    _job_with_pods_that_keep_a_finalizer,
    _gated_pod,
    _pod_of_a_vcjob_is_deleted,
    _flow_waits_for_its_first_step,
    _schedule_with_a_running_job,
    _acjob_waits,
    _acjob_is_suspended,
    _acjob_runs,
)
