"""The listing in CONTRIBUTING.md equals the source of the command, and its test is one of the tests."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COMMAND, TEST = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_listing_in_the_guide_is_that_of_the_command_line() -> None:
    assert (ROOT / "scheduler/cli/podgroup.py").read_text(encoding="utf-8") == COMMAND


def test_the_test_in_the_guide_is_run() -> None:
    assert (ROOT / "tests/unit/cli/test_podgroup.py").read_text(encoding="utf-8").startswith(TEST)
