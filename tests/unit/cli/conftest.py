"""The fixture of a cluster for tests of the command line."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.cluster import Cluster, running


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running(tmp_path) as started:
        yield started
