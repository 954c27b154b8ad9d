"""The sessions from which the figures in the metrics come."""

from typing import cast

from scheduler.api.decisions import EventRecord
from scheduler.api.kinds import NODE, QUEUE
from scheduler.api.names import EVENT_WARNING
from scheduler.api.reasons import Malformed
from scheduler.cluster.kube.scheduler.report import CycleReport
from scheduler.cluster.kube.write.events import EventRecorder
from scheduler.framework.cycle import Outcome
from scheduler.observability.metrics import Metrics
from tests.builders import World, configuration, group, node, pod, queue
from tests.unit.plugins.capacity_card.cards import CONFIGURATION, GPU, H200, gpu_node, quota_queue

PLAN = configuration(["gang"], ["predicates"])
LABELS = {"job_name": "g", "queue": "default", "job_namespace": "default"}


def outcome(weight: int) -> Outcome:
    """The decisions of a session that binds the Pod of one job."""
    world = World(queue("default", weight), node("n", "1c"), group("g", phase="Inqueue"), pod("p", "1c", "g"))
    result = world.run(PLAN).outcome
    assert result is not None and [bind.task.name for bind in result.decisions.binds] == ["p"]
    return result


def test_early_sessions_leave_the_figures_to_the_session_at_the_end_of_the_period() -> None:
    metrics = Metrics()
    report = CycleReport(metrics, cast("EventRecorder", None), period=1.0)
    shown = []
    for now, weight in ((100.0, 1), (100.5, 2), (101.0, 3)):
        report.update_figures(outcome(weight), now)
        shown.append(metrics.registry.get_sample_value("volcano_queue_weight", {"queue_name": "default"}))
    assert shown == [1, 1, 3]


def test_a_binding_of_an_early_session_keeps_its_time() -> None:
    metrics = Metrics()
    report = CycleReport(metrics, cast("EventRecorder", None), period=1.0)
    early, last = outcome(1), outcome(1)
    last.decisions.binds.clear()
    report.update_figures(last, 100.0)
    report.update_figures(early, 100.5)
    report.update_figures(last, 101.0)
    assert metrics.registry.get_sample_value("volcano_e2e_job_scheduling_last_time", LABELS) == 100.5


class Recorder:
    """Keeps the Events about queues as (name of the queue, type, reason)."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def malformed(self, problem: Malformed) -> None:
        self.events.append((problem.name, EVENT_WARNING, problem.reason))

    def record(self, event: EventRecord) -> None:
        self.events.append((event.about.name, event.type, event.reason))


def test_a_problem_of_a_quota_is_recorded_once_and_its_end_once() -> None:
    world = World(gpu_node("n", cards=4), quota_queue("q", {H200: 4}), quota_queue("gone", {H200: 1}))
    recorder = Recorder()
    report = CycleReport(Metrics(), cast("EventRecorder", recorder))

    def events() -> list[tuple[str, str, str]]:
        recorder.events.clear()
        for _ in range(2):
            world.run(CONFIGURATION)
            assert world.outcome is not None
            report.report(world.outcome)
        return recorder.events[:]

    over = [(name, "Warning", "CardOverGranted") for name in ("gone", "q")]
    assert events() == over
    world.cluster.server.delete(QUEUE, "", "gone")  # nothing is recorded about a queue that does not exist
    assert events() == [("q", "Normal", "CardQuotaResolved")]
    world.cluster.server.patch(NODE, "", "n", {"status": {"allocatable": {GPU: "3"}, "capacity": {GPU: "4"}}})
    assert events() == [("q", "Warning", "CardUnhealthy")]
    world.cluster.server.patch(NODE, "", "n", {"status": {"allocatable": {GPU: "3"}, "capacity": {GPU: "3"}}})
    assert events() == [("q", "Warning", "CardOverGranted")]  # another problem of the card, so nothing is resolved
    world.cluster.server.patch(NODE, "", "n", {"status": {"allocatable": {GPU: "4"}, "capacity": {GPU: "4"}}})
    assert events() == [("q", "Normal", "CardQuotaResolved")]
