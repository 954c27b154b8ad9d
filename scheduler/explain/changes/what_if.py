"""Converts edits of objects to the documents of a what-if file: manifests, merge patches, deletions."""

import copy
from collections.abc import Iterable
from typing import Any

from scheduler.api.kinds import Kind
from scheduler.api.names import WHAT_IF
from scheduler.cluster.memory import MemoryCluster
from scheduler.cluster.memory.what_if import DELETE, MERGE
from scheduler.framework.remedies.adjustments import Edit, Raw


def what_if_documents(cluster: MemoryCluster, edits: Iterable[Edit]) -> list[Raw]:
    """The documents of the edits, applied in order."""
    before: dict[tuple[str, str, str], tuple[Kind, Raw | None]] = {}
    after: dict[tuple[str, str, str], Raw | None] = {}
    for edit in edits:
        key = (str(edit.kind), edit.namespace, edit.name)
        if key not in before:
            before[key] = (edit.kind, cluster.server.find(edit.kind, edit.namespace, edit.name))
            after[key] = before[key][1]
        now = after[key]
        if now is not None or edit.creates:
            blank = {"metadata": {"name": edit.name, **({"namespace": edit.namespace} if edit.namespace else {})}}
            after[key] = edit.transform(copy.deepcopy(now) if now is not None else blank)
    found = []
    for (_, namespace, name), (kind, old) in before.items():
        new = after[str(kind), namespace, name]
        if new != old:
            found.append(_document(kind, namespace, name, old, new))
    return found


def _document(kind: Kind, namespace: str, name: str, old: Raw | None, new: Raw | None) -> Raw:
    head: Raw = {"apiVersion": kind.api_version, "kind": kind.name}
    meta: Raw = {"name": name, **({"namespace": namespace} if namespace else {})}
    if old is None:
        whole = new or {}
        return {**head, **whole, "metadata": {**whole["metadata"], **meta}}
    if new is None:
        return {**head, "metadata": {**meta, "annotations": {WHAT_IF: DELETE}}}
    patch = _patch(old, new)
    patched = patch.pop("metadata", {})
    annotations = {**patched.pop("annotations", {}), WHAT_IF: MERGE}
    return {**head, "metadata": {**meta, **patched, "annotations": annotations}, **patch}


def _patch(old: Raw, new: Raw) -> Raw:
    """The JSON merge patch that turns ``old`` into ``new``. Edits remove only items of lists, so it deletes no
    field."""
    result: dict[str, Any] = {}
    for key, value in new.items():
        was = old.get(key)
        if isinstance(value, dict) and isinstance(was, dict):
            inner = _patch(was, value)
            if inner:
                result[key] = inner
        elif key not in old or value != was:
            result[key] = value
    return result
