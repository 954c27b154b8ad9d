"""YAML within limits: documents that PyYAML reads have the same content, and documents that would end the process are
refused."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.documents import MAX_DEPTH, DocumentError, _Loader, read_yaml, read_yaml_documents

ROOT = Path(__file__).parents[3]
ALIAS_EXPANSION = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(12)
)


def deep(levels: int) -> list[str]:
    """Texts with this depth of nesting, in every style that YAML has."""
    return [
        "[" * levels + "]" * levels,
        '{"a": ' * levels + "1" + "}" * levels,
        "- " * levels + "x",
        "? " * levels + "x",
        "".join(f"{' ' * i}a:\n" for i in range(min(levels, 2000))),
        "".join(f"a{i}: &a{i} [{f'*a{i - 1}' if i else ''}]\n" for i in range(min(levels, 2000))),
    ]


@pytest.mark.parametrize("text", deep(100_000))
def test_a_text_that_is_nested_without_end_is_refused(text: str) -> None:
    with pytest.raises(DocumentError, match=rf"nested .*{MAX_DEPTH}") as refused:
        read_yaml(text)
    assert refused.value.line


@pytest.mark.parametrize("text", [text for text in deep(MAX_DEPTH - 1) if "?" not in text])
def test_a_text_that_is_nested_as_deep_as_is_allowed_is_read(text: str) -> None:
    assert read_yaml(text) == yaml.load(text, Loader=_Loader)


def test_aliases_that_expand_without_end_are_refused_with_limit_and_line() -> None:
    with pytest.raises(DocumentError, match=r"aliases add \d+ characters, at most 10000000 are read") as refused:
        read_yaml(ALIAS_EXPANSION)
    assert refused.value.line == 7
    long = "x" * 1_000_000
    with pytest.raises(DocumentError, match="aliases add"):
        read_yaml(f"a: &a {long}\nb: [{', '.join(['*a'] * 20)}]")


def test_what_is_used_a_few_times_may_be_anchored() -> None:
    text = "base: &base {image: i, cpu: 1}\npods: [*base, {<<: *base, cpu: 2}]\n"
    assert read_yaml(text)["pods"] == [{"image": "i", "cpu": 1}, {"image": "i", "cpu": 2}]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &a [*a]", "nested in itself"),
        ("a: *b", "undefined alias 'b'"),
        ("a: " + "1" * 5000, "a number of 5000 characters"),
        ("a: " + "1:" * 5000 + "1", "a number of 10001 characters"),
        ("a: !!int x", "'x' is no int"),
        ("a: !!bool perhaps", "'perhaps' is no bool"),
        ("a: !!timestamp x", "'x' is no timestamp"),
        ("a: !!seq x", "its tag is"),
        ("a: !!python/object/apply:os.system [x]", "expected a list or a mapping"),
        ("a: !!python/name:os.system x", "its tag is"),
        ("a: !!set {b}", "expected a list or a mapping"),
        ("[a]: b", "expected a scalar as a key, got a list"),
        ("<<: 5", "<<: expected a mapping"),
        ("a\n---\nb", "expected a single document"),
        ("a: [", "did not find"),
        ("a: \x00", "not YAML"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, problem: str) -> None:
    with pytest.raises(DocumentError, match=re.escape(problem)):
        read_yaml(text)


@pytest.mark.slow
def test_the_project_s_own_files_are_read_as_pyyaml_reads_them() -> None:
    files = [*ROOT.glob("deploy/**/*.yaml"), *ROOT.glob("examples/*"), *ROOT.glob("tests/conformance/*/*.yaml")]
    assert len(files) > 20
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert repr(list(read_yaml_documents(text))) == repr(list(yaml.load_all(text, Loader=_Loader))), file


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8),
    st.sampled_from(["yes", "~", "0x1f", "017", "1_000", "1:30", "1e3", ".inf", "2020-01-01", "=", "<<", "null"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3), max_leaves=12
)


@given(VALUES, st.sampled_from([True, False, None]), st.booleans())
def test_whatever_pyyaml_writes_is_read_as_pyyaml_reads_it(value: Any, flow: bool | None, aliases: bool) -> None:
    text = yaml.safe_dump([value, value] if aliases else value, default_flow_style=flow)
    assert repr(read_yaml(text)) == repr(yaml.load(text, Loader=_Loader))


@given(st.text(alphabet="ab1:-?[]{},&*!<>|'\"# \n%@.~=", max_size=40))
def test_a_text_of_any_shape_is_read_as_pyyaml_reads_it_or_refused(text: str) -> None:
    try:
        found = read_yaml(text)
    except DocumentError:
        return
    assert repr(found) == repr(yaml.load(text, Loader=_Loader))


def test_there_is_no_other_reader_of_yaml() -> None:
    reading = re.compile(r"yaml\.(safe_|unsafe_|full_)?(load|compose|parse|scan)|yaml\.get_single")
    found = [str(file) for file in ROOT.glob("scheduler/**/*.py") if reading.search(file.read_text(encoding="utf-8"))]
    assert not found, "documents.py reads YAML within bounds"
