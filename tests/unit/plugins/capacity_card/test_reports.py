"""The amounts of each card of a queue, in its status and in metrics."""

import pytest

from scheduler.api.decisions import QueueAllocated
from scheduler.api.kinds import QUEUE
from scheduler.cli.explain_text import lines
from scheduler.explain.overview import overview
from scheduler.explain.queues import queue_totals
from scheduler.observability.cluster_figures import CardDevices
from scheduler.observability.metrics import Metrics
from tests.builders import Raw, World, configuration, group, node, pod, queue
from tests.unit.explain.small_clusters import explained
from tests.unit.plugins.capacity_card.cards import (
    CONFIGURATION,
    GPU,
    H200,
    H800,
    SEED_QUOTA,
    UNLIMITED,
    gang,
    gpu_node,
    quota_queue,
)

NODES = [gpu_node("a", H200, 4)]


def world(*more: Raw | list[Raw], quota: dict[str, int]) -> World:
    return World(NODES, quota_queue("q", quota), *more)


def update(found: World, name: str = "q") -> QueueAllocated | None:
    """The amounts that the last session writes to the status of a queue."""
    return next((each for each in found.decisions.queues if each.name == name), None)


def test_the_status_has_the_cards_and_the_pod_groups_by_phase() -> None:
    found = world(gang("g", "q", 2), gang("h", "q", 2), quota={H200: 3}).run(CONFIGURATION)
    written = update(found)
    assert written is not None
    amounts = {"quota": "3", "used": "2", "inqueue": "2", "requested": "4", "guarantee": "3", "elastic": "0"}
    totals = {"granted": "3", "existing": "4", "healthy": "4"}
    assert written.cards == {H200: {**amounts, **totals, "online": "0", "offline": "2"}}
    assert written.allocated[H200] == "2"
    assert written.groups == {"inqueue": 2}
    found.run(CONFIGURATION, kubelet=True)
    written = update(found)
    assert written is not None and written.groups == {"inqueue": 1, "running": 1}


def test_without_the_plugin_a_status_has_no_cards() -> None:
    found = World(node("n", "4c+8Gi"), queue("q"), group("g", "q"), pod("g-0", "1c", "g")).run(configuration(["gang"]))
    written = update(found)
    assert written is not None and written.cards is None


def test_a_status_that_does_not_store_cards_is_not_written_again() -> None:
    found = world(gang("g", "q", 2), quota={H200: 3})
    found.run(CONFIGURATION, 3, kubelet=True)
    cache, server = found.cluster.cache, found.cluster.server
    raw = found.get("Queue", "q")
    del raw["status"]["cards"]  # as with Volcano's resource definition
    server.update(QUEUE, "", "q", raw)
    assert cache.snapshot(found.cluster.now).queues["q"].cards
    found.run(CONFIGURATION)
    assert update(found) is None


def test_a_card_that_leaves_the_quota_leaves_the_status() -> None:
    found = world(gang("g", "q", 1), quota={H200: 3, H800: 2}).run(CONFIGURATION)
    server = found.cluster.server
    annotations = quota_queue("q", {H200: 3})["metadata"]["annotations"]
    server.patch(QUEUE, "", "q", {"metadata": {"annotations": annotations}})
    found.run(CONFIGURATION)
    written = update(found)
    assert written is not None and written.cards is not None and set(written.cards) == {H200}


def test_metrics_have_the_share_of_a_queue_and_series_of_its_cards_only() -> None:
    found = world(gang("g", "q", 2), quota={H200: 4}).run(CONFIGURATION)
    assert found.outcome is not None
    session, metrics = found.outcome.session, Metrics()
    usage, figures = session.usage_by_queue(), session.figures()
    metrics.session.update(session.jobs, session.queues, session.dimensions, {}, figures, usage)
    metrics.shares.update(session, figures, usage)
    value = metrics.registry.get_sample_value
    assert value("volcano_queue_share", {"queue_name": "q"}) == 0.5
    assert value("volcano_queue_overused", {"queue_name": "q"}) == 0.0
    for word, amount in (("deserved", 4000), ("real_capacity", 4000), ("allocated", 2000)):
        series = {"queue_name": "q", "resource": H200}
        assert value(f"volcano_queue_{word}_scalar_resources", series) == amount
    resources = {s.labels["resource"] for f in metrics.session.collect() for s in f.samples if "resource" in s.labels}
    assert resources == {"pods", GPU, H200}


def test_an_explanation_of_the_published_queue_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.cli.explain_text.terminal_width", lambda: 80)
    monkeypatch.setattr("scheduler.cli.output.terminal_width", lambda: 80)
    raws = [gang("g", "cr-queue1", 3, asks=f"8c+1Gi+{GPU}=1"), gang("h", "cr-queue1", 1, asks=f"8c+1Gi+{GPU}=1")]
    found = explained("podgroup", "h", NODES, quota_queue("cr-queue1", SEED_QUOTA, "4c+4Gi"), *raws, conf=UNLIMITED)
    text = [line.rstrip() for line in lines(found)]
    table = text[text.index("Queue cr-queue1") + 1 :]
    assert table[0].split() == ["RESOURCE", "USED", "COUNTED", "CAPABILITY", "INQUEUE", "REQUESTED"]
    assert [line.split() for line in table if line.split()[:1] == [H200]] == [[H200, "3", "3", "1", "4"]]
    assert max(map(len, text)) <= 80


def test_cpu_that_the_queue_does_not_limit_is_not_shown_as_more_than_its_capability() -> None:
    """The test uses ``cardUnlimitedCpuMemory``, as in the published design."""
    raws: list[Raw | list[Raw]] = [
        group("plain", "q", 1),
        pod("plain-0", "1c+1Gi", "plain"),
        gang("g", "q", 2, asks=f"8c+1Gi+{GPU}=1"),
    ]
    found = World(NODES, quota_queue("q", {H200: 2}, "4c+64Gi"), *raws).run(UNLIMITED)
    assert set(found.bound) == {"plain-0", "g-0", "g-1"}
    assert found.outcome is not None
    (cpu,) = (its for its in queue_totals(found.outcome.session)["q"].amounts if its.resource == "cpu")
    assert (cpu.used, cpu.counted, cpu.capability) == (17000, 1000, 4000)
    (row,) = (row for row in overview(found.outcome.session, CardDevices()).queues if row.name == "q")
    (shown,) = (its for its in row.amounts if its.resource == "cpu")
    assert (shown.used, shown.counted, shown.use, shown.over) == ("17", "1", 0.25, "")
