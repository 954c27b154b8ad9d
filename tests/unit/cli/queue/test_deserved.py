"""The deserved amounts of a queue are the same in every view: as the plugin that divides the cluster has computed
them."""

from typing import Any

import pytest

from scheduler.cli.simulate_table import report_lines
from scheduler.cluster.memory import Simulation, simulate
from scheduler.explain.queues import every_queue, queue_amounts, queue_totals
from scheduler.framework.configuration import Configuration
from scheduler.observability.metrics import Metrics
from tests.builders import NAME, Raw, World, configuration, group, manifests, node, pods, queue
from tests.unit.cli.cluster import ALL_GROUPS, QUEUES, Cluster

GIB = 2**30
CAPACITY = configuration(["capacity"], ["gang", "predicates"])
HIERARCHY = configuration({"capacity": {"enableHierarchy": True}, "gang": {}, "predicates": {}})
PROPORTION = configuration(["proportion"], ["gang", "predicates"])
WITHOUT = configuration(["gang", "predicates"])


def objects(name: str, **spec: Any) -> list[Any]:
    """Two queues with jobs that want more than the 16 cpus of the cluster."""
    waits = [group("g", name), *pods("g", 20, "1c", "g")]
    others = [queue("other", weight=3), group("h", "other"), *pods("h", 40, "1c", "h")]
    return [node("n1", "8c+32Gi"), node("n2", "8c+32Gi"), queue(name, **spec), *waits, *others]


@pytest.mark.parametrize(
    "conf, spec, expected, shown",
    [
        (WITHOUT, {"deserved": "4c"}, {"cpu": "4"}, "cpu=4"),
        (WITHOUT, {}, {}, "<none>"),
        (CAPACITY, {"deserved": "4c+8Gi"}, {"cpu": "4", "memory": "8Gi"}, "cpu=4,memory=8Gi"),
        (CAPACITY, {"deserved": "4c", "capability": "3c"}, {"cpu": "3"}, "cpu=3 (spec 4)"),
        (CAPACITY, {"deserved": "2c", "guarantee": "3c"}, {"cpu": "3"}, "cpu=3 (spec 2)"),
        (HIERARCHY, {"deserved": "4c", "capability": "3c", "parent": "root"}, {"cpu": "4"}, "cpu=4"),
        (PROPORTION, {"weight": 1}, {"cpu": "4"}, "cpu=4"),
        (PROPORTION, {"deserved": "7c+8Gi"}, {"cpu": "4"}, "cpu=4 (spec 7),memory=0 (spec 8Gi)"),
    ],
    ids=[
        *("as written", "nothing", "capacity", "capped by the capability", "raised to the guarantee"),
        *("in a hierarchy", "by weight", "by weight, not as written"),
    ],
)
def test_every_view_shows_the_same_deserved_amounts(
    cluster: Cluster, conf: Configuration, spec: dict[str, Any], expected: dict[str, str], shown: str
) -> None:
    world = World(objects("q", **spec)).run(conf)
    assert world.outcome is not None
    session = world.outcome.session
    raw = world.get("Queue", "q")
    assert raw["status"]["deserved"] == expected

    units = {"cpu": 1000, "memory": GIB}
    numbers = {name: units[name] * int(text.removesuffix("Gi")) for name, text in expected.items()}
    totals = {its.resource: its.deserved for its in queue_totals(session)["q"].amounts if its.deserved is not None}
    assert totals == numbers  # queue top, the web page
    (explained,) = (its for its in queue_amounts(session, session.jobs["default/g"]) if its.queue == "q")
    assert (explained.resource, explained.deserved) == ("cpu", numbers.get("cpu"))
    answers = every_queue(Simulation(manifests(objects("q", **spec)), conf, [NAME]))
    (amounts,) = (its["amounts"] for its in answers if its["queue"] == "q")
    assert [its.get("deserved") for its in amounts if (its["queue"], its["resource"]) == ("q", "cpu")] == [
        expected.get("cpu")
    ]
    metrics = Metrics()
    metrics.shares.update(session, session.figures())
    value = metrics.registry.get_sample_value
    assert (value("volcano_queue_deserved_milli_cpu", {"queue_name": "q"}) or 0) == numbers.get("cpu", 0)
    assert (value("volcano_queue_deserved_memory_bytes", {"queue_name": "q"}) or 0) == numbers.get("memory", 0)

    table = list(report_lines(simulate(manifests(objects("q", **spec)), conf, [NAME])))
    titles = next(line for line in table if line.startswith("NAME ") and "WEIGHT" in line)
    own = next(line for line in table if line.split()[:1] == ["q"] and "Open" in line)
    start, end = (titles.index(word) if word in titles else 0 for word in ("DESERVED", "CAPABILITY"))
    assert (own[start:end].strip() if start else "") == expected.get("cpu", "")

    cluster.holds(QUEUES, raw)
    cluster.holds(ALL_GROUPS)
    titles, row = cluster.prints("queue", "list", "-o", "wide").splitlines()
    start, end = titles.index("Deserved"), titles.index("Capability")
    assert row[start:end].strip() == shown


def _queue(spec: Raw, status: Raw) -> Raw:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}}
    return {**head, "spec": {"weight": 1, **spec}, "status": {"state": "Open", **status}}


def test_get_shows_the_amounts_of_the_spec_beside_computed_ones_that_differ(cluster: Cluster) -> None:
    spec = {"deserved": {"cpu": "32", "memory": "64Gi", "nvidia.com/gpu": "8"}}
    computed = {"cpu": "16", "memory": "68719476736"}
    cluster.holds(QUEUES, _queue(spec, {"allocated": {"cpu": "8"}, "deserved": computed}))
    cluster.holds(ALL_GROUPS)

    assert cluster.prints("queue", "get", "q").partition("\n\n")[2] == (
        "Resource        Used  Deserved      Capability\n"
        "cpu             8     16 (spec 32)\n"
        "memory                64Gi\n"
        "nvidia.com/gpu        0 (spec 8)\n"
    )


@pytest.mark.parametrize("status", [{}, {"deserved": "by hand"}])
def test_before_a_session_has_computed_it_a_queue_deserves_what_its_spec_says(cluster: Cluster, status: Raw) -> None:
    cluster.holds(QUEUES, _queue({"deserved": {"cpu": "32"}}, status))
    cluster.holds(ALL_GROUPS)

    assert cluster.prints("queue", "get", "q").partition("\n\n")[2] == (
        "Resource  Used  Deserved  Capability\ncpu             32\n"
    )
    assert "cpu=32" in cluster.prints("queue", "list", "-o", "wide")
