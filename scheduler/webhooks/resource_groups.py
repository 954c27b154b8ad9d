"""The configuration file of ``/pods/mutate``: resource groups, in Volcano's format.

``object.value`` lists namespaces or annotations (``key: value``). A file that is empty, or holds only comments, has no
groups. Unknown keys are ignored; a value of a wrong type refuses the whole file, with its place, so that a running
process keeps the last good one.
"""

import json
from typing import Any, Final

from scheduler.framework.configuration_file import ConfigurationError
from scheduler.framework.documents import DocumentError, read_yaml
from scheduler.webhooks.contract import Json, ResourceGroup

BY_NAMESPACE: Final = "namespace"
BY_ANNOTATION: Final = "annotation"
_SEPARATOR: Final = ": "


def annotation_of(value: str) -> tuple[str, str]:
    """Key and value of an annotation as an object's value names it."""
    key, _, wanted = value.partition(_SEPARATOR)
    return key, wanted


def parse_resource_groups(text: str, source: str) -> tuple[ResourceGroup, ...]:
    """Raises ConfigurationError, naming ``source`` and the line or field, when the text cannot be used."""
    try:
        document = read_yaml(text)
    except DocumentError as error:
        raise ConfigurationError(f"{source}{f':{error.line}' if error.line else ''}: {error}") from None
    if document is None:
        return ()
    place = _Place(source)
    groups = place.list(place.mapping(document, "the file").get("resourceGroups"), "resourceGroups")
    return tuple(_group(group, f"resourceGroups[{i}]", place) for i, group in enumerate(groups))


def _group(value: object, where: str, place: "_Place") -> ResourceGroup:
    fields = place.mapping(value, where)
    chosen = place.mapping(fields.get("object"), f"{where}.object")
    key = place.text(chosen.get("key"), f"{where}.object.key")
    if key not in ("", BY_NAMESPACE, BY_ANNOTATION):
        raise place.error(f"{where}.object.key", f"expected {BY_NAMESPACE} or {BY_ANNOTATION}, got {key!r}")
    values = place.list(chosen.get("value"), f"{where}.object.value")
    read = place.text if key == BY_NAMESPACE else place.annotation
    tolerations = place.list(fields.get("tolerations"), f"{where}.tolerations")
    labels = place.mapping(fields.get("labels"), f"{where}.labels")
    return ResourceGroup(
        name=place.text(fields.get("resourceGroup"), f"{where}.resourceGroup"),
        object_key=key,
        object_values=tuple(read(each, f"{where}.object.value[{i}]") for i, each in enumerate(values)),
        scheduler_name=place.text(fields.get("schedulerName"), f"{where}.schedulerName"),
        tolerations=tuple(place.mapping(each, f"{where}.tolerations[{i}]") for i, each in enumerate(tolerations)),
        labels={str(name): place.text(each, f"{where}.labels[{name}]") for name, each in labels.items()},
        affinity=place.affinity(fields.get("affinity"), f"{where}.affinity"),
    )


class _Place:
    """Readers of typed values, whose errors name file and field."""

    def __init__(self, source: str) -> None:
        self._source = source

    def error(self, where: str, problem: str) -> ConfigurationError:
        return ConfigurationError(f"{self._source}: {where}: {problem}")

    def mapping(self, value: object, where: str) -> Json:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(where, f"expected a mapping, got {type(value).__name__}")
        return value

    def list(self, value: object, where: str) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(where, f"expected a list, got {type(value).__name__}")
        return value

    def text(self, value: object, where: str) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(where, f"expected a text, got {type(value).__name__}; put it in quotes")
        return value

    def annotation(self, value: object, where: str) -> str:
        """``key: value``, in quotes or as a mapping of one member, in the one form that ``annotation_of`` reads."""
        if isinstance(value, str):
            key, colon, wanted = value.partition(":")
            if not colon or not key.strip():
                raise self.error(where, f"expected an annotation like 'key: value', got {value!r}")
            return f"{key.strip()}{_SEPARATOR}{wanted.strip()}"
        pairs = list(self.mapping(value, where).items())
        if len(pairs) != 1:
            raise self.error(where, f"expected one annotation like 'key: value', got {len(pairs)}")
        return f"{pairs[0][0]}{_SEPARATOR}{self.text(pairs[0][1], where)}"

    def affinity(self, value: object, where: str) -> Json:
        """A text of JSON, as Volcano has it, or a mapping."""
        if isinstance(value, str) and value:
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:
                raise self.error(where, f"not JSON: {error}") from None
        return self.mapping(value or None, where)
