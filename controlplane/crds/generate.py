"""Makes the resource definitions in `deploy/crds` from the short definitions in this directory.

A vcjob contains whole Pod templates and claims, whose schemas are thousands of lines of Kubernetes. The short
definitions do not repeat them: a `$ref` with a dotted name is looked up in the OpenAPI document that the API server
publishes, and is replaced by the part of the schema that a resource definition may contain (`structural`). ``make
crds`` runs this module; a test checks that the committed files equal its output.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from controlplane.crds.fields import FIELDS_PATH, known_fields
from controlplane.run import CRD_DIRECTORY, ControlPlane

Schema = dict[str, Any]
Lookup = Callable[[str], Schema]

SOURCES = Path(__file__).resolve().parent
OPENAPI_PATH = "/openapi/v3/api/v1"

# Helm writes the files one after the other (`helm show crds`), without a separator of its own.
_HEADER = "---\n# Made by `make crds` from {source}; change that.\n"
_LABELS = {"app.kubernetes.io/name": "volcano-py"}

# The keywords kept of a schema of Kubernetes. Left out are the descriptions, for size; the enumerations, since Volcano
# leaves those to the validation that Pods go through; and keywords that a resource definition must not contain.
_KEPT = (
    "type",
    "format",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)

# The limits of every list, map and text whose schema has no other limit, in our schemas and in those of Kubernetes.
# Larger values serve no purpose: an object of 1.5 MiB, which is the most that etcd stores, has no room for as many
# meaningful items, no Pod can run with a longer argument or variable, and annotations have 256 KiB in all.
MAX_ITEMS = 10_000
MAX_PROPERTIES = 10_000
MAX_LENGTH = 262_144

# Types whose JSON is not what their OpenAPI schema says, or that a template has only a part of; by our name for them.
_REPLACED = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "Quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "IntOrString",
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": "TemplateMeta",
}


def definitions(openapi: Mapping[str, Any], sources: Path = SOURCES) -> Iterator[tuple[str, str]]:
    """The name and the text of every file of `deploy/crds`.

    `openapi`: the API server's OpenAPI v3 document of the core group. Raises `KeyError` for a `$ref` to nothing.
    """
    lookup = _lookup(_load(sources / "shared.yaml"), openapi["components"]["schemas"])
    for file in sorted(sources.glob("*.yaml")):
        if file.name == "shared.yaml":
            continue
        source = _load(file)
        header = _HEADER.format(source=f"{sources.parent.name}/{sources.name}/{file.name}")
        yield f"{source['group']}_{source['plural']}.yaml", header + _dump(definition(source, lookup))


def definition(source: Mapping[str, Any], lookup: Lookup) -> Schema:
    """The CustomResourceDefinition of a short definition."""
    kind: str = source["kind"]
    names = {"kind": kind, "listKind": f"{kind}List", "plural": source["plural"], "singular": kind.lower()}
    if "shortNames" in source:
        names["shortNames"] = source["shortNames"]
    schema = {
        "description": source["description"],
        "type": "object",
        "properties": {
            "apiVersion": {"description": "Version of the schema that this object is written in.", "type": "string"},
            "kind": {"description": f"The kind of this object, {kind}.", "type": "string"},
            "metadata": {"type": "object"},
            **limited(inlined(source["properties"], lookup)),
        },
    }
    version = {"name": source["version"], "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if "subresources" in source:
        version["subresources"] = source["subresources"]
    if "columns" in source:
        version["additionalPrinterColumns"] = source["columns"]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{source['plural']}.{source['group']}", "labels": _LABELS},
        "spec": {"group": source["group"], "scope": source["scope"], "names": names, "versions": [version]},
    }


def inlined(node: Any, lookup: Lookup) -> Any:
    """`node` with every `$ref` replaced by its target; the siblings of a `$ref` take precedence."""
    match node:
        case {"$ref": str(name), **beside}:
            return beside | {key: value for key, value in inlined(lookup(name), lookup).items() if key not in beside}
        case dict():
            return {key: inlined(value, lookup) for key, value in node.items()}
        case list():
            return [inlined(each, lookup) for each in node]
    return node


def limited(node: Any) -> Any:
    """`node` with limits in every schema of a list, map or text that has none, unless it lists all values. The types of
    an `anyOf` stay: what is beside it limits them."""
    if isinstance(node, list):
        return [limited(each) for each in node]
    if not isinstance(node, dict):
        return node
    result = {key: value if key == "anyOf" else limited(value) for key, value in node.items()}
    match node:
        case {"type": "array"}:
            result.setdefault("maxItems", MAX_ITEMS)
        case {"type": "object", "additionalProperties": _} | {"x-kubernetes-preserve-unknown-fields": True}:
            result.setdefault("maxProperties", MAX_PROPERTIES)
        case {"type": "string", "enum": _} | {"type": "string", "format": "date-time"}:
            pass
        case {"type": "string"}:
            result.setdefault("maxLength", MAX_LENGTH)
    return result


def structural(schema: Mapping[str, Any]) -> Schema:
    """The schema of a type of Kubernetes in a resource definition; its references are inlined later."""
    result = {key: schema[key] for key in _KEPT if key in schema}
    match schema:
        case {"$ref": str(reference)} | {"allOf": [{"$ref": str(reference)}]}:
            result["$ref"] = reference.rpartition("/")[2]
    for key in ("items", "additionalProperties"):
        if key in schema:
            result[key] = structural(schema[key])
    required = schema.get("required", ())
    if required:
        result["required"] = sorted(required)
    if "properties" in schema:
        result["properties"] = {name: _property(each, name in required) for name, each in schema["properties"].items()}
    return result


def _property(schema: Mapping[str, Any], required: bool) -> Schema:
    result = structural(schema)
    # If there is no default, OpenAPI gives the zero value of the Go type, for required fields and for structs.
    if not required and schema.get("default", {}) != {}:
        result["default"] = schema["default"]
    return result


def _lookup(shared: Mapping[str, Schema], kubernetes: Mapping[str, Any]) -> Lookup:
    def lookup(name: str) -> Schema:
        name = _REPLACED.get(name, name)
        return structural(kubernetes[name]) if "." in name else shared[name]

    return lookup


class _Dumper(yaml.SafeDumper):
    """Writes innermost mappings on one line, unless they contain sentences, and repeats content instead of using
    anchors.

    Otherwise a vcjob would have ten thousand lines, and not every tool that reads definitions supports YAML's anchors.
    """

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        node = super().represent_mapping(tag, mapping, flow_style)
        if any(isinstance(each, str) and " " in each for each in mapping.values()):
            node.flow_style = False
        return node

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _load(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def _dump(manifest: Schema) -> str:
    return yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=120)


def main() -> int:
    """The entry point of the command line: writes the files of `deploy/crds`, and the fields of all kinds."""
    with ControlPlane() as plane:
        for name, text in definitions(plane.admin.get(OPENAPI_PATH)):
            (CRD_DIRECTORY / name).write_text(text, encoding="utf-8")
            print(f"wrote {name}")
        FIELDS_PATH.write_text(known_fields(plane.admin.get, CRD_DIRECTORY), encoding="utf-8")
        print(f"wrote {FIELDS_PATH.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
