"""Makes the changes of what-if documents on a real API server."""

import copy
from typing import Any

from controlplane.client import Client
from scheduler.api.kinds import NODE, POD, RESOURCE_QUOTA, Kind, find_kind, object_path
from scheduler.api.names import WHAT_IF

Raw = dict[str, Any]
_WITH_STATUS = (NODE, POD)
"""The kinds whose status is written by a separate request."""


def apply(api: Client, document: Raw) -> None:
    """Creates, replaces, patches or deletes an object, as ``simulate --what-if`` does."""
    kind = find_kind(document["apiVersion"], document["kind"])
    assert kind is not None, document
    raw = copy.deepcopy(document)
    meta = raw["metadata"]
    namespace, name = meta.get("namespace", ""), meta["name"]
    intent = (meta.get("annotations") or {}).pop(WHAT_IF, None)
    path = object_path(kind, namespace, name)
    if intent == "delete":
        api.delete(f"{path}?propagationPolicy=Background")
    elif intent == "merge":
        _merge(api, kind, path, raw)
    else:
        api.create(kind.path_in(namespace), raw)


def _merge(api: Client, kind: Kind, path: str, raw: Raw) -> None:
    """A quota applies when its controller has copied its limits to its status."""
    status = raw.pop("status", None) if kind in _WITH_STATUS else None
    if status is not None:
        api.patch(f"{path}/status", {"status": status}, "merge")
    meta = {key: value for key, value in raw["metadata"].items() if key not in ("name", "namespace") and value != {}}
    body = {**{k: v for k, v in raw.items() if k not in ("apiVersion", "kind", "metadata")}}
    if meta or body:
        api.patch(path, {**body, **({"metadata": meta} if meta else {})}, "merge")
    if kind is RESOURCE_QUOTA:
        api.wait(path, lambda quota: quota["spec"]["hard"] == quota.get("status", {}).get("hard"))
