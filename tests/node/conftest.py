"""One cluster of real nodes for all tests, with the chart: ``make test-node``. ``make test`` leaves these tests out."""

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest

from controlplane.node import namespaces
from controlplane.node.cluster import Cluster
from tests.node.stage import VALUES, Stage


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips the tests outside of the namespaces that protect this machine."""
    if not namespaces.inside():
        for item in items:
            if item.get_closest_marker("node"):
                item.add_marker(pytest.mark.skip(reason="real nodes run in namespaces of their own: make test-node"))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes; the roles run on the first."""
    directory = tmp_path_factory.mktemp("cluster")
    values = directory / "values.json"
    values.write_text(json.dumps(VALUES), encoding="utf-8")
    with Cluster(3, directory) as running:
        running.install(f"--values={values}")
        yield running


@pytest.fixture
def stage(cluster: Cluster) -> Iterator[Stage]:
    """A namespace for one test, deleted at its end."""
    name = f"t{uuid4().hex[:8]}"
    cluster.plane.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    stage = Stage(cluster, name)
    yield stage
    stage.clean()
