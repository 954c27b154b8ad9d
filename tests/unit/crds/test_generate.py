"""The generation of a resource definition from a short definition and Kubernetes' OpenAPI document."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.crds.generate import MAX_ITEMS, MAX_LENGTH, MAX_PROPERTIES, definitions, inlined, limited, structural


def test_a_reference_is_replaced_by_what_it_refers_to_however_deep() -> None:
    known: dict[str, dict[str, Any]] = {"A": {"type": "array", "items": {"$ref": "B"}}, "B": {"type": "string"}}
    assert inlined({"properties": {"x": {"$ref": "A"}}}, known.__getitem__) == {
        "properties": {"x": {"type": "array", "items": {"type": "string"}}}
    }


def test_what_stands_beside_a_reference_goes_before_what_it_refers_to() -> None:
    known: dict[str, dict[str, Any]] = {"A": {"description": "Any.", "type": "string", "default": "a"}}
    assert inlined({"$ref": "A", "description": "This."}, known.__getitem__) == {
        "description": "This.",
        "type": "string",
        "default": "a",
    }


def test_lists_maps_and_texts_that_name_no_limit_get_one() -> None:
    text = {"type": "string", "maxLength": MAX_LENGTH}
    given: dict[str, Any] = {
        "type": {"type": "array", "items": {"type": "string"}},
        "few": {"type": "array", "maxItems": 3, "items": {"type": "string", "enum": ["a"]}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "port": {"anyOf": [{"type": "integer"}, {"type": "string"}], "maxLength": 9},
        "time": {"type": "string", "format": "date-time"},
        "name": {"type": "string", "maxLength": 253},
    }
    assert limited({"type": "object", "properties": given})["properties"] == {
        **given,
        "type": {"type": "array", "items": text, "maxItems": MAX_ITEMS},
        "map": {"type": "object", "additionalProperties": text, "maxProperties": MAX_PROPERTIES},
        "any": {**given["any"], "maxProperties": MAX_PROPERTIES},
    }


def test_only_what_a_resource_definition_may_say_comes_from_openapi() -> None:
    published = {
        "description": "A list.",
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-strategy": "merge",
        "items": {"type": "string", "enum": ["A"], "default": ""},
    }
    assert structural(published) == {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "string"},
    }


def test_a_reference_of_openapi_is_kept_under_its_own_name() -> None:
    published = {"default": {}, "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Probe"}]}
    assert structural(published) == {"$ref": "io.k8s.api.core.v1.Probe"}


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        ({"type": "string", "default": "TCP"}, {"type": "string", "default": "TCP"}),
        ({"type": "boolean", "default": False}, {"type": "boolean", "default": False}),
        ({"type": "object", "default": {}}, {"type": "object"}),
        ({"type": "string"}, {"type": "string"}),
    ],
)
def test_an_optional_field_keeps_a_default_that_was_set(published: Any, expected: Any) -> None:
    assert structural({"type": "object", "properties": {"x": published}})["properties"]["x"] == expected


def test_a_required_field_has_no_default() -> None:
    published = {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer", "default": 0}}}
    assert structural(published) == {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}


SOURCE = {
    "group": "test.example.com",
    "version": "v1",
    "kind": "Thing",
    "plural": "things",
    "scope": "Cluster",
    "description": "Something to test with.",
    "properties": {"spec": {"$ref": "io.k8s.api.core.v1.Thing"}},
}
AMOUNT = "io.k8s.apimachinery.pkg.api.resource.Quantity"


def written(tmp_path: Path, thing: Any) -> tuple[str, Any]:
    (tmp_path / "shared.yaml").write_text("Quantity: {pattern: q}")
    (tmp_path / "things.yaml").write_text(yaml.safe_dump(SOURCE))
    schemas = {"io.k8s.api.core.v1.Thing": thing, AMOUNT: {"oneOf": [{"type": "string"}, {"type": "number"}]}}
    (made,) = definitions({"components": {"schemas": schemas}}, tmp_path)
    return made


def test_a_file_is_named_after_group_and_plural(tmp_path: Path) -> None:
    name, text = written(tmp_path, {"type": "object"})
    assert name == "test.example.com_things.yaml"
    assert yaml.safe_load(text)["metadata"]["name"] == "things.test.example.com"


def test_an_amount_in_a_type_of_kubernetes_has_our_schema_of_amounts(tmp_path: Path) -> None:
    thing = {"type": "object", "properties": {"size": {"$ref": f"#/components/schemas/{AMOUNT}"}}}
    _, text = written(tmp_path, thing)
    (version,) = yaml.safe_load(text)["spec"]["versions"]
    assert version["schema"]["openAPIV3Schema"]["properties"]["spec"] == {
        "type": "object",
        "properties": {"size": {"pattern": "q"}},
    }


def test_what_occurs_twice_is_written_twice(tmp_path: Path) -> None:
    shared = {"type": "integer"}
    _, text = written(tmp_path, {"type": "object", "properties": {"a": shared, "b": shared}})
    assert text.count("{type: integer}") == 2


def test_a_reference_to_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="Gone"):
        written(tmp_path, {"$ref": "#/components/schemas/io.k8s.Gone"})
