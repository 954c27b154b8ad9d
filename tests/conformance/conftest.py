"""One control plane for all scenarios of this directory, with Kubernetes' own controllers and fake kubelets."""

from collections.abc import Iterator

import pytest

from controlplane.run import ControlPlane
from tests.conformance.stage import Stage
from tests.integration.conftest import control_plane

__all__ = ["control_plane"]


@pytest.fixture(scope="module")
def stage(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Empty; no role runs yet."""
    control_plane.start_controller_manager()
    made = Stage(control_plane, tmp_path_factory.mktemp("roles"))
    try:
        yield made
    finally:
        made.stop()
