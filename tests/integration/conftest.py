"""A real API server for the integration tests: one for the whole run, with our resource definitions and fake kubelets.

Tests share it, so each uses a namespace and cluster-wide names of its own: see `namespace`. `controlplane` starts the
server.
"""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from controlplane.client import Client
from controlplane.run import ControlPlane
from tests.integration.stage import a_control_plane

_shared: list[ControlPlane] = []


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A running control plane with the CRDs of `deploy/crds` and KWOK."""
    with a_control_plane() as plane:
        plane.start_kwok()
        _shared.append(plane)
        yield plane


@pytest.hookimpl(trylast=True)  # after the fixtures that use it
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stops the control plane after the last test of its directory, because even an idle control plane takes processor
    time and memory from the following tests."""
    if nextitem is None or nextitem.path.parent == item.path.parent or not _in_order(item.config):
        return
    items = item.session.items
    if not any(each.path.parent == item.path.parent for each in items[items.index(nextitem) :]):
        while _shared:
            _shared.pop().stop()


def _in_order(config: pytest.Config) -> bool:
    """Whether this process runs its tests in the order in which they were collected."""
    return not hasattr(config, "workerinput") or not config.getoption("loadscopereorder")


@pytest.fixture
def admin(control_plane: ControlPlane) -> Client:
    """The client of the control plane as the administrator."""
    return control_plane.admin


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """The name of a new namespace; tests also use it as a prefix of cluster-wide names."""
    name = f"test-{uuid4().hex[:8]}"
    control_plane.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name
