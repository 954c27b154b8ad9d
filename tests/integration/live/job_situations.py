"""Situations of vcjobs and their queues: waiting, running, and after actions."""

from typing import Final

from scheduler.api.kinds import NODE, POD, QUEUE, VCJOB
from tests.integration.live.case import HELD, Case

_END: Final = {"volcano-py.test/outcome": "succeed"}
_FAIL: Final = {"volcano-py.test/outcome": "fail"}


# --- jobs that wait for room ------------------------------------------------------------------------------------------
def gang_waits_for_nodes(case: Case) -> None:
    size, cpu = case.random.randint(2, 4), case.random.randint(1, 3)
    case.add(case.node("n1", cpu * (size - 1)), case.vcjob("big", case.task("w", size, cpu)))
    case.waiting = ("job", "big")
    case.changes = [case.node("n2", cpu * case.random.randint(1, 2))]


def gang_waits_as_explain_says(case: Case) -> None:
    size, cpu = case.random.randint(2, 5), case.random.randint(1, 3)
    case.add(case.node("n1", cpu), case.vcjob("big", case.task("w", size, cpu)))
    case.waiting, case.advised = ("job", "big"), True


def gang_waits_for_a_cordoned_node(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    taint = {"key": "maintenance", "value": "yes", "effect": "NoSchedule"}
    blocked: dict[str, object] = case.random.choice([{"unschedulable": True}, {"taints": [taint]}])
    case.add(case.node("n1", cpu), case.node("n2", cpu, spec=blocked), case.vcjob("big", case.task("w", 2, cpu)))
    case.waiting = ("job", "big")
    case.changes = [case.merge(NODE, f"{case.name}-n2", spec=dict.fromkeys(blocked))]


def gang_waits_for_a_node_that_is_not_ready(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    broken = case.node("n2", cpu, annotations={"volcano-py.test/ready": "false"})
    broken["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    case.add(case.node("n1", cpu), broken, case.vcjob("big", case.task("w", 2, cpu)))
    case.waiting = ("job", "big")
    case.changes = [case.merge(NODE, f"{case.name}-n2", status={"conditions": [{"type": "Ready", "status": "True"}]})]


def gang_waits_for_capability(case: Case) -> None:
    size, cpu = case.random.randint(2, 4), case.random.randint(1, 3)
    case.steps[0][0] = case.queue(cpu=str(size * cpu - 1))
    case.add(case.node("n1", 32), case.vcjob("big", case.task("w", size, cpu)))
    case.waiting = ("job", "big")
    if case.random.random() < 0.5:
        case.advised = True
    else:
        case.changes = [case.merge(QUEUE, case.name, spec={"capability": {"cpu": str(size * cpu)}})]


def gang_waits_for_another_job(case: Case) -> None:
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


def elastic_job_grows(case: Case) -> None:
    size, cpu = case.random.randint(3, 5), case.random.randint(1, 3)
    case.add(case.node("n1", 2 * cpu), case.vcjob("elastic", case.task("w", size, cpu, minimum=2)))
    if case.random.random() < 0.5:
        case.changes = [case.node("n2", cpu * (size - 2))]
    else:
        spec = {"minAvailable": 1, "tasks": [case.task("w", 1, cpu)]}
        case.changes = [case.merge(VCJOB, "elastic", spec=spec)]


def running_job_is_scaled_up(case: Case) -> None:
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


def aborted_job_is_resumed(case: Case) -> None:
    _after_action(case, "AbortJob", held=False, change="ResumeJob")


def aborting_job_is_resumed(case: Case) -> None:
    _after_action(case, "AbortJob", held=True, change="ResumeJob")


def restarting_job_starts_again(case: Case) -> None:
    _after_action(case, "RestartJob", held=True, change=case.random.choice(["AbortJob", "RestartJob", "delete"]))


def completing_job_ends(case: Case) -> None:
    _after_action(case, "CompleteJob", held=True, change=case.random.choice(["ResumeJob", "delete"]))


def terminating_job_ends(case: Case) -> None:
    _after_action(case, "TerminateJob", held=True, change=case.random.choice(["ResumeJob", "delete"]))


def waiting_job_is_aborted(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    case.add(case.node("n1", cpu), case.vcjob("big", case.task("w", 3, cpu)))
    case.then(case.command("AbortJob", "big"))
    case.changes = [case.node("n2", 2 * cpu), case.command("ResumeJob", "big")]


def completed_job_is_deleted(case: Case) -> None:
    case.add(case.node("n1", 8), case.vcjob("short", case.task("w", 2, 4, annotations=_END)))
    case.then(case.vcjob("next", case.task("w", 2, 4)))
    case.changes = [case.delete(VCJOB, case.random.choice(["short", "next"]))]


def failed_job_stays(case: Case) -> None:
    event = case.random.choice(["PodFailed", "*"])
    action = case.random.choice(["RestartJob", "TerminateJob", "AbortJob", "CompleteJob"])
    policies = [{"event": event, "action": action}]
    task = case.task("w", 2, 1, annotations=_FAIL)
    case.add(case.node("n1", 8), case.vcjob("broken", task, policies=policies, maxRetry=1))
    case.then(case.vcjob("next", case.task("w", 1, 8)))
    case.changes = [case.delete(VCJOB, "broken")]


def failed_pods_without_policies(case: Case) -> None:
    case.add(
        case.node("n1", 8),
        case.vcjob("partly", case.task("good", 2, 1), case.task("bad", 1, 1, 0, annotations=_FAIL), minimum=2),
    )
    case.changes = [case.random.choice([case.command("AbortJob", "partly"), case.delete(POD, "partly-good-0")])]


def tasks_depend_on_each_other(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    second = case.task("second", 1, cpu, dependsOn={"name": ["first"]})
    room = case.random.choice([cpu, 2 * cpu])
    case.add(case.node("n1", room), case.vcjob("chain", case.task("first", 1, cpu), second, minimum=1))
    case.changes = [case.node("n2", cpu)]


# --- queues -----------------------------------------------------------------------------------------------------------
def job_waits_in_a_closed_queue(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    case.add(case.node("n1", cpu), case.vcjob("train", case.task("w", 2, cpu)))
    case.then(case.queue_command("CloseQueue"))
    case.then(case.node("n2", cpu))
    case.waiting = ("job", "train")
    case.changes = [case.queue_command("OpenQueue")]


def queue_is_closing(case: Case) -> None:
    case.add(case.node("n1", 4), case.vcjob("train", case.task("w", 2, 1)))
    case.then(case.queue_command("CloseQueue"))
    case.changes = [case.random.choice([case.delete(VCJOB, "train"), case.queue_command("OpenQueue")])]


JOBS: Final = (
    gang_waits_for_nodes,
    gang_waits_as_explain_says,
    gang_waits_for_a_cordoned_node,
    gang_waits_for_a_node_that_is_not_ready,
    gang_waits_for_capability,
    gang_waits_for_another_job,
    elastic_job_grows,
    running_job_is_scaled_up,
    aborted_job_is_resumed,
    aborting_job_is_resumed,
    restarting_job_starts_again,
    completing_job_ends,
    terminating_job_ends,
    waiting_job_is_aborted,
    completed_job_is_deleted,
    failed_job_stays,
    failed_pods_without_policies,
    tasks_depend_on_each_other,
    job_waits_in_a_closed_queue,
    queue_is_closing,
)
