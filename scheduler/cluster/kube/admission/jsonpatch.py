"""The difference of two JSON values as a JSON Patch (RFC 6902) of additions, removals and replacements."""

from collections.abc import Iterator
from typing import Any

from scheduler.webhooks.contract import Json


def json_patch(old: Any, new: Any, path: str = "") -> Iterator[Json]:
    """The operations that turn ``old`` into ``new``, in order.

    Equal members are not patched, so that the patch of another webhook is not undone. Lists are compared item by item.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key not in new:
                yield {"op": "remove", "path": f"{path}/{_escaped(key)}"}
        for key, value in new.items():
            where = f"{path}/{_escaped(key)}"
            if key in old:
                yield from json_patch(old[key], value, where)
            else:
                yield {"op": "add", "path": where, "value": value}
    elif isinstance(old, list) and isinstance(new, list):
        for index, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from json_patch(before, after, f"{path}/{index}")
        for index in range(len(old) - 1, len(new) - 1, -1):  # from the end, so that the indices stay valid
            yield {"op": "remove", "path": f"{path}/{index}"}
        for value in new[len(old) :]:
            yield {"op": "add", "path": f"{path}/-", "value": value}
    elif not _equal(old, new):
        yield {"op": "replace", "path": path, "value": new}


def _equal(old: Any, new: Any) -> bool:
    """Whether two values are equal in JSON, where true is not 1."""
    return bool(old == new) and isinstance(old, bool) == isinstance(new, bool)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
