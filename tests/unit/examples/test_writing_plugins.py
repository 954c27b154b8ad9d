"""The examples of the guide to plugins: they load, their tests pass, and they do what their text says."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

from scheduler.framework import registry
from scheduler.framework.configuration_file import parse_configuration
from scheduler.framework.loading import load_directory
from scheduler.testing import World, configuration, gang, group, node, queue
from tests.unit.explain.small_clusters import changes

GUIDE = (Path(__file__).parents[3] / "docs" / "writing-plugins.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL))
TESTS = {name: source for name, source in EXAMPLES.items() if name.startswith("test_")}


@pytest.fixture(autouse=True)
def _plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The plugins and actions of the guide are loaded as from a directory, and forgotten after the test."""
    monkeypatch.setattr(registry, "_plugins", dict(registry._plugins))
    monkeypatch.setattr(registry, "_actions", dict(registry._actions))
    for name in EXAMPLES.keys() - TESTS.keys():
        (tmp_path / name).write_text(EXAMPLES[name], encoding="utf-8")
    load_directory(tmp_path)
    yield
    for name in [name for name in sys.modules if name.startswith("volcano_py_plugins_dir")]:
        del sys.modules[name]


def test_every_python_block_is_an_example() -> None:
    assert len(EXAMPLES) == GUIDE.count("```python")


@pytest.mark.parametrize("name", TESTS)
def test_the_tests_of_the_guide_pass(name: str) -> None:
    shown: dict[str, object] = {}
    exec(compile(TESTS[name], name, "exec"), shown)
    tests = [value for key, value in shown.items() if key.startswith("test_") and isinstance(value, FunctionType)]
    assert tests
    for test in tests:
        test()


def test_the_configuration_of_the_guide_has_no_warnings() -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    parsed = parse_configuration(text)
    assert parsed.warnings == ()
    assert parsed.tiers[0][2].arguments == {"price.weight": 2}


def test_a_queue_uses_nodes_of_its_zone_only() -> None:
    lab = queue("lab")
    lab["metadata"]["annotations"] = {"example.com/zone": "east"}
    zones = [node(zone, labels={"topology.kubernetes.io/zone": zone}) for zone in ("east", "west")]
    jobs = [gang("a", 2, "3c", "lab"), gang("b", 1, "1c", "lab"), gang("c", 1, "4c")]
    world = World(*zones, lab, *jobs).run(configuration(["gang", "predicates", "zone"]))
    assert world.bound == {"b-0": "east", "c-0": "west"}
    assert "1 node(s) were not in zone east" in world.waiting["a-1"]


def test_explain_finds_the_remedy_that_a_plugin_offers() -> None:
    plan = configuration(["gang", "predicates", "licences"], arguments={"licences": {"licences.perQueue": 2}})
    asking = gang("big", 3, "1c+example.com/licence=1", "lab")
    found = changes("big", node("n", "8c+8Gi+example.com/licence=9"), queue("lab"), *asking, conf=plan)
    assert "raise licences.perQueue from 2 to 3" in found


def test_the_job_with_the_earlier_deadline_comes_first() -> None:
    late = group("late", annotations={"example.com/deadline": "2000"})
    soon = group("soon", annotations={"example.com/deadline": "1000"})
    pods = [gang(name, 1, "4c")[1] for name in ("late", "soon")]
    world = World(node("n", "4c+8Gi"), late, soon, *pods).run(configuration(["gang", "predicates", "deadline"]))
    assert world.bound == {"soon-0": "n"}
