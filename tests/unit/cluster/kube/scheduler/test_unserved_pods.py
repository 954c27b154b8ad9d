"""A Pod with a misspelt schedulerName gets a Warning, which no Pod of another scheduler gets."""

from typing import Any

import msgspec
import pytest

from scheduler.api.kinds import POD
from scheduler.api.objects import Pod
from scheduler.cache import ClusterCache
from scheduler.cluster.kube.scheduler.report import WatchedPods
from scheduler.cluster.kube.scheduler.unserved_pods import UnservedPods
from scheduler.observability.metrics import Metrics
from tests.builders import Raw, pod

PROBLEM = "'vulcano' is not a name of this scheduler (volcano-py); did you mean 'volcano-py'?"
WAITS = "no scheduler has placed a Pod with this name, so the Pod waits"


class Scheduler:
    """The Warnings of a scheduler called volcano-py about the Pods that it sees."""

    def __init__(self, *names: str) -> None:
        self._unserved = UnservedPods(names or ("volcano-py",))
        self._sink = WatchedPods(ClusterCache(names or ("volcano-py",)), Metrics(), self._unserved)

    def sees(self, *pods: Raw) -> None:
        for raw in pods:
            self._sink.upsert(POD, msgspec.convert(raw, Pod))

    def sees_deletion(self, name: str) -> None:
        self._sink.delete(POD, "default", name)

    def says(self) -> list[tuple[str, str]]:
        """The Pod and message of each Warning, once every Pod has waited."""
        self._unserved.take()
        return self.says_next()

    def says_next(self) -> list[tuple[str, str]]:
        return [(each.name, each.message) for each in self._unserved.take()]


def misspelt(name: str, scheduler: str = "vulcano", *, namespace: str = "default", **status: Any) -> Raw:
    raw = pod(name, "1c", scheduler=scheduler)
    raw["metadata"] |= {"uid": f"uid-{name}", "namespace": namespace}
    raw["status"] |= status
    return raw


def owned(name: str, owner: str, **rest: Any) -> Raw:
    raw = misspelt(name, **rest)
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-{owner}"}
    raw["metadata"]["ownerReferences"] = [reference | {"controller": True}]
    return raw


def considered(raw: Raw, reason: str) -> Raw:
    raw["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "reason": reason}]
    return raw


@pytest.mark.parametrize("name", ["vulcano", "volcano-pi", "Volcano-Py", "volcano-python", "volcanopy"])
def test_a_pod_with_a_misspelt_scheduler_name_gets_one_warning(name: str) -> None:
    scheduler = Scheduler()
    scheduler.sees(misspelt("p", name))
    problem = f"'{name}' is not a name of this scheduler (volcano-py); did you mean 'volcano-py'?"
    assert scheduler.says() == [("p", f"spec.schedulerName: {problem}; {WAITS}")]
    scheduler.sees(misspelt("p", name, message="changed"))
    assert scheduler.says() == []


@pytest.mark.parametrize("name", ["", "default-scheduler", "volcano-py", "yunikorn", "kueue", "x" * 5000])
def test_other_names_are_no_mistake(name: str) -> None:
    scheduler = Scheduler()
    scheduler.sees(misspelt("p", name))
    assert scheduler.says() == []


def test_a_name_that_resembles_a_further_name_of_the_scheduler_is_a_mistake() -> None:
    scheduler = Scheduler("batch", "night-shift")
    scheduler.sees(misspelt("p", "nightshift"))
    ((name, message),) = scheduler.says()
    assert name == "p" and "(batch, night-shift); did you mean 'night-shift'?" in message


def test_a_scheduler_has_time_to_consider_a_pod() -> None:
    scheduler = Scheduler()
    scheduler.sees(misspelt("p"))
    assert scheduler.says_next() == []
    scheduler.sees(considered(misspelt("p"), "Unschedulable"))
    assert scheduler.says() == []


@pytest.mark.parametrize("first", [True, False])
def test_a_name_with_which_a_pod_was_placed_is_that_of_another_scheduler(first: bool) -> None:
    scheduler = Scheduler()
    placed = pod("placed", "1c", scheduler="volcano", on="n", phase="Running")
    waits = misspelt("p", "volcano")
    scheduler.sees(*((placed, waits) if first else (waits, placed)))
    assert scheduler.says() == []


def test_a_pod_that_is_placed_later_shows_that_its_scheduler_exists() -> None:
    scheduler = Scheduler()
    scheduler.sees(misspelt("p", "volcano"), misspelt("q", "volcano"))
    assert scheduler.says_next() == []
    scheduler.sees(pod("p", "1c", scheduler="volcano", on="n"))
    assert scheduler.says() == []


def test_a_pod_with_gates_has_been_considered_by_no_scheduler() -> None:
    scheduler = Scheduler()
    scheduler.sees(considered(misspelt("p"), "SchedulingGated"))
    assert [name for name, _ in scheduler.says()] == ["p"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_waits_for_no_scheduler(phase: str) -> None:
    scheduler = Scheduler()
    terminating = misspelt("q")
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    scheduler.sees(misspelt("p", phase=phase), terminating)
    assert scheduler.says() == []


def test_a_pod_that_was_deleted_gets_no_warning() -> None:
    scheduler = Scheduler()
    scheduler.sees(misspelt("p"), misspelt("q"))
    scheduler.sees_deletion("p")
    assert scheduler.says_next() == []
    scheduler.sees_deletion("q")
    assert scheduler.says_next() == []


def test_a_workload_of_thousands_of_pods_gets_one_warning_with_their_number() -> None:
    scheduler = Scheduler()
    scheduler.sees(*(owned(f"web-{i}", "web-5d") for i in range(3000)))
    expected = f"spec.schedulerName: {PROBLEM}; {WAITS}: 3000 Pods of ReplicaSet web-5d"
    assert scheduler.says() == [("web-0", expected)]
    scheduler.sees(*(owned(f"web-{i}", "web-5d") for i in range(3000, 3010)))
    assert scheduler.says() == []


def test_each_workload_and_namespace_gets_a_warning_of_its_own() -> None:
    scheduler = Scheduler()
    scheduler.sees(
        owned("a", "one"),
        owned("b", "one"),
        owned("c", "two"),
        owned("d", "one", namespace="team"),
        owned("e", "one", scheduler="volcano-pi"),
    )
    assert sorted(name for name, _ in scheduler.says()) == ["a", "c", "d", "e"]


def test_many_pods_of_a_namespace_get_ten_warnings_at_a_time_and_do_not_delay_those_of_others() -> None:
    scheduler = Scheduler()
    scheduler.sees(*(misspelt(f"p-{i:02}") for i in range(25)), misspelt("theirs", namespace="team"))
    assert [name for name, _ in scheduler.says()] == [*(f"p-{i:02}" for i in range(10)), "theirs"]
    assert [name for name, _ in scheduler.says_next()] == [f"p-{i:02}" for i in range(10, 20)]
    assert [name for name, _ in scheduler.says_next()] == [f"p-{i:02}" for i in range(20, 25)]
    assert scheduler.says_next() == []


def test_what_is_remembered_of_a_namespace_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("MAX_WAITING", "MAX_REPORTED"):
        monkeypatch.setattr(f"scheduler.cluster.kube.scheduler.unserved_pods.{limit}", 5)
    scheduler = Scheduler()
    scheduler.sees(*(misspelt(f"p-{i}") for i in range(9)), misspelt("theirs", namespace="team"))
    assert [name for name, _ in scheduler.says()] == [*(f"p-{i}" for i in range(5)), "theirs"]
    scheduler.sees(misspelt("p-5"), misspelt("p-4"))
    assert [name for name, _ in scheduler.says()] == ["p-5"]
