"""Makes ``scheduler/cluster/known_fields.json``: the fields of every kind that the program handles.

With it ``simulate`` and ``explain`` find unknown fields without an API server. The fields of Kubernetes' kinds are
those of the OpenAPI documents that the API server publishes, the fields of our kinds those of ``deploy/crds``. The file
has three members:

* ``types``: mappings from the names of fields to the indexes of their types; of a map, ``*`` stands for all keys. A
  list has the type of its items. Type 0 is any value, type 1 a quantity: their mappings are empty.
* ``kinds``: from ``apiVersion kind`` to the index of its type.
* ``enums``: lists of the texts that a field may have. Type -1 is the first, type -2 the second.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from scheduler.api.kinds import KINDS
from scheduler.cluster.mistakes import ANY, EVERY_KEY, QUANTITY

FIELDS_PATH: Final = Path(__file__).resolve().parents[2] / "scheduler" / "cluster" / "known_fields.json"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
Schema = Mapping[str, Any]
Get = Callable[[str], Any]


def known_fields(get: Get, definitions: Path) -> str:
    """The text of the file. ``get``: reads a path of the API server; ``definitions``: the folder of the resource
    definitions."""
    types = _Types(get("/openapi/v3/api/v1")["components"]["schemas"])
    kinds: dict[str, int] = {}
    for file in sorted(definitions.glob("*.yaml")):
        spec = yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            kinds[f"{spec['group']}/{version['name']} {spec['names']['kind']}"] = types.index(schema)
    documents = {kind.api_version for kind in KINDS if not kind.custom}
    for api_version in sorted(documents):
        path = f"/openapi/v3/{'api/v1' if api_version == 'v1' else f'apis/{api_version}'}"
        types.schemas = get(path)["components"]["schemas"]
        group, _, number = api_version.rpartition("/")
        for kind in KINDS:
            if kind.api_version == api_version:
                own = {"group": group, "version": number, "kind": kind.name}
                schema = next(s for s in types.schemas.values() if own in s.get("x-kubernetes-group-version-kind", ()))
                kinds[f"{api_version} {kind.name}"] = types.index(schema)
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in types.found)
    enums = ",\n".join(json.dumps(each, separators=(",", ":")) for each in types.enums)
    head = f'"kinds":{json.dumps(dict(sorted(kinds.items())), indent=0)},\n"enums":[\n{enums}\n]'
    return f'{{{head},\n"types":[\n{lines}\n]}}\n'


class _Types:
    """The distinct types, by index."""

    def __init__(self, schemas: Mapping[str, Schema]) -> None:
        """``schemas``: of the core group, which has the metadata of all objects."""
        self.schemas = schemas
        self.found: list[dict[str, int]] = [{}, {}]
        self.enums: list[list[str]] = []
        self._indexes: dict[str, int] = {}
        self._meta = self.index(schemas[_META])

    def index(self, schema: Schema) -> int:
        """The index of the type of a schema."""
        match schema:
            case {"$ref": str(reference)} | {"allOf": [{"$ref": str(reference)}]}:
                name = reference.rpartition("/")[2]
                return QUANTITY if name == _QUANTITY else self.index(self.schemas[name])
            case {"x-kubernetes-int-or-string": True, "pattern": _}:
                return QUANTITY
            case {"x-kubernetes-preserve-unknown-fields": True}:
                return ANY
            case {"properties": fields}:
                return self._intern({name: self._field(name, each) for name, each in fields.items()})
            case {"additionalProperties": dict(each)}:
                of_values = self.index(each)
                return ANY if of_values == ANY else self._intern({EVERY_KEY: of_values})
            case {"items": items}:
                return self.index(items)
            case {"type": "string", "enum": values}:
                if values not in self.enums:
                    self.enums.append(values)
                return -1 - self.enums.index(values)
        return ANY

    def _field(self, name: str, schema: Schema) -> int:
        """A resource definition leaves metadata open."""
        return self._meta if name == "metadata" and schema.get("type") == "object" else self.index(schema)

    def _intern(self, fields: dict[str, int]) -> int:
        text = json.dumps(fields, sort_keys=True)
        if text not in self._indexes:
            self._indexes[text] = len(self.found)
            self.found.append(dict(sorted(fields.items())))
        return self._indexes[text]
