"""Tables of the documents, whose rows name tests."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
_CELLS = re.compile(r"(?<!\\)\|")
_TEST = re.compile(r"`(tests/[\w./-]+\.py)::(test_\w+)`")


def rows(page: str, title: str) -> list[list[str]]:
    """The rows of a page of docs/, as their cells, of all tables whose first column has this title."""
    found, within = [], False
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            within = False
            continue
        cells = [cell.strip() for cell in _CELLS.split(line)[1:-1]]
        if cells[0] == title:
            within = True
        elif within and not cells[0].startswith("--"):
            found.append(cells)
    return found


def names_a_test(cell: str) -> bool:
    """Whether a cell is `path::name` of a test that exists."""
    named = _TEST.fullmatch(cell)
    return named is not None and defines(*named.groups())


def named_tests(page: str) -> list[tuple[str, str]]:
    """The path and the name of every test that a page of docs/ names."""
    return _TEST.findall((DOCS / page).read_text(encoding="utf-8"))


def defines(path: str, name: str) -> bool:
    """Whether a file of the project defines a test."""
    file = ROOT / path
    return file.is_file() and f"def {name}(" in file.read_text(encoding="utf-8")
