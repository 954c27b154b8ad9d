"""One control plane for all scenarios of this directory, with Kubernetes' own controllers and fake kubelets."""

from collections.abc import Iterator

import pytest

from controlplane.run import ControlPlane
from scheduler.api.kinds import NAMESPACE
from tests.conformance.stage import OURS, Stage
from tests.integration.conftest import control_plane, pytest_runtest_teardown

__all__ = ["control_plane", "pytest_runtest_teardown"]


@pytest.fixture(scope="session")
def controlled_plane(control_plane: ControlPlane) -> ControlPlane:
    """The control plane with Kubernetes' own controllers, which several files use."""
    control_plane.start_controller_manager()
    control_plane.admin.create(NAMESPACE.path, {"metadata": {"name": OURS}})
    return control_plane


@pytest.fixture(scope="module")
def stage(controlled_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """An empty control plane on which no role runs yet."""
    made = Stage(controlled_plane, tmp_path_factory.mktemp("roles"))
    try:
        yield made
    finally:
        made.stop()
