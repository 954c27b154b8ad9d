"""The map from the sections of published designs to pages, tests and examples (``docs/published-designs.md``)."""

import re

import pytest

from tests.tables import DOCS, names_a_test, rows

PAGE = "published-designs.md"
ROWS = rows(PAGE, "section")
LINKS = re.compile(r"\[[^]]+\]\([^)]+\)(, \[[^]]+\]\([^)]+\))*")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_every_section_has_a_page_a_test_and_an_example(row: list[str]) -> None:
    _, page, test, example = row
    assert LINKS.fullmatch(page) and LINKS.fullmatch(example)
    assert names_a_test(test)


def test_the_map_has_all_five_documents() -> None:
    assert (DOCS / PAGE).read_text(encoding="utf-8").count("\n## ") == 5
    assert len(ROWS) > 50
