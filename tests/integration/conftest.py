"""A real API server for the integration tests: one for the whole run, with our resource definitions and fake kubelets.

Tests share it, so each works in a namespace, and with cluster-wide names, of its own: see `namespace`. How the server
is started is the business of `controlplane`.
"""

import os
from collections.abc import Iterator
from uuid import uuid4

import pytest

from controlplane import build
from controlplane.run import ControlPlane


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A running control plane with the CRDs of `deploy/crds` and KWOK.

    Where its binaries cannot be had, a person's run skips the tests; the CI's fails, since there a skip would pass
    for a proof.
    """
    try:
        plane = ControlPlane().start()
    except build.BuildError as error:
        reason = f"no control plane: {error}"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    try:
        plane.apply_crds()
        plane.start_kwok()
        yield plane
    finally:
        plane.stop()


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """The name of a fresh namespace; also good as a prefix of names that are cluster-wide."""
    name = f"test-{uuid4().hex[:8]}"
    control_plane.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name
