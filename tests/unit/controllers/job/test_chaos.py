"""Whatever happens to a job and to the process that looks after it, in the end all is as spec and status say."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.api.kinds import COMMAND, POD, POD_GROUP, VCJOB
from tests.unit.controllers.job.world import KilledError, World, job, task

RESTING = {"Pending", "Running", "Aborted", "Completed", "Failed", "Terminated"}
IDLE = RESTING - {"Pending", "Running"}
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
class Happening:
    """Something that befalls the job, and after how many writes the process is killed."""

    what: str
    which: int
    lives: int


def carry_on(world: World, step: Any) -> None:
    """Do something; when the process is killed by it, a new one takes over."""
    try:
        step()
    except KilledError:
        world.start()


def befall(world: World, happening: Happening, number: int) -> None:
    pods = sorted(world.names(POD))
    name = pods[happening.which % len(pods)] if pods else ""
    groups = sorted(world.names(POD_GROUP))
    match happening.what:
        case "fails" | "succeeds" if name:
            if world.find(POD, name)["status"]["phase"] in ("Pending", "Running"):
                world.end_pod(name, "Failed" if happening.what == "fails" else "Succeeded", happening.which % 3)
        case "restarts" if name:
            status = {"containerStatuses": [{"name": "main", "restartCount": 3}]}
            world.patch(POD, name, {"status": status})
        case "evicted" if name:
            world.delete(POD, name)
        case "unknown" if groups:
            world.group_phase(groups[0], "Unknown")
        case "group gone" if groups:
            world.delete(POD_GROUP, groups[0])
        case "scaled":
            tasks = world.find(VCJOB, "j")["spec"]["tasks"]
            world.patch(VCJOB, "j", {"spec": {"tasks": [tasks[0] | {"replicas": 1 + happening.which % 4}, *tasks[1:]]}})
        case "hear":
            world.hear()
        case action if action in ACTIONS:
            world.command(action, called=f"cmd-{number}")


def check(world: World) -> None:
    raw, status = world.find(VCJOB, "j"), world.status()
    places = {f"j-{t['name']}-{i}" for t in raw["spec"]["tasks"] for i in range(t["replicas"])}
    version = status.get("version", 0)
    pods = {pod["metadata"]["name"]: pod for pod in world.all(POD)}
    assert status["state"] in RESTING
    assert not world.names(COMMAND)
    assert len(world.names(POD_GROUP)) == (0 if status["state"] in IDLE else 1)
    assert not any(pod["metadata"].get("deletionTimestamp") for pod in pods.values())
    alive = {name for name, pod in pods.items() if pod["status"]["phase"] in ("Pending", "Running")}
    if status["state"] in IDLE:
        assert not alive
        return
    assert set(pods) == places
    for name, pod in pods.items():
        marks = pod["metadata"]["annotations"]
        assert "volcano.sh/controller-out-of-sync" not in marks
        assert name not in alive or int(marks["volcano.sh/job-version"]) == version
    assert status.get("running", 0) == len(alive)
    assert status.get("terminating", 0) == 0


policies = st.lists(
    st.fixed_dictionaries(
        {"event": st.sampled_from(EVENTS), "action": st.sampled_from(ACTIONS)},
        optional={"timeout": st.sampled_from(["1s", "3s"])},
    ),
    max_size=2,
)
happenings = st.lists(
    st.builds(
        Happening,
        st.sampled_from(
            ["fails", "fails", "succeeds", "restarts", "evicted", "unknown", "group gone", "scaled", "hear", *ACTIONS]
        ),
        st.integers(0, 7),
        st.integers(0, 14),
    ),
    max_size=8,
)


@settings(max_examples=200, deadline=None)
@given(policies, policies, st.integers(1, 3), st.integers(1, 3), st.booleans(), happenings, st.integers(1, 9))
def test_every_job_ends_in_a_consistent_state(
    of_task: list[Any], of_job: list[Any], first: int, retries: int, lag: bool, story: list[Happening], begin: int
) -> None:
    world = World()
    world.lag = lag
    tasks = [task("a", first, policies=of_task), task("b", 2)]
    world.create(job(tasks=tasks, minimum=1 + first % 3, policies=of_job, maxRetry=retries))
    world.lives = begin
    carry_on(world, world.settle)
    for number, happening in enumerate(story):
        for step in (world.admit, world.settle, world.bind, world.settle):
            carry_on(world, step)
            world.hear() if happening.which % 2 else None
        befall(world, happening, number)
        world.lives = happening.lives
        carry_on(world, world.settle)
        carry_on(world, lambda: world.wait(0.5))
        world.stop_deleted()
        carry_on(world, world.settle)
    world.lag, world.lives = False, float("inf")
    world.hear()
    for _ in range(12):
        world.turn()

    check(world)


@pytest.mark.parametrize("lives", range(25))
@pytest.mark.parametrize("action", ["RestartJob", "RestartTask", "RestartPod"])
def test_a_restart_that_is_cut_short_anywhere_is_completed_and_counts_once(action: str, lives: int) -> None:
    world = World()
    world.create(job(tasks=[task("a", 3), task("b", 1)], policies=[{"event": "PodFailed", "action": action}]))
    world.run(3)
    world.end_pod("j-a-1", "Failed", 1)

    world.lives = lives
    for _ in range(5):
        carry_on(world, world.turn)
    world.run(3)

    assert world.phase() == "Running"
    assert world.phases() == [None, "Pending", "Running", "Restarting", "Pending", "Running"]
    assert world.status()["retryCount"] == 1
    restarted = {"RestartJob": {"j-a-0", "j-a-1", "j-a-2", "j-b-0"}, "RestartTask": {"j-a-0", "j-a-1", "j-a-2"}}
    again = {name for name, (_, retries) in world.pod_versions().items() if retries == "1"}
    assert again == restarted.get(action, {"j-a-1"})
    check(world)


@pytest.mark.parametrize("lives", range(12))
@pytest.mark.parametrize(
    ("action", "phases"), [("AbortJob", ["Aborting", "Aborted"]), ("RestartJob", ["Restarting", "Pending", "Running"])]
)
def test_a_command_survives_a_crash_and_is_carried_out_once(action: str, phases: list[str], lives: int) -> None:
    world = World()
    world.create(job())
    world.run(3)
    world.command(action)

    world.lives = lives
    for _ in range(5):
        carry_on(world, world.turn)
    world.run(2)

    assert world.phases() == [None, "Pending", "Running", *phases]
    assert world.status()["version"] == 1
    check(world)
