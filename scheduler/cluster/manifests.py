"""Reads manifests from files, directories or standard input: YAML with several documents, or JSON. Unpacks Lists.

Errors are raised as ManifestError, which names the file, the document and the field.
"""

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from scheduler.api.kinds import Kind, find_kind
from scheduler.api.messages import type_of, value_of
from scheduler.api.objects import KubeObject
from scheduler.api.reasons import field_and_problem
from scheduler.cluster.decoding import shallow
from scheduler.framework.documents import MAX_DEPTH, DocumentError, read_yaml_documents

_SUFFIXES = (".yaml", ".yml", ".json")
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_ANY: Final = msgspec.json.Decoder()
_EARLIER: Final = re.compile("v[12]((alpha|beta)[1-3])?")
"""The versions that groups of Kubernetes have had: ``v1beta1`` of policy, ``v2alpha1`` of batch."""
T = TypeVar("T", bound=KubeObject)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_FREQUENT_NULLS: Final = (b'"lastProbeTime": null,', b'"lastProbeTime":null,')
"""Each condition of a Pod has it. Within a string the quotes would be escaped."""


class ManifestError(Exception):
    """A manifest is invalid; the message names the file, the document, the field and the problem."""


@dataclass(slots=True)
class Manifest:
    """An object as it was read."""

    where: str
    """File and document, for messages."""
    kind: Kind | None
    """The kind; None if the program does not know it."""
    raw: dict[str, Any]


def decode(kind: Kind[T], raw: dict[str, Any], where: str) -> T:
    """Decodes an object. Raises ManifestError that names a field of a wrong type."""
    if kind.struct is None:
        raise TypeError(f"{kind.name} is not decoded")
    try:
        return msgspec.convert(raw, kind.struct)
    except msgspec.ValidationError as error:
        field, problem = field_and_problem(error)
        raise ManifestError(f"{where}: {kind.name}: {field or 'the document'}: {problem}") from None


def read_manifests(paths: Sequence[str], *, generated_names: bool = False) -> list[Manifest]:
    """Returns all objects of the paths, in order. Raises ManifestError.

    ``generated_names``: whether objects may have a ``generateName`` instead of a name.
    """
    manifests = [manifest for path in paths for manifest in _read(path)]
    for manifest in manifests:
        if not manifest.raw["metadata"].get("name") and not generated_names:
            raise _missing_name(manifest.raw, manifest.where)
    return manifests


def _read(path: str) -> Iterator[Manifest]:
    if path == "-":
        yield from parse_manifests(sys.stdin.buffer.read(), "standard input")
        return
    place = Path(path)
    if not place.exists():
        raise ManifestError(f"{path}: no such file or directory")
    files = sorted(p for p in place.iterdir() if p.suffix in _SUFFIXES) if place.is_dir() else [place]
    if not files:
        raise ManifestError(f"{path}: no {', '.join(_SUFFIXES)} files in it")
    for file in files:
        try:
            data = file.read_bytes()
        except OSError as error:
            raise ManifestError(f"{file}: {error.strerror or error}") from None
        yield from parse_manifests(data, str(file))


def parse_manifests(data: bytes, source: str) -> Iterator[Manifest]:
    """Returns the objects of a text in UTF-8. Raises ManifestError.

    In a JSON list, as ``kubectl get -o json`` prints it, values that are nested too deeply are left out, so that one
    object of a tenant does not make the dump of a cluster unreadable. Elsewhere they are an error.
    """
    if not data.isascii():
        _text(data, source)  # the fast reader does not look at fields that are given twice
    document = _parse_json(data) if data.lstrip().startswith(b"{") else None
    if document is not None:
        yield from _unpack(document, f"{source}, document 1")
        return
    for number, document in enumerate(_documents(_text(data, source), source), start=1):
        if document is not None:
            where = f"{source}, document {number}"
            yield from _unpack(_checked(document, where, "", 0), where)


def _text(data: bytes, source: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ManifestError(f"{source}: not UTF-8 (byte {error.start})") from None


def _parse_json(data: bytes) -> object:
    """Returns a JSON document without null fields; None if it needs the checks of ``_checked``."""
    try:
        return _decode_json(data)
    except msgspec.MsgspecError:
        return None
    except RecursionError:
        pass
    try:
        document = _decode_json(shallow(data, MAX_DEPTH))
    except (msgspec.MsgspecError, RecursionError):
        return None
    return document if _is_list(document) else None


def _decode_json(data: bytes) -> dict[str, Any]:
    """Decodes a JSON object without null fields. Raises msgspec.MsgspecError, and RecursionError for deep nesting.

    The fields of large listed objects are decoded one by one, since few of them have to be searched for nulls.
    """
    document = {}
    for name, raw in _FIELDS.decode(data).items():
        value = [_item(item) for item in _ITEMS.decode(raw)] if name == "items" else _value(raw, 2)
        if value is not None:
            document[name] = value
    return document


def _item(raw: msgspec.Raw) -> Any:
    """Decodes an object of a list without null fields. Raises as ``_decode_json``."""
    text = bytes(raw)
    if b"null" not in text and 3 + text.count(b"{") + text.count(b"[") <= MAX_DEPTH:
        return _ANY.decode(text)
    return {name: value for name, part in _FIELDS.decode(text).items() if (value := _value(part, 4)) is not None}


def _value(raw: msgspec.Raw, level: int) -> Any:
    """Decodes a value at a level of a document without null fields. Raises as ``_decode_json``."""
    text = bytes(raw)
    nulls = b"null" in text
    if nulls:
        for null in _FREQUENT_NULLS:
            text = text.replace(null, b"")
        nulls = b"null" in text
    value = _ANY.decode(text)
    if nulls or level + text.count(b"{") + text.count(b"[") > MAX_DEPTH:
        _drop_nulls(value, level)
    return value


def _drop_nulls(value: object, level: int) -> None:
    """Removes null fields in place. Raises RecursionError if arrays or objects are below level ``MAX_DEPTH``."""
    if type(value) is dict:
        inner: Iterable[object] = value.values()
        if None in inner:
            for key in [key for key, item in value.items() if item is None]:
                del value[key]
    elif type(value) is list:
        inner = value
    else:
        return
    if level > MAX_DEPTH:
        raise RecursionError
    for item in inner:
        if type(item) is dict or type(item) is list:
            _drop_nulls(item, level + 1)


def _checked(value: Any, where: str, path: str, depth: int) -> Any:
    """Returns a copy without null fields, which Kubernetes treats as absent, and with U+FFFD for lone surrogates, as
    API servers decode them.

    Raises ManifestError that names a field with a value that JSON cannot represent.
    """
    if depth > MAX_DEPTH:
        raise ManifestError(f"{where}: {path[:80]}...: nested more than {MAX_DEPTH} deep")
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ManifestError(f"{where}: {path or 'the document'}: expected strings as keys, got {value_of(key)}")
        return {
            _without_surrogates(k): _checked(v, where, f"{path}.{k}" if path else k, depth + 1)
            for k, v in value.items()
            if v is not None
        }
    if isinstance(value, list):
        return [_checked(item, where, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    if isinstance(value, str):
        return _without_surrogates(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise ManifestError(f"{where}: {path}: {value} is not a number that JSON knows")
    if value is not None and not isinstance(value, int | float):
        raise ManifestError(f"{where}: {path or 'the document'}: expected JSON's types, got {type_of(value)}")
    return value


def _without_surrogates(text: str) -> str:
    """Returns the text with U+FFFD in place of surrogates without a partner, which UTF-8 cannot encode."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def _documents(text: str, source: str) -> Iterator[object]:
    if text.lstrip().startswith("{"):
        try:
            yield json.loads(text)
        except (ValueError, RecursionError):
            pass  # several JSON documents, or YAML in flow style; the YAML reader accepts both
        else:
            return
    number = 0
    try:
        for document in read_yaml_documents(text):
            number += 1
            yield document
    except DocumentError as error:
        line = f", line {error.line}" if error.line else ""
        raise ManifestError(f"{source}, document {number + 1}{line}: {error}") from None


def _unpack(document: object, where: str) -> Iterator[Manifest]:
    if not isinstance(document, dict):
        raise ManifestError(f"{where}: expected an object, got {type_of(document)}")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            raise ManifestError(f"{where}: {field}: expected a string, got {value_of(document.get(field))}")
    if _is_list(document):
        for i, item in enumerate(document["items"]):
            yield from _unpack(item, f"{where}, items[{i}]")
        return
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        raise _missing_name(document, where)
    for field in ("name", "generateName", "namespace", "uid", "creationTimestamp", "deletionTimestamp"):
        if not isinstance(metadata.get(field, ""), str):
            raise ManifestError(f"{where}: {document['kind']}: metadata.{field}: expected a string")
    kind = find_kind(document["apiVersion"], document["kind"])
    if (
        kind is not None
        and document["apiVersion"] != kind.api_version
        and not _is_earlier(kind, document["apiVersion"])
    ):
        raise ManifestError(
            f"{where}: no matches for kind {kind.name!r} in version {document['apiVersion']!r}; did you mean "
            f"{kind.api_version!r}?"
        )
    yield Manifest(where, kind, document)


def _is_earlier(kind: Kind, api_version: str) -> bool:
    """Whether a version is one that Kubernetes has had of the kind's group. Ours have one version."""
    return not kind.custom and _EARLIER.fullmatch(api_version.rpartition("/")[2]) is not None and kind.group != ""


def _is_list(document: dict[str, Any]) -> bool:
    kind = document.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and isinstance(document.get("items"), list)


def _missing_name(document: dict[str, Any], where: str) -> ManifestError:
    return ManifestError(f"{where}: {document['kind']}: metadata.name: expected a string")
