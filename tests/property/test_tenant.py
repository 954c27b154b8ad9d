"""No explanation for a tenant names objects of another namespace, in random clusters."""

import json
from random import Random

import pytest

from scheduler.api.kinds import POD
from scheduler.api.names import GROUP_NAME
from scheduler.api.queue import ancestors
from scheduler.cli.explain_text import lines
from scheduler.cluster.memory import Simulation
from scheduler.explain import explain
from scheduler.explain.document import explanation_document
from scheduler.explain.queues import queue_quotas
from scheduler.explain.tenant import for_tenant, hidden_names
from tests.builders import NAME, Raw, manifests
from tests.property.clusters import CONFIGURATIONS, cluster

MINE = "j0"
SECRET = "secret-team"


def of_others(objects: list[Raw]) -> list[Raw]:
    """The objects, of which all but one gang belong to another namespace; names of nodes, queues and others' objects
    contain ``secret``."""
    text = json.dumps(objects)
    for raw in objects:
        name = raw["metadata"]["name"]
        if raw["kind"] in ("Node", "Queue") and name != "default":
            text = text.replace(json.dumps(name), json.dumps(f"secret-{name}"))
    renamed: list[Raw] = json.loads(text)
    for raw in renamed:
        meta = raw["metadata"]
        group = meta.get("annotations", {}).get(GROUP_NAME) if raw["kind"] == "Pod" else meta["name"]
        if raw["kind"] in ("Pod", "PodGroup") and group != MINE:
            meta["namespace"], meta["name"] = SECRET, f"secret-{meta['name']}"
            if raw["kind"] == "Pod":
                meta["annotations"][GROUP_NAME] = f"secret-{group}"
    return renamed


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("conf", list(CONFIGURATIONS))
def test_an_explanation_has_no_names_of_others(conf: str, seed: int) -> None:
    objects = of_others(cluster(Random(seed), conf))
    simulation = Simulation(manifests(*objects), CONFIGURATIONS[conf], [NAME])
    quotas = queue_quotas(simulation).get("default", {})

    found = explain(simulation, "podgroup", "default", MINE, search=False)

    queues = (found.queue, *ancestors(simulation.snapshot().queues, found.queue))
    shown = for_tenant(found, hidden_names(simulation.cluster.server, "default", queues))
    text = "\n".join([json.dumps(explanation_document(shown)), *lines(shown), json.dumps(quotas)])
    nodes = {
        raw["spec"].get("nodeName", "")
        for raw in simulation.cluster.server.of(POD)
        if raw["metadata"]["namespace"] == "default"
    }
    for name in sorted({*queues, *nodes} - {""}, key=len, reverse=True):  # "secret-qa-1" before "secret-qa"
        text = text.replace(name, "(own)")
    assert "secret" not in text, [line for line in text.splitlines() if "secret" in line]
