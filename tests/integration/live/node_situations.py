"""Situations of Nodes that are deleted, and of HyperNodes."""

from typing import Any, Final

from scheduler.api.kinds import DEPLOYMENT, HYPER_NODE, NODE, POD, STATEFUL_SET, VCJOB
from tests.integration.live.case import HELD, POOL, Case, Raw

_END: Final = {"volcano-py.test/outcome": "succeed"}


# --- deleted Nodes ----------------------------------------------------------------------------------------------------
def _deleted(case: Case, *changes: Raw) -> None:
    """Deletes the node n2, either before the dump or as the change."""
    gone = case.delete(NODE, f"{case.name}-n2")
    if case.random.random() < 0.5:
        case.then(gone)
        case.changes = list(changes)
    else:
        case.changes = [gone]


def node_of_a_job_is_deleted(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    event, action = case.random.choice(
        [("PodEvicted", "RestartJob"), ("PodEvicted", "AbortJob"), ("PodFailed", "TerminateJob"), ("*", "RestartTask")]
    )
    policies = [{"event": event, "action": action}] if case.random.random() < 0.7 else []
    case.add(case.node("n1", cpu), case.node("n2", cpu), case.vcjob("train", case.task("w", 2, cpu), policies=policies))
    _deleted(case, case.node("n3", cpu))


def node_of_a_workload_is_deleted(case: Case) -> None:
    kind = case.random.choice([DEPLOYMENT, STATEFUL_SET])
    case.add(case.node("n1", 2), case.node("n2", 2), case.workload(kind, "web", 3, case.pod_template(1)))
    _deleted(case, case.merge(kind, "web", spec={"replicas": 2}), case.node("n2", 2))


def node_of_bare_pods_is_deleted(case: Case) -> None:
    case.add(case.node("n1", 1), case.node("n2", 1), case.group("gang", 2))
    case.add(case.pod("p0", 1, "gang"), case.pod("p1", 1, "gang"))
    case.then(case.pod("waits", 1))
    _deleted(case, case.node("n3", 1))


def node_of_ended_pods_is_deleted(case: Case) -> None:
    case.add(case.node("n2", 4), case.vcjob("short", case.task("w", 2, 1, annotations=_END)), case.group("bare", 1))
    case.add(case.pod("done", 1, "bare", annotations=_END))
    case.then(case.node("n1", 4), case.vcjob("next", case.task("w", 2, 1)))
    _deleted(case, case.delete(VCJOB, "short"))


def node_of_a_terminating_pod_is_deleted(case: Case) -> None:
    case.add(case.node("n2", 2), case.vcjob("train", case.task("w", 2, 1, annotations=HELD)))
    case.then(case.node("n1", 2), case.delete(POD, "train-w-0"))
    if case.random.random() < 0.5:
        case.then(case.command(case.random.choice(["RestartJob", "AbortJob"]), "train"))
    _deleted(case, case.delete(VCJOB, "train"))


def node_is_replaced_by_a_namesake(case: Case) -> None:
    case.add(case.node("n1", 2), case.vcjob("train", case.task("w", 2, 1)))
    case.then(case.vcjob("next", case.task("w", 1, 2)))
    case.changes = [case.delete(NODE, f"{case.name}-n1"), case.node("n1", case.random.choice([2, 4]))]


# --- HyperNodes -------------------------------------------------------------------------------------------------------
def _hyper_node(case: Case, name: str, tier: int, *members: str) -> Raw:
    """A HyperNode of nodes (tier 1) or of HyperNodes."""
    kind = "Node" if tier == 1 else "HyperNode"
    listed = [{"type": kind, "selector": {"exactMatch": {"name": f"{case.name}-{member}"}}} for member in members]
    return {
        "apiVersion": HYPER_NODE.api_version,
        "kind": HYPER_NODE.name,
        "metadata": {"name": f"{case.name}-{name}", "labels": {POOL: case.name}},
        "spec": {"tier": tier, "members": listed},
    }


def _racks(case: Case, cpu: int) -> None:
    """Builds two racks of two nodes below a spine."""
    case.add(*(case.node(f"n{number}", cpu) for number in range(4)))
    case.add(_hyper_node(case, "r0", 1, "n0", "n1"), _hyper_node(case, "r1", 1, "n2", "n3"))
    case.add(_hyper_node(case, "spine", 2, "r0", "r1"))


def _close(tier: int, mode: str = "hard") -> dict[str, Any]:
    """A vcjob's network topology."""
    return {"networkTopology": {"mode": mode, "highestTierAllowed": tier}}


def gang_waits_for_a_rack(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    _racks(case, cpu)
    case.then(case.vcjob("near", case.task("w", 3, cpu), **_close(1)))
    case.waiting = ("job", "near")
    change = case.random.choice(["advised", "member", "larger"])
    if change == "advised":
        case.advised = True
    elif change == "member":
        members = _hyper_node(case, "r0", 1, "n0", "n1", "n4")["spec"]["members"]
        case.changes = [case.node("n4", cpu), case.merge(HYPER_NODE, f"{case.name}-r0", spec={"members": members})]
    else:
        case.changes = [case.merge(NODE, f"{case.name}-n2", status={"allocatable": {"cpu": str(2 * cpu)}})]


def gang_runs_near_and_another_comes(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    _racks(case, cpu)
    tier, mode = case.random.choice([(1, "hard"), (2, "hard"), (1, "soft")])
    case.then(case.vcjob("near", case.task("w", 2, cpu), **_close(1)))
    case.changes = [case.vcjob("next", case.task("w", case.random.randint(2, 3), cpu), **_close(tier, mode))]


def node_of_a_rack_is_deleted(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    _racks(case, cpu)
    policies = [{"event": "PodEvicted", "action": case.random.choice(["RestartJob", "RestartTask"])}]
    case.then(case.vcjob("near", case.task("w", 2, cpu), policies=policies, **_close(1)))
    case.then(case.vcjob("small", case.task("w", 1, cpu)))
    case.changes = [case.delete(NODE, f"{case.name}-n{case.random.choice([0, 2])}")]


def rack_comes_and_goes(case: Case) -> None:
    cpu = case.random.randint(1, 3)
    _racks(case, cpu)
    case.then(case.delete(HYPER_NODE, f"{case.name}-r0"))
    case.then(
        case.vcjob("near", case.task("w", 2, cpu), **_close(1)), case.vcjob("far", case.task("w", 2, cpu), **_close(1))
    )
    case.changes = [_hyper_node(case, "r0", 1, "n0", "n1")]


NODES: Final = (
    node_of_a_job_is_deleted,
    node_of_a_workload_is_deleted,
    node_of_bare_pods_is_deleted,
    node_of_ended_pods_is_deleted,
    node_of_a_terminating_pod_is_deleted,
    node_is_replaced_by_a_namesake,
    gang_waits_for_a_rack,
    gang_runs_near_and_another_comes,
    node_of_a_rack_is_deleted,
    rack_comes_and_goes,
)
