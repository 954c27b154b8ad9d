"""The listing in CONTRIBUTING.md is a working command, and its test passes."""

import re
import sys
from pathlib import Path

import pytest

from scheduler.cli.main import _COMMANDS
from tests.unit.cli.cluster import Cluster

PAGE = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
COMMAND, TEST = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_listing_in_the_guide_is_a_command_that_passes_its_test(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shown_listing.py").write_text(COMMAND, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shown_listing", raising=False)
    monkeypatch.setitem(_COMMANDS, "hypernode", ("shown_listing", "hypernode_group", "Show HyperNodes."))
    shown: dict[str, object] = {}
    exec(TEST, shown)
    test = shown["test_hypernodes_are_listed_with_their_members"]
    assert callable(test)
    test(cluster)
