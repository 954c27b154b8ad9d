"""The values of the chart, their schema, the documented combinations of values, and the metadata of the chart."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "volcano-py"
COMBINATIONS = sorted((CHART / "ci").glob("*-values.yaml"))
Schema = dict[str, Any]
OF_KUBERNETES = {"affinity", "resources", "global"}
"""Values that Kubernetes or Helm define; the chart copies them."""


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


VALUES: dict[str, Any] = load(CHART / "values.yaml")
SCHEMA: Schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


def resolved(schema: Schema) -> Schema:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    found: Schema = SCHEMA["definitions"][reference.rpartition("/")[2]]
    return found


def described(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """The path and the schema of every value."""
    for key, value in resolved(schema).get("properties", {}).items():
        yield f"{path}{key}", resolved(value)
        yield from described(value, f"{path}{key}.")


EVERY = dict(described(SCHEMA))


def given(values: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """The path of every value in ``values``, as deep as the schema names values."""
    for key, value in values.items():
        yield f"{path}{key}", value
        if isinstance(value, dict) and "properties" in EVERY.get(f"{path}{key}", {}):
            yield from given(value, f"{path}{key}.")


def test_the_schema_names_every_value_and_no_other() -> None:
    optional = {path for path in EVERY if path.endswith("podDisruptionBudget.minAvailable")} | {"global"}
    assert len(optional) == 4
    assert {path for path, _ in given(VALUES)} == EVERY.keys() - optional


@pytest.mark.parametrize("path", EVERY)
def test_a_value_has_a_description(path: str) -> None:
    description = EVERY[path].get("description", "")
    assert description[:1].isupper() or description[:1].isdigit()
    assert description.endswith((".", "]."))


def test_the_schema_refuses_unknown_values() -> None:
    def is_closed(path: str, schema: Schema) -> bool:
        if "object" not in schema.get("type", ()) or path.rpartition(".")[2] in OF_KUBERNETES:
            return True
        rest = schema.get("additionalProperties", True)
        return rest is False if "properties" in schema else rest is not True

    assert SCHEMA["additionalProperties"] is False
    assert [path for path, schema in EVERY.items() if not is_closed(path, schema)] == []


def test_the_documented_combinations_change_every_value() -> None:
    changed = set()
    for combination in COMBINATIONS:
        for path, value in given(load(combination) or {}):
            if dict(given(VALUES)).get(path) != value:
                changed.add(path)
    switches = {path for path, schema in EVERY.items() if "properties" not in schema} - {"global"}
    assert switches - changed == set()


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda path: path.name)
def test_a_combination_has_known_values_and_says_what_it_is_for(combination: Path) -> None:
    assert combination.read_text(encoding="utf-8").startswith("# ")
    assert {path for path, _ in given(load(combination) or {})} <= EVERY.keys()


def test_artifact_hub_shows_the_definitions_of_the_chart() -> None:
    chart = load(CHART / "Chart.yaml")
    shown = {each["name"]: each for each in yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])}
    definitions = {each["metadata"]["name"]: each["spec"] for each in map(load, (ROOT / "deploy" / "crds").iterdir())}
    assert shown.keys() == definitions.keys()
    for name, spec in definitions.items():
        (version,) = spec["versions"]
        assert shown[name] == {
            "kind": spec["names"]["kind"],
            "version": version["name"],
            "name": name,
            "displayName": spec["names"]["kind"],
            "description": version["schema"]["openAPIV3Schema"]["description"],
        }


def test_artifact_hub_shows_the_image_and_the_license() -> None:
    chart = load(CHART / "Chart.yaml")
    annotations = chart["annotations"]
    image = f"{VALUES['image']['repository']}:{chart['appVersion']}"
    assert yaml.safe_load(annotations["artifacthub.io/images"]) == [{"name": "volcano-py", "image": image}]
    assert annotations["artifacthub.io/license"] in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert all(isinstance(value, str) for value in annotations.values())
