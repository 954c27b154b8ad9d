"""Shares and attempts under Volcano's names: the figures that plugins report, and the figures that are removed with a
queue or job."""

from typing import Any

from prometheus_client import generate_latest

from scheduler.api.kinds import POD, POD_GROUP, QUEUE
from scheduler.observability.metrics import Metrics
from tests.builders import Raw, World, configuration, group, node, only, pod, pods, queue

NODES = [node("n1", "8c+32Gi"), node("n2", "8c+32Gi")]


def jobs(below: str = "") -> list[Raw]:
    """Of 16 cpus, 9 are in use; a gang that will never start requests 2 more."""
    parent: dict[str, Any] = {"parent": below} if below else {}
    return [
        queue("a", capability="6c", deserved="4c", **parent),
        queue("b", deserved="2c", **parent),
        *(group("g", "a"), *pods("g", 3, "1c", "g")),
        *(group("w", "a", 9, phase="Inqueue", asks="1c"), *pods("w", 2, "1c", "w")),
        *(group("h", "b"), *pods("h", 6, "1c", "h")),
    ]


class Scraped:
    """The metrics after cycles of a scheduler with some plugins."""

    def __init__(self, world: World, *plugins: str, **flags: Any) -> None:
        self.world = world
        self.configuration = configuration({name: flags.get(name, {}) for name in (*plugins, "gang", "predicates")})
        self.metrics = Metrics()
        self.again(2)

    def again(self, cycles: int = 1) -> None:
        self.world.run(self.configuration, cycles)
        assert self.world.outcome is not None
        session, figures = self.world.outcome.session, self.world.outcome.session.figures()
        self.metrics.shares.update(session, figures)
        self.metrics.session.update(session.jobs, session.queues, session.dimensions, {}, figures)

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"volcano_{name}", labels)


def test_capacity_reports_shares_limits_and_deserved_amounts() -> None:
    value = Scraped(World(*NODES, *jobs()), "capacity")
    assert [value("queue_share", queue_name=name) for name in ("a", "b")] == [0.75, 3.0]
    assert [value("queue_overused", queue_name=name) for name in ("a", "b")] == [0.0, 1.0]
    assert [value("queue_deserved_milli_cpu", queue_name=name) for name in ("a", "b")] == [4000, 2000]
    assert [value("queue_real_capacity_milli_cpu", queue_name=name) for name in ("a", "b")] == [6000, 16_000]
    assert value("queue_real_capacity_memory_bytes", queue_name="b") == 64 * 2**30
    assert value("queue_real_capacity_scalar_resources", queue_name="b", resource="pods") == 220
    assert [value("queue_inqueue_milli_cpu", queue_name=name) for name in ("a", "b")] == [1000, 0]


def test_in_a_hierarchy_a_queue_has_the_figures_of_those_below_it_in_it() -> None:
    world = World(*NODES, queue("p", capability="12c", deserved="8c", parent="root"), *jobs("p"))
    value = Scraped(world, "capacity", capacity={"enableHierarchy": True})
    assert [value("queue_share", queue_name=name) for name in ("a", "b", "p", "root")] == [0.75, 3.0, 1.125, 1.125]
    assert value("queue_real_capacity_milli_cpu", queue_name="b") == 12_000
    assert value("queue_inqueue_milli_cpu", queue_name="root") == 1000
    assert [value("queue_allocated_milli_cpu", queue_name=name) for name in ("a", "b", "p")] == [3000, 6000, 9000]
    assert [value("queue_request_milli_cpu", queue_name=name) for name in ("a", "b", "p")] == [5000, 6000, 11_000]


def test_without_a_hierarchy_a_queue_has_the_figures_of_its_own_jobs() -> None:
    value = Scraped(World(*NODES, queue("p", parent="root"), *jobs("p")), "capacity")
    assert [value("queue_allocated_milli_cpu", queue_name=name) for name in ("a", "p")] == [3000, 0]
    assert [value("queue_request_milli_cpu", queue_name=name) for name in ("a", "p")] == [5000, 0]


def test_proportion_reports_the_deserved_amounts_of_each_queue() -> None:
    value = Scraped(World(*NODES, *jobs()), "proportion")
    assert [value("queue_deserved_milli_cpu", queue_name=name) for name in ("a", "b")] == [5000, 6000]
    assert [value("queue_share", queue_name=name) for name in ("a", "b")] == [0.6, 1.0]
    assert [value("queue_overused", queue_name=name) for name in ("a", "b")] == [0.0, 1.0]


def test_without_a_plugin_of_queues_they_deserve_what_is_written() -> None:
    value = Scraped(World(*NODES, *jobs()))
    assert value("queue_deserved_milli_cpu", queue_name="a") == 4000
    assert value("queue_share", queue_name="a") is None


def test_drf_reports_the_shares_of_jobs() -> None:
    value = Scraped(World(*NODES, *jobs()), "drf")
    shares = {name: value("job_share", job_ns="default", job_id=name) for name in ("g", "h", "w")}
    assert shares == {"g": 3 / 16, "h": 6 / 16, "w": 0.0}
    assert value("namespace_share", namespace_name="default") is None


def test_where_namespaces_have_weights_drf_reports_their_shares_too() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "weight", "namespace": "default"},
        "spec": {"hard": {"volcano.sh/namespace.weight": "3"}},
    }
    value = Scraped(World(*NODES, quota, *jobs()), "drf")
    assert value("namespace_share", namespace_name="default") == 9 / 16
    assert value("namespace_weight", namespace_name="default") == 3
    assert value("namespace_weighted_share", namespace_name="default") == 3 / 16


def test_what_is_deleted_has_no_figures_any_more() -> None:
    value = Scraped(World(*NODES, *jobs()), "capacity", "drf")
    cache = value.world.cluster.cache
    for i in range(6):
        cache.delete(POD, "default", f"h-{i}")
    cache.delete(POD_GROUP, "default", "h")
    cache.delete(QUEUE, "", "b")
    value.again()
    assert value("job_share", job_ns="default", job_id="h") is None
    assert value("queue_share", queue_name="b") is None
    assert value("queue_real_capacity_milli_cpu", queue_name="b") is None
    assert value("queue_share", queue_name="a") == 0.75


# --- attempts ---
def test_attempts_are_counted_under_volcanos_names_and_forgotten_with_their_jobs() -> None:
    metrics = Metrics()
    metrics.attempts.count(2, ["n/w", "n/x"], ["n/w", "n/x", "n/y"])
    metrics.attempts.count(1, ["n/w"], ["n/w", "n/y"])
    value = metrics.registry.get_sample_value
    assert value("volcano_total_preemption_attempts") == 3
    assert value("volcano_job_retry_counts", {"job_id": "w"}) == 2
    assert value("volcano_job_retry_counts", {"job_id": "x"}) is None
    assert b"\nvolcano_total_preemption_attempts 3.0\n" in generate_latest(metrics.registry)


def test_a_session_counts_the_nodes_on_which_it_tried_to_preempt() -> None:
    important = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 9,
    }
    world = World(
        *(node("n1", "1c+8Gi"), important),
        *(group("low", phase="Running"), pod("low", "1c", "low", on="n1")),
        *(group("high", phase="Inqueue", priority_class="high"), pod("high", "1c", "high")),
    )
    flags = {
        "priority": only("enableJobOrder", "enableTaskOrder", "enablePreemptable"),
        "gang": only("enableJobStarving"),
        "predicates": {},
    }
    world.run(configuration(flags, actions="allocate, preempt"))
    assert (world.evicted, world.decisions.preemption_attempts) == ({"low"}, 1)


UID = "0b2e0c5a-3b0f-4f7e-9d55-1c1b6c8b7a10"


def test_no_label_of_a_metric_has_a_uid() -> None:
    names = [f"{name}-{UID}" for name in ("train", "podgroup", "waits")]
    groups = [group(names[0], "a"), group(names[1], "a"), group(names[2], "a", 9, phase="Inqueue", asks="1c")]
    members = [*pods("t", 2, "1c", names[0]), *pods("p", 1, "1c", names[1]), *pods("w", 2, "1c", names[2])]
    value = Scraped(World(*NODES, queue("a"), *groups, *members), "drf", "proportion")
    outcome = value.world.outcome
    assert outcome is not None
    session = outcome.session
    value.metrics.waiting.update(session.jobs)
    value.metrics.attempts.count(0, [f"default/{names[2]}"], session.jobs)
    value.metrics.session.update(session.jobs, session.queues, session.dimensions, dict.fromkeys(session.jobs, 9.0))
    text = generate_latest(value.metrics.registry).decode()
    for name in ("job_share", "unschedule_task_count", "job_retry_counts", "e2e_job_scheduling_last_time"):
        assert f"volcano_{name}{{" in text
    assert 'job_name="train"' in text and 'job_id="waits"' in text
    assert UID not in text
