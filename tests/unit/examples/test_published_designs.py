"""The map from the sections of published designs to pages, tests and examples (``docs/published-designs.md``)."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "published-designs.md"
ROWS = re.findall(r"^\| (?!section |-)(.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
LINKS = re.compile(r"\[[^]]+\]\([^)]+\)(, \[[^]]+\]\([^)]+\))*")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split(" | ")[0][:60])
def test_every_section_has_a_page_a_test_and_an_example(row: str) -> None:
    _, page, test, example = row.split(" | ")
    assert LINKS.fullmatch(page) and LINKS.fullmatch(example)
    path, name = test.strip("`").split("::")
    assert f"def {name}(" in (PAGE.parents[1] / path).read_text(encoding="utf-8")


def test_the_map_has_all_five_documents() -> None:
    assert PAGE.read_text(encoding="utf-8").count("\n## ") == 5
    assert len(ROWS) > 50
