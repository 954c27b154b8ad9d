"""Scaling rules: the jobs of a service create Pods in the order that its states ask for."""

import json
from typing import Any

import pytest

from scheduler.api.kinds import ACJOB, CONFIG_MAP, POD, POD_GROUP
from scheduler.controllers.acjob import AscendJobController
from scheduler.controllers.acjob.scaling_rule import GroupTarget, ScalingRuleError, parse_rule, why_waiting
from tests.unit.controllers.acjob.jobs import acjob, role
from tests.unit.controllers.clusters import Controlled

Raw = dict[str, Any]
DOCUMENTED = [{"group0": 2, "group1": 1}, {"group0": 1, "group1": 1}]
"""The states of MindCluster's example: number of jobs of each group."""


def rule(states: list[dict[str, int]], servers: int = 2) -> str:
    groups = [
        [{"group_name": name, "group_num": str(n), "server_num_per_group": str(servers)} for name, n in state.items()]
        for state in states
    ]
    return json.dumps({"version": "1.0", "elastic_scaling_list": [{"group_list": each} for each in groups]})


# --- rules ---
def test_the_rule_of_the_documentation() -> None:
    found = parse_rule(rule(DOCUMENTED))
    assert found == [
        {"group0": GroupTarget(2, 2), "group1": GroupTarget(1, 2)},
        {"group0": GroupTarget(1, 2), "group1": GroupTarget(1, 2)},
    ]


@pytest.mark.parametrize(
    ("running", "allowed"),
    [
        ({}, ["group0", "group1"]),
        ({"group0": 1}, ["group1"]),
        ({"group1": 1}, ["group0"]),
        ({"group0": 1, "group1": 1}, ["group0"]),
        ({"group0": 2}, ["group1"]),
        ({"group0": 2, "group1": 1}, []),
        ({"group0": 1, "group1": 4}, ["group0"]),
    ],
)
def test_a_service_grows_to_the_smallest_state_that_it_has_not_reached(
    running: dict[str, int], allowed: list[str]
) -> None:
    states = parse_rule(rule(DOCUMENTED))
    assert [group for group in ("group0", "group1") if not why_waiting(states, group, running)] == allowed


def test_the_reason_names_the_state_and_the_numbers() -> None:
    states = parse_rule(rule(DOCUMENTED))
    assert why_waiting(states, "group0", {"group0": 1}) == (
        "state 2 of 2 of the scaling rule is not reached: 1 of 1 jobs of group group0 run, 0 of 1 jobs of group group1"
    )
    assert why_waiting(states, "group0", {"group0": 2, "group1": 1}) == "all 2 states of the scaling rule are reached"
    assert (
        why_waiting(states, "group9", {})
        == "state 2 of 2 of the scaling rule, which is not reached, has no group group9"
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ("{}", "elastic_scaling_list"),
        ('{"elastic_scaling_list": 3}', "elastic_scaling_list"),
        (rule([{"a": 1}]).replace('"1"', '"xxx"', 1), "group_num of group a is 'xxx', not a number from 0 to 999,999"),
        (rule([{"a": 1}]).replace('"2"', '"-1"', 1), "server_num_per_group of group a is '-1'"),
        (rule([{"a": 2}, {"a": 4}]), "elastic_scaling_list[1]: group_num of group a grows from 2 to 4"),
        (rule([{"a": 2}, {"b": 1}]), "elastic_scaling_list[1]: group b is not in the state before"),
        (
            rule([{"a": 2}, {"a": 1}])[::-1].replace('"2"', '"3"', 1)[::-1],
            "server_num_per_group of group a grows from 2 to 3",
        ),
        ("[" * 100_000, "not JSON"),
        ('{"elastic_scaling_list": [{"group_list": [{"group_name": "a", "group_num": "٣"}]}]}', "group_num of group a"),
    ],
)
def test_a_malformed_rule_says_what_is_wrong_and_where(text: str, problem: str) -> None:
    with pytest.raises(ScalingRuleError) as error:
        parse_rule(text)
    assert problem in str(error.value)


# --- jobs ---
class Service(Controlled):
    """The jobs of one MindIE service."""

    def __init__(self) -> None:
        super().__init__(lambda store: [AscendJobController(store, ("volcano",))])

    def give_rule(self, text: str | None, name: str = "scaling-rule") -> None:
        data = {} if text is None else {"elastic_scaling.json": text}
        metadata = {"name": name, "namespace": "default"}
        self.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    def submit(self, name: str, group: str, **labels: str) -> None:
        names = {"mind-cluster/scaling-rule": "scaling-rule", "mind-cluster/group-name": group, "jobID": "mindie"}
        raw = acjob({"Master": role(), "Worker": role(1)}, labels={**names, "app": "mindie-ms-server", **labels})
        raw["metadata"] |= {"name": name, "uid": f"uid-{name}"}
        self.create(raw)
        self.phase(name, "Inqueue")

    def phase(self, name: str, phase: str) -> None:
        self.patch(POD_GROUP, f"{name}-uid-{name}", {"status": {"phase": phase}})

    def run(self, name: str) -> None:
        """The Pods of a job run, and the scheduler says so."""
        for pod in (f"{name}-master-0", f"{name}-worker-0"):
            self.patch(POD, pod, {"status": {"phase": "Running"}})
        self.phase(name, "Running")
        self.wait(2)

    def stop(self, name: str) -> None:
        """The scheduler deletes the Pods of a job after a fault."""
        for pod in (f"{name}-master-0", f"{name}-worker-0"):
            self.delete(POD, pod)
        self.phase(name, "Inqueue")
        self.wait(2)

    def with_pods(self) -> list[str]:
        return sorted({raw["metadata"]["labels"]["job-name"] for raw in self.cluster.server.of(POD)})

    def last_condition(self, name: str) -> tuple[str, str, str]:
        raw = self.find(ACJOB, name)
        assert raw is not None
        last = raw["status"]["conditions"][-1]
        return last["type"], last["reason"], last.get("message", "")


def served() -> Service:
    service = Service()
    service.give_rule(rule(DOCUMENTED))
    for name, group in (("p0", "group0"), ("p1", "group0"), ("d0", "group1")):
        service.submit(name, group)
    return service


def test_the_jobs_of_a_service_create_pods_in_the_order_of_its_states() -> None:
    service = Service()
    service.give_rule(rule(DOCUMENTED))
    service.submit("p0", "group0")
    service.run("p0")
    service.submit("p1", "group0")
    assert service.with_pods() == ["p0"]
    type, reason, message = service.last_condition("p1")
    assert (type, reason) == ("Created", "PodCreateFailed")
    assert message.startswith("job default/p1 can't create pod, try later: state 2 of 2 of the scaling rule")
    service.submit("d0", "group1")
    assert service.with_pods() == ["d0", "p0"]
    service.run("d0")
    assert service.with_pods() == ["d0", "p0", "p1"]


def test_the_jobs_of_a_group_that_a_state_needs_may_all_create_pods_and_wait_for_nodes() -> None:
    service = served()
    assert service.with_pods() == ["d0", "p0", "p1"]


def test_after_a_fault_an_instance_waits_until_the_smaller_state_is_reached_again() -> None:
    service = served()
    for name in ("p0", "p1", "d0"):
        service.run(name)
    service.phase("d0", "Inqueue")
    service.stop("p1")
    assert service.with_pods() == ["d0", "p0"]
    assert service.last_condition("p1")[:2] == ("Restarting", "PodCreateFailed")
    service.run("d0")
    assert service.with_pods() == ["d0", "p0", "p1"]
    service.run("p1")
    assert service.last_condition("p1")[0] == "Running"


def test_a_running_job_that_lost_one_pod_creates_it_again() -> None:
    service = served()
    for name in ("p0", "p1", "d0"):
        service.run(name)
    service.delete(POD, "p0-worker-0")
    service.wait(2)
    assert service.find(POD, "p0-worker-0") is not None


def test_another_instance_starts_once_the_rule_allows_it() -> None:
    service = served()
    for name in ("p0", "p1", "d0"):
        service.run(name)
    service.submit("p2", "group0")
    assert service.with_pods() == ["d0", "p0", "p1"]
    larger = rule([{"group0": 3, "group1": 1}, *DOCUMENTED])
    service.patch(CONFIG_MAP, "scaling-rule", {"data": {"elastic_scaling.json": larger}})
    assert service.with_pods() == ["d0", "p0", "p1", "p2"]


def test_the_jobs_of_another_service_do_not_count() -> None:
    service = Service()
    service.give_rule(rule([{"group0": 1}]))
    service.submit("other", "group0", jobID="another")
    service.run("other")
    service.submit("p0", "group0")
    assert service.with_pods() == ["other", "p0"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("absent", "ConfigMap scaling-rule, which the label mind-cluster/scaling-rule names, does not exist"),
        (None, "ConfigMap scaling-rule has no key elastic_scaling.json"),
        ("{", "ConfigMap scaling-rule, data[elastic_scaling.json]: not JSON"),
    ],
)
def test_a_job_waits_for_a_rule_that_can_be_used_and_one_warning_says_why(text: str | None, problem: str) -> None:
    service = Service()
    if text != "absent":
        service.give_rule(text)
    service.submit("p0", "group0")
    service.wait(30)
    assert service.with_pods() == []
    warnings = [message for _, _, type, reason, message in service.events() if reason == "InvalidScalingConfig"]
    assert len(warnings) == 1
    assert problem in warnings[0]
    assert problem in service.last_condition("p0")[2]
    if text == "absent":
        service.give_rule(rule(DOCUMENTED))
    else:
        service.patch(CONFIG_MAP, "scaling-rule", {"data": {"elastic_scaling.json": rule(DOCUMENTED)}})
    assert service.with_pods() == ["p0"]


@pytest.mark.parametrize("missing", ["mind-cluster/group-name", "jobID"])
def test_a_job_with_a_rule_needs_a_service_and_a_group(missing: str) -> None:
    names = {"mind-cluster/scaling-rule": "scaling-rule", "mind-cluster/group-name": "group0", "jobID": "mindie"}
    del names[missing]
    service = Service()
    service.create(acjob({"Master": role()}, labels=names))
    type, reason, message = service.last_condition("train")
    assert (type, reason) == ("Failed", "JobValidFailed")
    assert (
        message.startswith("InvalidScalingConfig: job train has no ") and f"please set label of {missing}=" in message
    )


def test_a_job_that_waits_for_its_rule_is_not_active_longer_than_it_may_be() -> None:
    service = Service()
    names = {"mind-cluster/scaling-rule": "scaling-rule", "mind-cluster/group-name": "group0", "jobID": "mindie"}
    raw = acjob({"Master": role()}, run_policy={"activeDeadlineSeconds": 5}, labels=names)
    service.create(raw)
    service.phase("train", "Inqueue")
    for _ in range(8):
        service.wait(1)
    assert service.last_condition("train")[1] == "DeadlineExceeded"
