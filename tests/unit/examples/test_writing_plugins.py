"""The examples of the two pages about plugins: they load, their tests pass, and they do what their text says."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest
from click.testing import CliRunner

from scheduler.api.reasons import Malformed, Shortage
from scheduler.cli.main import main
from scheduler.explain.target import Goal
from scheduler.framework import registry
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.remedies.evidence import Evidence
from scheduler.framework.remedies.gates import Gate, GateKind
from scheduler.testing import World, configuration, gang, group, node, pod, queue
from tests.unit.explain.small_clusters import changes

DOCS = Path(__file__).parents[3] / "docs"
PAGES = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("writing-plugins.md", "plugin-api.md"))
BLOCKS = re.findall(r"^```python\n# (\w+)\.py(?:, continued)?\n(.*?)^```$", PAGES, re.MULTILINE | re.DOTALL)
EXAMPLES = {name: "\n\n".join(text for other, text in BLOCKS if other == name) for name, _ in BLOCKS}
TESTS = {name: source for name, source in EXAMPLES.items() if name.startswith("test_")}
LICENCES = configuration(["gang", "predicates", "licences"], arguments={"licences": {"licences.perQueue": 2}})
LICENCE_NODE = node("n", "8c+8Gi+example.com/licence=9")


@pytest.fixture(autouse=True)
def _plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plugins and actions of the pages are modules that can be imported, and are forgotten after the test."""
    monkeypatch.setattr(registry, "_plugins", dict(registry._plugins))
    monkeypatch.setattr(registry, "_actions", dict(registry._actions))
    monkeypatch.syspath_prepend(tmp_path)
    modules = EXAMPLES.keys() - TESTS.keys()
    for name in modules:
        (tmp_path / f"{name}.py").write_text(EXAMPLES[name], encoding="utf-8")
    for name in modules:
        importlib.import_module(name)
    yield
    for name in modules:
        del sys.modules[name]


def test_every_python_block_is_an_example() -> None:
    assert len(BLOCKS) == PAGES.count("```python")


@pytest.mark.parametrize("name", TESTS)
def test_the_tests_of_the_guide_pass(name: str) -> None:
    shown: dict[str, object] = {}
    exec(compile(TESTS[name], name, "exec"), shown)
    tests = [value for key, value in shown.items() if key.startswith("test_") and isinstance(value, FunctionType)]
    assert tests
    for test in tests:
        test()


def test_the_configuration_of_the_guide_has_no_warnings() -> None:
    text = re.findall(r"^```yaml\n(.*?)^```$", PAGES, re.MULTILINE | re.DOTALL)[0]
    parsed = parse_configuration(text)
    assert parsed.warnings == ()
    assert parsed.tiers[0][2].arguments == {"price.weight": 2}


def test_pods_of_a_job_start_in_the_order_of_their_stages() -> None:
    """The annotation is known although the Pods are stored before the configuration names it."""
    staged = [pod(f"p{i}", "1c", "g", annotations={"example.com/at": text}) for i, text in enumerate(["2", "x", "1"])]
    conf = configuration(["gang", "predicates", "stage"], arguments={"stage": {"stage.annotation": "example.com/at"}})
    world = World(node("n", "2c"), group("g", minimum=1), staged).run(conf)
    assert world.bound == {"p2": "n", "p0": "n"}
    assert world.malformed == ["Pod p1 metadata.annotations[example.com/at]: 'x' is not a number"]


def test_a_malformed_field_of_equal_pods_is_reported_once() -> None:
    staged = [pod(f"p{i}", "1c", "g", annotations={"example.com/stage": "x"}) for i in range(9)]
    world = World(node("n", "2c"), group("g", minimum=1), staged).run(configuration(["gang", "predicates", "stage"]))
    assert world.malformed == ["Pod p0 metadata.annotations[example.com/stage]: 'x' is not a number"]


def test_pods_of_a_job_are_limited_in_each_rack() -> None:
    racks = [node(f"n{i}", labels={"example.com/rack": rack}) for i, rack in enumerate("aab")]
    conf = configuration(["gang", "predicates", "racks"], arguments={"racks": {"racks.podsPerRack": 1}})
    world = World(racks, gang("two", 2, "1c"), gang("three", 3, "1c")).run(conf)
    assert set(world.bound) == {"two-0", "two-1"} and world.bound["two-0"] != world.bound["two-1"]
    assert "3 node(s) of a rack that holds 1 of at most 1 Pods of job default/three" in world.waiting["three-2"]


def test_a_pod_goes_to_the_cheaper_node() -> None:
    nodes = [node(name, labels={"example.com/price": price}) for name, price in (("a", "9"), ("b", "4"))]
    conf = configuration(["gang", "predicates", "price"], arguments={"price": {"price.weight": 2}})
    assert World(nodes, gang("train", 2, "1c")).run(conf).bound == {"train-0": "b", "train-1": "b"}


def test_a_queue_holds_no_more_than_its_licences() -> None:
    jobs = [gang(name, 1, "1c+example.com/licence=1", "lab") for name in ("a", "b", "c")]
    world = World(LICENCE_NODE, queue("lab"), *jobs).run(LICENCES)
    assert len(world.bound) == 2
    assert world.refusals("c") == ["queue lab has no licence left (asked 1, used 2, limit 2)"]
    assert world.run(LICENCES).refusals("c") == ["queue lab has no licence left (asked 1, used 2, limit 2)"]


def test_a_gang_that_cannot_start_holds_no_licence() -> None:
    jobs = gang("big", 3, "1c+example.com/licence=1", "lab"), gang("one", 1, "1c", "lab")
    assert World(LICENCE_NODE, queue("lab"), *jobs).run(LICENCES).bound == {"one-0": "n"}


def test_the_pods_of_a_node_that_is_to_be_emptied_are_evicted() -> None:
    world = World(
        node("a", labels={"example.com/drain": "true"}),
        node("b"),
        [group("g"), pod("on-a", "1c", "g", on="a"), pod("on-b", "1c", "g", on="b")],
    ).run(configuration(["gang"], actions="allocate, drain"))
    assert world.evicted == {"on-a"}


def test_a_queue_uses_nodes_of_its_zone_only() -> None:
    lab = queue("lab")
    lab["metadata"]["annotations"] = {"example.com/zone": "east"}
    zones = [node(zone, labels={"topology.kubernetes.io/zone": zone}) for zone in ("east", "west")]
    jobs = [gang("a", 2, "3c", "lab"), gang("b", 1, "1c", "lab"), gang("c", 1, "4c")]
    world = World(*zones, lab, *jobs).run(configuration(["gang", "predicates", "zone"]))
    assert world.bound == {"b-0": "east", "c-0": "west"}
    assert "1 node(s) were not in zone east" in world.waiting["a-1"]


def test_explain_finds_the_remedy_that_a_plugin_offers() -> None:
    asking = gang("big", 3, "1c+example.com/licence=1", "lab")
    found = changes("big", LICENCE_NODE, queue("lab"), *asking, conf=LICENCES)
    assert "raise licences.perQueue from 2 to 3" in found


def test_the_job_with_the_earlier_deadline_comes_first() -> None:
    late = group("late", annotations={"example.com/deadline": "2031-01-01"})
    soon = group("soon", annotations={"example.com/deadline": "2030-01-01"})
    pods = [gang(name, 1, "4c")[1] for name in ("late", "soon")]
    world = World(node("n", "4c+8Gi"), late, soon, *pods).run(configuration(["gang", "predicates", "deadline"]))
    assert world.bound == {"soon-0": "n"}


def test_the_manifests_of_the_guide_are_scheduled_with_its_plugins(tmp_path: Path) -> None:
    cluster, conf = tmp_path / "cluster.yaml", tmp_path / "conf"
    cluster.write_text(re.findall(r"^```yaml\n(# cluster.yaml.*?)^```$", PAGES, re.MULTILINE | re.DOTALL)[0])
    conf.write_text("actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}, {name: spread}]}]")
    result = CliRunner().invoke(main, ["simulate", "-f", str(cluster), "--scheduler-conf", str(conf), "-o", "json"])
    assert result.exit_code == 0, result.output
    assert '"nodeName": "n1"' in result.stdout


def test_the_table_of_objects_names_classes_and_attributes_that_exist() -> None:
    world = World(node("n"), queue("lab"), gang("train", 1, "1c", "lab"))
    session = world.session(configuration(["gang"]))
    job = session.jobs["default/train"]
    task = next(job.tasks())
    gate = Gate(GateKind.NODES, "no")
    found = {
        "session": session.plugin_session, "queue": session.queues["lab"], "job": job, "task": task, "cls": task.cls,
        "nodes": session.nodes, "facts": session.nodes.facts, "dimensions": session.dimensions, "gate": gate,
        "evidence": Evidence(world.cluster.server, session, job, Goal(job.key, "", 0), [gate]),
        "shortage": Shortage("cpu", 1, 1, 1, "Node"), "malformed": Malformed("Queue", "", "lab", "spec", "no"),
    }  # fmt: skip
    rows = re.findall(r"^\| `(\w+)` \| `scheduler\.([\w.]+)` \| (.*) \|$", PAGES, re.MULTILINE)
    assert {name for name, _, _ in rows} == set(found)
    for name, path, text in rows:
        assert f"{type(found[name]).__module__}.{type(found[name]).__qualname__}" == f"scheduler.{path}"
        for attribute, call in re.findall(r"`(\w+)(\(\))?`", re.sub(r"\([^)]+\)", "", text)):
            assert callable(getattr(found[name], attribute)) == bool(call), f"{name}.{attribute}"


def test_the_guide_stays_short() -> None:
    assert len((DOCS / "writing-plugins.md").read_text(encoding="utf-8").splitlines()) <= 205
