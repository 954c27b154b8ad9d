"""The configuration file of ``/pods/mutate``: resource groups, in Volcano's format.

``object.value`` lists namespaces or annotations (``key: value``). An empty file, or one with comments only, has no
groups. Unknown keys are ignored. A value of a wrong type makes the whole file invalid, so that a running process keeps
the last valid one.
"""

import json
from typing import Any, Final

from scheduler.api.json_texts import json_problem
from scheduler.api.messages import type_of
from scheduler.framework.configuration_file import ConfigurationError
from scheduler.framework.documents import DocumentError, read_yaml
from scheduler.webhooks.contract import Json, ResourceGroup

BY_NAMESPACE: Final = "namespace"
BY_ANNOTATION: Final = "annotation"
_SEPARATOR: Final = ": "


def annotation_of(value: str) -> tuple[str, str]:
    """Splits an entry of ``object.value`` into the key and the value of an annotation."""
    key, _, annotation = value.partition(_SEPARATOR)
    return key, annotation


def parse_resource_groups(text: str, source: str) -> tuple[ResourceGroup, ...]:
    """Parses the file. Raises ConfigurationError that names ``source`` and the line or field."""
    try:
        document = read_yaml(text)
    except DocumentError as error:
        raise ConfigurationError(f"{source}{f':{error.line}' if error.line else ''}: {error}") from None
    if document is None:
        return ()
    reader = _FieldReader(source)
    groups = reader.list(reader.mapping(document, "the file").get("resourceGroups"), "resourceGroups")
    return tuple(_group(group, f"resourceGroups[{i}]", reader) for i, group in enumerate(groups))


def _group(value: object, where: str, reader: "_FieldReader") -> ResourceGroup:
    fields = reader.mapping(value, where)
    selector = reader.mapping(fields.get("object"), f"{where}.object")
    key = reader.text(selector.get("key"), f"{where}.object.key")
    if key not in ("", BY_NAMESPACE, BY_ANNOTATION):
        raise reader.error(f"{where}.object.key", f"expected {BY_NAMESPACE} or {BY_ANNOTATION}, got {key!r}")
    values = reader.list(selector.get("value"), f"{where}.object.value")
    parse = reader.text if key == BY_NAMESPACE else reader.annotation
    tolerations = reader.list(fields.get("tolerations"), f"{where}.tolerations")
    labels = reader.mapping(fields.get("labels"), f"{where}.labels")
    return ResourceGroup(
        name=reader.text(fields.get("resourceGroup"), f"{where}.resourceGroup"),
        object_key=key,
        object_values=tuple(parse(each, f"{where}.object.value[{i}]") for i, each in enumerate(values)),
        scheduler_name=reader.text(fields.get("schedulerName"), f"{where}.schedulerName"),
        tolerations=tuple(reader.mapping(each, f"{where}.tolerations[{i}]") for i, each in enumerate(tolerations)),
        labels={str(name): reader.text(each, f"{where}.labels[{name}]") for name, each in labels.items()},
        affinity=reader.affinity(fields.get("affinity"), f"{where}.affinity"),
    )


class _FieldReader:
    """Reads typed values; its errors name the file and the field."""

    def __init__(self, source: str) -> None:
        self._source = source

    def error(self, where: str, problem: str) -> ConfigurationError:
        return ConfigurationError(f"{self._source}: {where}: {problem}")

    def mapping(self, value: object, where: str) -> Json:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(where, f"expected a mapping, got {type_of(value)}")
        return value

    def list(self, value: object, where: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(where, f"expected a list, got {type_of(value)}")
        return value

    def text(self, value: object, where: str) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(where, f"expected a text, got {type_of(value)}; put it in quotes")
        return value

    def annotation(self, value: object, where: str) -> str:
        """Normalises ``key: value``, a quoted string or a mapping with one member, to the form that ``annotation_of``
        reads."""
        if isinstance(value, str):
            key, colon, annotation = value.partition(":")
            if not colon or not key.strip():
                raise self.error(where, f"expected an annotation like 'key: value', got {value!r}")
            return f"{key.strip()}{_SEPARATOR}{annotation.strip()}"
        pairs = list(self.mapping(value, where).items())
        if len(pairs) != 1:
            raise self.error(where, f"expected one annotation like 'key: value', got {len(pairs)}")
        return f"{pairs[0][0]}{_SEPARATOR}{self.text(pairs[0][1], where)}"

    def affinity(self, value: object, where: str) -> Json:
        """Reads an affinity: JSON in a string, as in Volcano, or a mapping."""
        if isinstance(value, str) and value:
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:
                raise self.error(where, json_problem(str(value)) or f"not JSON: {error}") from None
        return self.mapping(value or None, where)
