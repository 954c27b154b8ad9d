"""The tasks of a vcjob that can start, with dependsOn and job plugins that make one task wait for another."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from scheduler.api.batch import JobSpec
from scheduler.api.start_order import StartProblems, start_problems

Raw = dict[str, Any]
WAIT = {"pytorch": ["--wait-master-enabled"]}


def task(name: str, replicas: int = 1, *depends: str, minimum: int | None = None, **rest: Any) -> Raw:
    """A task whose Pods are all needed unless ``minimum`` says otherwise."""
    on = {"dependsOn": {"name": list(depends)}} if depends else {}
    return {"name": name, "replicas": replicas, "minAvailable": replicas if minimum is None else minimum, **on, **rest}


def problems(*tasks: Raw, minimum: int | None = None, plugins: Raw | None = None) -> StartProblems:
    """``minimum``: the minimum of the job, by default the sum of the minimums of its tasks, as admission sets it."""
    total = sum(each["minAvailable"] for each in tasks) if minimum is None else minimum
    spec = {"tasks": list(tasks), "minAvailable": total, "plugins": plugins or {}}
    return start_problems(msgspec.convert(spec, JobSpec))


BOTH = (
    "task master waits for 2 ready Pods of task worker (dependsOn), "
    "task worker waits for task master (plugin pytorch, --wait-master-enabled)"
)


def test_a_master_that_depends_on_workers_which_wait_for_it_can_never_start() -> None:
    found = problems(task("master", 1, "worker"), task("worker", 2), plugins=WAIT)
    assert found == StartProblems(f"the job can never start: {BOTH}; minAvailable is 3, and 0 of 3 Pods can start")


@pytest.mark.parametrize(
    "arguments",
    [["--wait-master-enabled=true"], ["-wait-master-enabled", "--master=master"], ["--wait-master-enabled"]],
)
def test_the_arguments_of_the_plugin_count(arguments: Sequence[str]) -> None:
    jobs = problems(task("master", 1, "worker"), task("worker", 2), plugins={"pytorch": arguments})
    assert BOTH in jobs.refusal
    renamed = {"pytorch": [*arguments, "--master=chief", "--worker=node"]}
    assert "task chief waits for a ready Pod of task node" in (
        problems(task("chief", 1, "node"), task("node"), plugins=renamed).refusal
    )


def test_the_circle_may_be_long() -> None:
    chain = [task("master", 1, "c"), task("a", 1, "worker"), task("b", 1, "a"), task("c", 1, "b"), task("worker", 2)]
    refusal = problems(*chain, task("other"), plugins=WAIT).refusal
    assert "task master waits for a ready Pod of task c (dependsOn)" in refusal
    assert refusal.endswith("and 1 more waits; minAvailable is 7, and 1 of 7 Pods can start")


def test_only_the_circle_is_named_and_not_what_waits_for_it() -> None:
    refusal = problems(task("last", 1, "master"), task("master", 1, "worker"), task("worker", 2), plugins=WAIT).refusal
    assert BOTH in refusal and "last" not in refusal


def test_a_task_that_is_its_own_master_can_never_start() -> None:
    plugins = {"pytorch": ["--wait-master-enabled", "--master=w", "--worker=w"]}
    assert problems(task("w", 3), plugins=plugins).refusal == (
        "the job can never start: task w waits for task w (plugin pytorch, --wait-master-enabled); "
        "minAvailable is 3, and 0 of 3 Pods can start"
    )


@pytest.mark.parametrize(
    ("tasks", "plugins"),
    [
        # The usual order.
        ([task("master"), task("worker", 2)], WAIT),
        ([task("master"), task("worker", 2, "master")], WAIT),
        # Without the argument, the workers run before the master.
        ([task("master", 1, "worker"), task("worker", 2)], {"pytorch": []}),
        ([task("master", 1, "worker"), task("worker", 2)], {"pytorch": ["--wait-master-enabled=false"]}),
        # Programs of their own wait, if any.
        ([task("master", 1, "worker"), task("worker", 2)], {"mpi": []}),
        ([task("ps", 1, "worker"), task("worker", 2)], {"tensorflow": []}),
        # A task without minAvailable is not waited for.
        ([task("master", 1, "worker"), task("worker", 2, minimum=0)], WAIT),
        # One of several tasks is enough.
        (
            [
                task("master", 1, dependsOn={"name": ["worker", "prepare"], "iteration": "any"}),
                task("prepare"),
                task("worker", 2),
            ],
            WAIT,
        ),
        # There are no workers, or no master to wait for.
        ([task("master", 1, "worker"), task("worker", 0)], WAIT),
        ([task("a", 1, "worker"), task("worker", 2)], WAIT),
        ([task("worker", 2)], WAIT),
        # Arguments that cannot be used, and dependencies on unknown tasks, have other messages.
        ([task("master", 1, "worker"), task("worker", 2)], {"pytorch": ["--wait-master-enabled", "--port=x"]}),
        ([task("master", 1, "nobody"), task("worker", 2)], WAIT),
    ],
)
def test_jobs_that_can_start(tasks: list[Raw], plugins: Raw) -> None:
    assert problems(*tasks, plugins=plugins) == StartProblems()


def test_of_several_dependencies_one_is_enough_but_not_if_none_can_start() -> None:
    either = {"name": ["worker", "late"], "iteration": "any"}
    tasks = [task("master", 1, dependsOn=either), task("late", 1, "master"), task("worker", 2)]
    assert BOTH in problems(*tasks, plugins=WAIT).refusal


def test_an_init_container_of_the_template_replaces_that_of_the_plugin() -> None:
    own = {"spec": {"initContainers": [{"name": "wait-for-master"}]}}
    tasks = [task("master", 1, "worker"), task("worker", 2, template=own)]
    assert problems(*tasks, plugins=WAIT) == StartProblems()


def test_a_job_that_needs_only_its_other_tasks_can_start() -> None:
    tasks = [task("a", 4), task("master", 1, "worker"), task("worker", 2)]
    assert problems(*tasks, minimum=4, plugins=WAIT) == StartProblems(
        warnings=(f"tasks master, worker can never start: {BOTH}",)
    )
    assert problems(*tasks, minimum=5, plugins=WAIT).refusal.endswith("minAvailable is 5, and 4 of 7 Pods can start")


def test_a_job_that_needs_no_pod_can_never_start_if_no_task_can() -> None:
    tasks = [task("master", 1, "worker"), task("worker", 2, minimum=2)]
    assert problems(*tasks, minimum=0, plugins=WAIT).refusal.endswith("minAvailable is 0, and 0 of 3 Pods can start")


def test_workers_of_a_ray_cluster_that_the_head_waits_for_may_never_start() -> None:
    """The containers run before they fail, so the head may find ready workers."""
    found = problems(task("head", 1, "worker"), task("worker", 2), plugins={"ray": []})
    assert found == StartProblems(
        warnings=(
            "tasks head, worker may never start: task head waits for 2 ready Pods of task worker (dependsOn), "
            "containers of task worker fail without task head (plugin ray)",
        )
    )
    assert problems(task("head"), task("worker", 2, "head"), plugins={"ray": []}) == StartProblems()


def test_workers_whose_master_has_no_replicas_wait_until_it_is_scaled_up() -> None:
    found = problems(task("master", 0), task("worker", 2), plugins=WAIT)
    assert found == StartProblems(
        warnings=("task worker waits for task master (plugin pytorch, --wait-master-enabled), which has no replicas",)
    )


def test_a_long_chain_in_any_order_takes_linear_time() -> None:
    """Linear time prevents a hostile job from keeping a webhook busy."""
    tasks = [task(f"t{number}", 1, f"t{number + 1}") for number in range(5_000)]
    assert problems(*tasks, task("t5000")) == StartProblems()
