"""A copied simulation is independent of the original and behaves the same."""

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.api.kinds import POD
from scheduler.api.names import GROUP_NAME
from scheduler.cluster.memory import Simulation
from scheduler.framework.configuration_file import DEFAULT_CONFIGURATION, parse_configuration
from tests.builders import NAME, Raw, group, manifests, node, pod, pods

DEFAULT = parse_configuration(DEFAULT_CONFIGURATION)
JOB: Raw = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {
        "schedulerName": NAME,
        "minAvailable": 2,
        "plugins": {"svc": []},
        "tasks": [
            {
                "name": "worker",
                "replicas": 2,
                "template": {"spec": {"containers": [{"name": "main", "image": "train:1"}]}},
            }
        ],
    },
}


BOTH = pytest.mark.parametrize("copy", [Simulation.fork, Simulation.branch])
Copy = Callable[[Simulation], Simulation]


def simulation(*objects: Any) -> Simulation:
    return Simulation(manifests(*objects), DEFAULT, [NAME])


@BOTH
def test_changes_of_the_copy_do_not_change_the_original(copy: Copy) -> None:
    original = simulation(node("n1"), group("g"), pods("p", 2, "1c", "g"), JOB)
    before = original.cluster.objects()
    copy(original).run()
    assert original.cluster.objects() == before


@BOTH
def test_the_copy_and_the_original_reach_the_same_state(copy: Copy) -> None:
    original = simulation(
        node("n1"), node("n2", "2c+4Gi"), group("g", minimum=2), pods("p", 3, "1c", "g"), group("h"),
        pod("h-0", "8c", "h"), JOB,
    )  # fmt: skip
    copied = copy(original)
    copied.run()
    original.run()
    assert copied.cluster.objects() == original.cluster.objects()
    assert sum(o["kind"] == "Pod" and bool(o["spec"].get("nodeName")) for o in original.cluster.objects()) == 5


def test_controllers_work_in_the_copy_as_in_the_original() -> None:
    original = simulation(node("n1", "8c+8Gi"), node("n2", "8c+8Gi"), JOB)  # a Service spreads its Pods
    copied = original.fork()
    copied.run()
    original.run()
    assert copied.cluster.objects() == original.cluster.objects()


def test_a_copy_made_between_cycles_continues_as_the_original() -> None:
    original = simulation(node("n1"), group("g", minimum=2), pods("p", 2, "1c", "g"), JOB)
    original.cycle()
    copied = original.fork()
    original.run()
    copied.run()
    assert copied.cluster.objects() == original.cluster.objects()


@BOTH
def test_controllers_of_the_copy_write_to_the_copy_only(copy: Copy) -> None:
    original = simulation(node("n1"), JOB)
    copied = copy(original)
    copied.run()

    def made(of: Simulation) -> int:
        return sum(
            o["kind"] == "Pod" and o["metadata"]["annotations"][GROUP_NAME].startswith("train-")
            for o in of.cluster.objects()
        )

    assert (made(copied), made(original)) == (2, 0)
    original.run()
    assert made(original) == 2


@BOTH
def test_the_message_of_a_pending_task_in_the_copy_does_not_reach_the_original(copy: Copy) -> None:
    original = simulation(node("n1"), group("g"), pod("p", "8c", "g"))
    copy(original).run()
    (task,) = original.snapshot().jobs["default/g"].tasks()
    assert task.message == ""


@BOTH
def test_copies_of_one_original_are_equal(copy: Copy) -> None:
    original = simulation(node("n1"), group("g", minimum=2), pods("p", 2, "3c", "g"))
    first, second = copy(original), copy(original)
    first.change(manifests(node("n2")))
    first.run()
    second.run()
    assert {o["metadata"]["name"] for o in first.cluster.objects() if o["kind"] == "Node"} == {"n1", "n2"}
    assert {o["metadata"]["name"] for o in second.cluster.objects() if o["kind"] == "Node"} == {"n1"}
    assert not any(o["spec"].get("nodeName") for o in second.cluster.objects() if o["kind"] == "Pod")
    assert all(o["spec"].get("nodeName") for o in first.cluster.objects() if o["kind"] == "Pod")


def test_branches_one_after_the_other_reach_the_state_of_a_fork() -> None:
    original = simulation(
        node("n1"), group("full"), pod("full-0", "4c", "full", on="n1"), group("g"), pods("p", 2, "3c", "g"), JOB
    )
    original.run()
    put_aside = original.fork()
    ends = []
    for copied in (original.fork(), put_aside.branch(), put_aside.branch()):
        copied.change(manifests(node("n2"), node("n3")))
        copied.cluster.server.delete(POD, "default", "full-0")
        copied.run()
        ends.append(copied.cluster.objects())
    assert ends[0] == ends[1] == ends[2]


def test_a_priority_changed_in_a_branch_applies_to_that_branch_only() -> None:
    waiting = group("g")
    waiting["spec"]["priorityClassName"] = "urgent"
    original = simulation(node("n1"), waiting, pod("p", "8c", "g"))
    original.run()
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 7}
    first = original.branch()
    first.change(manifests(urgent))
    assert first.snapshot().jobs["default/g"].priority == 7
    assert original.branch().snapshot().jobs["default/g"].priority == 0
