"""The measures of ``benchmarks.claims``: traffic between nodes, and shares over time."""

from itertools import count

from benchmarks.claim_cluster import BatchJob, Step
from benchmarks.claims import Shares, shares, traffic

_times = count(1)


def step(pod: str, node: str, phase: str = "Running", time: float = 0.0) -> Step:
    job, role, _ = pod.rsplit("-", 2)
    return Step(time or next(_times), job, role, pod, node, phase)


def test_each_pair_of_ps_and_worker_on_different_nodes_costs_one_model() -> None:
    two_and_two = [step(f"j-{role}-{i}", f"n{i % 2}") for role, size in (("ps", 2), ("worker", 4)) for i in range(size)]
    assert traffic(two_and_two) == 4
    assert traffic([each._replace(node="n0") for each in two_and_two]) == 0
    assert traffic([each._replace(node=each.pod) for each in two_and_two]) == 8


def test_shares_count_from_the_moment_when_the_cluster_is_full_until_a_job_has_started_all_its_pods() -> None:
    steps = [
        step("large-w-0", "n", time=1.0),
        step("small-w-0", "n", time=2.0),  # full: one Pod each, for four seconds
        step("small-w-0", "n", "Succeeded", time=6.0),  # the large job alone, for a second
        step("large-w-1", "n", time=7.0),  # two Pods of the large job, for a second
        step("large-w-0", "n", "Succeeded", time=8.0),
        step("small-w-1", "n", time=8.0),  # the small job has started both Pods
        step("large-w-1", "n", "Succeeded", time=99.0),
    ]
    assert shares(steps, {"large": 9, "small": 2}, 2) == Shares(
        {"large": 1, "small": 1},  # type: ignore[arg-type]
        {"large": 7 / 11, "small": 4 / 11},
    )


def test_a_pod_that_is_shown_again_counts_once() -> None:
    steps = [step("a-w-0", "n", "Pending", 1.0), step("a-w-0", "n", "Running", 2.0), step("b-w-0", "n", time=3.0)]
    assert shares(steps, {"a": 2, "b": 1}, 2).at_first == {"a": 1, "b": 1}


def test_jobs_are_created_with_the_roles_and_annotations_that_both_schedulers_need() -> None:
    job = BatchJob("train", {"ps": 1, "worker": 2}, annotations={"a": "b"})
    assert job.group()["spec"] == {"minMember": 3, "queue": "default"}
    assert [pod["metadata"]["name"] for pod in job.pods("kube-scheduler")] == [
        "train-ps-0",
        "train-worker-0",
        "train-worker-1",
    ]
    assert {pod["spec"]["schedulerName"] for pod in job.pods("kube-scheduler")} == {"default-scheduler"}
