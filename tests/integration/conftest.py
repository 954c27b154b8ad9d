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


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A running control plane with the CRDs of `deploy/crds` and KWOK."""
    with a_control_plane() as plane:
        plane.start_kwok()
        yield plane


@pytest.fixture
def admin(control_plane: ControlPlane) -> Client:
    """Its client as the administrator."""
    return control_plane.admin


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """The name of a new namespace; tests also use it as a prefix of cluster-wide names."""
    name = f"test-{uuid4().hex[:8]}"
    control_plane.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name
