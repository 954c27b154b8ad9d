"""Only the scheduler admits a PodGroup, whatever users write to its status, spec and annotations."""

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.api.decisions import Decisions, PodGroupStatusUpdate
from scheduler.api.job import Job
from scheduler.api.kinds import POD
from scheduler.api.names import ADMISSION_RECORD, CARD_REQUEST
from scheduler.api.reasons import Malformed
from scheduler.api.signed_records import SigningKey
from scheduler.cache import ClusterCache
from scheduler.framework.configuration import Configuration
from scheduler.framework.cycle import open_session, run_cycle
from scheduler.framework.session import Session
from scheduler.plugins.support.queue_accounting import amounts_of_jobs
from tests.builders import NAME, Raw, configuration, feed, group, node, pod, queue
from tests.unit.plugins.capacity_card.cards import H200, card_group, card_pod, gpu_node, quota_queue

PLAN = configuration(["priority", "gang"], ["overcommit", "predicates", "proportion", "nodeorder"])
START = 1_000.0
"""The Unix time of the first use of the key."""
LATER = 2_000.0


@pytest.fixture(params=["at once", "after standing by"], autouse=True)
def leads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test applies to a leader that has just started, and to a leader whose cache was prepared before."""
    monkeypatch.setattr(Scheduler, "stood_by", request.param == "after standing by")


class Scheduler:
    """A scheduler and an API server that carries out its decisions, where users may write PodGroups."""

    stood_by = False

    def __init__(self, *objects: Raw, plan: Configuration = PLAN, created: float = START, now: float = LATER) -> None:
        self.plan = plan
        self.key = SigningKey(b"k" * 32, created)
        self.objects: dict[tuple[str, str], Raw] = {}
        for obj in (node("n1", "4c+16Gi"), queue("default"), queue("other"), *objects):
            self.objects[obj["kind"], obj["metadata"]["name"]] = obj
        self.decisions = Decisions()
        self.malformed: list[Malformed] = []
        self.start(now)

    def start(self, now: float = LATER) -> None:
        """A new process becomes the leader."""
        self.cache = ClusterCache([NAME])
        self.cache.configure(self.plan)
        feed(self.cache, *self.objects.values())
        if self.stood_by:
            self.cache.prepare()
        self.cache.verify_admissions(self.key, now)

    def write(self, name: str, *, uid: str = "", phase: str | None = None, **spec: Any) -> None:
        """Edits a PodGroup as a user (``annotations``: the annotations of its metadata)."""
        found = self.objects["PodGroup", name]
        metadata, status = {**found["metadata"]}, {**found.get("status", {})}
        if "annotations" in spec:
            metadata["annotations"] = spec.pop("annotations")
        if uid:
            metadata["uid"] = uid
        if phase is not None:
            status["phase"] = phase
        self.create({**found, "metadata": metadata, "spec": {**found["spec"], **spec}, "status": status})

    def create(self, obj: Raw) -> None:
        self.objects[obj["kind"], obj["metadata"]["name"]] = obj
        feed(self.cache, obj)

    def run(self, cycles: int = 1) -> "Scheduler":
        for _ in range(cycles):
            outcome = run_cycle(self.cache.snapshot(LATER), self.plan)
            self.decisions, self.malformed = outcome.decisions, outcome.malformed
            self.cache.assume(self.decisions)
            for update in self.decisions.pod_groups:
                self._carry_out(update)
        return self

    def _carry_out(self, update: PodGroupStatusUpdate) -> None:
        self.objects["PodGroup", update.name]["status"] = {
            "running": update.running,
            "succeeded": update.succeeded,
            "failed": update.failed,
            "conditions": msgspec.to_builtins(update.conditions),
        }
        annotations = {**self.objects["PodGroup", update.name]["metadata"].get("annotations", {})}
        if update.removes_record:
            annotations.pop(ADMISSION_RECORD, None)
        elif update.admission is not None:
            annotations[ADMISSION_RECORD] = update.admission.text(update.uid, self.key)
        self.write(update.name, phase=update.phase, annotations=annotations)

    def job(self, name: str) -> Job:
        return self.cache.snapshot(LATER).jobs[f"default/{name}"]

    def reserved(self, name: str) -> float:
        """The thousandths of a cpu that a PodGroup reserves when a session opens."""
        session = open_session(Session(self.cache.snapshot(LATER), self.plan))
        _, _, reserved, _ = amounts_of_jobs(session.plugin_session, [session.jobs[f"default/{name}"]])
        return float(reserved[0, 0])

    def phase(self, name: str) -> str:
        return str(self.objects["PodGroup", name].get("status", {}).get("phase", ""))

    def annotations(self, name: str) -> dict[str, str]:
        return dict(self.objects["PodGroup", name]["metadata"].get("annotations", {}))

    def set_aside(self) -> list[str]:
        """The reports of the last session about phases that do not count."""
        return [problem.message for problem in self.malformed]


def no_pods(name: str, asks: str, phase: str = "", **more: Any) -> Raw:
    return group(name, minimum=1, asks=asks, phase=phase, **more)


# --- phases that others write ---
@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_a_phase_written_by_a_user_reserves_nothing_and_other_groups_are_admitted(phase: str) -> None:
    world = Scheduler(no_pods("victim", "2c"))
    world.create(no_pods("attacker", "1000000c", phase))
    assert world.run().phase("victim") == "Inqueue"
    assert world.job("attacker").phase == "Pending" and world.reserved("attacker") == 0


def test_a_claimed_phase_is_reported_with_numbers_and_corrected_once_there_are_pods() -> None:
    world = Scheduler(no_pods("a", "99c", "Inqueue")).run()
    (message,) = world.set_aside()
    assert message == (
        "status.phase: the scheduler has no record of having set Inqueue for queue default; "
        "nothing is reserved for the group before it is admitted (cpu: asked 99)"
    )
    world.create(pod("p", "1c", "a"))
    assert world.run().set_aside() == [message] and world.phase("a") == "Pending"
    assert world.run().set_aside() == []


def test_a_claimed_phase_reserves_no_cards() -> None:
    plan = configuration(["priority", "gang"], ["capacity-card"])
    objects = [
        gpu_node("gpu"),
        quota_queue("cards", {H200: 8}),
        card_group("a", "cards", 1, {H200: 8}, phase="Inqueue"),
    ]
    pods = [card_pod(f"p{i}", "a") for i in range(3)]
    world = Scheduler(*objects, *pods, card_group("victim", "cards", 1, {H200: 8}), plan=plan)
    for obj in (world.objects["PodGroup", "a"], world.objects["PodGroup", "victim"]):
        obj["metadata"]["creationTimestamp"] = f"2026-01-0{2 if obj['metadata']['name'] == 'a' else 1}T00:00:00Z"
    world.start()
    assert world.run().phase("victim") == "Inqueue"
    assert world.phase("a") == "Pending" and "cards: asked" in world.set_aside()[0]


def test_a_phase_that_another_scheduler_may_have_set_is_not_rewritten() -> None:
    world = Scheduler(no_pods("theirs", "99c", "Inqueue")).run(2)
    assert world.phase("theirs") == "Inqueue" and world.reserved("theirs") == 0


def test_a_group_whose_phase_does_not_count_is_admitted_in_order_like_any_other() -> None:
    world = Scheduler(no_pods("a-claims", "3c", "Inqueue"), no_pods("other", "3c"))
    world.objects["PodGroup", "other"]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    world.objects["PodGroup", "a-claims"]["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    world.start()
    assert world.run().phase("other") == "Inqueue"
    assert world.job("a-claims").phase == "Pending"


def test_all_pods_of_a_group_that_is_not_admitted_stay_pending_even_without_requests() -> None:
    pods = [pod("p-0", "1c", "a"), pod("p-1", "", "a")]
    world = Scheduler(no_pods("a", "99c", "Inqueue"), *pods).run(2)
    assert world.decisions.binds == []
    assert world.phase("a") == "Pending"


def test_running_counts_for_a_group_whose_pods_hold_nodes_and_reserves_no_more_than_they_hold() -> None:
    world = Scheduler(group("a", minimum=1, asks="1000c", phase="Running"), pod("p", "1c", "a", on="n1"))
    assert world.job("a").phase == "Running" and world.reserved("a") == 0
    world.create(no_pods("victim", "2c"))
    assert world.run().phase("victim") == "Inqueue"
    assert world.phase("a") == "Running" and world.set_aside() == []


def test_a_pod_put_on_a_node_by_its_user_does_not_make_a_claim_count() -> None:
    world = Scheduler(group("a", minimum=1, asks="1000c", phase="Inqueue"), pod("p", "", "a", on="n1", phase="Pending"))
    world.create(no_pods("victim", "2c"))
    assert world.run().phase("victim") == "Inqueue"
    assert world.run().reserved("a") == 0


def test_a_group_without_min_resources_and_cards_reserves_nothing_and_keeps_its_phase() -> None:
    world = Scheduler(group("a", minimum=1, phase="Inqueue"))
    assert world.job("a").phase == "Inqueue"
    assert world.run().set_aside() == [] and ADMISSION_RECORD not in world.annotations("a")


# --- after admission ---
def admitted(asks: str = "1c", **more: Any) -> Scheduler:
    world = Scheduler(no_pods("a", asks, **more)).run()
    assert world.phase("a") == "Inqueue"
    return world


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Pending", "Completed", "Unknown"])
def test_min_resources_raised_after_admission_reserve_what_was_admitted(phase: str) -> None:
    world = admitted()
    world.write("a", phase=phase, minResources={"cpu": "1000000", "memory": "1Pi", "example.com/x": "8"})
    assert world.reserved("a") == 1000
    world.create(no_pods("victim", "2c"))
    assert world.run().phase("victim") == "Inqueue"
    assert (world.phase("a"), world.reserved("a")) == ("Inqueue", 1000)


def test_min_resources_lowered_after_admission_reserve_the_lower_amount() -> None:
    world = admitted("2c")
    world.write("a", minResources={"cpu": "1"})
    assert world.reserved("a") == 1000


def test_a_phase_set_back_to_pending_is_corrected_and_reserves_once() -> None:
    world = admitted("2c")
    world.write("a", phase="Pending")
    assert world.reserved("a") == 2000
    world.create(no_pods("victim", "2c"))
    assert world.run().phase("a") == "Inqueue"
    assert world.phase("victim") == "Inqueue" and world.reserved("a") == 2000


def test_a_running_group_set_to_completed_is_corrected_and_keeps_its_reservation() -> None:
    world = Scheduler(no_pods("a", "1c"), pod("p", "1c", "a")).run()
    world.create(pod("p", "1c", "a", on="n1"))
    assert world.run().phase("a") == "Running"
    world.write("a", phase="Completed")
    assert world.run().phase("a") == "Running"
    assert world.decisions.evictions == []


def test_a_group_moved_to_another_queue_must_be_admitted_there() -> None:
    world = admitted("2c")
    world.create({**queue("other", capability="1c")})
    world.write("a", queue="other")
    assert world.reserved("a") == 0
    assert len(world.run().set_aside()) == 1 and world.reserved("a") == 0
    world.write("a", minResources={"cpu": "1"})
    assert world.run().set_aside() == [] and world.reserved("a") == 1000


def test_a_group_recreated_under_the_same_name_is_pending() -> None:
    world = admitted("2c")
    world.write("a", uid="another", minResources={"cpu": "1000"})
    assert world.reserved("a") == 0
    assert world.run().job("a").phase == "Pending"


def test_an_admission_ends_with_the_phase_pending() -> None:
    world = Scheduler(no_pods("a", "1c"), pod("p", "1c", "a")).run()
    world.create(pod("p", "1c", "a", on="n1"))
    assert world.run().phase("a") == "Running"
    world.cache.delete(POD, "default", "p")
    world.write("a", minResources={"cpu": "1000"})
    assert world.run(2).phase("a") == "Pending" and world.reserved("a") == 0


def test_cards_announced_after_admission_do_not_count() -> None:
    world = admitted("1c", annotations={CARD_REQUEST: '{"H200": 1}'})
    world.write("a", annotations={**world.annotations("a"), CARD_REQUEST: '{"H200": 1000}'})
    assert world.job("a").annotations[CARD_REQUEST] == '{"H200": 1}'
    without = admitted("1c")
    without.write("a", annotations={**without.annotations("a"), CARD_REQUEST: '{"H200": 1000}'})
    assert CARD_REQUEST not in without.job("a").annotations


def test_the_amounts_of_the_decision_count_even_if_the_spec_has_changed_since() -> None:
    world = Scheduler(no_pods("a", "1c"))
    decisions = run_cycle(world.cache.snapshot(LATER), PLAN).decisions
    world.write("a", minResources={"cpu": "1000"})
    world.cache.assume(decisions)
    assert world.reserved("a") == 1000


# --- amounts ---
@pytest.mark.parametrize("amount", ["1e30", 10**30, "9999999E"])
def test_absurd_amounts_are_not_admitted_and_reserve_nothing(amount: str | int) -> None:
    world = Scheduler(group("a", phase="Inqueue"), no_pods("victim", "2c"))
    world.write("a", phase="Inqueue", minResources={"cpu": amount, "no.node/has-it": amount})
    assert world.run().phase("victim") == "Inqueue"
    assert world.reserved("a") == 0


@pytest.mark.parametrize("amount", ["-1", "NaN", "inf", ""])
def test_a_malformed_amount_keeps_the_last_good_version(amount: str) -> None:
    world = admitted()
    world.write("a", phase="Running", minResources={"cpu": amount})
    (problem,) = world.cache.take_malformed()
    assert problem.field == "spec.minResources"
    assert world.reserved("a") == 1000


def test_a_reservation_is_limited_to_the_cluster_even_without_a_plugin_that_limits_it() -> None:
    plan = configuration(["priority", "gang"], ["predicates"])
    world = Scheduler(no_pods("a", "1000c"), plan=plan).run()
    assert world.phase("a") == "Inqueue" and world.reserved("a") == 4000
    world.plan = PLAN
    world.create(group("b", asks="100c", minimum=1))
    assert world.reserved("a") == 4000


# --- restarts ---
def test_after_a_restart_the_amounts_of_the_record_count() -> None:
    world = admitted("2c")
    for phase in ("Inqueue", "Pending", "Running"):
        world.write("a", phase=phase, minResources={"cpu": "1000"})
        world.start()
        assert (world.job("a").phase, world.reserved("a")) == ("Inqueue", 2000)
    assert world.run().phase("a") == "Inqueue" and world.set_aside() == []


def test_after_a_restart_a_claimed_phase_still_does_not_count() -> None:
    world = Scheduler(no_pods("a", "1000c", "Inqueue"), no_pods("victim", "2c"))
    world.start()
    assert world.run().phase("victim") == "Inqueue" and world.reserved("a") == 0


def test_a_record_of_another_group_or_of_another_key_does_not_count() -> None:
    world = admitted("2c")
    text = world.annotations("a")[ADMISSION_RECORD]
    forged = world.job("a").admission
    assert forged is not None
    other = forged.text("uid-PodGroup-c", SigningKey(b"x" * 32, START))
    for name, record in (("b", text), ("c", other), ("d", "{"), ("e", "[" * 100_000)):
        world.create(no_pods(name, "1000c", "Inqueue", annotations={ADMISSION_RECORD: record}))
    world.start()
    assert [world.reserved(name) for name in "abcde"] == [2000, 0, 0, 0, 0]


def test_an_obsolete_record_is_removed_even_when_a_user_restores_it() -> None:
    world = Scheduler(no_pods("a", "1c"), pod("p", "1c", "a")).run()
    kept = world.annotations("a")
    assert ADMISSION_RECORD in kept
    world.create(pod("p", "1c", "a", on="n1"))
    assert world.run().phase("a") == "Running" and ADMISSION_RECORD not in world.annotations("a")
    world.write("a", annotations=kept)
    assert ADMISSION_RECORD not in world.run().annotations("a")


@pytest.mark.parametrize("asks", ["", "1c"])
def test_an_obsolete_record_that_a_new_leader_finds_is_removed(asks: str) -> None:
    world = Scheduler(no_pods("a", asks), pod("p", "1c", "a", on="n1")).run(2)
    assert world.phase("a") == "Running" and world.decisions.pod_groups == []
    world.write("a", annotations={ADMISSION_RECORD: "old"})
    world.start()
    assert ADMISSION_RECORD not in world.run().annotations("a")


def test_a_record_that_is_changed_or_removed_is_written_again() -> None:
    world = admitted("2c")
    ours = world.annotations("a")[ADMISSION_RECORD]
    for annotations in ({}, {ADMISSION_RECORD: "something"}):
        world.write("a", annotations=annotations)
        assert world.run().annotations("a") == {ADMISSION_RECORD: ours}
    assert world.run().decisions.pod_groups == []


def test_an_admission_from_before_the_key_counts_and_gets_a_record() -> None:
    world = Scheduler(no_pods("a", "99c", "Inqueue"), no_pods("victim", "2c"), now=START - 1)
    assert (world.job("a").phase, world.reserved("a")) == ("Inqueue", 4000)
    world.run()
    assert (world.phase("a"), world.phase("victim")) == ("Inqueue", "Pending")
    world.start()
    assert world.reserved("a") == 4000
    world.create(no_pods("late", "99c", "Inqueue"))
    assert world.reserved("late") == 0


def test_without_a_shared_key_phases_count_at_the_start_and_no_record_is_written() -> None:
    world = Scheduler(no_pods("a", "2c", "Inqueue"), created=math.inf)
    assert world.reserved("a") == 2000
    assert world.run().decisions.pod_groups == []
    world.create(no_pods("late", "99c", "Inqueue"))
    assert world.reserved("late") == 0


def test_without_enforcement_every_phase_counts() -> None:
    cache = ClusterCache([NAME])
    feed(cache, node("n1", "4c"), queue("default"), no_pods("a", "99c", "Inqueue"))
    job = cache.snapshot(LATER).jobs["default/a"]
    assert job.phase == "Inqueue" and job.reservation_limit is not None and np.isclose(job.reservation_limit[0], 99_000)
