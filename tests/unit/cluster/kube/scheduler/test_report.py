"""The sessions from which the figures in the metrics come."""

from typing import cast

from scheduler.cluster.kube.scheduler.report import CycleReport
from scheduler.cluster.kube.write.events import EventRecorder
from scheduler.framework.cycle import Outcome
from scheduler.observability.metrics import Metrics
from tests.builders import World, configuration, group, node, pod, queue

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
