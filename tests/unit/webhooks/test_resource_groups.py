"""The configuration file of ``/pods/mutate``: valid notations, and errors that name the line or field."""

import pytest

from scheduler.framework.configuration_file import ConfigurationError
from scheduler.webhooks.resource_groups import annotation_of, parse_resource_groups


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "resourceGroups:\n", "other: 1\n"])
def test_a_file_without_groups_is_valid(text: str) -> None:
    assert parse_resource_groups(text, "a.conf") == ()


def test_annotations_are_parsed_in_each_notation() -> None:
    values = '["a/b: c", "a/b:c", {a/b: c}]'
    (group,) = parse_resource_groups(f"resourceGroups: [{{object: {{key: annotation, value: {values}}}}}]", "a.conf")
    assert [annotation_of(value) for value in group.object_values] == [("a/b", "c")] * 3


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("resourceGroups: [\n- a", r"a\.conf:2: "),
        ("- a", r"a\.conf: the file: expected a mapping, got a list"),
        ("resourceGroups: 3", r"a\.conf: resourceGroups: expected a list, got a number"),
        ("resourceGroups: [3]", r"resourceGroups\[0\]: expected a mapping, got a number"),
        ("resourceGroups: [{object: {key: label}}]", r"resourceGroups\[0\]\.object\.key: expected namespace or"),
        ("resourceGroups: [{labels: {a: 1}}]", r"labels\[a\]: expected a text, got a number; put it in quotes"),
        ("resourceGroups: [{tolerations: [x]}]", r"tolerations\[0\]: expected a mapping"),
        ("resourceGroups: [{affinity: '{'}]", r"resourceGroups\[0\]\.affinity: not JSON: .*\(line 1, column 2\)"),
        ("resourceGroups: [{object: {value: [x]}}]", r"object\.value\[0\]: expected an annotation like 'key: value'"),
    ],
)
def test_an_invalid_file_is_refused_with_line_or_field(text: str, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        parse_resource_groups(text, "a.conf")
