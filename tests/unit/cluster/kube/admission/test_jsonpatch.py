"""JSON Patches turn the old value into the new one and change nothing else."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.cluster.kube.admission.review import json_patch

KEYS = st.sampled_from(("a", "b", "a/b", "m~n", "~1", ""))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def applied(patch: list[dict[str, Any]], document: Any) -> Any:
    """Applies a JSON Patch (RFC 6902), as far as these patches use it."""
    document = copy.deepcopy(document)
    for operation in patch:
        if operation["path"] == "":
            document = operation["value"]
            continue
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target = document
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        key: Any = int(last) if isinstance(target, list) and last != "-" else last
        match operation["op"]:
            case "remove":
                del target[key]
            case "add" if key == "-":
                target.append(operation["value"])
            case "replace":
                assert isinstance(target, list) or key in target
                target[key] = operation["value"]
            case "add":
                target[key] = operation["value"]
    return document


@given(old=JSON, new=JSON)
def test_the_patch_of_two_values_turns_one_into_the_other(old: Any, new: Any) -> None:
    before = copy.deepcopy(old)
    result = applied(list(json_patch(old, new)), old)
    assert json.dumps(result, sort_keys=True) == json.dumps(new, sort_keys=True)  # Python considers True equal to 1
    assert old == before


@given(value=JSON)
def test_unchanged_members_are_not_patched(value: Any) -> None:
    assert list(json_patch(value, copy.deepcopy(value))) == []


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        (
            {"metadata": {"annotations": {"volcano.sh/hierarchy": "sci"}}},
            {"metadata": {"annotations": {"volcano.sh/hierarchy": "root/sci"}}},
            [{"op": "replace", "path": "/metadata/annotations/volcano.sh~1hierarchy", "value": "root/sci"}],
        ),
        (
            {"tasks": [{"name": ""}, {"name": "b"}]},
            {"tasks": [{"name": "default0"}, {"name": "b"}]},
            [{"op": "replace", "path": "/tasks/0/name", "value": "default0"}],
        ),
        ({"a": [1, 2, 3]}, {"a": [1]}, [{"op": "remove", "path": "/a/2"}, {"op": "remove", "path": "/a/1"}]),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({}, {"spec": {"weight": 1}}, [{"op": "add", "path": "/spec", "value": {"weight": 1}}]),
    ],
)
def test_a_patch_is_no_larger_than_the_change(old: Any, new: Any, patch: list[dict[str, Any]]) -> None:
    assert list(json_patch(old, new)) == patch
