"""A copied simulation goes its own way, and the same way."""

from typing import Any

from scheduler.api.names import GROUP_NAME
from scheduler.cluster.memory import Simulation
from scheduler.framework.configuration import DEFAULT_CONFIGURATION, parse_configuration
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


def simulation(*objects: Any) -> Simulation:
    return Simulation(manifests(*objects), DEFAULT, [NAME])


def test_what_happens_to_the_copy_does_not_happen_to_the_original() -> None:
    original = simulation(node("n1"), group("g"), pods("p", 2, "1c", "g"), JOB)
    before = original.cluster.objects()
    original.fork().run()
    assert original.cluster.objects() == before


def test_the_copy_and_the_original_come_to_the_same_end() -> None:
    original = simulation(
        node("n1"), node("n2", "2c+4Gi"), group("g", minimum=2), pods("p", 3, "1c", "g"), group("h"),
        pod("h-0", "8c", "h"), JOB,
    )  # fmt: skip
    copied = original.fork()
    copied.run()
    original.run()
    assert copied.cluster.objects() == original.cluster.objects()
    assert sum(o["kind"] == "Pod" and bool(o["spec"].get("nodeName")) for o in original.cluster.objects()) == 5


def test_what_controllers_make_counts_in_the_copy_as_in_the_original() -> None:
    original = simulation(node("n1", "8c+8Gi"), node("n2", "8c+8Gi"), JOB)  # a Service spreads its Pods
    copied = original.fork()
    copied.run()
    original.run()
    assert copied.cluster.objects() == original.cluster.objects()


def test_a_copy_made_halfway_goes_on_as_the_original_does() -> None:
    original = simulation(node("n1"), group("g", minimum=2), pods("p", 2, "1c", "g"), JOB)
    original.cycle()
    copied = original.fork()
    original.run()
    copied.run()
    assert copied.cluster.objects() == original.cluster.objects()


def test_controllers_of_the_copy_write_into_the_copy_alone() -> None:
    original = simulation(node("n1"), JOB)
    copied = original.fork()
    copied.run()

    def made(of: Simulation) -> int:
        return sum(
            o["kind"] == "Pod" and o["metadata"]["annotations"][GROUP_NAME].startswith("train-")
            for o in of.cluster.objects()
        )

    assert (made(copied), made(original)) == (2, 0)
    original.run()
    assert made(original) == 2


def test_what_a_waiting_pod_is_told_in_the_copy_it_is_not_told_in_the_original() -> None:
    original = simulation(node("n1"), group("g"), pod("p", "8c", "g"))
    original.fork().run()
    (task,) = original.snapshot().jobs["default/g"].tasks()
    assert task.message == ""


def test_many_copies_of_one_original_are_alike() -> None:
    original = simulation(node("n1"), group("g", minimum=2), pods("p", 2, "3c", "g"))
    first, second = original.fork(), original.fork()
    first.change(manifests(node("n2")))
    first.run()
    second.run()
    assert {o["metadata"]["name"] for o in first.cluster.objects() if o["kind"] == "Node"} == {"n1", "n2"}
    assert {o["metadata"]["name"] for o in second.cluster.objects() if o["kind"] == "Node"} == {"n1"}
    assert not any(o["spec"].get("nodeName") for o in second.cluster.objects() if o["kind"] == "Pod")
    assert all(o["spec"].get("nodeName") for o in first.cluster.objects() if o["kind"] == "Pod")
