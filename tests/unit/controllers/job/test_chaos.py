"""Whatever happens to a job and to its controller, the final state matches spec and status."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.kinds import COMMAND, POD, POD_GROUP, VCJOB
from tests.examples import examples
from tests.unit.controllers.job.world import KilledError, World, job, task

STABLE = {"Pending", "Running", "Aborted", "Completed", "Failed", "Terminated"}
IDLE = STABLE - {"Pending", "Running"}
ACTIONS = [
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
]
EVENTS = ["*", "PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "TaskFailed", "Unknown"]


@dataclass
class Incident:
    """An event in the cluster, and after how many writes the process is killed."""

    what: str
    which: int
    writes_left: int


def run_step(world: World, step: Any) -> None:
    """Runs a step. If the process is killed in it, starts a new one."""
    try:
        step()
    except KilledError:
        world.start()


def apply(world: World, incident: Incident, number: int) -> None:
    pods = sorted(world.names(POD))
    name = pods[incident.which % len(pods)] if pods else ""
    groups = sorted(world.names(POD_GROUP))
    match incident.what:
        case "fails" | "succeeds" if name:
            if world.find(POD, name)["status"]["phase"] in ("Pending", "Running"):
                world.end_pod(name, "Failed" if incident.what == "fails" else "Succeeded", incident.which % 3)
        case "restarts" if name:
            status = {"containerStatuses": [{"name": "main", "restartCount": 3}]}
            world.patch(POD, name, {"status": status})
        case "evicted" if name:
            world.delete(POD, name)
        case "evicted and ends" if name:
            world.delete(POD, name)
            if name in world.names(POD):
                world.end_pod(name, "Failed" if incident.which % 2 else "Succeeded", incident.which % 3)
        case "unknown" if groups:
            world.group_phase(groups[0], "Unknown")
        case "group gone" if groups:
            world.delete(POD_GROUP, groups[0])
        case "scaled":
            tasks = world.find(VCJOB, "j")["spec"]["tasks"]
            world.patch(VCJOB, "j", {"spec": {"tasks": [tasks[0] | {"replicas": 1 + incident.which % 4}, *tasks[1:]]}})
        case "deliver":
            world.deliver()
        case action if action in ACTIONS:
            world.command(action, called=f"cmd-{number}")


def check(world: World) -> None:
    raw, status = world.find(VCJOB, "j"), world.status()
    places = {f"j-{t['name']}-{i}" for t in raw["spec"]["tasks"] for i in range(t["replicas"])}
    version = status.get("version", 0)
    pods = {pod["metadata"]["name"]: pod for pod in world.all(POD)}
    assert status["state"] in STABLE
    assert not world.names(COMMAND)
    assert len(world.names(POD_GROUP)) == (0 if status["state"] in IDLE else 1)
    assert not any(pod["metadata"].get("deletionTimestamp") for pod in pods.values())
    active = {name for name, pod in pods.items() if pod["status"]["phase"] in ("Pending", "Running")}
    if status["state"] in IDLE:
        assert not active
        return
    assert set(pods) == places
    for name, pod in pods.items():
        marks = pod["metadata"]["annotations"]
        assert "volcano.sh/controller-out-of-sync" not in marks
        assert name not in active or int(marks["volcano.sh/job-version"]) == version
    assert status.get("running", 0) == len(active)
    assert status.get("terminating", 0) == 0


policies = st.lists(
    st.fixed_dictionaries(
        {"event": st.sampled_from(EVENTS), "action": st.sampled_from(ACTIONS)},
        optional={"timeout": st.sampled_from(["1s", "3s"])},
    ),
    max_size=2,
)
INCIDENTS = st.lists(
    st.builds(
        Incident,
        st.sampled_from(
            [
                "fails",
                "fails",
                "succeeds",
                "restarts",
                "evicted",
                "evicted and ends",
                "unknown",
                "group gone",
                "scaled",
                "deliver",
                *ACTIONS,
            ]
        ),
        st.integers(0, 7),
        st.integers(0, 14),
    ),
    max_size=8,
)


@settings(max_examples=examples(200), deadline=None)
@given(policies, policies, st.integers(1, 3), st.integers(1, 3), st.booleans(), INCIDENTS, st.integers(1, 9))
def test_every_job_ends_in_a_consistent_state(
    of_task: list[Any], of_job: list[Any], first: int, retries: int, lag: bool, incidents: list[Incident], begin: int
) -> None:
    world = World()
    world.lag = lag
    tasks = [task("a", first, policies=of_task), task("b", 2)]
    world.create(job(tasks=tasks, minimum=1 + first % 3, policies=of_job, maxRetry=retries))
    world.writes_left = begin
    run_step(world, world.settle)
    for number, incident in enumerate(incidents):
        for step in (world.admit, world.settle, world.bind, world.settle):
            run_step(world, step)
            world.deliver() if incident.which % 2 else None
        apply(world, incident, number)
        world.writes_left = incident.writes_left
        run_step(world, world.settle)
        run_step(world, lambda: world.wait(0.5))
        world.stop_deleted()
        run_step(world, world.settle)
    world.lag, world.writes_left = False, float("inf")
    world.deliver()
    for _ in range(12):
        world.turn()

    check(world)


@pytest.mark.parametrize("writes_left", range(25))
@pytest.mark.parametrize("action", ["RestartJob", "RestartTask", "RestartPod"])
def test_a_restart_that_is_cut_short_anywhere_is_completed_and_counts_once(action: str, writes_left: int) -> None:
    world = World()
    world.create(job(tasks=[task("a", 3), task("b", 1)], policies=[{"event": "PodFailed", "action": action}]))
    world.run(3)
    world.end_pod("j-a-1", "Failed", 1)

    world.writes_left = writes_left
    for _ in range(5):
        run_step(world, world.turn)
    world.run(3)

    assert world.phase() == "Running"
    assert world.phases() == [None, "Pending", "Running", "Restarting", "Pending", "Running"]
    assert world.status()["retryCount"] == 1
    restarted = {"RestartJob": {"j-a-0", "j-a-1", "j-a-2", "j-b-0"}, "RestartTask": {"j-a-0", "j-a-1", "j-a-2"}}
    again = {name for name, (_, retries) in world.pod_versions().items() if retries == "1"}
    assert again == restarted.get(action, {"j-a-1"})
    check(world)


@pytest.mark.parametrize("writes_left", range(12))
@pytest.mark.parametrize(
    ("action", "phases"), [("AbortJob", ["Aborting", "Aborted"]), ("RestartJob", ["Restarting", "Pending", "Running"])]
)
def test_a_command_survives_a_crash_and_is_carried_out_once(action: str, phases: list[str], writes_left: int) -> None:
    world = World()
    world.create(job())
    world.run(3)
    world.command(action)

    world.writes_left = writes_left
    for _ in range(5):
        run_step(world, world.turn)
    world.run(2)

    assert world.phases() == [None, "Pending", "Running", *phases]
    assert world.status()["version"] == 1
    check(world)
