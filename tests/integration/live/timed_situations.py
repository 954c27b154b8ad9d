"""Situations that depend on time: CronJobs whose times come, and policies that act after a time-out."""

from typing import Final

from scheduler.api.kinds import CRON_JOB, NODE, POD, VCJOB
from tests.integration.live.case import HELD, Case, Raw

_END: Final = {"volcano-py.test/outcome": "succeed"}
_FAIL: Final = {"volcano-py.test/outcome": "fail"}
_SOON: Final = "12s"
"""Seconds that are long enough to make a dump first."""
_LASTS: Final = 14
"""Seconds after which actions that are due soon have been taken."""


# --- schedules --------------------------------------------------------------------------------------------------------
def schedule_with_a_waiting_job(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    job = case.vcjob("unnamed", case.task("w", 2, cpu))
    case.add(case.node("n1", cpu), case.cron_job("often", job, schedule="@every 5s", concurrencyPolicy="Forbid"))
    case.lasts = _LASTS
    case.changes = [
        case.random.choice(
            [
                case.node("n2", cpu),
                case.delete(CRON_JOB, "often"),
                case.merge(CRON_JOB, "often", spec={"suspend": True}),
            ]
        )
    ]


def schedule_replaces_its_job(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    annotations = HELD if case.random.random() < 0.5 else None
    job = case.vcjob("unnamed", case.task("w", 1, cpu, annotations=annotations))
    case.add(case.node("n1", 2 * cpu), case.cron_job("often", job, schedule="@every 2s", concurrencyPolicy="Forbid"))
    case.then(case.merge(CRON_JOB, "often", spec={"schedule": f"@every {_SOON}", "concurrencyPolicy": "Replace"}))
    case.lasts = _LASTS
    case.changes = [
        case.random.choice(
            [case.merge(CRON_JOB, "often", spec={"concurrencyPolicy": "Forbid"}), case.delete(CRON_JOB, "often")]
        )
    ]


def schedule_is_resumed_after_its_time(case: Case) -> None:
    """A run that was missed is made up for, or too late."""
    job = case.vcjob("unnamed", case.task("w", 1, 1))
    late = {"startingDeadlineSeconds": 3600} if case.random.random() < 0.5 else {}
    policy = {"schedule": "@every 3s", "concurrencyPolicy": "Forbid", "suspend": True, **late}
    case.add(case.node("n1", 2), case.cron_job("often", job, **policy))
    case.lasts = _LASTS
    case.changes = [case.merge(CRON_JOB, "often", spec={"suspend": False})]


# --- policies with a time-out -----------------------------------------------------------------------------------------
def _policy(event: str, action: str, timeout: str) -> list[Raw]:
    return [{"event": event, "action": action, "timeout": timeout}]


def gang_waits_until_its_time_is_over(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    action = case.random.choice(["AbortJob", "TerminateJob", "CompleteJob"])
    job = case.vcjob("big", case.task("w", 2, cpu), policies=_policy("PodPending", action, _SOON))
    case.add(case.node("n1", cpu), job)
    case.lasts = _LASTS
    case.changes = [case.random.choice([case.node("n2", cpu), case.delete(VCJOB, "big")])]


def gang_gets_a_node_in_time(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    policies = _policy("PodPending", "AbortJob", "1h")
    job = case.vcjob("big", case.task("w", 2, cpu, policies=policies))
    case.add(case.node("n1", cpu), job)
    case.waiting = ("job", "big")
    case.changes = [case.node("n2", cpu)]


def failed_pod_has_an_action_later(case: Case) -> None:
    action = case.random.choice(["RestartJob", "AbortJob", "TerminateJob", "CompleteJob", "RestartTask", "RestartPod"])
    tasks = [case.task("good", 1, 1), case.task("bad", 1, 1, 0, annotations=_FAIL)]
    policies = _policy("PodFailed", action, _SOON)
    case.add(case.node("n1", 4), case.vcjob("partly", *tasks, policies=policies, maxRetry=1, minAvailable=1))
    case.lasts = _LASTS
    case.changes = [case.delete(VCJOB, "partly") if case.random.random() < 0.5 else case.command("AbortJob", "partly")]


def finished_task_ends_the_job_later(case: Case) -> None:
    first = case.task("first", 1, 1, annotations=_END)
    job = case.vcjob("train", first, case.task("rest", 2, 1), policies=_policy("TaskCompleted", "CompleteJob", _SOON))
    case.add(case.node("n1", 4), job)
    case.lasts = _LASTS
    case.changes = [case.vcjob("next", case.task("w", 1, 4))]


def evicted_pod_has_an_action_later(case: Case) -> None:
    """The action comes, unless another Pod runs in its place before."""
    action = case.random.choice(["RestartJob", "AbortJob", "TerminateJob"])
    policies = _policy("PodEvicted", action, _SOON)
    annotations = HELD if case.random.random() < 0.5 else None
    case.add(case.node("n1", 2), case.vcjob("train", case.task("w", 2, 1, annotations=annotations), policies=policies))
    case.lasts = _LASTS
    case.changes = [case.delete(POD, "train-w-0")]
    if case.random.random() < 0.7:
        case.changes.insert(0, case.merge(NODE, f"{case.name}-n1", spec={"unschedulable": True}))


TIMED: Final = (
    schedule_with_a_waiting_job,
    schedule_replaces_its_job,
    schedule_is_resumed_after_its_time,
    gang_waits_until_its_time_is_over,
    gang_gets_a_node_in_time,
    failed_pod_has_an_action_later,
    finished_task_ends_the_job_later,
    evicted_pod_has_an_action_later,
)
