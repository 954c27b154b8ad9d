"""The page on security (``docs/security.md``): each line names a test that exists."""

import pytest

from tests.rights_in_use import explained
from tests.tables import defines, named_tests, names_a_test, rows

PAGE = "security.md"
ATTEMPTS = rows(PAGE, "attempt")


@pytest.mark.parametrize("row", ATTEMPTS, ids=lambda row: row[0][:60])
def test_every_line_says_what_stops_an_attempt_and_names_its_test(row: list[str]) -> None:
    attempt, stopped_by, test = row
    assert attempt and stopped_by
    assert names_a_test(test)


def test_every_actor_has_a_table() -> None:
    assert len(ATTEMPTS) > 50


def test_every_test_that_the_page_names_exists() -> None:
    assert [test for test in named_tests(PAGE) if not defines(*test)] == []


def test_every_right_that_no_test_uses_has_a_reason() -> None:
    assert explained()
    assert all(reason for reason in explained().values())
