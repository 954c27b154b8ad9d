"""Situations of Kubernetes' workloads, Pods, JobFlows, CronJobs and AscendJobs."""

from typing import Final

from scheduler.api.kinds import ACJOB, BATCH_JOB, CRON_JOB, DEPLOYMENT, JOB_FLOW, POD, STATEFUL_SET, VCJOB, Kind
from tests.integration.live.case import FINALIZER, HELD, Case

_END: Final = {"volcano-py.test/outcome": "succeed"}


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


def deployment_waits(case: Case) -> None:
    _workload(case, DEPLOYMENT)


def stateful_set_waits(case: Case) -> None:
    _workload(case, STATEFUL_SET, podManagementPolicy=case.random.choice(["Parallel", "OrderedReady"]))


def batch_job_waits(case: Case) -> None:
    _workload(case, BATCH_JOB, completions=case.random.choice([None, 9]))


def pod_of_a_deployment_terminates(case: Case) -> None:
    case.add(case.node("n1", 2), case.deployment("web", 2, 1))
    case.then(case.pod("waits", 1))
    case.waiting = ("pod", "waits")
    case.changes = [case.merge(DEPLOYMENT, "web", spec={"replicas": 1})]


# --- Pods -------------------------------------------------------------------------------------------------------------
def bare_gang_waits(case: Case) -> None:
    size = case.random.randint(2, 4)
    case.add(case.node("n1", size - 1), case.group("gang", size))
    case.add(*(case.pod(f"p{i}", 1, "gang") for i in range(size)))
    case.waiting = ("podgroup", "gang")
    if case.random.random() < 0.5:
        case.advised = True
    else:
        case.changes = [case.node("n2", 1)]


def pod_waits_for_a_terminating_one(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    case.add(case.node("n1", cpu), case.pod("old", cpu, annotations=HELD))
    case.then(case.delete(POD, "old"), case.pod("new", cpu))
    case.waiting = ("pod", "new")
    case.changes = [case.delete(POD, "new")]


def pod_waits_for_one_with_a_finalizer(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    case.add(case.node("n1", cpu), case.pod("old", cpu, annotations=HELD, metadata={"finalizers": [FINALIZER]}))
    case.then(case.delete(POD, "old"), case.pod("new", cpu))
    case.waiting = ("pod", "new")
    case.changes = [case.merge(POD, "old", {"finalizers": None})]


def job_with_pods_that_keep_a_finalizer(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    case.add(case.node("n1", 2 * cpu), case.vcjob("train", case.task("w", 2, cpu, annotations=HELD)))
    case.then(case.merge(POD, "train-w-0", {"finalizers": [FINALIZER]}))
    case.then(case.command(case.random.choice(["RestartJob", "AbortJob", "TerminateJob"]), "train"))
    case.changes = [case.merge(POD, "train-w-0", {"finalizers": None})]


def gated_pod(case: Case) -> None:
    case.add(case.node("n1", 2), case.pod("gated", 1, schedulingGates=[{"name": "example.com/wait"}]))
    case.waiting = ("pod", "gated")
    case.changes = [case.merge(POD, "gated", spec={"schedulingGates": None})]


def pod_of_a_vcjob_is_deleted(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    case.add(case.node("n1", 2 * cpu), case.vcjob("train", case.task("w", 2, cpu, annotations=HELD)))
    case.then(case.delete(POD, "train-w-1"))
    case.changes = [case.delete(VCJOB, "train")]


# --- flows and schedules ----------------------------------------------------------------------------------------------
def flow_waits_for_its_first_step(case: Case) -> None:
    first = case.vcjob("a", case.task("w", 1, 1, annotations=_END if case.random.random() < 0.5 else None))
    case.add(
        case.node("n1", 2),
        case.job_template("a", first),
        case.job_template("b", case.vcjob("b", case.task("w", 2, 2))),
        case.job_flow("flow", {"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"]}}),
    )
    case.changes = [case.random.choice([case.node("n2", 2), case.delete(JOB_FLOW, "flow")])]


def schedule_with_a_running_job(case: Case) -> None:
    policy = case.random.choice(["Forbid", "Replace", "Allow"])
    job = case.vcjob("unnamed", case.task("w", 1, 1))
    case.add(case.node("n1", 2), case.cron_job("often", job, schedule="@every 5s", concurrencyPolicy="Forbid"))
    case.then(case.merge(CRON_JOB, "often", spec={"suspend": True, "concurrencyPolicy": policy}))
    case.changes = [case.random.choice([case.delete(CRON_JOB, "often"), case.node("n2", 2)])]


# --- AscendJobs -------------------------------------------------------------------------------------------------------
def acjob_waits(case: Case) -> None:
    workers, cpu = case.random.randint(1, 3), case.random.randint(1, 3)
    case.add(case.node("n1", cpu * (workers - 1) or 1))
    case.add(case.acjob("ac", workers, case.pod_template(cpu + (workers == 1))))
    case.changes = [case.node("n2", cpu + 1)]


def acjob_is_suspended(case: Case) -> None:
    case.add(case.node("n1", 4), case.acjob("ac", 2, case.pod_template(1)))
    case.then(case.merge(ACJOB, "ac", spec={"runPolicy": {"suspend": True}}))
    case.changes = [case.merge(ACJOB, "ac", spec={"runPolicy": {"suspend": False}})]


def acjob_runs(case: Case) -> None:
    case.add(case.node("n1", 4), case.acjob("ac", 2, case.pod_template(1)))
    case.changes = [case.random.choice([case.delete(ACJOB, "ac"), case.delete(POD, "ac-worker-0")])]


WORKLOADS: Final = (
    deployment_waits,
    stateful_set_waits,
    batch_job_waits,
    pod_of_a_deployment_terminates,
    bare_gang_waits,
    pod_waits_for_a_terminating_one,
    pod_waits_for_one_with_a_finalizer,
    job_with_pods_that_keep_a_finalizer,
    gated_pod,
    pod_of_a_vcjob_is_deleted,
    flow_waits_for_its_first_step,
    schedule_with_a_running_job,
    acjob_waits,
    acjob_is_suspended,
    acjob_runs,
)
